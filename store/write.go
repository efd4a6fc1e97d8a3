package store

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store/internal/shape"
)

// Create stores a new object: everything in o but what only the store or the
// kernel writes (uid, revision, generation, created, deleted, intent). It
// returns a copy of what was stored and leaves o alone. An object of that key,
// even one that is being deleted, is [ErrExists].
func (s *Store[S, T]) Create(ctx context.Context, o *Object[S, T]) (*Object[S, T], error) {
	v, err := s.fresh(o)
	if err != nil {
		return nil, err
	}
	stored, err := s.insert(ctx, v)
	if errors.Is(err, ErrConflict) {
		return nil, fmt.Errorf("%w: %s %s", ErrExists, s.kind, o.Key())
	}
	return stored, err
}

// fresh returns a copy of o as it is stored when it is created, or the [ErrInvalid]
// that says why it cannot be.
func (s *Store[S, T]) fresh(o *Object[S, T]) (*value[S, T], error) {
	if o == nil {
		return nil, s.noObject()
	}
	v := &value[S, T]{store: s, schema: s.version}
	if s.code {
		return v, s.accept(o, func() error { return s.prepare(v, o) })
	}
	return v, s.refusal(o, contain.Call(func() error { return s.prepare(v, o) }))
}

func (s *Store[S, T]) prepare(v *value[S, T], o *Object[S, T]) error {
	w, err := s.writable(o)
	if err != nil {
		return err
	}
	s.cloneTo(&v.Object, w)
	v.UID = crand.Text()
	v.Generation, v.Revision = 1, 0
	v.Created, v.Deleted = now(), zeroTime
	v.Intent, v.Newer = Intent{}, false
	v.pause(v.Paused)
	if err := s.fillSpec(&v.Object); err != nil {
		return err
	}
	return s.check(&v.Object, true)
}

// fillSpec lets Options.Default fill in the spec of o, and takes nothing else from it.
func (s *Store[S, T]) fillSpec(o *Object[S, T]) error {
	if s.fill == nil {
		return nil
	}
	filled := s.Clone(o)
	if err := contain.Apart(func() error { s.fill(filled); return nil }); err != nil {
		return err
	}
	spec, err := writable(&s.spec, &filled.Spec, false)
	if err != nil {
		return s.about(o.Key(), s.RedactError(err, filled))
	}
	s.spec.Copy(&o.Spec, spec)
	return nil
}

// Filled returns a copy of o with the spec as Create would store it: in the form in which
// it is read back, and with what [Options].Default fills in. It checks nothing else.
func (s *Store[S, T]) Filled(o *Object[S, T]) (c *Object[S, T], err error) {
	if o == nil {
		return nil, s.noObject()
	}
	err = s.accept(o, func() error {
		w, err := s.writable(o)
		if err != nil {
			return err
		}
		c = s.Clone(w)
		return s.fillSpec(c)
	})
	return c, err
}

func (s *Store[S, T]) insert(ctx context.Context, v *value[S, T]) (*Object[S, T], error) {
	key := v.Key()
	return s.commit(ctx, v, Op{Kind: s.kind, Key: key, Put: v}, Compare{Kind: s.kind, Key: key})
}

// Update stores the labels, annotations, finalizers, owners, paused and spec of
// o if the stored object is at o's revision, and keeps the stored status. It
// returns a copy of what is stored then and leaves o alone.
//
// The generation grows if the spec changed. If nothing changed, nothing is
// written. On an object that is being deleted, taking the last finalizer away
// deletes it in the same commit, and adding one is [ErrInvalid]. Other writes to such
// an object succeed as to any, and what they wrote vanishes with it.
//
// The errors: [ErrNotFound]; a [*ConflictError] if the object is at another
// revision; [ErrNewer]; [ErrInvalid] also for an object that was never stored.
func (s *Store[S, T]) Update(ctx context.Context, o *Object[S, T]) (*Object[S, T], error) {
	return s.edit(ctx, o, s.specOf(o))
}

func (s *Store[S, T]) specOf(o *Object[S, T]) func(*Object[S, T]) (changed, error) {
	return func(next *Object[S, T]) (changed, error) { return s.takeSpec(next, o) }
}

func (s *Store[S, T]) statusOf(o *Object[S, T]) func(*Object[S, T]) (changed, error) {
	return func(next *Object[S, T]) (changed, error) { return s.takeStatus(next, o) }
}

// UpdateStatus stores the status, conditions, phase and observed generation of
// o if the stored object is at o's revision, and keeps everything else. It
// returns, checks and fails like [Store.Update]; the generation stays. The status of an
// object that is being deleted vanishes with it.
func (s *Store[S, T]) UpdateStatus(ctx context.Context, o *Object[S, T]) (*Object[S, T], error) {
	return s.edit(ctx, o, s.statusOf(o))
}

