package children

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// The reasons of a State besides those of the children's Ready conditions.
const (
	reasonWaiting  = "Waiting"
	reasonFailed   = "ChildFailed"
	reasonDeleting = "Deleting"
	reasonRefused  = "DeletionsRefused"
)

// State says how far the children of an owner are.
type State struct {
	// Wanted is how many children are wanted, and Ready how many of these are there and Ready.
	Wanted, Ready int
	// Surplus is how many are there and no longer wanted.
	Surplus int
	// Reason and Message say of the first wanted child that is not Ready, in the order of the calls of Want, or
	// else of the first that is surplus, why. They are empty if all is as wanted.
	Reason, Message string
}

// reporter is a [store.Object] of any types.
type reporter interface {
	SetReady()
	SetProgressing(reason, message string)
}

// Report puts the state into the status of the owner: Ready if all is as wanted, and Progressing with Reason and
// Message otherwise.
func (s State) Report(owner reporter) {
	if s.Reason == "" {
		owner.SetReady()
	} else {
		owner.SetProgressing(s.Reason, s.Message)
	}
}

func (s *State) because(reason, format string, args ...any) {
	if s.Reason == "" {
		s.Reason, s.Message = cmp.Or(reason, reasonWaiting), fmt.Sprintf(format, args...)
	}
}

// Apply makes the store hold the set, as the package's comment says, and does not wait for what the children's own
// reconcilers do. The State is complete as far as it came; it names what failed, too. It is [store.ErrInvalid]
// if an object is wanted twice, or by a wrong use of Want. It may be called again.
func (s *Set) Apply(ctx context.Context) (State, error) {
	a := &applying{set: s, wanted: s.wanted, isWanted: s.refs, there: make(map[string]*found), failed: make(map[string]error)}
	if s.meta.Deleting() {
		a.wanted, a.isWanted = nil, nil
	}
	info, inRun := reconcile.RunInfo(ctx)
	a.inStore = !inRun || info.Stale
	err := s.bad
	if err == nil {
		err = a.look(ctx)
	}
	if err == nil {
		err = a.mayDelete()
	}
	if err != nil {
		reason := reasonFailed
		if errors.Is(err, ErrRefused) {
			reason = reasonRefused
		}
		a.state.because(reason, "%v", err)
		return a.conclude(), err
	}
	for _, c := range a.wanted {
		a.try(ctx, c.ref, func() error { return a.put(ctx, c) })
	}
	for a.deleteFree(ctx) || a.lookAgain(ctx) {
	}
	return a.conclude(), errors.Join(a.errs...)
}

// applying is one Apply.
type applying struct {
	set      *Set
	wanted   []*Child
	isWanted map[string]bool // by ref
	there    map[string]*found
	failed   map[string]error
	errs     []error
	inStore  bool // the store is asked what is there, and not the caches
	current  bool // the owner was read from the store, and is the one of the set
	changed  bool // it is not
	over     bool // nothing more can be written
	state    State
}

// look finds the children that are there.
func (a *applying) look(ctx context.Context) error {
	if a.set.owner.UID == "" {
		return fmt.Errorf("%w: %s was never stored and has no children", store.ErrInvalid, a.set.by)
	}
	for _, k := range a.set.of.kinds {
		children, err := k.children(ctx, a.set.owner, a.inStore)
		if err != nil {
			return err
		}
		for _, f := range children {
			a.there[f.ref] = f
		}
	}
	return nil
}

// lookAgain asks the store what is left of an owner in deletion if the caches show nothing, and reports whether there
// is something: the owner may go next, and another server may have made a child that the caches did not show.
func (a *applying) lookAgain(ctx context.Context) bool {
	if a.inStore || len(a.there) > 0 || !a.set.meta.Deleting() {
		return false
	}
	a.inStore = true
	if err := a.look(ctx); err != nil {
		a.state.because(reasonFailed, "%v", err)
		a.errs = append(a.errs, err)
	}
	return len(a.there) > 0
}

// surplus are the children that are not wanted, in the order of their names.
func (a *applying) surplus() (all []*found) {
	for _, ref := range slices.Sorted(maps.Keys(a.there)) {
		if !a.isWanted[ref] {
			all = append(all, a.there[ref])
		}
	}
	return all
}

// mayDelete refuses deletions that may be a mistake.
func (a *applying) mayDelete() error {
	var refs []string
	for _, f := range a.surplus() {
		if !f.deleting {
			refs = append(refs, f.ref)
		}
	}
	n, meta, most := len(refs), a.set.meta, a.set.of.maxDelete
	if n == 0 || meta.Deleting() {
		return nil
	}
	if len(a.wanted) == 0 && !a.set.mayBeEmpty {
		return fmt.Errorf("%w: %s wants no children any more and has %d, and Set.MayBeEmpty was not called", ErrRefused, a.set.by, n)
	}
	word := a.word()
	if number, ok := strings.CutSuffix(meta.Annotations[AnnotationMayDelete], word); ok {
		if allowed, err := strconv.Atoi(number); err == nil {
			most = max(most, allowed)
		}
	}
	if n <= most || a.set.of.maxDelete < 0 {
		return nil
	}
	more := ""
	if n > 3 {
		refs, more = refs[:3], ", …"
	}
	return fmt.Errorf("%w: %d of the %d children of %s are no longer wanted, and at most %d may go at once: %s%s; to allow it annotate the owner with %s=%d%s",
		ErrRefused, n, len(a.there), a.set.by, most, strings.Join(refs, ", "), more, AnnotationMayDelete, n, word)
}

