package depend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// ConditionDependencies says whether what an object needs is there. It is written when an
// object first has to wait, and from then on.
const ConditionDependencies = "Dependencies"

// The reasons of [ConditionDependencies], and of the condition Ready of an object that
// waits.
const (
	reasonMet         = "Met"
	ReasonNotFound    = "NotFound"    // a needed object does not exist
	ReasonNotReady    = "NotReady"    // it exists, and may not be used yet
	reasonNewer       = "Newer"       // a newer version of the program stored it: see reconcile.CheckNewer
	reasonUndecodable = "Undecodable" // what is stored of it cannot be decoded
	ReasonDeleting    = "Deleting"    // it is in deletion
	ReasonCycle       = "Cycle"       // the objects wait for each other in a circle

	reasonWaiting = "WaitingForDependencies" // of Ready
	ReasonInUse   = "InUse"                  // of Ready, of an object in deletion that others use
)

// waitAgain is how long a failing object that waits for its dependencies keeps its
// attempts without a run. It runs when they are there, long before.
const waitAgain = time.Hour

// permit is one run's leave to use what its object needs, or why it has to wait. A nil
// permit is that of an object that needs nothing: it is open.
type permit[S, T any] struct {
	t       *Tracker[S, T]
	user    *user
	refs    []Ref
	held    holds  // as the object records it
	reason  string // empty: open
	message string
	keep    bool // end drops no hold
}

// A writer changes the object of a run as it is stored.
type writer[S, T any] func(ctx context.Context, edit func(*store.Object[S, T]) error) error

// Admit calls use if what an object needs is there, and else says in the object's conditions
// what it waits for; res then ends the run, which comes again when that is there. The object
// is not in deletion, and is what the run has read, with what it has edited. It is for
// packages that write finalizers and status themselves; [Tracker.Wrap] is for a func.
//
// Before the first use of a needed object Admit records that in both objects, by writes
// that compare revisions: write makes those of o, again from what is stored, and brings o
// up to date. An object that uses what it used before costs no write and no read of a store.
// After a success of use, of an object that is Ready if it says at all how it is, holds on
// objects that are not needed any more are dropped by record, which writes from what is stored,
// again after a conflict. Not if use says keep: it succeeded, and did not bring about what
// the object says now, so that what it used before is still used.
//
// res and err are those of use; own is an error of Admit's own writes, before use or after it. In a
// run of a controller to which [Tracker.Source] was not given Admit fails: nothing would wake
// an object that waits.
func (t *Tracker[S, T]) Admit(ctx context.Context, o *store.Object[S, T], write, record func(ctx context.Context, edit func(*store.Object[S, T]) error) error, use func() (res reconcile.Result, keep bool, err error)) (res reconcile.Result, err, own error) {
	p, own := t.admit(ctx, o, write)
	if own != nil {
		return res, nil, own
	}
	p.describe(o)
	if !p.open() {
		return p.result(ctx), nil, nil
	}
	return p.use(ctx, o, record, use)
}

// admit gives the run's permit. An error of write is returned as it is.
func (t *Tracker[S, T]) admit(ctx context.Context, o *store.Object[S, T], write writer[S, T]) (*permit[S, T], error) {
	if !t.sourced.Load() {
		if of, ok := reconcile.RunInfo(ctx); ok {
			return nil, fmt.Errorf("depend: nothing would wake %s %s when what it needs changes: give Tracker.Source to controller %q, by Watch", t.kind, o.Key(), of.Controller)
		}
	}
	record, err := readHolds(&o.Meta)
	if err != nil {
		return nil, err
	}
	targets := t.targets(o)
	p := &permit[S, T]{t: t, held: record}
	looked := make([]state, len(targets))
	for i, g := range targets {
		looked[i] = t.look(g)
		if t.needs[g.needs].waits {
			p.refs = append(p.refs, t.ref(g))
		}
	}
	p.refs = distinct(p.refs)
	open := t.beginRun(o, p, targets, looked)
	if p.user == nil && len(record) == 0 {
		return nil, nil
	}
	done := false
	defer func() {
		if !done {
			p.abort() // a panic goes its way
		}
	}()
	if !open {
		err = t.refuse(ctx, p, targets, looked, write)
	} else if fresh := t.unheld(targets, looked, record); len(fresh) > 0 {
		err = t.hold(ctx, p, targets, looked, fresh, write)
	}
	if done = err == nil; !done {
		return nil, err
	}
	return p, nil
}