// UpdateIntent stores the intent and the annotations of o if the stored object
// is at o's revision, and keeps everything else, so that no edit that was not
// meant for the store slips in beside the record of a create. It is for
// reconcilers that create in an external system (reconcile/external); no other
// write touches the intent. It returns, checks and fails like [Store.Update].
func (s *Store[S, T]) UpdateIntent(ctx context.Context, o *Object[S, T]) (*Object[S, T], error) {
	return s.edit(ctx, o, func(next *Object[S, T]) (c changed, err error) {
		intent := o.Intent.normal()
		if c.intent = intent != next.Intent; c.intent {
			err = intent.check()
		}
		next.Intent = intent
		takeMap(&next.Annotations, o.Annotations, &c)
		return c, err
	})
}

// Mutate reads the object, lets fn change a copy, and stores what fn may change
// (all that Update and UpdateStatus write) in one commit; on a conflict it
// pauses for up to a second, reads again and calls fn again, until ctx ends. If fn changed nothing,
// nothing is written; an error of fn is returned as it is. Conflicts aside it
// returns and fails like [Store.Update]: an unknown outcome is reported, not
// retried. It succeeds on an object that is being deleted, and what it wrote vanishes
// with that: let fn return an error if the object is Deleting.
func (s *Store[S, T]) Mutate(ctx context.Context, k Key, fn func(*Object[S, T]) error) (*Object[S, T], error) {
	if fn == nil {
		return nil, fmt.Errorf("%w: Mutate of %s without a function", ErrInvalid, s.kind)
	}
	for conflicts := 0; ; conflicts++ {
		began := time.Now()
		f, err := s.find(ctx, k)
		if err != nil {
			return nil, err
		}
		o, err := s.copyOf(f)
		if err != nil {
			return nil, err
		}
		if err := fn(o); err != nil {
			return nil, err
		}
		stored, err := s.replace(ctx, f, func(next *Object[S, T]) (changed, error) {
			a, errA := s.takeSpec(next, o)
			b, errB := s.takeStatus(next, o)
			return changed{spec: a.spec, rest: a.rest || b.rest}, firstOf(errA, errB)
		})
		if errors.Is(err, ErrInvalid) { // whatever else Options.Validate refused it with
			return nil, err
		}
		if !errors.Is(err, ErrConflict) {
			return stored, err
		}
		sleep.For(ctx, conflictPause(conflicts, time.Since(began)))
	}
}

// maxConflictPause bounds the pause of a Mutate that met a conflict.
const maxConflictPause = time.Second

// conflictPause is how long to wait after a number of conflicts: a random part of as
// long as the attempt took, doubled with each conflict. Without a pause all but one of
// n writers of an object fail in each round, so that n writes take n²/2 attempts.
func conflictPause(conflicts int, attempt time.Duration) time.Duration {
	most := max(attempt, 100*time.Microsecond) << min(conflicts, 16)
	return rand.N(min(most, maxConflictPause))
}

// edit replaces the stored object on the condition that it is at o's revision.
func (s *Store[S, T]) edit(ctx context.Context, o *Object[S, T], change func(next *Object[S, T]) (changed, error)) (*Object[S, T], error) {
	f, err := s.findAt(ctx, o)
	if err != nil {
		return nil, err
	}
	return s.replace(ctx, f, change)
}

// findAt reads the object and refuses it unless it is at o's revision.
func (s *Store[S, T]) findAt(ctx context.Context, o *Object[S, T]) (found[S, T], error) {
	if o == nil {
		return found[S, T]{}, s.noObject()
	}
	if o.Revision == 0 {
		return found[S, T]{}, fmt.Errorf("%w: %s %s has no revision: it was never stored", ErrInvalid, s.kind, o.Key())
	}
	r, err := s.backend.Get(ctx, s.kind, o.Key())
	if err != nil {
		return found[S, T]{}, err
	}
	if r.Revision != o.Revision {
		return found[S, T]{}, &ConflictError{Want: s.at(o.Key(), o.Revision), Current: r}
	}
	return s.decode(r)
}

func (s *Store[S, T]) at(k Key, r Revision) Compare {
	return Compare{Kind: s.kind, Key: k, Revision: r}
}

// replace commits a changed version of f.
func (s *Store[S, T]) replace(ctx context.Context, f found[S, T], change func(next *Object[S, T]) (changed, error)) (*Object[S, T], error) {
	if err := s.checkGuard(ctx); err != nil {
		return nil, err
	}
	v, op, err := s.next(f, change)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return s.own(f)
	}
	return s.commit(ctx, v, op, s.at(v.Key(), f.record.Revision))
}

