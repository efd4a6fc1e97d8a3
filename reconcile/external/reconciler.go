package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/wall"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/match"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/reconcile/internal/ofobjects"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// Reconciler keeps one external resource for each object of a kind. It is a
// reconcile.Reconciler of Request, to be run by a controller; see
// [Reconciler.Controller].
//
//	read ─ decide ─ connect ─ Observe ─ decide ─┬ finalizer ─ intent ─ Create ─ outcome
//	                                            ├ finalizer ─ Update
//	                                            ├ Delete
//	                                            └ nothing
//	                          then close, then status, on every way out
//
// Safe for concurrent use.
type Reconciler[S, T any] struct {
	store     *store.Store[S, T]
	kind      string
	connector Connector[S, T]
	o         Options[S, T]
	poll      poll[S, T]
	tally     tally
	deletes   deletions
	seen      sightings
	batched   atomic.Bool // a delete went out by a Batch, which pays for its calls
	visible   visibility
}

// New makes a Reconciler. It starts nothing. It returns an error for a nil store or
// connector, an illegal finalizer and options that contradict themselves. [Nop] is a
// connector to which every resource exists.
func New[S, T any](s *store.Store[S, T], c Connector[S, T], o *Options[S, T]) (*Reconciler[S, T], error) {
	if s == nil {
		return nil, errNoStore
	}
	if f, ok := c.(ConnectorFunc[S, T]); c == nil || ok && f == nil {
		return nil, errNoConnector
	}
	r := &Reconciler[S, T]{store: s, kind: s.Kind(), connector: c}
	if o != nil {
		r.o = *o
	}
	if err := r.o.complete(r.kind); err != nil {
		return nil, err
	}
	r.deletes.limit = r.o.DeleteLimit
	r.poll = poll[S, T]{
		every: r.o.Poll, floor: r.o.MinPoll, jitter: r.o.PollJitter, hook: r.o.PollHook,
		phased: r.o.PollPhase, start: time.Now(),
	}
	return r, nil
}

// Parts are what a program.Program runs and shows beside the Reconciler: the [Inventory] whose
// Client answers its looks, if that is its connector.
func (r *Reconciler[S, T]) Parts() []any {
	client, _ := r.connector.(ClientFuncs[S, T])
	if a, ok := r.connector.(always[S, T]); ok {
		client, _ = a.client.(ClientFuncs[S, T])
	}
	if client.inventory == nil {
		return nil
	}
	return []any{client.inventory}
}

// Controller makes a controller that runs the reconciler for every object of c: when
// it appears, when its spec, its deletion, its pause, its [PolicyAnnotation] or its [store.AnnotationAdopt] changes, and
// when a run is asked for by annotation.
//
// Name is the kind if it is empty. A nil cache is one of its own, of the whole kind; a
// Manager runs it. A cache of another kind or backend is an error. A cache with a selector
// must be told of [Options.Finalizer], or the deletion of an object that has left the
// selector hangs. Options are those of the controller.
//
// It does not watch the [Inventory.Changed] of an inventory: a program.Program does that.
func (r *Reconciler[S, T]) Controller(name string, c *cache.Cache[S, T], o *reconcile.Options[reconcile.Request]) (*reconcile.Controller[reconcile.Request], error) {
	name = cmp.Or(name, r.kind)
	if c == nil {
		var err error
		if c, err = cache.New(r.store, nil); err != nil {
			return nil, fmt.Errorf("external: controller %q: %w", name, err)
		}
	}
	if err := match.Check(r.store, c); err != nil {
		return nil, fmt.Errorf("external: controller %q: %w", name, err)
	}
	var options reconcile.Options[reconcile.Request]
	if o != nil {
		options = *o
	}
	sources := []reconcile.Source[reconcile.Request]{reconcile.FromWith(c, &reconcile.FromOptions[S, T]{
		When: reconcile.Or(r.changed, policyChanged[S, T]), ByOthers: reconcile.BecameUnready[S, T],
		Urgent: reconcile.Or(reconcile.Urgent[S, T], policyChanged[S, T]),
	})}
	if d := r.o.Depends; d != nil {
		options.Reads = slices.Concat(options.Reads, d.Caches())
		sources = append(sources, d.Source())
	}
	ctrl, err := ofobjects.Controller(name, r, &options)
	if err != nil {
		return nil, err
	}
	return ctrl, ctrl.Watch(sources...)
}

