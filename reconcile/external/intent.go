package external

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/tendhq/tend/internal/endless"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/internal/wall"
	"github.com/tendhq/tend/reconcile/internal/inrun"
	"github.com/tendhq/tend/store"
)

// phaseOf reads an object's record of its newest create, and the time that the record
// has. The times of one record are compared with each other only, and each is made
// later than the one before ([begun], [store.Intent.Resolved]), so a clock that is wrong or jumps
// changes nothing.
func phaseOf(i store.Intent) (phase, time.Time) {
	switch {
	case i.Unresolved():
		return pending, i.Pending
	case i.Succeeded.IsZero() && i.Failed.IsZero():
		return untried, time.Time{}
	case i.Failed.After(i.Succeeded):
		return failed, i.Failed
	}
	return succeeded, i.Succeeded
}

// begun is the record of a create that is about to be tried at a location. Its time is later
// than every earlier one, by a nanosecond if need be: where two marks in one
// tick of the clock compared as equal, a crash in the second attempt would look
// like the failure of the first. That holds for a clock that was set back, too.
func begun(i store.Intent, location string, now time.Time) store.Intent {
	if before, _ := phaseOf(i); location != "" || before != pending {
		i.Location = location
	}
	i.Attempt++
	i.Pending = latest(now, i.Pending.Add(1), i.Succeeded.Add(1), i.Failed.Add(1))
	return i
}

func latest(times ...time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last.UTC().Round(0)
}

// create makes the resource so that no crash can make two of it (promise E1):
//
//	finalizer   by compare-and-swap: from here on a deletion waits for us
//	intent      by compare-and-swap: "pending", and only if that was stored
//	Create      ------------------------------------------------- the outside
//	outcome     on a context that survives the run: succeeded or failed, or
//	            nothing, if that is not known of this try or of one before it;
//	            with what the create returned for [Options.Publisher]
//
// A crash, or a lost lease, between the second line and the fourth leaves
// "pending"; what the next run makes of it is said by the Naming. Where it is not known whether the
// second was stored, the create is not called, and is recorded as failed.
func (a *attempt[S, T]) create(ctx, calls context.Context) (reason string, err error) {
	if err := a.Ensure(ctx, a.o.Finalizer); err != nil {
		return reasonStoreFailed, fmt.Errorf("finalizer before the create: %w", err)
	}
	if err := a.unready(ctx); err != nil {
		return reasonStoreFailed, fmt.Errorf("status before the create: %w", err)
	}
	was := a.Stored().Intent
	sameResource := a.view.phase == pending && a.o.Naming == ByUs // there is one at most, whichever of the creates makes it
	a.owed = was.OutputsDue || !sameResource && was.Outputs != (store.Outputs{})
	if err := a.WriteIntent(ctx, func(o *store.Object[S, T]) error {
		o.Intent = begun(o.Intent, a.locationOf(o), wall.Now())
		o.Intent.OutputsDue = a.o.Publisher != nil
		if !sameResource {
			o.Intent.Outputs = store.Outputs{}
		}
		return nil
	}); errors.Is(err, store.ErrUnknownOutcome) {
		// It may be on record as begun, and was not called.
		return reasonStoreFailed, a.madeNothing(ctx, a.Stored(), fmt.Errorf("intent before the create: %w", err))
	} else if err != nil {
		return reasonStoreFailed, fmt.Errorf("intent before the create: %w", err)
	}
	if calls.Err() != nil {
		// It was not called, so its outcome is known. An earlier one's may not be.
		return reasonCreateFailed, a.madeNothing(ctx, a.Stored(), fmt.Errorf("create: not called: %w", context.Cause(calls)))
	}
	o := a.forClient()
	if a.o.Naming == ByMark {
		o.Intent.ExternalName = "" // that of an earlier resource
	}
	err = a.try(ctx, calls, callCreate, o, a.client.Create)
	if a.o.ExclusiveCreate && errors.Is(err, ErrExists) {
		// It stays pending until a look shows whose it is. The client may have tried twice, and met what its
		// first try made: the outputs of this create stay due.
		return reasonCreateFailed, fmt.Errorf("create: %w", err)
	}
	if isUnknown(calls, err) {
		err = fmt.Errorf("create, outcome unknown: %w", err) // it stays pending
		if a.view.phase == pending || !was.Succeeded.IsZero() {
			return reasonCreateFailed, err // what a look finds may be an earlier resource: its outputs are lost
		}
		return reasonCreateFailed, a.keepOutputs(ctx, o, false, err)
	}
	if err != nil {
		return reasonCreateFailed, a.madeNothing(ctx, o, fmt.Errorf("create: %w", err))
	}
	if err := a.outcome(ctx, o, true); err != nil {
		return reasonCreateFailed, err
	}
	if o.Intent.Outputs == (store.Outputs{}) {
		a.unpublished = a.withdrawEarlier(ctx, was)
	}
	return "", nil
}

