package queue

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/tendhq/tend/queue/ratelimit"
)

// Item is a key that a worker runs. It is settled exactly once, by Done, After,
// Retry or Park, from any goroutine; until then its key does not run
// elsewhere. Settling it again panics, because that would end a run of another
// worker; so does settling the zero Item.
type Item[K comparable] struct {
	Key      K
	Attempt  int      // failures in a row before this run
	Priority Priority // the band it came from

	band  uint8  // the band that the entry had
	shard uint8  // its number, with a bit for chosen
	index uint32 // of the entry
	q     *Queue[K]
	run   uint64 // the number of the run
}

// chosen is set in Item.shard when WithPriority was called. A field of its own would
// make its size no multiple of 16 bytes, and each copy of an Item wait for the stores of
// the copy before.
const chosen = 1 << 7

// item makes the item of a running entry.
func (q *Queue[K]) item(s *shard, i uint32, e *entry, it *Item[K]) {
	it.Key, it.Attempt, it.Priority = withKey[K](e).key, int(e.attempts), atBand(e.band)
	it.band, it.shard, it.index, it.q, it.run = e.band, s.id, i, q, e.order
}

// WithPriority gives the item the priority that its key is to have after the
// run. Without it the key keeps the one it has. An add that came during the run
// still raises it. The zero Priority changes nothing.
func (i Item[K]) WithPriority(p Priority) Item[K] {
	if !p.isZero() {
		i.Priority = p
		i.shard |= chosen
	}
	return i
}

// Done says that the run succeeded: the attempts start again from 0, and the key
// leaves the queue unless it was added during the run.
func (i Item[K]) Done() { i.settle(outcome{kind: done}, nil) }

// After is Done, and the key runs again after d, exactly: never early, without
// jitter. If d is zero or less it runs again behind the ready keys of its band.
func (i Item[K]) After(d time.Duration) {
	o := outcome{kind: later}
	if d > 0 {
		o.due = plus(i.queue().env.now(), d)
	}
	i.settle(o, nil)
}

// Retry says that the run failed: the key runs again after the delay of the
// policy, or after atLeast if that is later. err may be nil: that is a backoff
// without an error. An error of ratelimit.Throttled pauses its bucket and counts no
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
	s := &q.shards.all[i.shard&^chosen]
	if !s.mu.TryLock() {
		s.mu.Wait()
	}
	e := s.runs(i.index, i.run)
	if e == nil {
		s.mu.Unlock()
		panic("queue: Item settled twice")
	}
	if p := i.Priority; p.n != 0 && (i.shard&chosen != 0 || p.band() != i.band) {
		e.band = onPriority(e.status(), e.band, p.band())
	}
	to := s.settle(i.index, e, o, err)
	s.unlock()
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
	if until, ok := ratelimit.Pause(err); ok {
		return outcome{kind: again, due: max(q.env.at(until), plus(q.env.now(), atLeast))}
	}
	o := outcome{kind: retry}
	d := q.opts.Policy(i.Attempt, err)
	if d < 0 || q.opts.MaxAttempts > 0 && i.Attempt+1 >= q.opts.MaxAttempts {
		// Should the key have been added meanwhile, it gets one retry more.
		o.kind = exhausted
		d = max(d, doubled(DefaultBase, i.Attempt, DefaultMax))
	}
	o.due = plus(q.env.now(), max(d, atLeast))
	return o
}

// Get waits for a key that may run and gives its Item, which the caller must
// settle. It fails with ErrStopped once the queue is closed and no key is ready,
// and with the cause of ctx when that ends. A ready key that a hold keeps back is
// waited for.
func (q *Queue[K]) Get(ctx context.Context) (it Item[K], err error) {
	one := unsafe.Slice(&it, 1)
	if ctx.Err() != nil || q.take(ctx, one) == 0 {
		_, err = q.GetBatch(ctx, one)
	}
	return it, err // in one place: a copy of an Item waits for its stores
}

// GetBatch waits like Get, and fills dst as far as it goes without taking from
// others: a share of what is ready, at least one. It returns how many there are.
// Each Item is settled on its own.
//
// It is for a worker that does several keys in one call, and for few workers of a long
// queue: with one producer, one consumer and batches of 16 a key takes about a quarter less
// CPU time than by Get. Where keys come one by one it takes a little more.
func (q *Queue[K]) GetBatch(ctx context.Context, dst []Item[K]) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if n := q.take(ctx, dst); n > 0 {
		return n, nil
	}
	return q.await(ctx, dst)
}