// changed is [reconcile.Changed] but for our finalizer: a run puts it on the object, and needs no other run
// for that. Such a run would look for what a create made at once, before the creates that wait.
func (r *Reconciler[S, T]) changed(c cache.Change[S, T]) bool {
	if c.Old != nil && c.New != nil && !c.Old.HasFinalizer(r.o.Finalizer) && c.New.HasFinalizer(r.o.Finalizer) {
		held := *c.Old
		held.Finalizers = append(slices.Clip(held.Finalizers), r.o.Finalizer)
		c.Old = &held
	}
	return reconcile.Changed(c)
}

// policyChanged passes a change of an object's own policy, or of what it is to take over: one that
// is paused has no poll that would find the change.
func policyChanged[S, T any](c cache.Change[S, T]) bool {
	return c.Old != nil && c.New != nil &&
		(c.Old.Annotations[PolicyAnnotation] != c.New.Annotations[PolicyAnnotation] ||
			c.Old.Annotations[store.AnnotationAdopt] != c.New.Annotations[store.AnnotationAdopt])
}

// String names the kind, for logs.
func (r *Reconciler[S, T]) String() string { return "external " + r.kind }

// Reconcile brings the resource of one object in line with it, by at most one
// change. A write that lost a race ends the run silently and requeues it.
func (r *Reconciler[S, T]) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	run, err := object.Begin(ctx, r.store, key)
	if run == nil {
		if err == nil {
			r.seen.drop(key)
		}
		return reconcile.Result{}, err
	}
	a := &attempt[S, T]{Reconciler: r, Run: run, log: reconcile.Logger(ctx)}
	res, err := a.contained(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	return res, nil
}

// Forget implements reconcile.Forgetter: another server runs those keys now. When one
// comes back, its creation grace begins again.
func (r *Reconciler[S, T]) Forget(left func(key store.Key) bool) { r.seen.forget(left) }

// attempt is one run for one object.
type attempt[S, T any] struct {
	*Reconciler[S, T]
	*object.Run[S, T]
	log    *slog.Logger
	view   view
	client Client[S, T]
	said   bool // the client set the phase itself
	// tolerated says that the resource differs, and that the policy forbids to update it.
	tolerated bool
	late      *store.Object[S, T] // what Observe filled in, to be stored
	// unpublished is why outputs are still on record.
	unpublished error
	// owed says that outputs of an earlier create were not handed on when this one began.
	owed bool
	name string // by which Observe found the resource; empty: it found none
	// notDue says that the first look of this process can wait: the run did not look.
	notDue bool
	memory memory // that the newest look rests on
	again  bool   // the next look is at the resource itself
	byMark bool   // looks go by the mark, and not by the name on record
}

// contained runs the attempt and writes the status, after a panic too. The
// panic then goes on, to the controller, which counts it.
func (a *attempt[S, T]) contained(ctx context.Context) (res reconcile.Result, err error) {
	ended := false
	defer func() {
		if ended {
			return
		}
		a.synced(store.False, reasonPanicked, "the run panicked")
		if reason, message := a.missesOutputs(); reason != "" {
			a.Object.SetProgressing(reason, message)
		}
		if err := a.End(ctx, nil); err != nil {
			a.log.Warn("the status was not written after a panic", "err", store.Brief(err))
		}
	}()
	res, err = a.run(ctx)
	res, err = a.endOutputs(ctx, res, err)
	res.Requeue = res.Requeue || a.notDue // package program counts a run that looked
	ended = true
	return lost(res, err, a.End(ctx, nil))
}

// lost joins how the run ended with how its status was written. A conflict is
// no failure: the run is made again, silently, but never in place of a
// failure that has to be reported.
func lost(res reconcile.Result, err, status error) (reconcile.Result, error) {
	again := false
	for _, e := range []*error{&err, &status} {
		if errors.Is(*e, store.ErrConflict) {
			*e, again = nil, true
		}
	}
	if err = errors.Join(err, status); err == nil && again {
		return reconcile.Result{Requeue: true}, nil
	}
	return res, err
}

