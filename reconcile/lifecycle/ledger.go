package lifecycle

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/store"
)

// revive is when a handler that has given up on an object is tried again while
// other handlers keep the key busy; a key where all have given up is parked,
// and the controller's slow resync does the same.
const revive = time.Hour

// ledger is what handlers need to know from one run of a key to the next:
//
//	key ─▶ keyState{uid, parked} ─▶ one *callState per handler
//	                                 ├ seen, old: what it succeeded with
//	                                 ├ woken:     when it asked to be called again
//	                                 └ retry:     what failed, while it waits
//
// It lives as long as the object, and as this server runs its key; the store holds all
// that must outlive that. One mutex guards everything, and no user code runs under it. A
// key's states are changed by its one run, except that a change may supersede
// a retry, and that Handlers.Remove drops them.
type ledger[S, T any] struct {
	mu   sync.Mutex
	keys map[store.Key]*keyState[S, T]
}

type keyState[S, T any] struct {
	uid    string
	parked bool // all that failed has given up: the next run is a fresh start
	noted  bool // a run was asked for while a retry was waiting
	calls  []*callState[S, T]
}

type callState[S, T any] struct {
	handler *entry[S, T]
	known   bool // the handler has succeeded with this object, in this process
	seen    sight
	old     *store.Object[S, T] // kept only for handlers that look at it
	woken   time.Time           // zero: never
	retry   *retry[S, T]        // nil: the last call succeeded
}

// sight is what tells whether an object changed in what a handler minds.
type sight struct {
	generation int64
	labels     uint64
}

// retry is a call that failed, or was not over, and waits for its time.
type retry[S, T any] struct {
	action    Action
	object    *store.Object[S, T]
	err       error // nil: it was not over
	attempt   int   // how many have failed
	due       time.Time
	state     any
	exhausted bool
	judged    store.Revision // the newest change that was held against it
}

// ofLocked returns the state of a key, a new one if its name now belongs to
// another object. mu is held.
func (m *ledger[S, T]) ofLocked(o *store.Object[S, T]) *keyState[S, T] {
	ks := m.keys[o.Key()]
	if ks == nil || ks.uid != o.UID {
		ks = &keyState[S, T]{uid: o.UID}
		m.keys[o.Key()] = ks
	}
	return ks
}

func (ks *keyState[S, T]) of(e *entry[S, T]) *callState[S, T] {
	for _, c := range ks.calls {
		if c.handler == e {
			return c
		}
	}
	c := &callState[S, T]{handler: e}
	ks.calls = append(ks.calls, c)
	return c
}

// forget drops what is known about a key.
func (m *ledger[S, T]) forget(key store.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, key)
}

// forgetAll drops what is known about the keys that left says.
func (m *ledger[S, T]) forgetAll(left func(store.Key) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.keys, func(key store.Key, _ *keyState[S, T]) bool { return left(key) })
}

// drop forgets a handler that was removed, for every key.
func (m *ledger[S, T]) drop(e *entry[S, T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, ks := range m.keys {
		ks.calls = slices.DeleteFunc(ks.calls, func(c *callState[S, T]) bool { return c.handler == e })
		if len(ks.calls) == 0 {
			delete(m.keys, key)
		}
	}
}

// sight is what this handler sees of an object.
func (e *entry[S, T]) sight(o *store.Object[S, T]) sight {
	s := sight{generation: o.Generation}
	if e.LabelsChanged {
		h := fnv.New64a()
		for _, k := range slices.Sorted(maps.Keys(o.Labels)) {
			h.Write([]byte(k + "\x00" + o.Labels[k] + "\x00"))
		}
		s.labels = h.Sum64()
	}
	return s
}

// succeeded remembers a call that did what it was for.
func (w *handlerWork[S, T]) succeeded(run *object.Run[S, T], e *entry[S, T], a Action, res reconcile.Result) {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	if e.removed.Load() {
		return // its states are gone, and stay so
	}
	c := w.led.ofLocked(run.Object).of(e)
	*c = callState[S, T]{handler: e}
	if a == Deleted {
		return
	}
	c.known, c.seen = true, e.sight(run.First())
	if e.Update != nil || e.Simple {
		c.old = run.First()
	}
	if res.RequeueAfter > 0 {
		c.woken = time.Now().Add(res.RequeueAfter)
	}
}

// failed remembers a call that has to be made again. A nil err is one that was
// not over; it waits as if it had failed, or as long as it asked for.
func (w *handlerWork[S, T]) failed(ctx context.Context, run *object.Run[S, T], e *entry[S, T], tell *Call, res reconcile.Result, err error) {
	// It is told of again when the object may have other secrets.
	told := run.Redacted(err)
	r := &retry[S, T]{action: tell.Action, object: run.First(), err: told, attempt: tell.Attempt + 1, state: tell.State, judged: run.Stored().Revision}
	delay, gaveUp := res.RequeueAfter, false
	switch {
	case ratelimit.IsThrottled(err):
		r.attempt = tell.Attempt // its bucket holds the key back, and it is no failure
	case err != nil || res.Requeue:
		delay, gaveUp = e.delay(tell.Attempt, err)
	default:
		r.attempt = 0 // it waits for something, and says for how long
	}
	terminal := errors.Is(err, reconcile.ErrTerminal)
	if r.exhausted = gaveUp || terminal; r.exhausted {
		delay, r.state = revive+rand.N(revive/10), nil
	}
	r.due = time.Now().Add(delay)
	w.remember(run, e, r)
	if gaveUp && !terminal && e.OnExhausted != nil {
		e.OnExhausted(ctx, run.Object, err)
	}
}

func (w *handlerWork[S, T]) remember(run *object.Run[S, T], e *entry[S, T], r *retry[S, T]) {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	if !e.removed.Load() {
		c := w.led.ofLocked(run.Object).of(e)
		c.retry, c.woken = r, time.Time{}
	}
}

// delay asks the handler's policy, and waits at least as long as the error
// itself asks for.
func (e *entry[S, T]) delay(attempt int, err error) (d time.Duration, gaveUp bool) {
	d = e.Retry(attempt, err)
	if d < 0 {
		return 0, true
	}
	if atLeast, ok := reconcile.Delay(err); ok {
		d = max(d, atLeast)
	}
	return d, false
}

// tidyLocked drops what a key's handlers no longer need. mu is held.
func (w *handlerWork[S, T]) tidyLocked(run *object.Run[S, T], ks *keyState[S, T]) {
	ks.calls = slices.DeleteFunc(ks.calls, func(c *callState[S, T]) bool {
		return c.retry == nil && (!c.known || run.Gone() && !c.handler.Simple)
	})
	if len(ks.calls) == 0 {
		delete(w.led.keys, run.Object.Key())
	}
}
