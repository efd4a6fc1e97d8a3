package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile/internal/cause"
	"github.com/tendhq/tend/store"
)

// settler carries out what judge decided.
type settler[K comparable] struct {
	k      *kernel[K]
	writes *pendingWrites[K]
}

// conclude does everything that follows a run, in this order:
//
//	writes are noted     before the run is over, so that no change of its own is missed
//	the slot is free     and the context over
//	items are settled    which ends the keys' turn: nothing of this overlaps the next run
//	hooks and log hear   a hook that ends the goroutine leaves no key unsettled
func (t *settler[K]) conclude(s *slot[K], x *run[K], items []queue.Item[K], outcomes []Outcome) {
	w, over := x.soFar()
	var ended, took time.Duration
	recent := t.k.view.Load().recent
	if t.k.o.Hooks.OnDone != nil || t.k.o.Adapt != nil || recent != nil {
		ended = t.k.since()
		took = ended - x.started
	}
	var one [1]decision // most runs are of one key
	decisions := one[:0]
	for _, o := range outcomes {
		decisions = append(decisions, judge(o, over))
	}
	for i := range items {
		if x.stale && outcomes[i].Err == nil {
			t.writes.lookedFor(items[i].Key)
		}
		t.writes.wrote(items[i].Key, w, decisions[i].do != settleDone)
	}
	t.answer(s.finish(x, decisions, errors.Is(over, ErrDeadline), took), w)
	for i, item := range items {
		if recent != nil {
			recent.Add(item.Key, ended, took, uint8(decisions[i].kind))
		}
		decisions[i].again = t.k.fails.has(item.Key)
		t.settle(item, decisions[i], outcomes[i])
	}
	for i := range items {
		t.tell(x, &items[i], &decisions[i], outcomes[i], took)
	}
}

// answer answers the questions that waited for the end of a run, which wrote w.
func (t *settler[K]) answer(asked []seen[K], w *runWrites) {
	for _, at := range asked {
		if !at.in(w) { // another writer's: the queue cannot be full, the key is running; when stopped it does not matter
			_ = t.writes.admit(at.key, queue.AddOptions{Urgent: at.urgent, After: at.after, Reason: "changed during the run"})
		}
	}
}

// refuse settles a key that failed before it could run.
func (t *settler[K]) refuse(item queue.Item[K], err error) {
	d := decision{kind: resultError, err: err}
	t.guarded(&item, func() { item.Retry(err, 0) })
	t.failed(&item, &d)
}

// guarded settles an item with f. Code that has the queue can end any run there is, by DoneKey
// or with the Item of Running: the end that the worker gives it then must not end the process.
func (t *settler[K]) guarded(item *queue.Item[K], f func()) {
	defer func() {
		if v := recover(); v != nil {
			err := contain.Recovered(v)
			t.k.log().Error("reconcile: the result of a run is lost: other code had ended it in the queue, by DoneKey or the Item of Running",
				append([]any{"controller", t.k.name, "key", item.Key, "err", store.Brief(err)}, contain.Stack(err)...)...)
		}
	}()
	f()
}

// settle carries a decision out.
func (t *settler[K]) settle(item queue.Item[K], d decision, o Outcome) {
	t.guarded(&item, func() { t.end(item, d, o) })
}

func (t *settler[K]) end(item queue.Item[K], d decision, o Outcome) {
	if o.Err == nil {
		item = item.WithPriority(o.Result.Priority)
	}
	switch d.do {
	case settleAfter:
		item.After(d.delay)
	case settleRetry:
		if d.kind == resultThrottled && d.again {
			if e, _ := t.k.q.Lookup(item.Key); failed(e.LastError) {
				d.err = &throttledError{wait: d.err, failure: failureOf(e.LastError)}
			}
		}
		item.Retry(d.err, d.delay)
	case settlePark:
		item.Park(d.err)
	case settleStill:
		t.wait(item, d.delay)
	default: // it comes back at the resync, if there is one and it is not known to be gone
		if t.k.o.Resync <= 0 || t.gone(item.Key) {
			item.Done()
		} else {
			item.WithPriority(bandResync).After(t.untilResync(item.Priority))
		}
	}
}

// stillFailing settles a run that tried nothing of what failed before, or one that did not
// begin. The queue leaves attempts as they are for what was throttled, and for nothing else.
func (t *settler[K]) stillFailing(item queue.Item[K], d time.Duration) {
	t.guarded(&item, func() { t.wait(item, d) })
}

func (t *settler[K]) wait(item queue.Item[K], d time.Duration) {
	e, _ := t.k.q.Lookup(item.Key)
	if e.LastError == nil {
		item.After(d)
		return
	}
	last := &untriedError{failure: failureOf(e.LastError)}
	last.wait = ratelimit.Throttled(nil, time.Now().Add(d), nil)
	item.Retry(last, 0)
}

// untriedError is the last error of a key whose runs since then have tried nothing of
// what failed. It reads as that failure does.
type untriedError struct{ failure, wait error }

func (e *untriedError) Error() string { return e.failure.Error() }

func (e *untriedError) Unwrap() []error {
	return []error{e.wait, e.failure} // the queue waits until the first time that it finds
}

