package store

import (
	"cmp"
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
	return typed[S, T](s.core.create(ctx, o))
}

func (s *core) create(ctx context.Context, o object) (object, error) {
	v, err := s.fresh(o)
	if err != nil {
		return nil, err
	}
	return s.insert(ctx, v)
}

// fresh returns a copy of o as it is stored when it is created, or the [ErrInvalid]
// that says why it cannot be.
func (s *core) fresh(o object) (typedValue, error) {
	if o.meta() == nil {
		return nil, s.noObject()
	}
	v := o.held(encoder{core: s})
	if s.code {
		return v, s.accept(o, func() error { return s.prepare(v) })
	}
	return v, s.refusal(o, contain.Call(func() error { return s.prepare(v) }))
}

func (s *core) prepare(v typedValue) error {
	next, _ := v.parts()
	if err := s.mend(next); err != nil {
		return err
	}
	s.unshare(next)
	m := next.meta()
	m.UID = crand.Text()
	m.Generation, m.Revision = 1, 0
	m.Created, m.Deleted = now(), zeroTime
	m.Intent, m.Newer = Intent{}, false
	*next.parts().owners = ""
	m.pause(m.Paused)
	if err := s.fillSpec(next); err != nil {
		return err
	}
	return s.check(next, true)
}

// fillSpec lets Options.Default fill in the spec of o, and takes nothing else from it.
func (s *core) fillSpec(o object) error {
	if s.fill == nil {
		return nil
	}
	filled := s.clone(o)
	if err := contain.Apart(func() error { s.fill(filled); return nil }); err != nil {
		return err
	}
	spec, err := writable(&s.spec, filled.parts().spec, false)
	if err != nil {
		return s.about(o.meta().Key(), s.redactError(err, filled))
	}
	s.spec.Copy(o.parts().spec, spec)
	return nil
}

// Filled returns a copy of o with the spec as Create would store it: in the form in which
// it is read back, and with what [Options].Default fills in. It checks nothing else.
func (s *Store[S, T]) Filled(o *Object[S, T]) (*Object[S, T], error) {
	return typed[S, T](s.core.filled(o))
}

func (s *core) filled(o object) (c object, err error) {
	if c, err = s.asWritten(o); err == nil && s.fill != nil {
		err = s.accept(c, func() error { return s.fillSpec(c) })
	}
	return c, err
}

// asWritten returns a copy of o in the form in which it is read back.
func (s *core) asWritten(o object) (c object, err error) {
	if o.meta() == nil {
		return nil, s.noObject()
	}
	c = o.copied()
	if err := s.accept(o, func() error {
		if err := s.mend(c); err != nil {
			return err
		}
		s.unshare(c)
		return nil
	}); err != nil {
		return nil, err
	}
	return c, nil
}

// insert stores an object where none is.
func (s *core) insert(ctx context.Context, v typedValue) (object, error) {
	o, _ := v.parts()
	key := o.meta().Key()
	stored, err := s.commit(ctx, o, Op{Kind: s.kind, Key: key, Put: v}, Compare{Kind: s.kind, Key: key})
	if errors.Is(err, ErrConflict) {
		return nil, fmt.Errorf("%w: %s %s", ErrExists, s.kind, key)
	}
	return stored, err
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
	return typed[S, T](s.core.edit(ctx, o, (*core).takeSpec))
}

// UpdateByHand is [Store.Update] for an edit by a person, such as that of an editor or of an API: it owns the
// fields that it changes of a declared object, see [Store.Apply].
func (s *Store[S, T]) UpdateByHand(ctx context.Context, o *Object[S, T]) (*Object[S, T], error) {
	return typed[S, T](s.core.edit(ctx, o, func(s *core, next, o object) (changed, error) {
		c, err := s.takeSpec(next, o)
		c.byHand = true
		return c, err
	}))
}

// UpdateStatus stores the status, conditions, phase and observed generation of
// o if the stored object is at o's revision, and keeps everything else. It
// returns, checks and fails like [Store.Update]; the generation stays. The status of an
// object that is being deleted vanishes with it.
func (s *Store[S, T]) UpdateStatus(ctx context.Context, o *Object[S, T]) (*Object[S, T], error) {
	return typed[S, T](s.core.edit(ctx, o, (*core).takeStatus))
}

// UpdateIntent stores the intent and the annotations of o if the stored object
// is at o's revision, and keeps everything else, so that no edit that was not
// meant for the store slips in beside the record of a create. It is for
// reconcilers that create in an external system (reconcile/external); no other
// write touches the intent. It returns, checks and fails like [Store.Update].
func (s *Store[S, T]) UpdateIntent(ctx context.Context, o *Object[S, T]) (*Object[S, T], error) {
	return typed[S, T](s.core.edit(ctx, o, (*core).takeIntent))
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
		return nil, fmt.Errorf("%w: Mutate of %s without a function", ErrInvalid, s.core.kind)
	}
	return typed[S, T](s.core.mutate(ctx, k, func(o object) error { return fn(o.(*Object[S, T])) }))
}