func (a *attempt[S, T]) run(ctx context.Context) (reconcile.Result, error) {
	policy, err := a.policyOf(a.Stored())
	if err == nil {
		err = policy.validate()
	}
	if err != nil && !a.Stored().Paused {
		return a.fail(ctx, reasonPolicy, reconcile.Terminal(err))
	}
	o := a.Stored()
	a.view = a.look(o, policy, a.seen.note(o.Key(), o.UID, o.Intent))
	if a.view.adopt != "" && a.o.Naming == ByUs && !o.Paused {
		return a.fail(ctx, reasonCannotAdopt, reconcile.Terminal(errAdoptByUs))
	}
	a.sayNotAdopted(ctx)
	next := decide(a.view)
	if next != doPause {
		a.endPause()
		a.publish(ctx) // what an earlier run could not
	}
	if next != doObserve {
		return a.act(ctx, nil, next)
	}
	if a.o.Depends == nil || a.view.deleting {
		return a.permitted(ctx)
	}
	res, err, own := a.o.Depends.Admit(ctx, a.Object, a.Write, a.Record, func() (reconcile.Result, bool, error) {
		res, err := a.permitted(ctx)
		return res, a.tolerated || a.notDue, err // then the resource may use what the object needed before
	})
	if own != nil {
		return a.fail(ctx, reasonStoreFailed, errors.Join(err, own))
	}
	return res, err
}

// permitted is the part of a run that may use what the object needs.
func (a *attempt[S, T]) permitted(ctx context.Context) (reconcile.Result, error) {
	if d := a.poll.notDue(a.Stored()); d > 0 && !a.Asked() && a.view.phase != pending {
		a.notDue = true
		return reconcile.Result{RequeueAfter: d}, nil
	}
	calls, cancel := context.WithTimeoutCause(ctx, a.o.Timeout, errTimeout)
	defer cancel()
	return a.connected(ctx, context.WithValue(calls, storeKey{}, a.store))
}

// look is what the object itself says, before anybody has looked outside. First is since
// when this process has known the record of its create; see sightings.
func (r *Reconciler[S, T]) look(o *store.Object[S, T], policy Policy, first time.Time) view {
	ours := o.HasFinalizer(r.o.Finalizer)
	phase, _ := phaseOf(o.Intent)
	moved, adopt := "", ""
	if !o.Deleting() && o.Intent.ExternalName == "" && (phase == untried || phase == failed) {
		adopt = o.Annotations[store.AnnotationAdopt]
	}
	if was, is := o.Intent.Location, r.locationOf(o); was != "" && is != "" && was != is {
		moved = r.store.Redact(fmt.Sprintf("%q is on record, and %q in the spec", was, is), o)
	}
	var graceEnd time.Time
	if !first.IsZero() {
		graceEnd = first.Add(r.o.CreationGrace)
	}
	return view{
		paused:    o.Paused,
		policy:    policy,
		naming:    r.o.Naming,
		exclusive: r.o.ExclusiveCreate,
		deleting:  o.Deleting(),
		finalizer: ours,
		others:    len(o.Finalizers) > 1 || len(o.Finalizers) == 1 && !ours,
		phase:     phase,
		adopt:     adopt,
		located:   r.locationOf(o) != "",
		moved:     moved,
		young:     time.Until(graceEnd) > 0,
		learned:   first,
		graceEnd:  graceEnd,
	}
}