// throttledError is the last error of a key that had failed, and whose run was throttled since.
type throttledError struct{ wait, failure error }

func (e *throttledError) Error() string {
	return fmt.Sprintf("%v%s%v", e.failure, cause.SinceThen, e.wait)
}

func (e *throttledError) Unwrap() error { return e.wait }

// failureOf returns the failure that a key's last error is of.
func failureOf(last error) error {
	if throttled, ok := errors.AsType[*throttledError](last); ok {
		last = throttled.failure
	}
	if untried, ok := errors.AsType[*untriedError](last); ok {
		last = untried.failure
	}
	return last
}

// askedToWait reports whether the run that ended with a key's last error was throttled. One that
// tried nothing of what failed was not, although the queue takes its error for such a one.
func askedToWait(last error) bool {
	if still, ok := errors.AsType[*untriedError](last); ok {
		last = still.failure
	}
	return ratelimit.IsThrottled(last)
}

// failed reports whether a key with this last error counts as one that fails. A key whose runs were
// asked to wait since a failure does, one that never failed does not.
func failed(last error) bool {
	return last != nil && !ratelimit.IsThrottled(failureOf(last))
}

// untilResync takes a random 0 to 20 % off the interval, so that keys that ran
// together do not come back together. A fifth is not enough after a start, when
// the whole list ran at once: keys that a source's first list brought are spread over
// the interval, once. Their next run is a resync, and ran has its band.
func (t *settler[K]) untilResync(ran queue.Priority) time.Duration {
	jitter := t.k.o.Resync / 5
	if ran == bandInitial || ran == bandUnready {
		since := t.k.since() - t.k.view.Load().opened
		jitter = max(jitter, t.k.o.Resync-5*since)
	}
	return t.k.o.Resync - rand.N(jitter+1)
}

// gone reports whether every source that can tell says that nothing is declared
// under key.
func (t *settler[K]) gone(key K) bool {
	exists := t.k.view.Load().exists
	return len(exists) > 0 && !slices.ContainsFunc(exists, func(in func(K) bool) bool { return in(key) })
}

// tell calls the hooks, or logs that a key failed, or works again.
func (t *settler[K]) tell(x *run[K], item *queue.Item[K], d *decision, o Outcome, took time.Duration) {
	switch {
	case d.err != nil && d.kind != resultThrottled:
		t.failed(item, d, x.toLog()...)
	case d.err == nil && d.again && (d.kind == resultSuccess || d.kind == resultRequeueAfter):
		t.works(item.Key, x.toLog()...)
	}
	if f := t.k.o.Hooks.OnDone; f != nil {
		t.k.containHere("OnDone", func() { f(item.Key, o, took) })
	}
}

// failed reports the failure of a key. added goes to its log line.
func (t *settler[K]) failed(item *queue.Item[K], d *decision, added ...slog.Attr) {
	parked := d.do == settlePark
	f := Failure[K]{Controller: t.k.name, Key: item.Key, Attempt: item.Attempt, Parked: parked, Err: d.err}
	exhausted := t.k.fails.takeGivenUp(item.Key)
	name := cause.Of(store.Clip(d.err.Error()), fmt.Sprint(item.Key))
	switch {
	case exhausted:
		name = "given up: " + name
	case parked:
		name = "parked: " + name
	}
	say := t.k.fails.note(item.Key, name, d.err, item.Attempt, parked)
	switch {
	case t.k.o.Hooks.OnError != nil:
		t.k.report(f, false, added...)
		return
	case exhausted && say.key:
		t.k.log().Warn("reconcile: key is given up and parked", "controller", t.k.name, "key", item.Key, "attempt", item.Attempt, "err", store.Brief(d.err))
	default:
		t.k.report(f, !say.key, added...)
	}
	if say.summary {
		t.k.sayCause(say.of)
	}
}

// sayCause logs that many keys fail for one cause.
func (k *kernel[K]) sayCause(c failureCause) {
	k.log().LogAttrs(context.Background(), slog.LevelWarn, "reconcile: runs fail for one cause",
		slog.String("controller", k.name), slog.Int("keys", c.keys), slog.String("first", store.Clip(c.first)),
		slog.Any("err", store.Brief(c.text)), slog.Duration("for", time.Since(c.began).Round(time.Second)))
}

// works notes that a run of the key succeeded, and logs the end of its failures.
func (t *settler[K]) works(key K, added ...slog.Attr) {
	of, had, ended := t.k.fails.well(key)
	switch {
	case !had || t.k.o.Hooks.OnError != nil:
	case of.total <= namedKeys:
		t.k.recovered(append([]slog.Attr{slog.Any("key", key)}, added...)...)
	case ended:
		t.k.recovered(slog.Int("keys", of.total), slog.String("first", store.Clip(of.first)), slog.Any("err", store.Brief(of.text)),
			slog.Duration("after", time.Since(of.began).Round(time.Second)))
	}
}

// sweepFailures forgets keys that are gone, and logs what lasts.
func (k *kernel[K]) sweepFailures() {
	for _, c := range k.fails.sweep(k.q.Lookup) {
		if k.o.Hooks.OnError == nil {
			k.sayCause(c)
		}
	}
}