// next returns a changed version of f and the write that stores it; nil if nothing
// changes. The version begins as a plain copy of the stored object; what change does not
// replace stays shared with it, which is safe because stored objects are never modified.
func (s *Store[S, T]) next(f found[S, T], change func(next *Object[S, T]) (changed, error)) (v *value[S, T], op Op, err error) {
	if s.code {
		return s.nextApart(f, change)
	}
	err = s.refusal(f.Object, contain.Call(func() (err error) {
		v, op, err = s.edited(f, change)
		return err
	}))
	return v, op, err
}

func (s *Store[S, T]) nextApart(f found[S, T], change func(next *Object[S, T]) (changed, error)) (v *value[S, T], op Op, err error) {
	err = s.accept(f.Object, func() (err error) {
		v, op, err = s.edited(f, change)
		return err
	})
	return v, op, err
}

func (s *Store[S, T]) edited(f found[S, T], change func(next *Object[S, T]) (changed, error)) (*value[S, T], Op, error) {
	v := &value[S, T]{Object: *f.Object, store: s, schema: s.version, stored: f.record.Bytes}
	next := &v.Object
	c, err := change(next)
	if err != nil {
		return nil, Op{}, s.about(next.Key(), s.RedactError(err, f.Object))
	}
	if c == (changed{}) {
		return nil, Op{}, nil
	}
	v.full = c.intent
	if c.spec {
		next.Generation++
	}
	if err := s.checkChange(next, f, c.spec); err != nil {
		return nil, Op{}, err
	}
	op := Op{Kind: s.kind, Key: next.Key(), Put: v}
	if next.Deleting() && len(next.Finalizers) == 0 {
		op.Put = nil
	}
	return v, op, nil
}

// changed says what a write changes.
type changed struct{ spec, intent, rest bool }

// checkChange says what may not be written over f.
func (s *Store[S, T]) checkChange(next *Object[S, T], f found[S, T], newSpec bool) error {
	if f.schema > s.version {
		return fmt.Errorf("%w: %s %s has schema version %d, this program knows %d", ErrNewer, s.kind, next.Key(), f.schema, s.version)
	}
	for _, name := range next.Finalizers {
		if f.Deleting() && !f.HasFinalizer(name) {
			return fmt.Errorf("%w: %s %s is being deleted, finalizer %s cannot be added", ErrInvalid, s.kind, next.Key(), name)
		}
	}
	return s.check(next, newSpec)
}

// check says whether an object may be stored.
func (s *Store[S, T]) check(o *Object[S, T], newSpec bool) error {
	if err := checkMeta(&o.Meta); err != nil {
		return s.about(o.Key(), err)
	}
	if !newSpec || s.validate == nil {
		return nil
	}
	if err := s.RedactError(contain.Apart(func() error { return s.validate(o) }), o); err != nil {
		return fmt.Errorf("%w: %s %s: %w", ErrInvalid, s.kind, o.Key(), err)
	}
	return nil
}

// checkGuard refuses a write that no guard would fence.
func (s *Store[S, T]) checkGuard(ctx context.Context) error {
	if s.guarded && len(Guards(ctx)) == 0 {
		return fmt.Errorf("%w: %s requires one; use the context of the run", ErrUnguarded, s.kind)
	}
	return nil
}

// commit makes one write and returns a copy of what v became. It is made before: where it
// cannot be made, nothing is written.
func (s *Store[S, T]) commit(ctx context.Context, v *value[S, T], op Op, cond Compare) (stored *Object[S, T], err error) {
	if stored, err = s.cloned(&v.Object); err != nil {
		return nil, s.refusal(&v.Object, err)
	}
	if stored.Revision, err = s.write(ctx, op, cond); err != nil {
		return nil, err
	}
	return stored, nil
}

// write makes one write, and returns the revision that it was made at.
func (s *Store[S, T]) write(ctx context.Context, op Op, cond Compare) (Revision, error) {
	if err := s.checkGuard(ctx); err != nil {
		return 0, err
	}
	t := struct { // one allocation for both
		conds [1]Compare
		ops   [1]Op
	}{[1]Compare{cond}, [1]Op{op}}
	w := beginWrite(ctx)
	rev, err := s.backend.Commit(ctx, Txn{If: t.conds[:], Ops: t.ops[:]})
	if err != nil {
		w.end(s.backend, noted(err, t.ops[:]), 0)
		return 0, gone(err, cond)
	}
	w.end(s.backend, t.ops[:], rev)
	return rev, nil
}

