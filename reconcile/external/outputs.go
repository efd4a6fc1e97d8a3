package external

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// Publisher hands on what a create or an update returned and no later look can show ([store.Outputs]):
// generated passwords, access keys. [PublishTo] makes one that writes objects of a kind.
//
// Each call is made by a run of the object, bounded by [Options.Timeout], at the same time for several
// objects. A call is made again after a crash, and each failure, so both must be idempotent. An error is
// shown, without the values of the outputs, and the run is made again with backoff. O is read-only.
//
// A process that was frozen past its lease may finish its call beside its successor. A write to a store on
// the backend of the lease is refused then; another system should refuse what is older than it has, by
// the time o.Intent.Succeeded or by a version of its own.
type Publisher[S, T any] interface {
	// Publish makes these outputs what a reader finds for the object, in place of all that it
	// published for it before. The object is not Ready until it has succeeded.
	Publish(ctx context.Context, o *store.Object[S, T], outputs map[string]string) error
	// Withdraw removes what was published, if anything was, because the object is about to go. The
	// object stays until it has succeeded.
	Withdraw(ctx context.Context, o *store.Object[S, T]) error
}

// Rotator is a client that can replace what its outputs have, by a new password or key. Rotate is called
// where they were lost, in place of Update, as long as the resource is as declared and the policy permits
// to update it. It sets o.Intent.Outputs as Create does; where it sets none there is nothing to publish.
type Rotator[S, T any] interface {
	Rotate(ctx context.Context, o *store.Object[S, T]) error
}

// rotatorOf is a client as a Rotator, whatever is around it.
func rotatorOf[S, T any](c Client[S, T]) (Rotator[S, T], bool) {
	switch c := c.(type) {
	case redacted[S, T]:
		inner, ok := rotatorOf(c.inner)
		return redactedRotator[S, T]{c, inner}, ok
	case *gathered[S, T]:
		return rotatorOf(c.Client)
	}
	r, ok := c.(Rotator[S, T])
	if f, is := c.(ClientFuncs[S, T]); is {
		ok = f.RotateFunc != nil
	}
	return r, ok
}

type redactedRotator[S, T any] struct {
	redacted[S, T]
	rotator Rotator[S, T]
}

func (r redactedRotator[S, T]) Rotate(ctx context.Context, o *store.Object[S, T]) error {
	return r.call(ctx, o, r.rotator.Rotate)
}

// lost reports whether outputs of the resource that is on record, or that a look found, may have been lost. What is
// pending is not told yet.
func (r *Reconciler[S, T]) lost(i store.Intent, seen Observation) bool {
	ph, _ := phaseOf(i)
	return r.o.Publisher != nil && i.OutputsDue && (ph == succeeded || ph != pending && seen.Exists)
}

// rotates reports whether a client is to replace outputs that were lost.
func (r *Reconciler[S, T]) rotates(c Client[S, T], o *store.Object[S, T], seen Observation) bool {
	_, can := rotatorOf(c)
	return can && r.lost(o.Intent, seen)
}

// unready stores that the object is not Ready, before a call that may replace what readers of the publication have:
// a process that dies in it leaves no object that is Ready with credentials that are no more. What the run
// says of the object at its end stays as it is.
func (a *attempt[S, T]) unready(ctx context.Context) error {
	if was, _ := a.Stored().Condition(store.ConditionReady); a.o.Publisher == nil || was.Status != store.True {
		return nil
	}
	o := a.Object
	conditions, phase, observed := slices.Clone(o.Conditions), o.Phase, o.ObservedGeneration
	a.notReady()
	err := a.WriteStatus(ctx)
	o.Conditions, o.Phase, o.ObservedGeneration = conditions, phase, observed
	return err
}

// notReady says so of an object whose stored condition may be that of unready.
func (a *attempt[S, T]) notReady() {
	if was, _ := a.Stored().Condition(store.ConditionReady); was.Reason == reasonNotPublished || was.Status == store.True {
		a.Object.SetProgressing(reasonNotPublished, "a call was begun that may replace what is published")
	}
}

