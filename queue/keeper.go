package queue

import (
	"slices"

	"github.com/tendhq/tend/queue/ratelimit"
)

// keeper is the admission of a shard: what may not run, and until when. Holds
// and the lines of buckets each have a file of their own; this one has the caps of
// tenants, and what all share, the record of a key.
type keeper struct {
	s       *shard
	roster  roster
	tenants bool    // the queue has some
	whole   holdSet // the holds over the whole queue, in the first shard
	expiry  heap[*heldBack]
	expired []*heldBack     // whose hooks the tick that ended them is to call
	lines   map[int64]*line // by number; none is empty with no key out
	byWake  heap[*line]
	refunds []*ratelimit.Bucket // to which a token goes back once the lock is free
	savers  map[uint32]struct{} // the entries that have savings
}

// locked calls f with the lock held, and carries out what has to happen then.
func (k *keeper) locked(f func()) {
	k.s.mu.Lock()
	f()
	k.s.unlock()
}

// join notes the reason and the tenant that come with an add.
func (k *keeper) join(i uint32, e *entry, reason, name string, weight int) {
	r := k.s.recorded(i, e)
	if reason != "" {
		r.reasons |= k.s.reasonBit(reason)
	}
	if weight == 0 {
		return
	}
	t := k.tenantOf(i, e)
	if t == nil {
		t = k.roster.get(name)
		t.keys++
		r.tenant = t.number
	}
	t.weight = weight
}

// extraOf is what the key has beside its record, nil if it has none.
func (k *keeper) extraOf(i uint32, e *entry) *extra {
	if e.is(recorded) {
		return k.s.record(i).extra
	}
	return nil
}

// isHeld tells whether a hold keeps the key from running.
func (k *keeper) isHeld(i uint32, e *entry) bool {
	x := k.extraOf(i, e)
	return x != nil && x.holds.lasts()
}

func (k *keeper) ran(i uint32, e *entry, by int) {
	if t := k.tenantOf(i, e); t != nil {
		t.running += by
		k.admit(t)
	}
}

// admit lets the keys of a tenant run, or not, after a change. While it is blocked, the
// tokens that its admitted keys have are there for others; then the lines that passed
// over its keys look at them again.
func (k *keeper) admit(t *tenant) {
	blocked := t.holds.lasts() || k.roster.cap > 0 && t.running >= k.roster.cap
	if blocked == t.blocked {
		return
	}
	t.blocked = blocked
	k.s.fx |= fxTop
	if k.s.ready.(*bands).block(t, blocked) {
		k.s.fx |= fxWake
	}
	for number, n := range t.lines {
		if l := k.lines[number]; l != nil { // else it passed the tenant over, and ended
			if blocked {
				l.blocked += n
			} else {
				l.blocked -= n
				l.order.(*bands).block(t, false)
			}
			k.retry(l)
		}
		t.countAdmitted(number, 0)
	}
}

// countAdmitted counts keys that a line admitted, and drops a line that has none.
func (t *tenant) countAdmitted(line int64, by int) {
	if t.lines == nil {
		t.lines = make(map[int64]int)
	}
	if t.lines[line] += by; t.lines[line] == 0 && !t.blocked {
		delete(t.lines, line)
	}
}

// began ends what was noted for this run.
func (k *keeper) began(i uint32, e *entry) {
	if !e.is(recorded) {
		return
	}
	r := k.s.record(i)
	r.reasons = 0
	if r.extra != nil {
		r.was = place{}
	}
	k.s.trim(i, e)
}

func (k *keeper) forget(i uint32, e *entry) {
	r := k.s.record(i)
	r.err, r.reasons = nil, 0
	k.s.trim(i, e)
}

func (k *keeper) discard(i uint32, e *entry) {
	if t := k.tenantOf(i, e); t != nil {
		t.keys--
		k.roster.trim(t)
	}
	k.refund(i, e, nil)
	k.s.dropRecord(i, e)
}

// savedBy is the buckets whose token the key has.
func (k *keeper) savedBy(i uint32, e *entry) []*ratelimit.Bucket {
	if x := k.extraOf(i, e); x != nil && x.saved != nil {
		return x.saved.of
	}
	return nil
}

// giveBack gives back the token of a bucket that refuses the key although it has one: it is paused.
// Its line then finds the token there when the pause ends, and admits the key for it and not for another one.
func (k *keeper) giveBack(i uint32, e *entry, refused *ratelimit.Bucket) {
	had := k.savedBy(i, e)
	at := slices.Index(had, refused)
	switch {
	case at < 0:
	case len(had) == 1:
		k.refund(i, e, nil)
	default:
		k.s.record(i).saved.of = slices.Delete(had, at, at+1)
		k.refunds = append(k.refunds, refused)
		k.s.fx |= fxRefund
	}
}

// refund ends the savings of a key, and gives back what its run has no use for.
func (k *keeper) refund(i uint32, e *entry, used []*ratelimit.Bucket) {
	for _, b := range k.savedBy(i, e) {
		if !slices.Contains(used, b) {
			k.refunds = append(k.refunds, b)
			k.s.fx |= fxRefund
		}
		k.s.record(i).saved = nil
		delete(k.savers, i)
	}
}

// tenantOf is the tenant of an entry, nil if it has none.
func (k *keeper) tenantOf(i uint32, e *entry) *tenant {
	if e.is(recorded) {
		if n := k.s.record(i).tenant; n != 0 {
			return k.roster.of[n-1]
		}
	}
	return nil
}

// order makes one; lines have groups of their own, see bands.
func (k *keeper) order(groups map[uint32]*group, pass func(*tenant)) order {
	if !k.tenants {
		return newPlain(&k.s.slab)
	}
	o := &bands{groups: groups, pass: pass}
	o.init(&k.s.slab, &k.s.number, &k.roster)
	return o
}

// line is the keys that one bucket refused, in the order in which they would have
// run. When the bucket has a token again, the first of them become ready once more:
// a key of a high band gets the next token, however many wait, and keys of other
// buckets never wait behind these.
type line struct {
	order
	turns   turns
	bucket  *ratelimit.Bucket // the entries that wait have its number in due
	unwatch func()            // see Bucket.Watch
	wakes   int64             // when there may be a token for one of them
	at      int               // in the heap

	// Keys that were admitted and do not run yet: each has one of the bucket's tokens,
	// as far as its tenant is not blocked.
	admitted, blocked int
	stood             uint32 // the top when the last one was, since one has gone: a key beyond it goes at once
}

func (l *line) rank() uint64 { return uint64(l.wakes) }
func (l *line) placed() *int { return &l.at }

// retry makes the shard look at the line of a bucket whose limit has changed, or of
// whose tokens one is free again.
func (k *keeper) retry(l *line) {
	if l.at != 0 { // else the line is gone by now
		l.wakes = k.s.env.now()
		k.byWake.fix(l)
		k.s.fx |= fxTimer | fxTick
	}
}
