package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
)

// LabelOwner is the label by which [Store.Apply] knows the objects it manages.
const LabelOwner = "tend/declared-by"

// Applied says what [Store.Apply] did.
type Applied struct {
	Created, Updated, Deleted, Unchanged int
	// Waiting counts the declared objects whose predecessor is still being
	// deleted. Apply again when it is gone.
	Waiting int
}

// CapError is the refusal to delete more objects at once than allowed. Nothing
// was written.
type CapError struct {
	kind, owner string
	// max is how many deletions were allowed.
	max int
	// Delete is what would have been deleted.
	Delete []Key
}

// Error says how many and names the first few.
func (e *CapError) Error() string {
	more := ""
	if len(e.Delete) > 3 {
		more = " …"
	}
	return fmt.Sprintf("store: refusing to delete %d of the objects of kind %s declared by %s, at most %d at once: %v%s",
		len(e.Delete), e.kind, e.owner, e.max, e.Delete[:min(3, len(e.Delete))], more)
}

// Apply makes the store hold the declared set: it creates what is missing,
// updates what differs, and deletes what the same owner declared before and does
// no longer, which it knows by the label [LabelOwner].
//
// Of an object that exists, Apply writes the fields of the spec, the labels and the annotations that are
// declared; other labels and annotations, finalizers, owners and paused stay as they are. An object of
// [Store.Parse] declares the fields that its text has, another one those that are not zero. A field that the same
// owner declared before, and does no longer, is unset; one without a declarer stays. A field that another
// declarer or an edit by a person ([Store.UpdateByHand]) has set to another value is [ErrOwned], which names it; it
// is not written, and everything else is. docs/FIELDS.md has the rules and the record that is kept for them.
//
// Before the first write Apply checks the whole set. If more than maxDelete
// objects would be deleted (a file that was half written, a directory that was
// not mounted) it returns a [*CapError] and does nothing. A declared object that
// exists without the owner's label is [ErrExists]; two of one key are
// [ErrInvalid], and so is a bad owner or a negative maxDelete.
//
// An object of a newer version is neither written nor deleted ([ErrNewer]). After that a failure with one object
// does not stop the others; the errors are joined, and applying the set again finishes the work.
func (s *Store[S, T]) Apply(ctx context.Context, set []*Object[S, T], owner string, maxDelete int) (Applied, error) {
	return s.core.apply(ctx, untyped(set), owner, maxDelete)
}

func (s *core) apply(ctx context.Context, set []object, owner string, maxDelete int) (Applied, error) {
	a := applier{s: s, owner: owner, declared: make(map[Key]object, len(set)), stored: make(map[Key]object)}
	if err := a.declare(set, maxDelete); err != nil {
		return a.done, err
	}
	surplus, err := a.compare(ctx)
	if err != nil {
		return a.done, err
	}
	if len(surplus) > maxDelete {
		return a.done, a.refuse(surplus, maxDelete)
	}
	for _, o := range set {
		if !a.try(ctx, a.put(ctx, a.declared[o.meta().Key()])) {
			return a.done, errors.Join(a.errs...)
		}
	}
	for _, o := range surplus {
		if !a.try(ctx, a.remove(ctx, o)) {
			break
		}
	}
	return a.done, errors.Join(a.errs...)
}

// applier is one Apply.
type applier struct {
	s        *core
	owner    string
	declared map[Key]object
	stored   map[Key]object // those declared that exist
	done     Applied
	errs     []error
}