// word is what an AnnotationMayDelete has behind the number. It has a hash of what is wanted, as the rest is to go: one of
// the rest would no longer be true once the first of many, which go in order, have gone.
func (a *applying) word() string {
	refs := slices.Sorted(maps.Keys(a.isWanted))
	hash := sha256.Sum256([]byte(strings.Join(refs, "\n")))
	return fmt.Sprintf("@%d#%x", a.set.meta.Generation, hash[:4])
}

// try notes a failure with one child.
func (a *applying) try(ctx context.Context, ref string, do func() error) {
	if a.over {
		return
	}
	if err := do(); err != nil {
		a.failed[ref] = err
		a.errs = append(a.errs, err)
		a.over = ctx.Err() != nil || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrUnguarded) || errors.Is(err, store.ErrClosed)
	}
}

// ownerIsCurrent reads the owner once, before something is created or deleted in its name.
func (a *applying) ownerIsCurrent(ctx context.Context) (bool, error) {
	if a.current || a.changed {
		return a.current, nil
	}
	is, err := a.set.same(ctx)
	if err == nil {
		a.current, a.changed = is, !is
	}
	return is, err
}

// put declares a wanted child, unless it has to wait.
func (a *applying) put(ctx context.Context, c *Child) error {
	if a.there[c.ref] == nil {
		if a.waitsFor(c) != "" {
			return nil
		}
		if is, err := a.ownerIsCurrent(ctx); err != nil || !is {
			return err
		}
	}
	now, err := c.kind.declare(ctx, c, a.there)
	switch {
	case now != nil:
		a.there[c.ref] = now
	case err == nil: // it went since the look
		delete(a.there, c.ref)
		return a.put(ctx, c)
	}
	return err
}

// waitsFor is the first child that one needs and that is not Ready.
func (a *applying) waitsFor(c *Child) string {
	for _, need := range c.after {
		if f := a.there[need.ref]; f == nil || f.deleting || !f.ready {
			return need.ref
		}
	}
	return ""
}

// neededBy has for each child that others need, and that may be gone, the first of these that are there: a wanted one
// if there is one.
func (a *applying) neededBy() map[string]string {
	by := make(map[string]string)
	for _, ref := range slices.Sorted(maps.Keys(a.there)) {
		for _, need := range a.there[ref].after {
			if need != ref && (by[need] == "" || a.isWanted[ref] && !a.isWanted[by[need]]) {
				by[need] = ref
			}
		}
	}
	return by
}

// deleteFree deletes what is not wanted and no child needs, and reports whether something may have become free by
// that.
func (a *applying) deleteFree(ctx context.Context) (more bool) {
	var free, needed []*found
	neededBy, cycle := a.neededBy(), true // each waits for another one
	for _, f := range a.surplus() {
		switch by := neededBy[f.ref]; {
		case f.deleting || f.tried:
			cycle = false
		case by == "":
			free = append(free, f)
		default:
			cycle = cycle && !a.isWanted[by]
			needed = append(needed, f)
		}
	}
	if len(free) == 0 && len(needed) > 0 && cycle { // the way from one to what needs it ends in a circle
		f, passed := needed[0], make(map[string]bool)
		for ; !passed[f.ref]; f = a.there[neededBy[f.ref]] {
			passed[f.ref] = true
		}
		free = append(free, f)
	}
	for _, f := range free {
		f.tried = true
		a.try(ctx, f.ref, func() error {
			is, err := a.ownerIsCurrent(ctx)
			if err != nil || !is {
				return err
			}
			gone, err := f.kind.remove(ctx, a.set, f)
			if f.deleting = err == nil && !gone; gone {
				reconcile.Logger(ctx).InfoContext(ctx, "children: deleted what is no longer wanted", "child", f.ref, "owner", a.set.by)
				delete(a.there, f.ref)
				more = true
			}
			return err
		})
	}
	return more
}

// heldBy names the first child that is no longer wanted and stays until another one, which took its place, is Ready.
func (a *applying) heldBy(ref string, neededBy map[string]string) string {
	for _, f := range a.surplus() {
		if neededBy[f.ref] == ref {
			return fmt.Sprintf("; until it is Ready %s is not deleted", f.ref)
		}
	}
	return ""
}

// conclude says how far the children are.
func (a *applying) conclude() State {
	neededBy := a.neededBy()
	for _, c := range a.wanted {
		a.state.Wanted++
		f, failed := a.there[c.ref], a.failed[c.ref]
		waits := a.waitsFor(c)
		switch {
		case failed != nil:
			a.state.because(reasonFailed, "%v", failed)
		case f == nil && waits != "":
			a.state.because(reasonWaiting, "%s waits for %s", c.ref, waits)
		case f == nil:
			a.state.because(reasonWaiting, "%s is not there yet", c.ref)
		case f.deleting:
			a.state.because(reasonDeleting, "%s is made again when it is gone", c.ref)
		case !f.ready:
			a.state.because(f.why.Reason, "%s: %s%s", c.ref, f.why.Message, a.heldBy(c.ref, neededBy))
		default:
			a.state.Ready++
		}
	}
	for _, f := range a.surplus() {
		a.state.Surplus++
		by, failed := neededBy[f.ref], a.failed[f.ref]
		switch {
		case failed != nil:
			a.state.because(reasonFailed, "%v", failed)
		case f.deleting && len(f.meta.Finalizers) > 0:
			a.state.because(reasonDeleting, "%s is being deleted: %s", f.ref, strings.Join(f.meta.Finalizers, ", "))
		case by != "":
			a.state.because(reasonDeleting, "%s is deleted after %s", f.ref, by)
		default:
			a.state.because(reasonDeleting, "%s is no longer wanted", f.ref)
		}
	}
	return a.state
}