// announceOutputs records that a call is about to change what the outputs are: that they are due, and that the object
// is not Ready. From then on they are lost, until those that it returns are on record. No person's word ends that before
// the end of the call is on record: what that person made may be what the call replaces.
func (a *attempt[S, T]) announceOutputs(ctx context.Context) error {
	if err := a.WriteIntent(ctx, func(o *store.Object[S, T]) error {
		o.Intent.OutputsDue, o.Intent.Replacing = true, true
		return nil
	}); err != nil {
		return err
	}
	return a.unready(ctx)
}

// persistOutputs persists an edit and, in the same write, the outputs that a call returned. Earlier says that those
// of an earlier call may not be on record: this one says nothing of them by returning none. Where
// the store refuses the outputs, which may be too long, the edit is stored, and they are lost.
func (a *attempt[S, T]) persistOutputs(ctx context.Context, given store.Outputs, earlier bool, edit func(o *store.Object[S, T])) error {
	refused := false
	write := func(o *store.Object[S, T]) error {
		edit(o)
		o.Intent.Replacing = false
		if a.o.Publisher == nil {
			return nil
		}
		o.Intent.OutputsDue = refused || given == (store.Outputs{}) && earlier && o.Intent.OutputsDue
		if given != (store.Outputs{}) {
			o.Intent.Outputs = given
		}
		return nil
	}
	err := a.persist(ctx, write)
	if given == (store.Outputs{}) || !errors.Is(err, store.ErrInvalid) {
		return err
	}
	given, refused = store.Outputs{}, true
	if again := a.persist(ctx, write); again != nil {
		return again
	}
	return reconcile.Terminal(fmt.Errorf("the outputs were not stored: %w", err))
}

// updateIt calls Update, and persists what it returned.
func (a *attempt[S, T]) updateIt(ctx, calls context.Context) (reason string, err error) {
	earlier, announced := a.Stored().Intent.OutputsDue, a.view.seen.Rotates && a.o.Publisher != nil
	if announced {
		if err := a.announceOutputs(ctx); err != nil {
			return reasonStoreFailed, fmt.Errorf("outputs: %w", err)
		}
	}
	o := a.forClient()
	o.Phase = "" // or what Observe set would count as set by Update
	called := calls.Err() == nil
	if err := a.try(ctx, calls, callUpdate, o, a.client.Update); err != nil {
		nothing := announced && !earlier && (!called || ratelimit.IsThrottled(err))
		if nothing { // not Ready until it has been called, or each try would store that it is, and that it is not
			a.notReady()
		}
		return reasonUpdateFailed, a.keepOutputs(ctx, o, nothing, fmt.Errorf("update: %w", err))
	}
	o.Conditions = a.store.RedactConditions(o)
	a.keepStatus(o)
	if !announced && o.Intent.Outputs == (store.Outputs{}) {
		return "", nil
	}
	return reasonStoreFailed, a.persistOutputs(ctx, o.Intent.Outputs, earlier, func(*store.Object[S, T]) {})
}

// keepOutputs persists what a call returned although it failed, and that nothing was announced if it did nothing.
func (a *attempt[S, T]) keepOutputs(ctx context.Context, o *store.Object[S, T], nothing bool, err error) error {
	given := o.Intent.Outputs
	if given == (store.Outputs{}) && !nothing {
		return err
	}
	if again := a.persistOutputs(ctx, given, false, func(*store.Object[S, T]) {}); again != nil {
		return fmt.Errorf("%w; also: %v", err, again) //nolint:errorlint // how the call failed counts
	}
	return err
}