// declare labels copies of the set's objects, fills in their specs and checks them.
func (a *applier) declare(set []object, maxDelete int) error {
	if maxDelete < 0 {
		return fmt.Errorf("%w: at most %d deletions", ErrInvalid, maxDelete)
	}
	if err := checkOwner(a.owner); err != nil {
		return err
	}
	for _, o := range set {
		c, err := a.s.asWritten(o)
		if err != nil {
			return err
		}
		m := c.meta()
		if m.Labels == nil {
			m.Labels = make(map[string]string, 1)
		}
		m.Labels[LabelOwner] = a.owner
		filled, err := a.s.filled(c)
		if err == nil {
			err = a.s.check(filled, true)
		}
		if err != nil {
			return err
		}
		if a.declared[m.Key()] != nil {
			return fmt.Errorf("%w: %s %s is declared twice", ErrInvalid, a.s.kind, m.Key())
		}
		a.declared[m.Key()] = c
	}
	return nil
}

// compare reads what is stored and returns what is no longer declared.
func (a *applier) compare(ctx context.Context) (surplus []object, err error) {
	a.s.all(ctx, Selector{}, func(o object, failed error) bool {
		if err = failed; err != nil {
			return false
		}
		m := o.meta()
		ours := m.Labels[LabelOwner] == a.owner
		switch _, wanted := a.declared[m.Key()]; {
		case wanted && !ours:
			err = a.foreign(m.Key())
		case wanted:
			a.stored[m.Key()] = o
		case ours && !m.Deleting():
			surplus = append(surplus, o)
		}
		return err == nil
	})
	return surplus, err
}

func (a *applier) foreign(k Key) error {
	return fmt.Errorf("%w: %s %s is not declared by %s; label it %s=%s to hand it over",
		ErrExists, a.s.kind, k, a.owner, LabelOwner, a.owner)
}

func (a *applier) refuse(surplus []object, maxDelete int) error {
	e := &CapError{kind: a.s.kind, owner: a.owner, max: maxDelete}
	for _, o := range surplus {
		e.Delete = append(e.Delete, o.meta().Key())
	}
	return e
}

// try notes a failure and reports whether going on makes sense.
func (a *applier) try(ctx context.Context, err error) bool {
	if err != nil {
		a.errs = append(a.errs, err)
	}
	return ctx.Err() == nil && !errors.Is(err, ErrFenced) && !errors.Is(err, ErrUnguarded) && !errors.Is(err, ErrClosed)
}

func (a *applier) put(ctx context.Context, want object) error {
	d := declaring{s: a.s, want: want, by: a.owner, check: func(m *Meta) error {
		if m.Labels[LabelOwner] != a.owner { // it was made since the list
			return a.foreign(m.Key())
		}
		if m.Deleting() { // since the list
			return ErrDeleting
		}
		return nil
	}}
	there := a.stored[want.meta().Key()]
	if there == nil {
		_, err := d.create(ctx)
		return a.count(&a.done.Created, err)
	}
	if there.meta().Deleting() {
		return a.count(&a.done.Waiting, nil)
	}
	now, err := d.mutate(ctx)
	switch {
	case errors.Is(err, ErrDeleting):
		return a.count(&a.done.Waiting, nil)
	case err == nil && now.meta().Revision == d.before:
		_ = a.count(&a.done.Unchanged, nil)
	default:
		err = a.count(&a.done.Updated, err)
	}
	return cmp.Or(err, d.refused)
}

// remove deletes at the revision that was counted against the cap: an object
// that has changed since, perhaps because it was declared again, is a conflict.
func (a *applier) remove(ctx context.Context, o object) error {
	if m := o.meta(); m.Newer { // what declares it may be of the newer version, too
		return fmt.Errorf("%w: %s %s is not deleted", ErrNewer, a.s.kind, m.Key())
	}
	err := a.s.delete(ctx, o)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return a.count(&a.done.Deleted, err)
}

func (a *applier) count(n *int, err error) error {
	if err == nil {
		*n++
	}
	return err
}

// union returns what is in over, and what is in base besides.
func union(base, over map[string]string) map[string]string {
	if len(over) == 0 {
		return base
	}
	all := maps.Clone(over)
	for k, v := range base {
		if _, ok := all[k]; !ok {
			all[k] = v
		}
	}
	return all
}
