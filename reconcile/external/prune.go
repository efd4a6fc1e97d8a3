package external

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tendhq/tend/internal/endless"
	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/store"
)

// ErrPruneRefused is wrapped by every refusal of [Inventory.Prune].
var ErrPruneRefused = errors.New("external: prune refused")

// ErrInUse is for [InventoryOptions.Delete] to wrap, of a resource that cannot
// be deleted as it is: a bucket that is not empty, a network with machines in it.
// It does not end a [Inventory.Prune].
var ErrInUse = errors.New("external: the resource is in use")

// PruneError is an [ErrPruneRefused] with what would have been deleted.
type PruneError struct {
	Reason string
	Would  []Finding // empty if the two sides could not be compared at all
}

func (e *PruneError) Error() string {
	text := fmt.Sprintf("%v: %s", ErrPruneRefused, e.Reason)
	for i, f := range e.Would {
		if i == 10 {
			return text + fmt.Sprintf("; and %d more", len(e.Would)-i)
		}
		text += "; would delete " + f.String()
	}
	return text
}

// Is makes errors.Is(err, ErrPruneRefused) true.
func (e *PruneError) Is(target error) bool { return target == ErrPruneRefused }

// Cap bounds how much may be deleted at once. Both bounds hold; one resource
// may always go.
type Cap struct {
	Count   int // zero: 10; negative: any number
	Percent int // of the resources that carry our mark; zero: 10; 100 or more: all
}

func (c Cap) orDefault() Cap {
	if c.Count == 0 {
		c.Count = 10
	}
	if c.Percent == 0 {
		c.Percent = 10
	}
	return c
}

// limit is how many of n may go.
func (c Cap) limit(n int) int {
	c = c.orDefault()
	most := max(1, n*min(max(c.Percent, 0), 100)/100)
	if c.Count < 0 {
		return most
	}
	return min(most, c.Count)
}

// text says what the cap allows, as a refusal names it.
func (c Cap) text() string {
	c = c.orDefault()
	text := fmt.Sprintf("Cap: %d %% of them, and one in any case", min(max(c.Percent, 0), 100))
	if c.Count < 0 {
		return text
	}
	return fmt.Sprintf("%s; never more than %d", text, c.Count)
}

// Hold makes every later Prune of this Inventory refuse, with the reason given, until
// Release or the end of the process. It is for operators that know that the declarations
// cannot be trusted: they are still being loaded, or come from a backup.
func (v *Inventory[S, T, R]) Hold(reason string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = reason
}

// Prune deletes the orphans: the resources that carry our installation's mark
// for this kind, and that no object declares. It returns what it deleted. So it deletes
// also what a policy without [Delete] left where it was when its object was deleted, as
// long as that carries our mark: take the mark off what is to stay, or declare it again.
//
// It deletes nothing at all, and returns a [*PruneError] with what it would
// have deleted, if the list of the cloud is not complete, the declarations
// cannot be read or one is of a newer version of the program, there are none, one of the two
// sides spells something otherwise than the other ([InventoryOptions.Letters]), the store seems
// to have been restored from a
// backup (see below), Hold is in force, or there are more orphans than the cap
// allows. Most overrides [InventoryOptions.Cap] for this call, for an
// operator that has seen the refusal; its zero value overrides nothing.
//
// After a restore what was declared since the backup counts as orphaned. Three things
// give that away: the revision went back while this process looked, which it does with each
// list; or it leapt, and the first list after that shows orphans; or an orphan was
// declared, by its mark, after the newest thing that the store remembered when this
// inventory was made, and before that: nothing that the store has now is as young.
// Then a record in the store has every Prune refused, in other processes and later
// ones too, until [Inventory.Release]. What that does not catch, says the package's
// documentation.
//
// Just before each deletion both sides are asked again, about this one
// resource: it must still carry the mark, and its key must still not be
// declared. What is unsettled in the report is left to a later prune. An error,
// also a cancelled ctx, ends the prune; only what is in use ([ErrInUse]) is tried again
// after others have gone, until none goes any more, and then left where it is and named
// by the error at the end. [PruneKinds] prunes several kinds in order.
//
// Only the program calls it, and it takes no lease. The cap is for one call: the next one
// may delete as many again. Of two calls at a time, on one server or on two, each has the
// cap, and both may delete the same orphans. So call it on one server at a time, for example
// in the work of a placement by [github.com/tendhq/tend/reconcile/lease.NewSingleton].
func (v *Inventory[S, T, R]) Prune(ctx context.Context, most Cap) ([]Finding, error) {
	done, _, err := v.prune(ctx, most, nil)
	return done, err
}

