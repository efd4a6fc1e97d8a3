package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/endless"
	"github.com/tendhq/tend/internal/wall"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/store"
)

// heldPause is the time after which a deletion that waits for an operator asks again.
const heldPause = time.Minute

// Reasons of the Ready condition while a resource comes and goes.
const (
	reasonCreating = "Creating"
	reasonDeleting = "Deleting"
)

// reasonOf is the reason to give when an action fails.
var reasonOf = map[action]string{
	doCreate: reasonCreateFailed, doUpdate: reasonUpdateFailed, doRotate: reasonRotateFailed, doDelete: reasonDeleteFailed,
}

// act does what was decided. Client and calls are there only after a look.
func (a *attempt[S, T]) act(ctx, calls context.Context, next action) (reconcile.Result, error) {
	switch next {
	case doPause:
		a.pause(ctx)
		if !pausesItself(a.Stored()) {
			return a.later(), nil // nothing tells when Options.Policy says otherwise
		}
	case doMoved:
		return a.giveUp(ctx, reasonLocationChanged, reasonLocationChanged, fmt.Errorf("%w: %s; put the spec back; to move the resource, declare another object and delete this one; where the old location has no resource any more, or only another name, run \"tend forget-location\"", ErrLocationChanged, a.view.moved))
	case doStop: // there is no way to find out what the create did
		i := a.Stored().Intent
		return a.giveUp(ctx, reasonCreating, reasonCreateIncomplete, fmt.Errorf("%w: attempt %d, begun %s; look for the resource, then say what you found by \"tend created\" or \"tend not-created\"",
			ErrCreateIncomplete, i.Attempt, i.Pending.Format(time.RFC3339)))
	case doAwait:
		reason, message := reasonAwaiting, "waiting for the finalizers of others"
		if why := depend.InUse(a.Stored().Finalizers); why != "" {
			reason, message = depend.ReasonInUse, why
		}
		a.Object.SetTerminating(reason, message)
		return a.later(), nil
	case doWait:
		return a.awaitVisible(), nil
	case doMissing:
		if a.view.adopt != "" {
			return a.standoff(ctx, reasonMissing, a.store.Redact(a.view.nothingToAdopt(), a.Stored())), nil
		}
		return a.standoff(ctx, reasonMissing, "the resource does not exist, and the policy forbids to create it"), nil
	case doRefuse:
		return a.standoff(ctx, reasonNotOurs, "the resource is there, and "+a.view.seen.Owner.says()), nil
	case doCreate:
		return a.makeIt(ctx, calls)
	case doDelete:
		return a.deleteIt(ctx, calls)
	case doRelease:
		return a.release(ctx)
	case doUpdate, doRotate, doTolerate, doKeep:
		return a.maintain(ctx, calls, next)
	}
	return reconcile.Result{}, nil
}

func (a *attempt[S, T]) pause(ctx context.Context) {
	if a.synced(store.False, reasonPaused, "") {
		a.event(ctx, false, reasonPaused, "reconciling is paused")
	}
}

// pausesItself says that the object's own flag or annotation pauses it: their change wakes it.
func pausesItself[S, T any](o *store.Object[S, T]) bool {
	own, err := annotatedPolicy(o)
	return o.Paused || err == nil && own == Paused
}

// endPause takes back what pause said. A run that looks at the resource says the condition
// again; one that waits for something else before that has nothing to say about it.
func (a *attempt[S, T]) endPause() {
	a.Object.Conditions = slices.DeleteFunc(a.Object.Conditions, func(c store.Condition) bool {
		return c.Type == store.ConditionSynced && c.Reason == reasonPaused
	})
}

// giveUp waits for a human. Ready and synced are the reasons of the conditions.
func (a *attempt[S, T]) giveUp(ctx context.Context, ready, synced string, err error) (reconcile.Result, error) {
	if a.view.deleting {
		a.Object.SetTerminating(ready, "")
	} else {
		a.Object.SetProgressing(ready, "")
	}
	return a.fail(ctx, synced, reconcile.Terminal(err))
}

