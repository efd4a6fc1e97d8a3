package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/ascii"
	"github.com/tendhq/tend/store"
)

// A Part is something that a program waits for: the objects of a [Kind], a file of
// declarations (package declare), or anything of the host's. Its methods are safe for
// concurrent use and do not block, but for Follow.
type Part interface {
	// Progress says how far it is.
	Progress() Progress
	// Left lists what is not done, and why.
	Left() []Left
	// Follow calls changed after everything that may have changed Progress, until ctx
	// ends, and blocks meanwhile. changed does not block and takes no lock of the Part's.
	Follow(ctx context.Context, changed func())
}

// Progress counts the objects of a Part, or of several.
type Progress struct {
	// Synced says that the counts are whole: a cache has its first snapshot, a file was
	// read and is in the store.
	Synced bool
	// Declared are the objects that are not being deleted, and Done those of them that
	// are as declared.
	Declared, Done int
	// Deleting are the objects that are being deleted.
	Deleting int
	// Failing are those not done whose last run failed, and Stuck those that waiting does
	// not help: they need a person.
	Failing, Stuck int
}

// Complete reports whether everything is as declared, and nothing is left to delete.
func (p Progress) Complete() bool { return p.Synced && p.Done == p.Declared && p.Deleting == 0 }

// allStuck reports whether something is left, and all that is left is stuck.
func (p Progress) allStuck() bool {
	left := p.Declared - p.Done + p.Deleting
	return p.Synced && left > 0 && p.Stuck >= left
}

func (p Progress) add(o Progress) Progress {
	return Progress{
		Synced: p.Synced && o.Synced, Declared: p.Declared + o.Declared, Done: p.Done + o.Done,
		Deleting: p.Deleting + o.Deleting, Failing: p.Failing + o.Failing, Stuck: p.Stuck + o.Stuck,
	}
}

// String is such as "311 of 315 as declared, 2 failing, 1 being deleted".
func (p Progress) String() string {
	s := fmt.Sprintf("%d of %d as declared", p.Done, p.Declared)
	if p.Failing > 0 {
		s += fmt.Sprintf(", %d failing", p.Failing)
	}
	if p.Deleting > 0 {
		s += fmt.Sprintf(", %d being deleted", p.Deleting)
	}
	return s
}

// Left is one thing that is not as declared.
type Left struct {
	Kind string
	Key  store.Key // zero for what is no object
	Why  string    // at most store.MaxMessage bytes
	Err  error     // what Why tells of, for errors.Is and As; nil: no error
	// Deleting says that it is being deleted, Failing that its last run failed, and Stuck
	// that it needs a person.
	Deleting, Failing, Stuck bool
}

// String is such as "site shop: DialError: no route to host", on one line: "; " parts the
// lines of its reason, and of characters that do not show, U+FFFD takes the place.
func (l Left) String() string {
	s := l.Kind
	if l.Key != (store.Key{}) {
		s += " " + l.Key.String()
	}
	if l.Deleting {
		s += ", being deleted"
	}
	return ascii.Line(s + ": " + strings.TrimSpace(l.Why))
}

func sortLeft(left []Left) {
	slices.SortFunc(left, func(a, b Left) int {
		return cmp.Or(strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.Name, b.Key.Name))
	})
}

// leftError says what was left when waiting ended.
type leftError struct {
	// Cause is why waiting ended: the cause of the context's end, or ErrStuck.
	Cause error
	Left  []Left
}

// maxShown is how many things a text lists that are left.
const maxShown = 20

// Error lists the first 20.
func (e *leftError) Error() string {
	return fmt.Sprintf("program: %v; left:\n%s", e.Cause, listLeft(e.Left))
}

// Unwrap returns Cause and the errors of what is left.
func (e *leftError) Unwrap() []error {
	errs := []error{e.Cause}
	for _, l := range e.Left {
		if l.Err != nil {
			errs = append(errs, l.Err)
		}
	}
	return errs
}

// listLeft is a line for each of what is left, the first 20.
func listLeft(left []Left) string {
	var b strings.Builder
	for i, l := range left {
		if i > 0 {
			b.WriteString("\n")
		}
		if i == maxShown {
			fmt.Fprintf(&b, "  and %d more", len(left)-maxShown)
			break
		}
		b.WriteString("  " + l.String())
	}
	return b.String()
}

// ProgressOf is the progress of several parts together.
func ProgressOf(parts ...Part) Progress {
	p := Progress{Synced: true}
	for _, part := range parts {
		p = p.add(part.Progress())
	}
	return p
}

// leftOf is what is left of several parts, in their order.
func leftOf(parts ...Part) (left []Left) {
	for _, part := range parts {
		left = append(left, part.Left()...)
	}
	return left
}

// Wait blocks until all parts are complete. What they are part of must be running. When
// ctx ends first, the error says what is left, and why ctx ended.
func Wait(ctx context.Context, parts ...Part) error {
	return WaitFor(ctx, Progress.Complete, parts...)
}

// WaitFor is Wait until done reports true of the progress of all parts together, which
// it is asked after changes. A nil done or Part is an error.
func WaitFor(ctx context.Context, done func(Progress) bool, parts ...Part) error {
	if done == nil || slices.ContainsFunc(parts, func(p Part) bool { return p == nil }) {
		return errors.New("program: WaitFor: a nil function or Part")
	}
	// The parts are asked one after the other: an object may move from one, which is asked
	// next, to another, which was asked before, and be counted by neither. Asked again, the
	// other counts it.
	look := func() bool {
		if !done(ProgressOf(parts...)) {
			return false
		}
		return done(ProgressOf(parts...))
	}
	if err := await(ctx, parts, look); err != nil {
		return &leftError{Cause: err, Left: leftOf(parts...)}
	}
	return nil
}

// await calls done at once and after changes of the parts until it reports true, or ctx
// ends. It returns when no goroutine of it is left.
func await(ctx context.Context, parts []Part, done func() bool) error {
	following, stop := context.WithCancel(ctx)
	var followers sync.WaitGroup
	defer followers.Wait()
	defer stop()
	news := make(chan struct{}, 1)
	changed := func() {
		select {
		case news <- struct{}{}:
		default: // there is news already
		}
	}
	for _, p := range parts {
		followers.Go(func() { p.Follow(following, changed) })
	}
	pause := time.NewTimer(minPause)
	defer pause.Stop()
	for {
		began := time.Now()
		if done() {
			return nil
		}
		// A tenth of one processor's time, whatever the number of objects.
		pause.Reset(max(minPause, 9*time.Since(began)))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-news:
		}
	}
}

// minPause is between two counts.
const minPause = 10 * time.Millisecond

// subscribers are functions to call when something has changed. A lock of its owner's
// guards it.
type subscribers map[int]func()

func (s *subscribers) add(f func()) (remove func()) {
	if *s == nil {
		*s = make(subscribers)
	}
	n := 0
	for ; (*s)[n] != nil; n++ {
	}
	(*s)[n] = f
	return func() { delete(*s, n) }
}

func (s subscribers) notify() {
	for _, f := range s {
		f()
	}
}