// noted are the writes of a commit that failed which may have landed all the same.
func noted(err error, ops []Op) []Op {
	if errors.Is(err, ErrUnknownOutcome) {
		return ops
	}
	return nil
}

// gone turns the conflict with nothing into [ErrNotFound].
func gone(err error, cond Compare) error {
	var c *ConflictError
	if cond.Revision != 0 && errors.As(err, &c) && c.Current.Revision == 0 {
		return fmt.Errorf("%w: %s %s", ErrNotFound, cond.Kind, cond.Key)
	}
	return err
}

// takeSpec puts what Update writes from o into next.
func (s *Store[S, T]) takeSpec(next, o *Object[S, T]) (c changed, err error) {
	takeMap(&next.Labels, o.Labels, &c)
	takeMap(&next.Annotations, o.Annotations, &c)
	takeSlice(&next.Finalizers, o.Finalizers, &c)
	takeSlice(&next.Owners, o.Owners, &c)
	if next.Paused != o.Paused {
		c.rest = true
		next.pause(o.Paused)
	}
	if s.spec.Equal(&next.Spec, &o.Spec) {
		return c, nil
	}
	spec, err := writable(&s.spec, &o.Spec, false)
	if err != nil {
		return c, s.RedactError(err, o)
	}
	given := *next // with the spec that the caller wants
	s.spec.Copy(&given.Spec, spec)
	if err := s.fillSpec(&given); err != nil {
		return c, err
	}
	if c.spec = !s.spec.Equal(&next.Spec, &given.Spec); c.spec {
		next.Spec = given.Spec
	}
	return c, nil
}

// takeStatus puts what UpdateStatus writes from o into next.
func (s *Store[S, T]) takeStatus(next, o *Object[S, T]) (c changed, err error) {
	c.rest = next.Phase != o.Phase || next.ObservedGeneration != o.ObservedGeneration
	if next.Phase != o.Phase {
		err = checkPhase(o.Phase)
	}
	next.Phase, next.ObservedGeneration = o.Phase, o.ObservedGeneration
	if !sameConditions(next.Conditions, o.Conditions) {
		conditions, wrong := writableConditions(o.Conditions)
		if wrong != nil {
			return c, wrong
		}
		if !sameConditions(next.Conditions, conditions) {
			next.Conditions, c.rest = cloneConditions(conditions), true
		}
	}
	if s.status.Equal(&next.Status, &o.Status) {
		return c, err
	}
	status, wrong := writable(&s.status, &o.Status, true)
	if wrong != nil {
		return c, s.RedactError(wrong, o)
	}
	if !s.status.Equal(&next.Status, status) {
		s.status.Copy(&next.Status, status)
		c.rest = true
	}
	return c, err
}

// writable returns o, or an object with the spec, status and conditions in the form
// in which they are read back. It shares with o what is the same.
func (s *Store[S, T]) writable(o *Object[S, T]) (*Object[S, T], error) {
	if o == nil {
		return nil, s.noObject()
	}
	spec, err := writable(&s.spec, &o.Spec, false)
	status, errStatus := writable(&s.status, &o.Status, true)
	conditions, errConditions := writableConditions(o.Conditions)
	if err := firstOf(err, errStatus, errConditions, checkPhase(o.Phase)); err != nil {
		return nil, s.about(o.Key(), s.RedactError(err, o))
	}
	if spec == &o.Spec && status == &o.Status && (len(conditions) == 0 || &conditions[0] == &o.Conditions[0]) {
		return o, nil
	}
	w := *o
	w.Spec, w.Status, w.Conditions = *spec, *status, conditions
	return &w, nil
}

// writable is [shape.Shape.Writable]; the error is [ErrInvalid].
func writable[V any](s *shape.Shape[V], given *V, mendText bool) (*V, error) {
	w, err := s.Writable(given, mendText)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return w, nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store[S, T]) noObject() error {
	return fmt.Errorf("%w: no object of %s was given", ErrInvalid, s.kind)
}

// about names the object that an error is about. The key may be one that was refused.
func (s *Store[S, T]) about(k Key, err error) error {
	return fmt.Errorf("%s %.100q: %w", s.kind, k.String(), err)
}

// takeMap replaces old by a copy of given if they differ.
func takeMap(old *map[string]string, given map[string]string, c *changed) {
	if !maps.Equal(*old, given) {
		*old, c.rest = maps.Clone(given), true
	}
}

// takeSlice replaces old by a copy of given if they differ.
func takeSlice[E comparable](old *[]E, given []E, c *changed) {
	if !slices.Equal(*old, given) {
		*old, c.rest = slices.Clone(given), true
	}
}
