package program

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/store"
)

// A Program is a store, the kinds in it, and what else runs beside them:
//
//	Open or New ─▶ AddKind, Reconcile, Use … ─▶ Run
//	               errors are kept             returns them, or runs all of it
//
// What it builds are the parts that a program can build by hand, and each can be reached:
// the store (Backend), each kind's store, cache and controller ([Objects]), the Manager that
// runs them, and the rest by Parts. String lists them.
//
// It is put together by one goroutine. To add to it once Run was called is a bug of the
// caller's, and panics.
type Program struct {
	// Manager runs everything. Its fields may be set until Run is called.
	Manager reconcile.Manager

	backend store.Backend
	opened  bool // by Open: it is closed at the end of Run
	kinds   []kind
	used    []any
	last    []func() error
	events  *event.Log // of all runs; that given to Use, or one of its own
	errs    []error
	ran     bool
}

// kind is an Objects whose types are not known.
type kind interface {
	name() string
	String() string
	// parts are itself, and what reconciles it.
	parts() []any
	// finish says what is to run, and what counts as progress.
	finish(o *Options) (run reconcile.Runner, progress Part, err error)
}

// New makes a Program on a store, which stays the caller's to close when Run has returned.
// It takes what opens one: program.New(memory.New(nil)). After an error, or without a store,
// the Program is of use all the same: each call to the store fails with that error, and so
// does Run.
func New(b store.Backend, err error) *Program {
	if err == nil && b == nil {
		err = errors.New("program: New: no store")
	}
	p := &Program{backend: b, events: event.NewLog(nil)}
	if err != nil {
		p.backend = failed{err}
		p.note(err)
	}
	return p
}

// Open makes a Program on the store that a URL names, see [store.Open]. Run closes the store
// when all else has ended; a program that does not come to Run closes Backend.
func Open(ctx context.Context, url string) *Program {
	p := New(store.Open(ctx, url))
	p.opened = true
	return p
}

// Backend is the store.
func (p *Program) Backend() store.Backend { return p.backend }

// Wrap puts what f makes of the store in its place, such as one that is measured or traced.
// It comes before the first kind.
func (p *Program) Wrap(f func(store.Backend) (store.Backend, error)) {
	if len(p.kinds) > 0 {
		p.note(errors.New("program: Wrap: a kind was added before, which has the store as it was"))
		return
	}
	if b, err := f(p.backend); err != nil {
		p.note(err)
	} else {
		p.backend = b
	}
}

// Use takes what else belongs to the program, or the error of the constructor that was to
// make it: p.Use(quota.NewSet(options)). What can run is run by the Manager, a [Part] counts as
// progress, and both are done for a *declare.File. Package web shows the parts that it knows:
// sets of quotas, inventories, buckets, a graph of needs. An *event.Log takes the place of the
// program's own, which keeps the events of all runs for the page. A nil part is an error.
func (p *Program) Use(part any, err error) {
	switch {
	case err != nil:
	case part == nil:
		err = errors.New("program: Use: no part")
	default:
		if l, ok := part.(*event.Log); ok {
			p.events = l
		}
		p.used = append(p.used, part)
	}
	p.note(err)
}

// Check keeps an error for Run to return, so that what puts the Program together goes on without
// a look at each. Nil is none.
func (p *Program) Check(err error) { p.note(err) }

// Err is what Check, Use and the other calls kept so far, joined, and what Run would return
// for it; nil: nothing went wrong. It is for a program that looks and does not run, as one that
// prints a plan.
func (p *Program) Err() error { return errors.Join(p.errs...) }

// BeforeRun has Run call f when all parts are there, before anything runs; an error of f
// ends Run. Package web looks at the parts then.
func (p *Program) BeforeRun(f func() error) {
	p.note(nil)
	p.last = append(p.last, f)
}

// Parts are the kinds ([Objects]), each with what reconciles it, and what was given to Use, in
// the order in which they came, and the Log of events.
func (p *Program) Parts() (all []any) {
	for _, k := range p.kinds {
		all = append(all, k.parts()...)
	}
	for _, part := range p.used {
		all = append(all, withParts(part)...)
	}
	if !slices.Contains(p.used, any(p.events)) {
		all = append(all, p.events)
	}
	return all
}

// withParts is a part, and those that it says it has.
func withParts(part any) []any {
	all := []any{part}
	if more, ok := part.(interface{ Parts() []any }); ok {
		all = append(all, more.Parts()...)
	}
	return all
}

// note keeps an error for Run.
func (p *Program) note(err error) {
	if p.ran {
		panic("program: a Program is changed after Run was called")
	}
	if err != nil {
		p.errs = append(p.errs, err)
	}
}

// Run returns all errors so far, joined, or runs the program as [Run] does, with o.Parts
// besides the program's own. O may be nil. A kind that nothing reconciles is an error, unless
// ObjectsOptions.NoReconciler says that it is meant.
//
// Where o asks for progress (Once, Complete, Out or Left), the kinds and the Parts among what
// was given to Use count: a kind by its runs in this process (see [Kind.Track]) with Once, and
// where no other server can run its keys: no Placement is set, of the controller or the Manager, and no
// other process can open the store. Otherwise it counts by what is stored.
func (p *Program) Run(ctx context.Context, o *Options) (err error) {
	if p.opened {
		defer func() { err = errors.Join(err, p.backend.Close()) }()
	}
	if p.note(nil); o == nil {
		o = &Options{}
	}
	options := *o
	var runners []reconcile.Runner
	var progress []Part
	for _, k := range p.kinds {
		r, part, err := k.finish(o)
		p.note(err)
		if err == nil {
			runners = append(runners, r)
		}
		if err == nil && part != nil {
			progress = append(progress, part)
		}
	}
	for _, part := range p.used {
		r, ok := runnerOf(part)
		if ok {
			runners = append(runners, r)
		}
		if of, ok := part.(Part); ok {
			progress = append(progress, of)
		}
	}
	if o.asksForProgress() {
		options.Parts = append(progress, o.Parts...)
	}
	if len(p.errs) == 0 {
		p.note(p.Manager.Register(runners...))
	}
	for _, f := range p.last {
		if len(p.errs) == 0 {
			p.note(f())
		}
	}
	p.ran = true
	if len(p.errs) > 0 {
		return p.Err()
	}
	return Run(event.With(ctx, p.events.Record), &p.Manager, &options)
}

// runnerOf is what is to run of a part.
func runnerOf(part any) (reconcile.Runner, bool) {
	if r, ok := part.(reconcile.Runner); ok {
		return r, true
	}
	if file, ok := part.(interface {
		Controller() *reconcile.Controller[reconcile.Request]
	}); ok { // *declare.File
		return file.Controller(), true
	}
	return nil, false
}

// String lists the parts, a line for each.
func (p *Program) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "store %s\n", typeOf(p.backend))
	for _, k := range p.kinds {
		fmt.Fprintf(&s, "%s\n", k)
	}
	for _, part := range p.used {
		fmt.Fprintf(&s, "%s\n", nameOf(part))
	}
	return s.String()
}

// nameOf is a part's type, and its name if it says one.
func nameOf(part any) string {
	if r, runs := runnerOf(part); runs && r != part {
		return nameOf(r) // the controller of a file
	}
	if named, ok := part.(interface{ Name() string }); ok {
		return typeOf(part) + " " + named.Name()
	}
	return typeOf(part)
}

// typeOf is a type without its parameters, such as external.Reconciler.
func typeOf(part any) string {
	name, _, _ := strings.Cut(strings.TrimLeft(fmt.Sprintf("%T", part), "*"), "[")
	return name
}