// connected is the part of a run that has a client. Calls bounds the client's
// calls; ctx, which lives longer, is for the store.
func (a *attempt[S, T]) connected(ctx, calls context.Context) (reconcile.Result, error) {
	client, err := a.connect(calls, a.store.Clone(a.Object))
	if err != nil {
		return a.fail(ctx, reasonConnectFailed, fmt.Errorf("connect: %w", err))
	}
	a.client = client
	defer a.close(ctx)
	var next action
	for look := true; look; {
		if err := a.observe(ctx, calls); errors.Is(err, errListing) {
			return reconcile.Result{StillFailing: true, RequeueAfter: waitForList(err)}, nil // no success: nothing was found out
		} else if errors.Is(err, errLetterCase) {
			return a.fail(ctx, reasonLetterCase, fmt.Errorf("observe: %w", err))
		} else if err != nil {
			return a.fail(ctx, reasonObserveFailed, fmt.Errorf("observe: %w", err))
		}
		if err := a.keepObserved(ctx); err != nil {
			return a.fail(ctx, reasonStoreFailed, err)
		}
		a.view.rotates = a.rotates(a.client, a.Stored(), a.view.seen)
		next = decide(a.view)
		if l, ok := a.client.(lacking); ok && next != doRotate { // that it can was asked
			if err := l.lacks(next); err != nil {
				return a.fail(ctx, reasonOf[next], err)
			}
		}
		if next == doDelete {
			switch held, err := a.mayDelete(ctx, a.Stored().UID); {
			case err != nil:
				return a.fail(ctx, reasonStoreFailed, err)
			case held != "":
				res := a.standoff(ctx, reasonDeletesHeld, held)
				res.RequeueAfter = min(heldPause, max(res.RequeueAfter, a.o.MinPoll))
				return res, nil
			}
		}
		// An update or a deletion rests on whose the resource is now, not on whose it was a day ago.
		a.again = a.memory.old && (next == doUpdate || next == doRotate || next == doDelete || a.view.adopt != "")
		look = a.again
		if (next == doCreate || next == doRelease && !a.view.seen.Exists) && a.missedByName(a.nameOnRecord(), a.memory) {
			a.byMark, look = true, true
		}
	}
	if next == doCreate || next == doUpdate || next == doRotate || next == doDelete && !a.batched.Load() {
		// Before anything is stored or told for it: a call that is refused for want of
		// budget should not cost the store two writes at each try, and is no change.
		// One of many in a call is not paid by its run.
		if err := quota.Admit(calls, quota.Write); err != nil {
			return a.fail(ctx, reasonOf[next], err)
		}
	}
	return a.act(ctx, calls, next)
}

// close ends the client's life.
func (a *attempt[S, T]) close(ctx context.Context) {
	if err := a.store.RedactError(a.Reconciler.close(ctx, a.client), a.Stored(), a.Object); err != nil {
		a.log.Warn("the client was not closed", "err", store.Brief(err))
		a.event(ctx, true, reasonCloseFailed, err.Error())
	}
}

// close is Closer.Close, if there is one, with a context that is alive even if ctx is
// not: a client may have a session to log out of.
func (r *Reconciler[S, T]) close(ctx context.Context, client Client[S, T]) error {
	c, ok := closerOf(client)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), r.o.Timeout, errTimeout)
	defer cancel()
	return contain.Call(func() error { return c.Close(ctx) })
}

// observe looks at the resource. The client gets a copy, of which status,
// conditions and, for late initialisation, the spec are taken over.
func (a *attempt[S, T]) observe(ctx, calls context.Context) error {
	if calls = context.WithValue(calls, absenceKey{}, a.view.absence()); a.Asked() || a.again {
		calls = context.WithValue(calls, freshKey{}, true)
	}
	o := a.store.Clone(a.Object)
	o.Phase = ""
	o.Intent.ExternalName = cmp.Or(a.nameOnRecord(), a.view.adopt)
	a.memory = memory{} // of a client that looks past the inventory nothing is said
	calls = context.WithValue(calls, runKey{}, &a.memory)
	before := a.unedited(ctx, o)
	seen, err := a.client.Observe(calls, o)
	err = cause(calls, err)
	a.sayDropped(ctx, callObserve, before, o, err == nil, partStatus, partName, map[bool]string{true: partSpec}[seen.LateInitialized])
	if !errors.Is(err, errListing) {
		a.tally.count(callObserve, err)
	}
	if err != nil {
		return err
	}
	a.view.seen, a.view.observed, a.view.deleted = seen, true, a.memory.deleted
	if seen.Exists && a.view.young {
		a.visible.found()
	}
	if seen.Exists {
		a.name = o.Intent.ExternalName
	}
	a.said = false
	a.keepStatus(o)
	if a.drifted(seen) {
		a.tally.drifted.Add(1)
	}
	if seen.Diff != "" && !seen.UpToDate {
		a.log.DebugContext(ctx, "the resource differs", "diff", store.Clip(seen.Diff))
	}
	if seen.LateInitialized && !a.store.SameSpec(o, a.Stored()) {
		if was, is := a.locationOf(a.Stored()), a.locationOf(o); was != is && was != "" {
			return reconcile.Terminal(fmt.Errorf("external: late initialisation would change the location from %q to %q: Options.Location has to spell it as Observe does", was, is))
		}
		a.late = o
	}
	return nil
}