// recordLocation records where a resource lies that has no location on record: it was made or taken
// over without one. What is only looked at holds no object.
func (a *attempt[S, T]) recordLocation(ctx context.Context) error {
	location := a.locationOf(a.Stored())
	if location == "" || a.Stored().Intent.Location != "" || a.view.policy == observeOnly {
		return nil
	}
	return a.WriteIntent(ctx, func(o *store.Object[S, T]) error { o.Intent.Location = location; return nil })
}

// madeNothing records that the try failed. Where an earlier one is unresolved the create
// stays pending, for no longer than without this try, and what that one returned stays on record.
func (a *attempt[S, T]) madeNothing(ctx context.Context, o *store.Object[S, T], err error) error {
	if a.unresolved() {
		err = a.dueAsBefore(ctx, err)
		stored := a.Stored()
		a.seen.keep(stored.Key(), stored.UID, stored.Intent)
		return err
	}
	return errors.Join(err, a.outcome(ctx, o, false))
}

// dueAsBefore takes back that outputs of this try are due, which made nothing. Those of an earlier one are as they were.
func (a *attempt[S, T]) dueAsBefore(ctx context.Context, err error) error {
	if a.owed || !a.Stored().Intent.OutputsDue {
		return err
	}
	return a.keepOutputs(ctx, a.Stored(), true, err)
}

// unresolved says that an earlier try may have made the resource: that it cannot be
// seen yet, or is there without our mark. A try that fails says nothing of the one
// before it; as a failure on record it would let a deletion leave the resource behind,
// and make us refuse as another's what we have yet to mark.
func (a *attempt[S, T]) unresolved() bool {
	return a.view.phase == pending && (a.view.young || a.view.seen.Exists)
}

// outcome stores how the create ended. A create that could not be recorded as
// failed is no second failure worth hiding the first; one that could not be
// recorded as succeeded stays pending, which is safe.
func (a *attempt[S, T]) outcome(ctx context.Context, made *store.Object[S, T], ok bool) error {
	before := a.Stored().Annotations
	given, due := made.Intent.Outputs, a.owed && a.view.phase == pending
	if !ok { // a resource that could not be seen may come back: what it returned is not published, where it was not before
		given, due = store.Outputs{}, a.owed || a.Stored().Intent.Outputs != (store.Outputs{})
	}
	err := a.persistOutputs(ctx, given, due, func(o *store.Object[S, T]) {
		o.Intent = o.Intent.Resolved(ok, wall.Now())
		if !ok {
			o.Intent.Outputs = store.Outputs{}
		}
		if !ok && a.view.phase != pending && a.view.phase != succeeded {
			o.Intent.Location = "" // nothing was made before that it would have to be kept for
		}
		if made.Intent.ExternalName != "" || ok && a.o.Naming == ByMark {
			o.Intent.ExternalName = made.Intent.ExternalName
		}
		o.Annotations = merge(o.Annotations, before, made.Annotations)
	})
	if err != nil {
		return fmt.Errorf("the create's outcome was not stored: %w", err)
	}
	stored := a.Stored()
	a.seen.note(stored.Key(), stored.UID, stored.Intent)
	return nil
}

// merge brings what the client changed in the annotations, and only that, onto
// the annotations as they are now.
func merge(now, before, after map[string]string) map[string]string {
	merged := maps.Clone(now)
	for k, v := range after {
		if old, had := before[k]; had && old == v {
			continue
		}
		if merged == nil {
			merged = map[string]string{}
		}
		merged[k] = v
	}
	for k := range before {
		if _, kept := after[k]; !kept {
			delete(merged, k)
		}
	}
	return merged
}

const (
	persistTime  = 30 * time.Second
	persistPause = 100 * time.Millisecond // doubles from try to try
)

// persist writes what must not be lost: on a context that outlives the run's
// cancellation, keeps its guards, and is bounded. The store may refuse a few
// times; only being fenced is final, because then another process owns the
// object and resolves the create itself.
func (a *attempt[S, T]) persist(ctx context.Context, edit func(*store.Object[S, T]) error) error {
	defer inrun.WaitsFor(ctx, "the store to record the create")()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), persistTime,
		fmt.Errorf("external: the store took no record of the create for %v", persistTime))
	defer cancel()
	if a.o.Persist != nil {
		return endless.Cut(a.o.Persist(ctx, a.Object.Key(), edit))
	}
	for pause := (sleep.Backoff{Min: persistPause, Max: persistTime}); ; {
		err := a.RecordIntent(ctx, edit)
		if err == nil || isFinal(err) || !pause.Wait(ctx) {
			return err
		}
	}
}

func isFinal(err error) bool {
	for _, final := range []error{store.ErrFenced, store.ErrUnguarded, store.ErrNewer, store.ErrInvalid, store.ErrClosed, store.ErrDecode} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}