// rotateIt replaces outputs that were lost.
func (a *attempt[S, T]) rotateIt(ctx, calls context.Context) (reason string, err error) {
	if err := a.announceOutputs(ctx); err != nil {
		return reasonStoreFailed, fmt.Errorf("outputs: %w", err)
	}
	rotator, _ := rotatorOf(a.client)
	o := a.forClient()
	if err := a.try(ctx, calls, callRotate, o, rotator.Rotate); errors.Is(err, errNotSet) {
		return "", nil // it embeds ClientFuncs and does not rotate: they stay lost
	} else if err != nil {
		return reasonRotateFailed, a.keepOutputs(ctx, o, false, fmt.Errorf("rotate: %w", err))
	}
	if err := a.persistOutputs(ctx, o.Intent.Outputs, false, func(*store.Object[S, T]) {}); err != nil {
		return reasonStoreFailed, err
	}
	a.event(ctx, false, reasonRotated, "replaced the outputs, which were lost")
	return "", nil
}

// publish hands on the outputs on record and takes them off it. How that failed is told at the end of the run. Those of
// a create of unknown outcome wait until its resource is found.
func (a *attempt[S, T]) publish(ctx context.Context) {
	stored := a.Stored()
	given := stored.Intent.Outputs
	if a.o.Publisher == nil || given == (store.Outputs{}) || stored.Intent.Unresolved() || a.unpublished != nil || stored.Deleting() || !stored.HasFinalizer(a.o.Finalizer) {
		return
	}
	a.unpublished = a.callPublisher(ctx, func(ctx context.Context, o *store.Object[S, T]) error {
		return a.o.Publisher.Publish(ctx, o, given.Values())
	})
	if a.unpublished != nil {
		return
	}
	if err := a.RecordIntent(ctx, func(o *store.Object[S, T]) error {
		if o.Intent.Outputs == given {
			o.Intent.Outputs = store.Outputs{}
		}
		return nil
	}); err != nil {
		a.unpublished = fmt.Errorf("outputs that were published stay on record: %w", err)
	}
}

// withdrawEarlier withdraws what an earlier resource returned, by the intent that it left: the next one returns nothing.
func (a *attempt[S, T]) withdrawEarlier(ctx context.Context, was store.Intent) error {
	if a.o.Publisher == nil || was.Succeeded.IsZero() {
		return nil
	}
	if err := a.callPublisher(ctx, a.o.Publisher.Withdraw); err != nil {
		return fmt.Errorf("withdraw the outputs of an earlier resource: %w", err)
	}
	return nil
}

// callPublisher calls it with a copy of the object, and takes the outputs out of what it says. A run that is over calls
// nothing: its key may be another server's by now.
func (a *attempt[S, T]) callPublisher(ctx context.Context, call func(context.Context, *store.Object[S, T]) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("not called: %w", context.Cause(ctx))
	}
	calls, cancel := context.WithTimeoutCause(ctx, a.o.Timeout, errTimeout)
	defer cancel()
	o := a.store.Clone(a.Stored())
	before := a.store.Clone(o)
	err := contain.Call(func() error { return call(calls, o) }) // a panic holds up no more than an error does
	return a.store.RedactError(cause(calls, err), before)
}

// missesOutputs says why what readers of the publication find may not be what the resource has; empty: it is.
func (a *attempt[S, T]) missesOutputs() (reason, message string) {
	switch i := a.Stored().Intent; {
	case a.o.Publisher == nil || a.Stored().Deleting():
		return "", ""
	case i.Outputs != (store.Outputs{}) && (!i.Unresolved() || a.view.seen.Exists):
		return reasonNotPublished, "what the create or an update returned is stored, and not published yet"
	case i.Unresolved():
		return "", ""
	case a.lost(i, a.view.seen):
		return reasonOutputsLost, "what the create or an update returned was not stored: a client that is a Rotator replaces it, an update that sets outputs does too, and so does a resource that is created again; by hand: make another, publish it, and run \"tend outputs-restored\""
	}
	return "", ""
}