// keepStatus takes over what a client set: status, conditions and, if there is one, the phase,
// which o had not before the call.
func (a *attempt[S, T]) keepStatus(o *store.Object[S, T]) {
	a.Object.Status, a.Object.Conditions = o.Status, o.Conditions
	if o.Phase != "" {
		a.said, a.Object.Phase, a.Object.ObservedGeneration = true, o.Phase, o.ObservedGeneration
	}
}

// keepObserved stores what the look brought to light, each by itself, so that
// neither is lost for the other: filled-in fields, that a create whose outcome was
// unknown did succeed, and the name of what has none on record.
func (a *attempt[S, T]) keepObserved(ctx context.Context) error {
	if err := a.TakeRequest(ctx); err != nil {
		return fmt.Errorf("reconcile request: %w", err)
	}
	if a.view.deleting {
		return nil
	}
	if a.late != nil && a.view.policy.has(LateInit) && !a.view.ofAnother() {
		if err := a.Write(ctx, func(o *store.Object[S, T]) error { return a.store.FillIn(o, a.late) }); err != nil {
			return fmt.Errorf("late initialisation: %w", err)
		}
	}
	found := a.view.seen.Exists && (a.view.seen.Owner == Unreported || a.view.seen.Owner == Ours)
	happened := found && a.view.phase == pending
	named := found && a.o.Naming == ByMark && a.name != "" && a.Stored().Intent.ExternalName != a.name
	if !happened && !named {
		return nil
	}
	name := cmp.Or(a.name, a.nameOnRecord())
	if happened {
		a.view.phase = succeeded
	}
	if err := a.WriteIntent(ctx, func(o *store.Object[S, T]) error {
		switch had := o.Intent.ExternalName; {
		case happened:
			o.Intent = o.Intent.Resolved(true, wall.Now())
		case had != "" && !strings.EqualFold(had, name) && a.o.Publisher != nil:
			o.Intent.Outputs, o.Intent.OutputsDue = store.Outputs{}, true // those on record, or published, are of another
		}
		o.Intent.ExternalName = name
		return nil
	}); err != nil {
		return fmt.Errorf("what an earlier create made: %w", err)
	}
	return nil
}

// nameOnRecord is the stored name of the resource. By mark a create of unknown outcome has none:
// the name is that of an earlier resource, by which what the create made is not found.
func (a *attempt[S, T]) nameOnRecord() string {
	if a.byMark {
		return ""
	}
	return a.Reconciler.nameOnRecord(a.Stored().Intent, a.view.phase)
}

func (r *Reconciler[S, T]) nameOnRecord(i store.Intent, p phase) string {
	if r.o.Naming == ByMark && p == pending {
		return ""
	}
	return i.ExternalName
}

// missedByName says whether a look that found nothing went by the name only. By mark that may
// be the name of an earlier resource, as of a backup from before it was replaced: the mark is looked for
// before another is created, or the object goes. An [Inventory] looks for both at once.
func (r *Reconciler[S, T]) missedByName(name string, m memory) bool {
	return r.o.Naming == ByMark && name != "" && !m.byMark
}

// forClient is the object as a client gets it: what is stored, and the status and the
// name as Observe left them.
func (a *attempt[S, T]) forClient() *store.Object[S, T] {
	o, seen := a.store.Clone(a.Stored()), a.store.Clone(a.Object)
	o.Status, o.Conditions, o.Phase, o.ObservedGeneration = seen.Status, seen.Conditions, seen.Phase, seen.ObservedGeneration
	o.Intent.ExternalName = cmp.Or(a.name, a.nameOnRecord())
	o.Intent.Outputs = store.Outputs{} // or those of an earlier call would count as this one's
	return o
}