// beginRun notes the run in the index.
func (t *Tracker[S, T]) beginRun(o *store.Object[S, T], p *permit[S, T], targets []target, looked []state) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if was := t.index.users[o.Key()]; was == nil && len(targets) > 0 || was != nil && was.revision > o.Revision {
		t.dirty[o.Key()] = struct{}{} // the object may have changed since it was read, or be gone
		t.poke()
	}
	u, created := t.index.refer(o.Key(), targets, o.Revision)
	if u == nil {
		return true
	}
	p.user = u
	open, stale := t.index.begin(u, looked)
	toLook := append(created, stale...)
	for _, n := range toLook {
		t.changed[n.target] = struct{}{}
	}
	if !open {
		t.dirty[u.key] = struct{}{} // the index may know better already
	}
	if !open || len(toLook) > 0 {
		t.poke()
	}
	return open
}

// unheld are the needed objects that a first use has to be recorded of.
func (t *Tracker[S, T]) unheld(targets []target, looked []state, record holds) (fresh []int) {
	find := record.find()
	for i, g := range targets {
		if !t.needs[g.needs].waits {
			continue
		}
		if n := find(t.ref(g)); n < 0 || !record[n].firm || !looked[i].kept {
			fresh = append(fresh, i)
		}
	}
	return fresh
}

// hold takes the holds that are missing: first in the object, so that the releaser sees
// them; then it reads the needed objects, and keeps them by the finalizer; then it makes
// the holds firm, because the run is about to use the objects.
func (t *Tracker[S, T]) hold(ctx context.Context, p *permit[S, T], targets []target, looked []state, fresh []int, write writer[S, T]) error {
	refs := make([]Ref, 0, len(fresh))
	for _, i := range fresh {
		refs = append(refs, t.ref(targets[i]))
	}
	refs = distinct(refs)
	if err := p.record(ctx, p.held.add(refs, false), write); err != nil {
		return err
	}
	for _, i := range fresh {
		g := targets[i]
		now, err := t.take(ctx, g)
		if err != nil {
			return err
		}
		if looked[i] = now; !now.met {
			t.mu.Lock()
			t.index.wait(p.user)
			t.dirty[p.user.key] = struct{}{}
			t.mu.Unlock()
			t.poke()
			return t.refuse(ctx, p, targets, looked, write)
		}
	}
	return p.record(ctx, p.held.add(refs, true), write)
}

func (t *Tracker[S, T]) take(ctx context.Context, g target) (state, error) {
	n := t.needs[g.needs]
	if n.cache.Backend() != t.users.Backend() {
		ctx = store.WithoutGuards(ctx) // the lease's record is in the other one
	}
	return n.take(ctx, t.finalizer, g.key)
}

// record writes the holds of the object if they have changed.
func (p *permit[S, T]) record(ctx context.Context, now holds, write writer[S, T]) error {
	if slices.Equal(p.held, now) {
		return nil
	}
	err := write(ctx, func(o *store.Object[S, T]) error {
		now.write(&o.Meta)
		return nil
	})
	if err == nil {
		p.held = now
	}
	return err
}