// endOutputs shows at the end of a run what is wrong with the outputs.
func (a *attempt[S, T]) endOutputs(ctx context.Context, res reconcile.Result, err error) (reconcile.Result, error) {
	if a.view.paused || a.view.policy == Paused {
		return res, err
	}
	if a.Stored().Intent.Replacing && !a.Stored().Deleting() { // it failed, or a process died in it
		if again := a.RecordIntent(ctx, func(o *store.Object[S, T]) error { o.Intent.Replacing = false; return nil }); again != nil {
			a.log.WarnContext(ctx, "that a call on the outputs has ended was not stored: the next run stores it", "err", store.Brief(again))
		}
	}
	if reason, message := a.missesOutputs(); reason != "" {
		was, _ := a.Stored().Condition(store.ConditionReady)
		if a.Object.SetProgressing(reason, message); reason == reasonOutputsLost && was.Reason != reason {
			a.event(ctx, true, reason, message)
		}
	}
	switch {
	case a.unpublished == nil:
		return res, err
	case err != nil: // its class counts
		return res, fmt.Errorf("%w; also: publish the outputs: %v", err, a.unpublished) //nolint:errorlint // the class of the run's own error counts
	case errors.Is(a.unpublished, reconcile.ErrTerminal): // the resource is looked after all the same
		a.unpublished = errors.New(a.unpublished.Error())
	}
	return a.fail(ctx, reasonNotPublished, fmt.Errorf("publish the outputs: %w", a.unpublished))
}

// PublishedSpec is the spec of the objects that [PublishTo] writes.
type PublishedSpec struct {
	// Values are the outputs by their names.
	Values map[string]string `json:"values" tend:"secret"`
}

// PublishTo returns a publisher that writes an object of the kind of to for each one of from, of the same
// namespace and name, with the object as its owner, and deletes it with that. Both kinds lie on one backend.
// An object of another owner, or of none, is let be: the publication fails until it is gone. So a kind of
// published objects serves one kind. Values are UTF-8. [store.Options].Encryption encrypts them at rest.
func PublishTo[S, T any](to *store.Store[PublishedSpec, struct{}], from *store.Store[S, T]) Publisher[S, T] {
	return publisher[S, T]{to, from}
}

type publisher[S, T any] struct {
	to   *store.Store[PublishedSpec, struct{}]
	from *store.Store[S, T]
}

// owns reports whether a published object is one of o, or of an earlier object of its name.
func (p publisher[S, T]) owns(o *store.Object[S, T], is *store.Object[PublishedSpec, struct{}]) bool {
	return slices.ContainsFunc(is.Owners, func(w store.Owner) bool { return w.Kind == p.from.Kind() && w.Key == o.Key() })
}

// Publish implements [Publisher].
func (p publisher[S, T]) Publish(ctx context.Context, o *store.Object[S, T], outputs map[string]string) error {
	owners := []store.Owner{p.from.OwnerOf(o)}
	is, err := p.to.Get(ctx, o.Key())
	switch {
	case errors.Is(err, store.ErrNotFound):
		is = &store.Object[PublishedSpec, struct{}]{Meta: store.Meta{Namespace: o.Namespace, Name: o.Name, Owners: owners}}
		is.Spec.Values = outputs
		_, err = p.to.Create(ctx, is)
	case err != nil:
	case !p.owns(o, is):
		err = fmt.Errorf("%s %s is not of %s %s", p.to.Kind(), o.Key(), p.from.Kind(), o.Key())
	case is.Deleting():
		err = fmt.Errorf("%s %s is being deleted", p.to.Kind(), o.Key())
	default:
		is.Owners, is.Spec.Values = owners, outputs
		_, err = p.to.Update(ctx, is)
	}
	return err
}

// Withdraw implements [Publisher].
func (p publisher[S, T]) Withdraw(ctx context.Context, o *store.Object[S, T]) error {
	is, err := p.to.Get(ctx, o.Key())
	if err == nil && p.owns(o, is) {
		err = p.to.Delete(ctx, is)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