// standoff is a state that only another party can end: it is shown, and looked
// at again at the poll interval.
func (a *attempt[S, T]) standoff(ctx context.Context, reason, message string) reconcile.Result {
	if a.view.deleting {
		a.Object.SetTerminating(reason, message)
	} else {
		a.Object.SetProgressing(reason, message)
	}
	if a.synced(store.False, reason, message) {
		a.event(ctx, true, reason, message)
	}
	return a.later()
}

func (a *attempt[S, T]) makeIt(ctx, calls context.Context) (reconcile.Result, error) {
	a.Object.SetProgressing(reasonCreating, "")
	if reason, err := a.create(ctx, calls); err != nil {
		return a.fail(ctx, reason, err)
	}
	a.publish(ctx)
	a.synced(store.True, "", "")
	a.event(ctx, false, reasonCreated, "created the resource "+cmp.Or(a.Stored().Intent.ExternalName, "of "+a.Object.Key().String()))
	return reconcile.Result{RequeueAfter: min(a.visible.first(), a.o.CreationGrace)}, nil
}

// awaitVisible looks again for what a create made, or may have made: at twice its age, and at the end of the
// grace.
func (a *attempt[S, T]) awaitVisible() reconcile.Result {
	age := time.Since(a.view.learned)
	if a.view.phase == succeeded {
		a.visible.missed(min(age, a.o.CreationGrace/2))
	}
	return reconcile.Result{Requeue: true, RequeueAfter: max(minListWait, min(max(age, settle), time.Until(a.view.graceEnd)))}
}

func (a *attempt[S, T]) deleteIt(ctx, calls context.Context) (reconcile.Result, error) {
	before, _ := a.Stored().Condition(store.ConditionReady)
	a.Object.SetTerminating(reasonDeleting, "")
	calls = context.WithValue(calls, deleteKey{}, &a.batched)
	if err := a.try(ctx, calls, callDelete, a.forClient(), a.client.Delete); err != nil {
		return a.fail(ctx, reasonDeleteFailed, fmt.Errorf("delete: %w", err))
	}
	a.synced(store.True, "", "")
	if before.Reason != reasonDeleting { // once, not at every look at a slow deletion
		a.event(ctx, false, reasonDeleted, "asked for the deletion of the resource")
	}
	return reconcile.Result{Requeue: true}, nil
}

func (a *attempt[S, T]) release(ctx context.Context) (reconcile.Result, error) {
	left := ""
	switch {
	case !a.view.policy.has(Delete):
		left = "the policy leaves the resource, if there is one, where it is"
	case a.view.seen.Exists:
		left = "there is a resource, but it is not ours: " + a.view.seen.Owner.says()
	}
	if a.o.Publisher != nil {
		if err := a.callPublisher(ctx, a.o.Publisher.Withdraw); err != nil {
			return a.fail(ctx, reasonWithdrawFailed, fmt.Errorf("withdraw what was published: %w", err))
		}
	}
	if err := a.Remove(ctx, a.o.Finalizer); err != nil {
		return a.fail(ctx, reasonStoreFailed, fmt.Errorf("finalizer: %w", err))
	}
	if left != "" {
		a.event(ctx, false, reasonReleased, left)
	}
	return reconcile.Result{}, nil
}

