package queue

import (
	"slices"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
)

// pay tells whether the buckets of a taken key each had a token for it, and begins its
// run then. If not, it puts the key into the line of one that has none.
func (k *keeper) pay(i uint32, e *entry, buckets []*ratelimit.Bucket, now time.Time) bool {
	s := k.s
	if e.is(removed) {
		s.settle(i, e, outcome{kind: done}, nil)
		return false
	}
	refused := k.takeTokens(i, e, buckets, now)
	if refused == nil {
		k.refund(i, e, buckets)
		s.begin(i, e)
		return true
	}
	s.turns--
	if s.env.may().phase() != open { // it waits for no other token any more
		k.refund(i, e, nil)
	} else if k.giveBack(i, e, refused); e.is(admitted) {
		k.save(i, e, buckets, refused, now)
	}
	to := onRefuse(e.status(), refused.ID())
	if k.isHeld(i, e) {
		to = to.hold()
	} else {
		k.line(refused)
	}
	s.move(i, e, to, e.band)
	return false
}

// takeTokens takes a token from each bucket, or none from any: then it names one that has
// none, or in whose line are keys that go before e.
func (k *keeper) takeTokens(i uint32, e *entry, buckets []*ratelimit.Bucket, now time.Time) (refused *ratelimit.Bucket) {
	for _, b := range buckets {
		if l := k.lines[b.ID()]; l != nil && l.top() > uint32(e.band) && !e.is(admitted) {
			return b
		}
	}
	return ratelimit.TakeAll(now, buckets, k.savedBy(i, e)...)
}

// save takes the token for which a line has admitted a key that another bucket refuses, and
// keeps it until that one has a token too. Else the key would lose one while it waits for the
// other, in turn and for ever. But no more keys have tokens that they cannot use than is
// necessary: in the line of the bucket that refuses it the key is to be the oldest, or alone in
// the highest band.
func (k *keeper) save(i uint32, e *entry, buckets []*ratelimit.Bucket, refused *ratelimit.Bucket, now time.Time) {
	x := k.s.record(i).extra
	from, to := k.lines[x.was.line].bucket, k.lines[refused.ID()]
	if from == refused || !slices.Contains(buckets, from) {
		return
	}
	if to != nil && to.top() > uint32(e.band) {
		if first := to.oldestEntry(); first != nil && first.order < x.was.number {
			return
		}
	}
	had := k.savedBy(i, e)
	if slices.Contains(had, from) || ratelimit.TakeAll(now, []*ratelimit.Bucket{from}) != nil {
		return
	}
	x.saved = &savings{append(had, from)}
	if k.savers == nil {
		k.savers = make(map[uint32]struct{})
	}
	k.savers[i] = struct{}{}
}

// line makes the line of a bucket, if there is none.
func (k *keeper) line(b *ratelimit.Bucket) {
	s := k.s
	if k.lines[b.ID()] != nil {
		return
	}
	l := &line{bucket: b, unwatch: func() {}}
	l.order = k.order(make(map[uint32]*group), func(t *tenant) { t.countAdmitted(b.ID(), 0) })
	k.lines[b.ID()] = l
	if s.env.may().phase() == open { // else no token lets a key run any more, and the bucket may outlive the queue
		l.unwatch = b.Watch(func() { k.locked(func() { k.retry(l) }) })
	}
	k.byWake.add(l)
	k.retry(l) // a token may have come since the key was refused, and before the watch
}

// enter puts a throttled key into its line, at its old place if it had been admitted.
func (k *keeper) enter(i uint32, e *entry) {
	l, x, number := k.lines[e.due], k.extraOf(i, e), k.s.number.next()
	if e.is(admitted) && x.was.band == e.band {
		number = x.was.number
	}
	l.push(i, e, number)
	if l.wakes == never || l.admitted > 0 && l.top() > l.stood { // none of its keys could run, or this one was raised
		k.retry(l)
	}
	if e.is(admitted) { // its token went, or the bucket was paused: wakes is for the token after it
		k.unadmit(i, e, StateThrottled)
	}
	if x != nil {
		x.was = place{}
		k.s.trim(i, e)
	}
}

// leave takes a throttled key out of its line.
func (k *keeper) leave(i uint32, e *entry, stays bool) {
	l := k.lines[e.due]
	if e.order != 0 {
		l.remove(i, e)
	}
	if !stays {
		k.trimLine(l)
	}
}

// trimLine ends a line that has no keys any more.
func (k *keeper) trimLine(l *line) {
	if l.size() > 0 || l.admitted > 0 {
		return
	}
	l.unwatch()
	k.byWake.remove(l)
	delete(k.lines, l.bucket.ID())
}

// admitOne makes a key of a line ready.
func (k *keeper) admitOne(l *line, i uint32, e *entry) {
	l.admitted++
	k.s.extra(i, e).was = place{l.bucket.ID(), e.order, e.band}
	e.order = 0
	if t := k.tenantOf(i, e); t != nil {
		t.countAdmitted(l.bucket.ID(), 1)
	}
	to := e.status().start(0)
	to.flags |= admitted
	k.s.move(i, e, to, e.band)
}

// unadmit uncounts a key that runs now, or does not run: then its token is free.
func (k *keeper) unadmit(i uint32, e *entry, to State) {
	l := k.lines[k.s.record(i).was.line]
	e.flags &^= admitted
	l.admitted, l.stood = l.admitted-1, 0
	if t := k.tenantOf(i, e); t != nil {
		if t.countAdmitted(l.bucket.ID(), -1); t.blocked {
			l.blocked--
		}
	}
	if k.trimLine(l); to != StateRunning {
		k.retry(l)
	}
}

// pump lets the first keys of each bucket become ready for which it has tokens. They
// pay when they are taken, and wait again if another queue was faster.
func (k *keeper) pump(now int64) (more bool) {
	s := k.s
	for !s.tired() {
		l, ok := k.byWake.first()
		if !ok || l.wakes > now {
			return false
		}
		s.touched++
		n, next := l.bucket.Available(s.env.time(now))
		l.wakes = max(s.env.at(next), now+1)
		for !s.tired() && (l.admitted-l.blocked < n || n > 0 && l.top() > l.stood) {
			due := l.admitted-l.blocked < n
			i, e := l.next(due && l.turns.aged())
			if e == nil {
				break
			}
			l.stood = max(l.top(), uint32(e.band)+1)
			l.turns++
			s.touched++
			k.admitOne(l, i, e)
		}
		switch {
		case l.top() == 0:
			l.wakes = never
		case s.tired():
			l.wakes = now // there may be more to admit
		}
		k.byWake.fix(l)
	}
	return true
}

// close ends the watch of the buckets, which may be shared with queues that outlive
// this one, and gives them the tokens back of keys that do not run any more.
func (k *keeper) close() {
	for _, l := range k.lines {
		l.unwatch()
	}
	for i := range k.savers {
		e := k.s.at(i)
		if e.state != StateRunning && (e.state != StateReady || k.s.env.may().phase() == stopped) {
			k.refund(i, e, nil)
		}
	}
}

func (k *keeper) wake() int64 {
	at := int64(never)
	if h, ok := k.expiry.first(); ok {
		at = h.until
	}
	if l, ok := k.byWake.first(); ok && k.s.env.may().phase() == open {
		at = min(at, l.wakes)
	}
	return at
}
