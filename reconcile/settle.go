package reconcile

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
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
		decisions[i].again, decisions[i].news = t.failedBefore(item, decisions[i])
		t.settle(item, decisions[i], outcomes[i])
	}
	for i := range items {
		t.tell(x, &items[i], &decisions[i], outcomes[i], took)
	}
}

// answer answers the questions that waited for the end of a run, which wrote w.
func (t *settler[K]) answer(asked []seen[K], w *store.Writes) {
	for _, at := range asked {
		if !at.in(w) { // another writer's: the queue cannot be full, the key is running; when stopped it does not matter
			_ = t.writes.admit(at.key, queue.AddOptions{Urgent: at.urgent, After: at.after, Reason: "changed during the run"})
		}
	}
}

// refuse settles a key that failed before it could run.
func (t *settler[K]) refuse(item queue.Item[K], err error) {
	d := decision{kind: resultError, err: err}
	d.again, d.news = t.failedBefore(item, d)
	t.guarded(&item, func() { item.Retry(err, 0) })
	t.failed(&item, &d)
}

// noteWell finds out whether a key still has a failure whose end is to be logged. A key
// may also have been removed.
func (t *settler[K]) noteWell() {
	ill := t.k.view.Load().ill
	if ill == 0 {
		return
	}
	for e := range t.k.q.Snapshot() {
		if e.LastError != nil {
			return
		}
	}
	t.k.changeView(func(v *view[K]) {
		if v.ill == ill { // no failure was settled meanwhile
			v.ill = 0
		}
	})
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
			e, _ := t.k.q.Lookup(item.Key)
			d.err = &throttledError{wait: d.err, failure: failureOf(e.LastError)}
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

func (e *throttledError) Error() string { return fmt.Sprintf("%v; since then %v", e.failure, e.wait) }

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

// failedBefore reports whether the run before this one failed too, for the log: a row
// of failures is two lines there, its begin and its end, and what is news between. It is asked before the
// item is settled, and only where it matters: while no key fails, a success need
// not ask. A run that was throttled did not fail.
func (t *settler[K]) failedBefore(item queue.Item[K], d decision) (again, news bool) {
	if t.k.o.Hooks.OnError != nil || d.err == nil && t.k.view.Load().ill == 0 {
		return false, false
	}
	e, _ := t.k.q.Lookup(item.Key)
	if !failed(e.LastError) {
		return false, false
	}
	return true, d.err != nil && d.kind != resultThrottled && isNews(item.Attempt, failureOf(e.LastError), d.err)
}

// remindFrom is the attempt at which a row of failures is logged again, and then whenever their
// number has doubled.
const remindFrom = 16

// isNews reports whether a failure within a row is to be logged: its error says something else than the
// last one, or the row has become long.
func isNews(attempt int, last, now error) bool {
	if attempt >= remindFrom && attempt&(attempt-1) == 0 {
		return true
	}
	return kindOfText(last.Error()) != kindOfText(now.Error())
}

// kindOfText is the begin of an error's text without the words that have a digit: times, counts and
// the ids of requests, which change from run to run.
func kindOfText(text string) string {
	var kind strings.Builder
	for word := range strings.FieldsFuncSeq(text[:min(len(text), 500)], func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:+", r)
	}) {
		if !strings.ContainsAny(word, "0123456789") {
			kind.WriteString(word)
			kind.WriteByte(' ')
		}
	}
	return kind.String()
}

// tell calls the hooks, or logs that a key failed, or works again.
func (t *settler[K]) tell(x *run[K], item *queue.Item[K], d *decision, o Outcome, took time.Duration) {
	switch {
	case d.err != nil && d.kind != resultThrottled:
		t.failed(item, d, x.toLog()...)
	case d.err == nil && d.again && (d.kind == resultSuccess || d.kind == resultRequeueAfter):
		t.k.recovered(append([]slog.Attr{slog.Any("key", item.Key)}, x.toLog()...)...)
	}
	if f := t.k.o.Hooks.OnDone; f != nil {
		t.k.containHere("OnDone", func() { f(item.Key, o, took) })
	}
}

// failed reports the failure of a key. added goes to the log line.
func (t *settler[K]) failed(item *queue.Item[K], d *decision, added ...slog.Attr) {
	t.k.report(Failure[K]{
		Controller: t.k.name, Key: item.Key, Attempt: item.Attempt, Parked: d.do == settlePark, Err: d.err,
	}, d.again && !d.news, added...)
	if !d.again && t.k.o.Hooks.OnError == nil {
		t.k.changeView(func(v *view[K]) { v.ill++ })
	}
}