// refuse says why the run may not go on, and drops holds that no run has used.
func (t *Tracker[S, T]) refuse(ctx context.Context, p *permit[S, T], targets []target, looked []state, write writer[S, T]) error {
	var unmet []string
	for i, s := range looked {
		if s.met {
			continue
		}
		if p.reason == "" {
			p.reason = s.reason()
		}
		unmet = append(unmet, t.ref(targets[i]).String()+" "+reasonText[s.reason()])
	}
	p.message = list(unmet)
	ref := Ref{t.kind, p.user.key}
	if cycle := t.o.Graph.unmetCycle(ref); cycle != nil {
		p.reason, p.message = ReasonCycle, "they wait for each other: "+path(cycle)
		t.mu.Lock()
		p.user.flags |= cyclic
		t.index.broke = true // perhaps since it was found: the others may not know of it yet
		t.o.Graph.cycles.Store(true)
		t.mu.Unlock()
		t.poke()
		t.o.Graph.tell(ref)
	}
	return p.record(ctx, p.held.settled(), write)
}

var reasonText = map[string]string{
	ReasonNotFound: "does not exist", ReasonNotReady: "is not ready", reasonNewer: "is of a newer version of the program", reasonUndecodable: "cannot be decoded", ReasonDeleting: "is being deleted",
}

// list joins the first few.
func list(texts []string) string {
	const few = 3
	if len(texts) <= few {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(texts[:few], ", "), len(texts)-few)
}

// open reports whether the run may go on.
func (p *permit[S, T]) open() bool { return p == nil || p.reason == "" }

// describe sets the object's conditions: what it waits for or, where it had to wait, that
// it need not any more. It reports whether that changed anything. An object that is Ready
// stays so: it was brought about, and is only not looked after.
func (p *permit[S, T]) describe(o *store.Object[S, T]) (changed bool) {
	if p.open() {
		c, ok := o.Condition(ConditionDependencies)
		return ok && c.Status != store.True && o.SetCondition(store.Condition{Type: ConditionDependencies, Status: store.True, Reason: reasonMet})
	}
	changed = o.SetCondition(store.Condition{Type: ConditionDependencies, Status: store.False, Reason: p.reason, Message: p.message})
	if !o.Ready() {
		before, _ := o.Condition(store.ConditionReady)
		o.SetProgressing(reasonWaiting, p.message)
		after, _ := o.Condition(store.ConditionReady)
		changed = changed || before != after
	}
	return changed
}

// result ends a run that has to wait: it runs when what it needs is there, and keeps its
// attempts until then.
func (p *permit[S, T]) result(ctx context.Context) reconcile.Result {
	if i, ok := reconcile.RunInfo(ctx); ok && i.Attempt > 0 {
		return reconcile.Result{StillFailing: true, RequeueAfter: waitAgain}
	}
	return reconcile.Result{}
}

// use is the part of a run that uses what its object needs.
func (p *permit[S, T]) use(ctx context.Context, o *store.Object[S, T], record writer[S, T], f func() (res reconcile.Result, keep bool, err error)) (res reconcile.Result, err, own error) {
	ended := false
	defer func() {
		if !ended {
			p.abort() // a panic goes its way
		}
	}()
	res, keep, err := f()
	ended = true
	if p != nil {
		p.keep = keep
	}
	return res, err, p.end(ctx, o, res, err, record)
}

// end ends a run that was open: o is the object as the run leaves it, with its status, and
// res and err what the run returns. It drops the holds that Admit says.
func (p *permit[S, T]) end(ctx context.Context, o *store.Object[S, T], res reconcile.Result, err error, record writer[S, T]) error {
	if p == nil {
		return nil
	}
	p.note(err != nil || res.Requeue || res.StillFailing)
	over := err == nil && !res.Requeue && !res.StillFailing && (o.Phase == "" || o.Ready())
	if !over || p.keep || len(p.held) <= len(p.refs) { // there is a hold on each of refs
		return nil
	}
	return record(ctx, func(stored *store.Object[S, T]) error {
		h, err := readHolds(&stored.Meta)
		if err != nil || stored.UID != o.UID {
			return err
		}
		// What a newer spec needs may be held already, by a run of another server.
		h.only(append(p.t.waitsFor(stored), p.refs...)).write(&stored.Meta)
		return nil
	})
}