// maintain is for a resource that is there and ours.
func (a *attempt[S, T]) maintain(ctx, calls context.Context, next action) (reconcile.Result, error) {
	if a.view.policy != observeOnly {
		if err := a.Ensure(ctx, a.o.Finalizer); err != nil {
			return a.fail(ctx, reasonStoreFailed, fmt.Errorf("finalizer: %w", err))
		}
	}
	if a.view.adopt != "" && next != doTolerate {
		if err := a.recordAdoption(ctx); err != nil {
			return a.fail(ctx, reasonStoreFailed, fmt.Errorf("what is taken over: %w", err))
		}
	}
	if next == doUpdate && a.updated() == reasonAdopted { // from here on it is held
		if err := a.recordLocation(ctx); err != nil {
			return a.fail(ctx, reasonStoreFailed, fmt.Errorf("location: %w", err))
		}
	}
	reason, message, adopted := "", "", false
	switch next {
	case doUpdate:
		if reason, err := a.updateIt(ctx, calls); err != nil {
			return a.fail(ctx, reason, err)
		}
		a.event(ctx, false, a.updated(), "updated the resource")
		adopted = a.updated() == reasonAdopted
	case doRotate:
		if reason, err := a.rotateIt(ctx, calls); err != nil {
			return a.fail(ctx, reason, err)
		}
	case doTolerate:
		a.tolerated = true
		reason, message = reasonDiffers, "the resource differs, and the policy forbids to update it"
	}
	if next == doKeep || next == doUpdate { // a look that finds it, and not as declared, may have found it elsewhere
		if err := a.recordLocation(ctx); err != nil {
			return a.fail(ctx, reasonStoreFailed, fmt.Errorf("location: %w", err))
		}
	}
	if reason == "" && a.memory.caseOnly != "" {
		reason, message = reasonLetterCase, a.memory.caseOnly+askLetters
	}
	a.synced(store.True, reason, message)
	a.publish(ctx)
	if missing, _ := a.missesOutputs(); missing == "" && !a.said {
		a.Object.SetReady()
	}
	res := a.later()
	if adopted || !a.view.rotates && a.rotates(a.client, a.Stored(), a.view.seen) { // a look says whether the resource carries our mark now
		res.RequeueAfter = min(res.RequeueAfter, settle)
	}
	return res, nil
}

// errAdoptByUs is why an annotation cannot be followed.
var errAdoptByUs = fmt.Errorf("external: %s is for resources whose id the cloud chose; this kind's are found by the names that it gives them: let the policy adopt", store.AnnotationAdopt)

// sayNotAdopted tells of an annotation that is not heeded: the resource on record went, and could not be
// made again. The annotation may be the one by which that was taken over.
func (a *attempt[S, T]) sayNotAdopted(ctx context.Context) {
	o := a.Stored()
	id := o.Annotations[store.AnnotationAdopt]
	if id == "" || o.Deleting() || a.view.phase != failed || a.view.adopt != "" || id == o.Intent.ExternalName {
		return
	}
	a.event(ctx, true, reasonCannotAdopt, fmt.Sprintf("%s names the resource %q, and %q is on record: to take %[2]q over, run \"tend adopt\"", store.AnnotationAdopt, id, o.Intent.ExternalName))
}

func (v view) nothingToAdopt() string {
	return fmt.Sprintf("there is no resource %q, which %s says is to be taken over; none is created as long as it does", v.adopt, store.AnnotationAdopt)
}

// recordAdoption has the store know of a resource that is taken over before its mark is written: a
// crash in between leaves a record by which the mark is written then, and no second resource.
func (a *attempt[S, T]) recordAdoption(ctx context.Context) error {
	if err := a.withdrawEarlier(ctx, a.Stored().Intent); err != nil {
		return err
	}
	if err := a.WriteIntent(ctx, func(o *store.Object[S, T]) error {
		o.Intent = o.Intent.Resolved(true, wall.Now())
		o.Intent.ExternalName, o.Intent.OutputsDue = cmp.Or(a.name, a.view.adopt), false
		return nil
	}); err != nil {
		return err
	}
	stored := a.Stored()
	a.seen.note(stored.Key(), stored.UID, stored.Intent)
	if a.updated() != reasonAdopted { // else the update is the event
		a.event(ctx, false, reasonAdopted, "took over the resource "+a.view.adopt)
	}
	return nil
}

