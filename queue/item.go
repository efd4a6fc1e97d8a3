package queue

import "time"

// Item is a key on loan. It is settled exactly once, by Done, After, Retry,
// Park or DoneNext, from any goroutine; until then its key does not run
// elsewhere. Settling it again panics, for that would end a run of somebody
// else.
type Item[K comparable] struct {
	Key      K
	Attempt  int      // failures in a row before this run
	Priority Priority // the band it came from

	// Few and small fields let Get return an Item in registers.
	loan loan
	from *shard[K]
}

// loan tells a loan from all others: the entry's index << 32 | its stamp. What is
// asked of it are not methods of Item, for each call of such a one copies the Item.
type loan uint64

func newLoan(i uint32, e *entry) loan { return loan(i)<<32 | loan(e.stamp) }

func (l loan) idx() uint32   { return uint32(l >> 32) }
func (l loan) stamp() uint32 { return uint32(l) }

// differs tells whether p is another priority than the stamp's.
func (l loan) differs(p Priority) bool { return p.n != 0 && p.band() != uint8(l) }

// WithPriority gives the item the priority that its key is to have after the
// run. Without it the key keeps the one it has. An add that came during the run
// still raises it. The zero Priority changes nothing.
func (i Item[K]) WithPriority(p Priority) Item[K] {
	if !p.IsZero() {
		i.Priority = p
		i.loan = i.loan&^0xff | loan(^p.band()) // so that differs sees it
	}
	return i
}

// After is Done, and the key runs again after d, exactly: never early, without
// jitter. If d is zero or less it runs again behind the ready keys of its band.
func (i Item[K]) After(d time.Duration) {
	o := outcome{kind: later}
	if d > 0 {
		o.due = after(i.from.q.now(), d)
	}
	i.settle(o)
}

// Retry says that the run failed: the key runs again after the delay of the
// policy, or after atLeast if that is later. err may be nil: that is a backoff
// without an error. An error made by Throttled pauses its bucket and counts no
// failure. If the policy or Options.MaxAttempts gives up, the key is parked.
func (i Item[K]) Retry(err error, atLeast time.Duration) {
	i.settle(i.failure(err, atLeast))
}

// Park says that running the key again makes no sense until somebody changes
// something: it stays in the queue, with err as the reason, until an urgent add
// or Remove. Other adds are only noted; but if the key was added during the run
// it is retried once instead, for what was added may be the cure.
func (i Item[K]) Park(err error) {
	o := i.failure(err, 0)
	o.kind = park
	i.settle(o)
}

// failure works out, without a lock, what becomes of a failed key.
func (i Item[K]) failure(err error, atLeast time.Duration) outcome {
	q := i.from.q
	o := outcome{kind: retry, err: err}
	if until, ok := throttle(err); ok {
		o.kind = again
		o.due = max(q.at(until), after(q.now(), atLeast), 1)
		return o
	}
	d := q.opts.Policy(i.Attempt, err)
	if d < 0 || q.opts.MaxAttempts > 0 && i.Attempt+1 >= q.opts.MaxAttempts {
		// Should the key have been added meanwhile, it gets one retry more.
		o.kind = exhausted
		d = max(d, doubled(DefaultBase, i.Attempt, DefaultMax))
	}
	o.due = after(q.now(), max(d, atLeast))
	return o
}
