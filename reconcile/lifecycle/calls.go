package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/endless"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/store"
)

// callError is a handler's failure as the controller sees it.
type callError struct {
	Handler string
	Action  Action
	Attempt int // how many attempts failed before this one
	Err     error
}

// Error names the handler and what it was called for.
func (e *callError) Error() string {
	return fmt.Sprintf("handler %s, %s: %v", e.Handler, e.Action, e.Err)
}

// Unwrap is the handler's own error.
func (e *callError) Unwrap() error { return e.Err }

// delayed marks failures of handlers whose policies have said how long to wait.
type delayed struct{ error }

func (d *delayed) Unwrap() error { return d.error }

// errAbrupt stands for a call that neither returned nor failed.
var errAbrupt = errors.New("lifecycle: the handler panicked, or ended its goroutine")

// handlerWork is what a Lifecycle made by New does with an object.
type handlerWork[S, T any] struct {
	store *store.Store[S, T]
	list  *Handlers[S, T]
	led   ledger[S, T]
}

func newHandlerWork[S, T any](s *store.Store[S, T], retired []string) *handlerWork[S, T] {
	w := &handlerWork[S, T]{store: s, led: ledger[S, T]{keys: map[store.Key]*keyState[S, T]{}}}
	w.list = newHandlers(s.Kind(), retired, w.led.drop)
	return w
}

// plan is one handler's part in one run.
type plan[S, T any] struct {
	entry   *entry[S, T]
	action  Action
	verdict verdict
	old     *store.Object[S, T] // for Updated
	tell    Call
}

// step brings what is remembered up to what the run has read (another object
// of the same name, a change that no source has told of yet, a wish to be run
// at once), and shows the object to the handlers.
func (w *handlerWork[S, T]) step(ctx context.Context, run *object.Run[S, T]) (reconcile.Result, error) {
	if w.stale(run.Object) {
		if res, err := w.gone(ctx, run.Object.Key()); err != nil || waits(res) {
			return res, err
		}
	}
	w.judge(run.Stored(), false)
	if run.Asked() {
		w.withdrawAll(run.Object.Key())
	}
	return w.show(ctx, run)
}

// show calls the handlers that the object concerns, in order.
func (w *handlerWork[S, T]) show(ctx context.Context, run *object.Run[S, T]) (reconcile.Result, error) {
	var failed []error
	called, said := false, run.Listen()
	for _, p := range w.plan(run) {
		if p.verdict != call || p.entry.removed.Load() {
			continue
		}
		if p.action == Added && !p.entry.Simple && !run.Has(p.entry.Finalizer) {
			if err := run.Ensure(ctx, p.entry.pending); err != nil {
				said()
				return broken(failed, err)
			}
			if p.entry.removed.Load() {
				continue // while it was written
			}
		}
		if err := object.Over(ctx); err != nil {
			said()
			return broken(failed, err)
		}
		called = true
		if err := w.call(ctx, run, p); err != nil {
			failed = append(failed, err)
		}
	}
	if run.Deleting() {
		if err := run.Remove(ctx, w.list.retiredFinalizers()...); err != nil {
			said()
			return broken(failed, err)
		}
	}
	err := errors.Join(failed...)
	if spoke := run.SaidSo(said, err); called && !spoke {
		w.conclude(run)
	}
	return w.outcome(run, err)
}

// broken ends a run that could not go on, with what had failed before. When it
// goes on is for the controller's backoff to say, whatever the handlers asked.
func broken(failed []error, err error) (reconcile.Result, error) {
	res, err := object.Again(err)
	if err == nil && len(failed) == 0 {
		return res, nil
	}
	return reconcile.Result{}, reconcile.RetryAfter(errors.Join(append(failed, err)...), 0)
}

// conclude says in the status how the object is doing, all handlers taken
// together.
func (w *handlerWork[S, T]) conclude(run *object.Run[S, T]) {
	open, failing := w.unsettled(run)
	switch {
	case run.Deleting() && failing != nil:
		run.Object.SetTerminating(reasonDeleteFailed, run.Message(failing))
	case run.Deleting():
		run.Object.SetTerminating(reasonDeleting, "")
	case failing != nil:
		run.Object.SetProgressing(reasonFailed, run.Message(failing))
	case open:
		run.Object.SetProgressing(reasonRequeued, "not over yet")
	default:
		run.Object.SetReady()
	}
}

// unsettled says whether a handler is not done with the object, and what is
// failing.
func (w *handlerWork[S, T]) unsettled(run *object.Run[S, T]) (open bool, failing error) {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	for _, c := range w.led.ofLocked(run.Object).calls {
		if c.retry == nil {
			continue
		}
		open = true
		if c.retry.err != nil {
			failing = errors.Join(failing, fmt.Errorf("%s: %w", c.handler.Name, c.retry.err))
		}
	}
	return open, failing
}

// plan decides about every handler before the first is called, so that what
// one of them does cannot change what the next is called for.
//
// A run that nothing explains (no change, no retry, no delay that ran out) was
// asked for: by a resync, a kick, or a source of something the object depends
// on. It is every handler's Resync.
func (w *handlerWork[S, T]) plan(run *object.Run[S, T]) []plan[S, T] {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	ks := w.led.ofLocked(run.Object)
	var plans []plan[S, T]
	explained := false
	for _, e := range *w.list.list.Load() {
		p := ks.of(e).plan(run, time.Now(), ks.parked)
		plans = append(plans, p)
		explained = explained || p.verdict == call
	}
	for i := range plans {
		if (!explained || ks.noted) && plans[i].verdict == idle {
			plans[i].verdict = call
		}
	}
	ks.parked, ks.noted = false, false
	return plans
}