func (a *attempt[S, T]) updated() string {
	if w := a.view.seen.Owner; w == Former || w == Unmarked {
		return reasonAdopted
	}
	return reasonUpdated
}

// try calls the client and tells [Options.Changes] about it. A run that is over calls
// nothing: its key may be another server's by now.
func (a *attempt[S, T]) try(ctx, calls context.Context, what string, o *store.Object[S, T], call func(context.Context, *store.Object[S, T]) error) error {
	if calls.Err() != nil {
		return fmt.Errorf("not called: %w", context.Cause(calls))
	}
	c := Change{Kind: a.kind, Key: o.Key(), UID: o.UID, Action: what, Before: a.view.seen, Start: time.Now()}
	if what == callCreate {
		c.Attempt = o.Intent.Attempt
	}
	before := a.unedited(ctx, o)
	c.Err = a.store.RedactError(cause(calls, call(calls, o)), a.Stored()) // o has no outputs of earlier calls
	switch what {
	case callCreate:
		a.sayDropped(ctx, what, before, o, !isUnknown(calls, c.Err), partAnnotations, partName)
	case callUpdate:
		a.sayDropped(ctx, what, before, o, c.Err == nil, partStatus)
	default:
		a.sayDropped(ctx, what, before, o, false)
	}
	if o.Intent.Outputs != (store.Outputs{}) && a.o.Publisher == nil {
		a.log.WarnContext(ctx, "the client returned outputs, and Options.Publisher is nil: they are dropped", "call", what)
	}
	a.tally.count(what, c.Err)
	c.Took, c.ExternalName = time.Since(c.Start), o.Intent.ExternalName
	if a.o.Changes != nil {
		if err := contain.Call(func() error { a.o.Changes(ctx, c); return nil }); err != nil {
			a.log.Warn("Options.Changes failed", "err", store.Brief(err))
		}
	}
	return c.Err
}

// later looks again at the poll interval.
func (a *attempt[S, T]) later() reconcile.Result {
	return reconcile.Result{RequeueAfter: a.poll.next(a.Stored())}
}

// fail shows why the run failed. A lost race is not shown: the run is made
// again. Neither is a run that was called off, or throttled, which says nothing
// about the object: a hundred thousand of them would each store that the cloud
// is busy.
func (a *attempt[S, T]) fail(ctx context.Context, reason string, err error) (reconcile.Result, error) {
	if reason == reasonStoreFailed && (errors.Is(err, store.ErrNotFound) || errors.Is(err, object.ErrDeleting)) {
		return reconcile.Result{Requeue: true}, nil // it went, or is about to: another run, another look
	}
	calledOff := ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
	if errors.Is(err, store.ErrConflict) || calledOff || ratelimit.IsThrottled(err) {
		return reconcile.Result{}, err
	}
	a.synced(store.False, reason, err.Error())
	a.event(ctx, true, reason, err.Error())
	return reconcile.Result{}, err
}

// synced sets the Synced condition and says whether that changed anything.
func (a *attempt[S, T]) synced(status store.ConditionStatus, reason, message string) bool {
	if reason == "" {
		reason = "Success"
	}
	return a.Object.SetCondition(store.Condition{Type: store.ConditionSynced, Status: status, Reason: reason, Message: message})
}

func (a *attempt[S, T]) event(ctx context.Context, warning bool, reason, message string) {
	tell := event.Record[S, T]
	if warning {
		tell = event.Warn[S, T]
	}
	tell(ctx, a.store, a.Object, reason, message)
}

// cause names the deadline that a client ran into, and cuts an error that has no end.
func cause(calls context.Context, err error) error {
	err = endless.Cut(err)
	if err != nil && calls.Err() != nil && errors.Is(err, calls.Err()) {
		return fmt.Errorf("%w: %w", err, context.Cause(calls))
	}
	return err
}