// abort ends a run that failed before it could use anything, or that panicked.
func (p *permit[S, T]) abort() { p.note(true) }

// note tells the index how the run ended.
func (p *permit[S, T]) note(bad bool) {
	if p == nil || p.user == nil || !p.open() {
		return
	}
	t := p.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if w, ok := t.index.end(p.user, bad, t.now()); ok {
		t.wakes = append(t.wakes, w)
		t.poke()
	}
}

// Wrap makes f wait for what its objects need, for reconcile.For and
// reconcile.AsReconciler: an object whose needs are not met is not shown to f, and says so
// in its conditions. An object in deletion is shown to f when nothing uses it any more.
func (t *Tracker[S, T]) Wrap(f reconcile.ObjectFunc[S, T]) reconcile.ObjectFunc[S, T] {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, o *store.Object[S, T]) (reconcile.Result, error) {
		res, err := t.wrapped(ctx, o, f)
		if errors.Is(err, store.ErrConflict) {
			return reconcile.Result{Requeue: true}, nil
		}
		return res, err
	}
}

func (t *Tracker[S, T]) wrapped(ctx context.Context, o *store.Object[S, T], f reconcile.ObjectFunc[S, T]) (res reconcile.Result, err error) {
	s := t.users.Store()
	if o.Deleting() {
		return deleted(ctx, s, o, f)
	}
	p, err := t.admit(ctx, o, func(ctx context.Context, edit func(*store.Object[S, T]) error) error {
		c := s.Clone(o)
		if err := edit(c); err != nil {
			return err
		}
		got, err := s.Update(ctx, c)
		if err == nil {
			*o = *got
		}
		return err
	})
	if err != nil {
		return res, err
	}
	if err := writeStatus(ctx, s, p.describe(o), o); err != nil {
		p.abort()
		return res, err
	}
	if !p.open() {
		return p.result(ctx), nil
	}
	res, err, own := p.use(ctx, o, func(ctx context.Context, edit func(*store.Object[S, T]) error) error {
		_, err := s.Mutate(ctx, o.Key(), edit)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	}, func() (reconcile.Result, bool, error) {
		res, err := f(ctx, o)
		return res, false, err
	})
	return res, errors.Join(err, own)
}

// WaitForUsers makes f wait with the deletion of an object that others use. It is for the
// reconciler of a kind that needs nothing itself; [Tracker.Wrap] does it too, and so do
// lifecycle and external.
func WaitForUsers[S, T any](s *store.Store[S, T], f reconcile.ObjectFunc[S, T]) reconcile.ObjectFunc[S, T] {
	if s == nil || f == nil {
		return nil
	}
	return func(ctx context.Context, o *store.Object[S, T]) (reconcile.Result, error) {
		if !o.Deleting() {
			return f(ctx, o)
		}
		res, err := deleted(ctx, s, o, f)
		if errors.Is(err, store.ErrConflict) {
			return reconcile.Result{Requeue: true}, nil
		}
		return res, err
	}
}

func deleted[S, T any](ctx context.Context, s *store.Store[S, T], o *store.Object[S, T], f reconcile.ObjectFunc[S, T]) (reconcile.Result, error) {
	why := InUse(o.Finalizers)
	if why == "" {
		return f(ctx, o)
	}
	before := s.Clone(o)
	o.SetTerminating(ReasonInUse, why)
	return reconcile.Result{}, writeStatus(ctx, s, !s.SameStatus(before, o), o)
}

func writeStatus[S, T any](ctx context.Context, s *store.Store[S, T], changed bool, o *store.Object[S, T]) error {
	if !changed {
		return nil
	}
	got, err := s.UpdateStatus(ctx, o)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err == nil {
		*o = *got
	}
	return err
}