// take fills dst with what may run now, one shard's keys only.
func (q *Queue[K]) take(ctx context.Context, dst []Item[K]) int {
	for q.env.may().gives() {
		s := q.shards.lock()
		if s == nil {
			return 0
		}
		n, most := 0, 1
		if len(dst) > 1 {
			most = q.share(s, len(dst))
		}
		for ; n < most && !s.tired(); n++ {
			i, e := s.take()
			if e == nil {
				break
			}
			if s.begun%agingEvery == 0 {
				q.shards.rotate()
			}
			q.item(s, i, e, &dst[n])
		}
		s.unlock()
		if n > 0 && q.env.asks {
			n = q.charge(s, dst[:n]) // none: all were refused
		}
		if n > 0 || ctx.Err() != nil {
			return n
		}
	}
	return 0
}

// share is how many keys a getter that wants some takes from a shard, whose lock is
// held: of several at most what leaves as many for each getter that runs or waits now.
func (q *Queue[K]) share(s *shard, wanted int) int {
	others := s.count[StateRunning]/shareBatch + int(q.waiters.sleeping.Load()) + 1
	return max(1, min(wanted, mostAtOnce, s.ready.runnable()/(2*others)))
}

const (
	shareBatch = 8 // a getter of batches has about so many items
	mostAtOnce = maxTouched / 4
)

// await sleeps until it is woken and there is a key to take.
func (q *Queue[K]) await(ctx context.Context, dst []Item[K]) (int, error) {
	w := &q.waiters
	w.sleeping.Add(1)
	// However it ends, also by a panic of Options.Buckets: the token that woke this
	// getter may be meant for others too.
	defer func() {
		w.sleeping.Add(-1)
		if w.sleeping.Load() != 0 && (q.env.may().phase() != open || q.env.may().gives() && q.shards.highest() != 0) {
			w.wake()
		}
	}()
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if n := q.take(ctx, dst); n > 0 {
			return n, nil
		}
		if may := q.env.may(); may.phase() != open && may.ends(q.Len() > 0) {
			return 0, ErrStopped
		}
		select {
		case <-w.token:
			w.woken()
		case <-ctx.Done():
		}
	}
}

var errBuckets = errors.New("queue: Options.Buckets panicked")

// charge asks for the buckets of each of the items, without a lock, and then begins
// the runs for which all have a token. It returns how many. If Buckets panics the
// caller gets none of them: they back off for a second, so that a key that makes it
// panic each time does not keep the others from running.
func (q *Queue[K]) charge(s *shard, items []Item[K]) (n int) {
	var few [4]*ratelimit.Bucket
	all, ends, asked := few[:0], make([]int, 1, shareBatch), false
	defer func() {
		if asked {
			return
		}
		due := plus(q.env.now(), time.Second)
		s.mu.Lock()
		for _, it := range items {
			if e := s.runs(it.index, it.run); e != nil {
				s.settle(it.index, e, outcome{kind: again, due: due}, errBuckets)
			}
		}
		s.unlock()
	}()
	for _, it := range items {
		var own [4]*ratelimit.Bucket // what Buckets returns is the caller's
		for _, b := range q.opts.Buckets(it.Key, own[:0]) {
			if b != nil {
				all = append(all, b)
			}
		}
		ends = append(ends, len(all))
	}
	asked = true
	now := time.Now()
	s.mu.Lock()
	for at, it := range items {
		if e := s.runs(it.index, it.run); e != nil && q.keepers[0].pay(it.index, e, all[ends[at]:ends[at+1]], now) {
			it.run = e.order
			items[n] = it
			n++
		}
	}
	s.unlock()
	clear(items[n:])
	return n
}

// Running is the item of a key that is running. It is for code that was not given
// the Item: package reconcile asks it whether a key runs. Settling it is like DoneKey. A key that was taken and whose
// buckets are being asked does not run yet.
func (q *Queue[K]) Running(key K) (it Item[K], ok bool) {
	ok = q.with(key, func(s *shard, i uint32, e *entry) bool {
		q.item(s, i, e, &it)
		return e.state == StateRunning && !e.is(asked)
	})
	if !ok {
		it = Item[K]{}
	}
	return it, ok
}

// DoneKey is Item.Done for code that keeps only the key, as that of package
// workqueue does. It tells whether the key was running, or was taken and its buckets are
// being asked; if not, nothing happens.
// Code that has the Item settles that: it costs no search, and cannot end a run
// that another worker has begun meanwhile.
//
// It ends the run of an Item that other code has, too: settling that Item panics then, and the
// key may run again beside the run that goes on. In the queue of a reconcile.Controller, whose
// workers have the Items, it is a mistake, also in the run of the key itself: the result of
// that run is lost, with a line in the log.
func (q *Queue[K]) DoneKey(key K) bool {
	return q.with(key, func(s *shard, i uint32, e *entry) bool {
		running := e.state == StateRunning
		if running {
			s.settle(i, e, outcome{kind: done}, nil)
		}
		return running
	})
}
