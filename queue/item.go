package queue

import (
	"context"
	"time"
)

// Item is a key that a worker runs. It is settled exactly once, by Done, After,
// Retry, Park or DoneNext, from any goroutine; until then its key does not run
// elsewhere. Settling it again panics, because that would end a run of another
// worker; so does settling the zero Item.
type Item[K comparable] struct {
	Key      K
	Attempt  int      // failures in a row before this run
	Priority Priority // the band it came from

	q   *Queue[K]
	run uint64 // the number of the run
	at  uint64 // index of the entry | shard<<32 | band<<40 | chosen
}

// chosen says that WithPriority was called.
const chosen = 1 << 48

// item makes the item of a running entry.
func (q *Queue[K]) item(s *shard[K], i uint32, it *Item[K]) {
	e := s.at(i)
	it.Key, it.Attempt, it.Priority = e.key, int(e.attempts), atBand(e.band)
	it.q, it.run = q, e.order
	it.at = uint64(i) | uint64(s.id)<<32 | uint64(e.band)<<40
}

func (i *Item[K]) index() uint32 { return uint32(i.at) }

// WithPriority gives the item the priority that its key is to have after the
// run. Without it the key keeps the one it has. An add that came during the run
// still raises it. The zero Priority changes nothing.
func (i Item[K]) WithPriority(p Priority) Item[K] {
	if !p.IsZero() {
		i.Priority = p
		i.at |= chosen
	}
	return i
}

// Done says that the run succeeded: the attempts start again from 0, and the key
// leaves the queue unless it was added during the run.
func (i Item[K]) Done() { i.settle(outcome{kind: done}, nil) }

// DoneNext is Done followed by Queue.Get.
func (i Item[K]) DoneNext(ctx context.Context) (next Item[K], err error) {
	i.Done()
	return i.q.Get(ctx)
}

// After is Done, and the key runs again after d, exactly: never early, without
// jitter. If d is zero or less it runs again behind the ready keys of its band.
func (i Item[K]) After(d time.Duration) {
	o := outcome{kind: later}
	if d > 0 {
		o.due = after(i.queue().env.now(), d)
	}
	i.settle(o, nil)
}

// Retry says that the run failed: the key runs again after the delay of the
// policy, or after atLeast if that is later. err may be nil: that is a backoff
// without an error. An error made by Throttled pauses its bucket and counts no
// failure. If the policy or Options.MaxAttempts gives up, the key is parked.
func (i Item[K]) Retry(err error, atLeast time.Duration) { i.settle(i.failure(err, atLeast), err) }

// Park says that running the key again makes no sense until something changes:
// it stays in the queue, with err as the reason, until an urgent add or Remove.
// Other adds are only noted; but if the key was added during the run it is retried
// once instead, for what was added may be the cure.
func (i Item[K]) Park(err error) {
	o := i.failure(err, 0)
	o.kind = park
	i.settle(o, err)
}

// queue is the item's queue; it panics for the zero Item.
func (i *Item[K]) queue() *Queue[K] {
	if i.q == nil {
		panic("queue: the zero Item was settled: it comes from no Get")
	}
	return i.q
}

func (i *Item[K]) settle(o outcome, err error) {
	q := i.queue()
	s := &q.shards.all[uint8(i.at>>32)]
	s.mu.Lock()
	e := s.running(i.index(), i.run)
	if e == nil {
		s.mu.Unlock()
		panic("queue: Item settled twice")
	}
	if p := i.Priority; p.n != 0 && (i.at&chosen != 0 || p.band() != uint8(i.at>>40)) {
		e.band = onPriority(e.status(), e.band, p.band())
	}
	to := s.settle(i.index(), e, o, err)
	q.unlock(s)
	if to != StateParked {
		return
	}
	hook := q.opts.Hooks.Parked
	if o.kind == exhausted {
		hook = q.opts.Hooks.Exhausted
	}
	if hook != nil {
		hook(i.Key, i.Attempt+1, err)
	}
}

// failure works out, without a lock, what becomes of a failed key.
func (i *Item[K]) failure(err error, atLeast time.Duration) outcome {
	q := i.queue()
	if until, ok := throttle(err); ok {
		return outcome{kind: again, due: max(q.env.at(until), after(q.env.now(), atLeast))}
	}
	o := outcome{kind: retry}
	d := q.opts.Policy(i.Attempt, err)
	if d < 0 || q.opts.MaxAttempts > 0 && i.Attempt+1 >= q.opts.MaxAttempts {
		// Should the key have been added meanwhile, it gets one retry more.
		o.kind = exhausted
		d = max(d, doubled(DefaultBase, i.Attempt, DefaultMax))
	}
	o.due = after(q.env.now(), max(d, atLeast))
	return o
}