// prune is Prune that leaves the resources of keys that are used where they are, and
// counts those of which it could not be decided whether they are orphans.
func (v *Inventory[S, T, R]) prune(ctx context.Context, most Cap, used func(store.Key) bool) (done []Finding, undecided int, err error) {
	report, err := v.prunable(ctx, most)
	if err != nil {
		return nil, 0, errors.Join(err, v.keepHold(ctx))
	}
	left := report.Orphans
	var inUse []error
	for progress := true; progress; { // what is in use may be used by another orphan
		orphans, before := left, len(done)
		left, inUse = nil, nil
		for _, f := range orphans {
			deleted, err := v.pruneOne(ctx, f, used)
			if deleted {
				done = append(done, f)
			}
			if err != nil {
				err = fmt.Errorf("external: prune %s: %w", f, err)
			}
			switch {
			case errors.Is(err, ErrInUse):
				left, inUse = append(left, f), append(inUse, err)
			case err != nil:
				return done, report.undecided, errors.Join(append(inUse, err)...)
			}
		}
		progress = len(done) > before
	}
	return done, report.undecided, errors.Join(inUse...)
}

// Prunable is what Prune would delete now. It decides as Prune does, refuses
// with the same errors, and deletes nothing. Both make a new [Report] of it.
func (v *Inventory[S, T, R]) Prunable(ctx context.Context, most Cap) ([]Finding, error) {
	s, err := v.prunable(ctx, most)
	return s.Orphans, err
}

// prunable is a report whose orphans may be deleted.
func (v *Inventory[S, T, R]) prunable(ctx context.Context, most Cap) (Report, error) {
	s, err := v.Report(ctx)
	if err != nil {
		return Report{}, errors.Join(&PruneError{Reason: "the two sides could not be compared"}, err)
	}
	if len(s.LetterCase) > 0 {
		return Report{}, &PruneError{Reason: letterCases(s.LetterCase), Would: s.Orphans}
	}
	if reason := v.objection(s, most); len(s.Orphans) > 0 && reason != "" {
		return Report{}, &PruneError{Reason: reason, Would: s.Orphans}
	}
	return s, nil
}

// letterCases is why nothing may be deleted beside those.
func letterCases(found []Finding) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d differ from a declaration in case only, so that the two sides could not be compared", len(found))
	for i, f := range found {
		if i == 3 {
			text.WriteString(", and so on")
			break
		}
		fmt.Fprintf(&text, ", %q (%s): %s", f.ID, f.Key, f.Diff)
	}
	return text.String() + askLetters
}

// objection is why nothing may be deleted, or empty.
func (v *Inventory[S, T, R]) objection(r Report, most Cap) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if most == (Cap{}) {
		most = v.o.Cap
	}
	limit := most.limit(r.Ours)
	switch {
	case v.o.Delete == nil:
		return "InventoryOptions.Delete is not set"
	case v.heldLocked() != "":
		return v.heldLocked()
	case r.Declared == 0:
		return "nothing is declared: rather than everything being superfluous, the declarations are missing"
	case r.Present == 0:
		return "the cloud's list is empty"
	case len(r.Orphans) > limit:
		return fmt.Sprintf("%d of %d resources are orphans, and at most %d may be deleted at once (%s)", len(r.Orphans), r.Ours, limit, most.text())
	}
	return ""
}

// pruneOne deletes one orphan, if it still is one.
func (v *Inventory[S, T, R]) pruneOne(ctx context.Context, f Finding, used func(store.Key) bool) (deleted bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, context.Cause(ctx)
	}
	if used != nil && used(f.Key) {
		return false, fmt.Errorf("%w: an object needs it that is declared", ErrInUse)
	}
	r, exists, err := v.get(ctx, f.ID)
	if err != nil || !exists {
		return false, err
	}
	mark, marked := v.o.Owner(r)
	if !marked || v.o.Letters.mark(mark) != v.o.Letters.mark(*f.Mark) {
		return false, nil
	}
	o, err := v.declaration(ctx, f.Key)
	if err != nil {
		return false, err
	}
	if !v.orphaned(f.ID, mark, o) {
		return false, nil
	}
	defer v.Invalidate(f.ID)
	if err := endless.Cut(v.o.Delete(ctx, r)); err != nil {
		return false, err
	}
	return true, nil
}

// Snapshot is what the inventory did and found, with the newest report, which
// is nil before the first.
func (v *Inventory[S, T, R]) Snapshot() introspect.Inventory[Report] {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := introspect.Inventory[Report]{
		Kind: v.o.Store.Kind(), Listed: len(v.list.byID), Held: v.heldLocked(),
		Lists: v.calls.lists, Failed: v.calls.failed, Gets: v.calls.gets, Served: v.calls.served,
	}
	if v.last != nil {
		r := v.last.clone()
		s.Report = &r
	}
	return s
}
