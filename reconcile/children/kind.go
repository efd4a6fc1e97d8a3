package children

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// annotationAfter lists the children of the same owner that a child needs, by kind and key: they are deleted after
// it. It is a JSON list of texts.
const annotationAfter = "tend.after"

// kind is a [Kind] without its types.
type kind interface {
	name() string
	// children are those of an owner, in the cache or in the store.
	children(ctx context.Context, owner store.Owner, inStore bool) ([]*found, error)
	// declare makes the store hold a wanted child, among those that are there. It returns nil and no error if the child
	// was there and is gone.
	declare(ctx context.Context, c *Child, there map[string]*found) (*found, error)
	// remove deletes a child, or what the owner has in it.
	remove(ctx context.Context, s *Set, f *found) (gone bool, err error)
}

// found is a child that is there.
type found struct {
	kind   kind
	ref    string // see refOf
	meta   *store.Meta
	object any // of the kind's type; read-only
	after  []string
	ready  bool
	why    store.Condition // that says why not

	deleting bool
	tried    bool // to delete it, by this Apply
}

func (k *Kind[S, T]) name() string { return k.store.Kind() }

// declared is an object as the owner declares it.
func (k *Kind[S, T]) declared(s *Set, o *store.Object[S, T]) *store.Object[S, T] {
	c := k.store.Clone(o)
	if !slices.Contains(c.Owners, s.owner) {
		c.Owners = append(c.Owners, s.owner)
	}
	return c
}

// uses are the children that one needs as it is wanted, and with these the ones that it needed as it was found and that
// are still there.
func (c *Child) uses(was *found, there map[string]*found) (needs, all []string) {
	needs = make([]string, 0, len(c.after)) // not nil in JSON
	for _, a := range c.after {
		needs = append(needs, a.ref)
	}
	all = slices.Clone(needs)
	if was != nil {
		for _, ref := range was.after {
			if there[ref] != nil {
				all = append(all, ref)
			}
		}
	}
	slices.Sort(needs)
	slices.Sort(all)
	return slices.Compact(needs), slices.Compact(all)
}

func setAfter(m *store.Meta, refs []string) {
	text, _ := json.Marshal(refs) // strings only
	if m.Annotations == nil {
		m.Annotations = make(map[string]string, 1)
	}
	m.Annotations[annotationAfter] = string(text)
}

func (k *Kind[S, T]) children(ctx context.Context, owner store.Owner, inStore bool) (all []*found, err error) {
	if !inStore {
		for o := range k.byOwner.Get(owner.UID) {
			all = append(all, k.found(o))
		}
		return all, nil
	}
	for o, err := range k.store.All(ctx, store.Selector{}) {
		if err != nil {
			return nil, fmt.Errorf("children: %s objects: %w", k.name(), err) // it may be a child
		}
		if ownedBy(&o.Meta, owner) {
			all = append(all, k.found(o))
		}
	}
	return all, nil
}

func ownedBy(m *store.Meta, owner store.Owner) bool {
	return slices.ContainsFunc(m.Owners, func(o store.Owner) bool { return o.UID == owner.UID })
}

func (k *Kind[S, T]) found(o *store.Object[S, T]) *found {
	f := &found{kind: k, ref: refOf(k, o.Key()), meta: &o.Meta, object: o, ready: o.Ready(), deleting: o.Deleting()}
	_ = json.Unmarshal([]byte(o.Annotations[annotationAfter]), &f.after) // of what a person broke, nothing is known
	if f.ready {
		return f
	}
	said := k.store.RedactConditions(o) // it goes into the status of another kind
	i := slices.IndexFunc(said, func(c store.Condition) bool { return c.Type == store.ConditionReady })
	switch {
	case i < 0:
		f.why = store.Condition{Reason: reasonWaiting, Message: "nothing has said whether it is ready"}
	case said[i].Status == store.True:
		f.why = store.Condition{Reason: reasonWaiting, Message: "its newest change was not looked at yet"}
	default:
		f.why = said[i]
	}
	return f
}