func (c *callState[S, T]) plan(run *object.Run[S, T], now time.Time, parked bool) plan[S, T] {
	e, o := c.handler, run.Stored()
	if c.retry != nil && c.retry.exhausted && (parked || !now.Before(c.retry.due)) {
		c.retry = nil
	}
	v := view{
		deleting: run.Deleting(),
		mark:     c.mark(run),
		simple:   e.Simple,
		known:    c.known,
		changed:  c.known && c.seen != e.sight(o),
		woken:    !c.woken.IsZero() && !now.Before(c.woken),
	}
	tell := Call{Handler: e.Name}
	if r := c.retry; r != nil {
		v.retry, v.due = r.action, !r.exhausted && !now.Before(r.due)
	}
	p := plan[S, T]{entry: e, old: c.old, tell: tell}
	p.action, p.verdict = decide(v)
	if r := c.retry; r != nil && (p.action != Deleted || r.action == Deleted) {
		p.tell.Attempt, p.tell.Err, p.tell.State = r.attempt, r.err, r.state
	}
	p.tell.Action = p.action
	return p
}

// call makes one call and remembers how it ended, also when it panics: the
// panic goes on to the controller, and the next run finds a failed attempt.
func (w *handlerWork[S, T]) call(ctx context.Context, run *object.Run[S, T], p plan[S, T]) error {
	e, tell := p.entry, p.tell
	ended := false
	defer func() {
		if !ended {
			w.failed(ctx, run, e, &tell, reconcile.Result{}, errAbrupt)
		}
	}()
	res, err := e.invoke(context.WithValue(ctx, callKey{}, &tell), p.action, p.old, run.Object)
	ended, err = true, endless.Cut(err)
	unfinished := res.Requeue || p.action == Deleted && res.RequeueAfter > 0
	if err == nil && !unfinished {
		err = settle(ctx, run, e, p.action)
	}
	if err == nil && !unfinished {
		w.succeeded(run, e, p.action, res)
		return nil
	}
	w.failed(ctx, run, e, &tell, res, err)
	if err == nil {
		return nil
	}
	return &callError{Handler: e.Name, Action: p.action, Attempt: tell.Attempt, Err: err}
}

// settle moves the handler's finalizer on after a success.
func settle[S, T any](ctx context.Context, r *object.Run[S, T], e *entry[S, T], a Action) error {
	switch {
	case e.Simple:
		return nil
	case a == Added:
		return r.Swap(ctx, e.pending, e.Finalizer)
	case a == Deleted:
		return r.Remove(ctx, e.Finalizer, e.pending)
	}
	return nil
}

// mark is the form that the handler's finalizer has on the object. A simple
// handler has none; what it has to clean up is what it knows.
func (c *callState[S, T]) mark(run *object.Run[S, T]) mark {
	e := c.handler
	switch {
	case e.Simple && run.Gone() && c.known, !e.Simple && run.Has(e.Finalizer):
		return done
	case !e.Simple && run.Has(e.pending):
		return pending
	}
	return unmarked
}

// outcome turns what the handlers left into one Result for the key: it runs
// again when the first of them wants to.
func (w *handlerWork[S, T]) outcome(run *object.Run[S, T], failed error) (reconcile.Result, error) {
	next, waiting, failing, gaveUp := w.pending(run)
	switch {
	case !waiting && gaveUp != nil:
		return reconcile.Result{}, reconcile.Terminal(gaveUp)
	case failed != nil:
		return reconcile.Result{}, reconcile.RetryAfter(&delayed{failed}, next)
	case waiting:
		return reconcile.Result{RequeueAfter: next, StillFailing: failing}, nil
	}
	return reconcile.Result{}, nil
}

// pending sums up a key after its run: how soon something is to be done,
// whether anything is, whether it waits for a retry of a failure, and what has given up. A handler that gave up is tried
// again now and then as long as others keep the key busy; when none does, the
// key is parked.
func (w *handlerWork[S, T]) pending(run *object.Run[S, T]) (next time.Duration, waiting, failing bool, gaveUp error) {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	ks := w.led.ofLocked(run.Object)
	var times, revivals []time.Time
	for _, c := range ks.calls {
		failing = failing || c.retry != nil && c.retry.err != nil && !ratelimit.IsThrottled(c.retry.err)
		switch {
		case c.retry != nil && c.retry.exhausted:
			revivals = append(revivals, c.retry.due)
			gaveUp = errors.Join(gaveUp, c.lastFailure())
		case c.retry != nil:
			times = append(times, c.retry.due)
		case !c.woken.IsZero():
			times = append(times, c.woken)
		}
	}
	if len(times) == 0 {
		ks.parked = gaveUp != nil
		w.tidyLocked(run, ks)
		return 0, false, failing, gaveUp
	}
	first := slices.MinFunc(append(times, revivals...), time.Time.Compare)
	return max(time.Until(first), 1), true, failing, gaveUp
}

func (c *callState[S, T]) lastFailure() error {
	err := c.retry.err
	if err == nil {
		err = errors.New("not over, and its policy allows no further attempt")
	}
	return &callError{Handler: c.handler.Name, Action: c.retry.action, Attempt: max(c.retry.attempt-1, 0), Err: err}
}