func (s *core) mutate(ctx context.Context, k Key, fn func(object) error) (object, error) {
	return s.mutateBy(ctx, k, fn, (*core).takeBoth)
}

func (s *core) mutateBy(ctx context.Context, k Key, fn func(object) error, take change) (object, error) {
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
		stored, err := s.replace(ctx, f, o, take)
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

// A change puts into next what a write takes from o.
type change func(s *core, next, o object) (changed, error)

// edit replaces the stored object on the condition that it is at o's revision.
func (s *core) edit(ctx context.Context, o object, take change) (object, error) {
	f, err := s.findAt(ctx, o)
	if err != nil {
		return nil, err
	}
	return s.replace(ctx, f, o, take)
}

// findAt reads the object and refuses it unless it is at o's revision.
func (s *core) findAt(ctx context.Context, o object) (found, error) {
	m := o.meta()
	if m == nil {
		return found{}, s.noObject()
	}
	if m.Revision == 0 {
		return found{}, fmt.Errorf("%w: %s %s has no revision: it was never stored", ErrInvalid, s.kind, m.Key())
	}
	r, err := s.backend.Get(ctx, s.kind, m.Key())
	if err != nil {
		return found{}, err
	}
	if r.Revision != m.Revision {
		return found{}, &ConflictError{Want: s.at(m.Key(), m.Revision), Current: r}
	}
	return s.decode(r)
}

func (s *core) at(k Key, r Revision) Compare {
	return Compare{Kind: s.kind, Key: k, Revision: r}
}

// replace commits a version of f that is changed by o.
func (s *core) replace(ctx context.Context, f found, o object, take change) (object, error) {
	if err := s.checkGuard(ctx); err != nil {
		return nil, err
	}
	next, op, err := s.next(f, o, take)
	if err != nil {
		return nil, err
	}
	if next == nil {
		return s.own(f)
	}
	return s.commit(ctx, next, op, s.at(f.Key(), f.record.Revision))
}

// next returns a changed version of f and the write that stores it; nil if nothing
// changes. The version begins as a plain copy of the stored object; what take does not
// replace stays shared with it, which is safe because stored objects are never modified.
func (s *core) next(f found, o object, take change) (next object, op Op, err error) {
	if s.code {
		return s.nextApart(f, o, take)
	}
	err = s.refusal(f.object, contain.Call(func() (err error) {
		next, op, err = s.edited(f, o, take)
		return err
	}))
	return next, op, err
}

func (s *core) nextApart(f found, o object, take change) (next object, op Op, err error) {
	err = s.accept(f.object, func() (err error) {
		next, op, err = s.edited(f, o, take)
		return err
	})
	return next, op, err
}

func (s *core) edited(f found, o object, take change) (object, Op, error) {
	v := f.object.held(encoder{core: s, stored: f.record.Bytes})
	next, e := v.parts()
	m := next.meta()
	c, err := take(s, next, o)
	if err != nil {
		return nil, Op{}, s.about(m.Key(), s.redactError(err, f.object))
	}
	if !c.spec && !c.intent && !c.rest {
		return nil, Op{}, nil
	}
	e.full = c.intent
	if c.spec {
		m.Generation++
	}
	if err := s.carryOwners(f, next, c); err != nil {
		return nil, Op{}, err
	}
	if err := s.checkChange(next, f, c.spec); err != nil {
		return nil, Op{}, err
	}
	op := Op{Kind: s.kind, Key: m.Key(), Put: v}
	if m.Deleting() && len(m.Finalizers) == 0 {
		op.Put = nil
	}
	return next, op, nil
}

// changed says what a write changes: owned, that it has recorded the owners of fields; byHand, that a
// person made it.
type changed struct{ spec, intent, rest, owned, byHand bool }

// checkChange says what may not be written over f.
func (s *core) checkChange(next object, f found, newSpec bool) error {
	if f.schema > s.version {
		return fmt.Errorf("%w: %s %s has schema version %d, this program knows %d", ErrNewer, s.kind, f.Key(), f.schema, s.version)
	}
	for _, name := range next.meta().Finalizers {
		if f.Deleting() && !f.HasFinalizer(name) {
			return fmt.Errorf("%w: %s %s is being deleted, finalizer %s cannot be added", ErrInvalid, s.kind, f.Key(), name)
		}
	}
	return s.check(next, newSpec)
}

// check says whether an object may be stored.
func (s *core) check(o object, newSpec bool) error {
	key := o.meta().Key()
	if err := checkMeta(o.meta()); err != nil {
		return s.about(key, err)
	}
	if !newSpec {
		return nil
	}
	if err := s.redactError(s.spec.CheckKeys(o.parts().spec), o); err != nil {
		return fmt.Errorf("%w: %s %s: %w", ErrInvalid, s.kind, key, err)
	}
	if s.validate == nil {
		return nil
	}
	if err := s.redactError(contain.Apart(func() error { return s.validate(o) }), o); err != nil {
		return fmt.Errorf("%w: %s %s: %w", ErrInvalid, s.kind, key, err)
	}
	return nil
}

// checkGuard refuses a write that no guard would fence.
func (s *core) checkGuard(ctx context.Context) error {
	if s.guarded && len(Guards(ctx)) == 0 {
		return fmt.Errorf("%w: %s requires one; use the context of the run", ErrUnguarded, s.kind)
	}
	return nil
}

// commit makes one write and returns a copy of next, what was stored. It is made before: where it
// cannot be made, nothing is written.
func (s *core) commit(ctx context.Context, next object, op Op, cond Compare) (object, error) {
	stored, err := s.cloned(next)
	if err != nil {
		return nil, s.refusal(next, err)
	}
	if stored.meta().Revision, err = s.write(ctx, op, cond); err != nil {
		return nil, err
	}
	return stored, nil
}

// write makes one write, and returns the revision that it was made at.
func (s *core) write(ctx context.Context, op Op, cond Compare) (Revision, error) {
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
		endWrite(w, s.backend, noted(err, t.ops[:]), 0)
		return 0, gone(err, cond)
	}
	endWrite(w, s.backend, t.ops[:], rev)
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
func (s *core) takeSpec(next, o object) (c changed, err error) {
	to, from := next.parts(), o.parts()
	takeMap(&to.Labels, from.Labels, &c)
	takeMap(&to.Annotations, from.Annotations, &c)
	takeSlice(&to.Finalizers, from.Finalizers, &c)
	takeSlice(&to.Owners, from.Owners, &c)
	if to.Paused != from.Paused {
		c.rest = true
		to.pause(from.Paused)
	}
	if s.spec.Equal(to.spec, from.spec) {
		return c, nil
	}
	spec, err := writable(&s.spec, from.spec, false)
	if err != nil {
		return c, s.redactError(err, o)
	}
	if s.fill != nil {
		wanted := next.copied()
		s.spec.Assign(wanted.parts().spec, spec)
		if err := s.fillSpec(wanted); err != nil {
			return c, err
		}
		spec = wanted.parts().spec
	}
	if c.spec = !s.spec.Equal(to.spec, spec); c.spec {
		s.spec.Copy(to.spec, spec)
	}
	return c, nil
}

// takeStatus puts what UpdateStatus writes from o into next.
func (s *core) takeStatus(next, o object) (c changed, err error) {
	to, from := next.parts(), o.parts()
	c.rest = *to.phase != *from.phase || *to.observed != *from.observed
	if *to.phase != *from.phase {
		err = checkPhase(*from.phase)
	}
	*to.phase, *to.observed = *from.phase, *from.observed
	if !sameConditions(*to.conditions, *from.conditions) {
		conditions, wrong := writableConditions(*from.conditions)
		if wrong != nil {
			return c, wrong
		}
		if !sameConditions(*to.conditions, conditions) {
			*to.conditions, c.rest = cloneConditions(conditions), true
		}
	}
	if s.status.Equal(to.status, from.status) {
		return c, err
	}
	status, wrong := writable(&s.status, from.status, true)
	if wrong != nil {
		return c, s.redactError(wrong, o)
	}
	if !s.status.Equal(to.status, status) {
		s.status.Copy(to.status, status)
		c.rest = true
	}
	return c, err
}

// takeBoth puts what Mutate writes from o into next.
func (s *core) takeBoth(next, o object) (changed, error) {
	a, errA := s.takeSpec(next, o)
	b, errB := s.takeStatus(next, o)
	return changed{spec: a.spec, rest: a.rest || b.rest}, cmp.Or(errA, errB)
}

// takeIntent puts what UpdateIntent writes from o into next.
func (s *core) takeIntent(next, o object) (c changed, err error) {
	to, from := next.meta(), o.meta()
	intent := from.Intent.normal()
	if c.intent = intent != to.Intent; c.intent {
		err = intent.check()
	}
	to.Intent = intent
	takeMap(&to.Annotations, from.Annotations, &c)
	return c, err
}

// mend gives o, a plain copy of what a caller gave, the spec, status and conditions in the form
// in which they are read back. It writes to nothing that o refers to.
func (s *core) mend(o object) error {
	p := o.parts()
	spec, err := writable(&s.spec, p.spec, false)
	status, errStatus := writable(&s.status, p.status, true)
	conditions, errConditions := writableConditions(*p.conditions)
	if err := cmp.Or(err, errStatus, errConditions, checkPhase(*p.phase)); err != nil {
		return s.about(p.Key(), s.redactError(err, o))
	}
	if spec != p.spec {
		s.spec.Assign(p.spec, spec)
	}
	if status != p.status {
		s.status.Assign(p.status, status)
	}
	*p.conditions = conditions
	return nil
}

// writable is [shape.Shape.Writable]; the error is [ErrInvalid].
func writable(s *shape.Shape, given any, mendText bool) (any, error) {
	w, err := s.Writable(given, mendText)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return w, nil
}

func (s *core) noObject() error {
	return fmt.Errorf("%w: no object of %s was given", ErrInvalid, s.kind)
}

// about names the object that an error is about. The key may be one that was refused.
func (s *core) about(k Key, err error) error {
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