func (k *Kind[S, T]) declare(ctx context.Context, c *Child, there map[string]*found) (*found, error) {
	want, seen := c.object.(*store.Object[S, T]), there[c.ref]
	needs, all := c.uses(seen, there)
	if len(all) > 0 || seen != nil && seen.meta.Annotations[annotationAfter] != "" {
		setAfter(&want.Meta, all)
	}
	if seen != nil && len(all) == len(needs) && k.settled(want, seen.object.(*store.Object[S, T]), c.set.by) {
		return seen, nil
	}
	if want.UID = ""; seen != nil {
		want.UID = seen.meta.UID // the write that finds it gone makes none
	}
	now, err := k.store.ApplyFields(ctx, want, c.set.by, false)
	switch {
	case seen != nil && (errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExists)):
		return nil, nil
	case errors.Is(err, store.ErrDeleting): // it is made again when it is gone, if that runs the owner
		if o, failed := k.store.Get(ctx, want.Key()); failed == nil && o.Deleting() && runs(c.set.owner, &o.Meta) {
			return k.found(o), nil
		}
	}
	if err == nil && len(all) > len(needs) && now.Ready() { // with what is declared it no longer uses the others
		setAfter(&want.Meta, needs)
		now, err = k.store.ApplyFields(ctx, want, c.set.by, false)
	}
	if now == nil {
		return seen, err
	}
	return k.found(now), err
}

// runs reports whether a change of the object runs the owner, even if it belongs to one that had its name before.
func runs(owner store.Owner, m *store.Meta) bool {
	return slices.ContainsFunc(m.Owners, func(o store.Owner) bool { return o.Kind == owner.Kind && o.Key == owner.Key })
}

// settled reports whether it is sure, without a look at the store, that declaring changes nothing.
func (k *Kind[S, T]) settled(want, is *store.Object[S, T], by string) bool {
	owns := 0
	for name, fields := range is.FieldOwners.All(is.Generation) {
		if owns++; name != by || len(fields) != 1 || fields[0] != "all" {
			return false
		}
	}
	return owns == 1 && want.FieldOwners == "" && !is.Deleting() && !is.Newer && k.store.SameSpec(want, is) &&
		contains(is.Labels, want.Labels) && contains(is.Annotations, want.Annotations) &&
		!slices.ContainsFunc(want.Owners, func(o store.Owner) bool { return !slices.Contains(is.Owners, o) })
}

func contains(all, some map[string]string) bool {
	for k, v := range some {
		if has, ok := all[k]; !ok || has != v {
			return false
		}
	}
	return true
}

func (k *Kind[S, T]) remove(ctx context.Context, s *Set, f *found) (gone bool, err error) {
	for {
		o, err := k.store.Get(ctx, f.meta.Key())
		switch {
		case errors.Is(err, store.ErrNotFound), err == nil && !ownedBy(&o.Meta, s.owner):
			return true, nil
		case err != nil:
			return false, err
		case o.UID != f.meta.UID, o.Deleting(): // one that was made again is looked at in the run that its coming causes
			return false, nil
		}
		if err := reconcile.CheckNewer(&o.Meta); err != nil {
			return false, err
		}
		if len(o.Owners) > 1 {
			gone, err = true, k.leave(ctx, s, o)
		} else {
			gone, err = len(o.Finalizers) == 0, k.store.Delete(ctx, o)
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			return gone && err == nil, err
		}
	}
}

// leave takes the owner from a child that others own too, which stays as it is: the others may need its fields, and
// Options.Validate too. The owner goes last: after a crash in between the next run finds the child.
func (k *Kind[S, T]) leave(ctx context.Context, s *Set, o *store.Object[S, T]) error {
	o, err := k.store.Disown(ctx, o, s.by)
	if err == nil {
		o.Owners = slices.DeleteFunc(o.Owners, func(x store.Owner) bool { return x.UID == s.owner.UID })
		_, err = k.store.Update(ctx, o)
	}
	return err
}
