package quota

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue/ratelimit"
	"golang.org/x/time/rate"
)

// budget is one bucket with what steers it.
//
//	rate of the bucket = found × share
//	found   follows the cloud's answers, between a hundredth of Ceiling and Ceiling
//	share   is this server's part; see part.go
//	circuit opens when the endpoint is down
type budget struct {
	bucket *ratelimit.Bucket
	key    string // names it to other servers; older ones use the bucket's name
	rate   Rate

	mu      sync.Mutex            // guards what follows; taken before the bucket's own
	found   float64               // calls per second of all servers together
	peak    float64               // what found was when it last went down
	low     float64               // what it went down to
	used    float64               // seconds of full use since then
	share   float64               // from 0, nothing, to 1
	lowered time.Time             // when found last went down
	asked   time.Time             // until when the cloud asked to be left alone
	told    time.Time             // the end of the last pause that other servers were told of
	others  time.Time             // until when it asked other servers, as far as is known
	tell    func(d time.Duration) // tells other servers of a pause; nil: it does not
	circuit circuit
	owing   int             // keys that wait in the bucket to pay for a call; see gate
	line    []chan struct{} // calls that wait, in the order in which they came; see wait
	ahead   bool            // the first of them has taken the next token, which is not there yet; see pay
	taken   uint64          // from the bucket, when a call of the line had paid last
	spared  time.Time       // until when the token after that lies there for a key
	stats   struct{ calls, throttled, down, refused uint64 }
}

func newBudget(name string, r Rate) (*budget, error) {
	r, err := r.complete()
	if err != nil {
		return nil, err
	}
	bucket, err := ratelimit.NewBucket(name, r.PerSecond, r.Burst)
	if err != nil {
		return nil, err
	}
	return &budget{bucket: bucket, rate: r, found: float64(r.PerSecond), peak: float64(r.PerSecond), low: float64(r.PerSecond), share: 1}, nil
}

// trickle is the rate of a bucket that is to give nothing, for there is none of
// zero: a token in some 30 years.
const trickle = 1e-9

// part is which part of the budget is this server's.
func (b *budget) part() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.share
}

// setShare says which part of the budget is this server's.
func (b *budget) setShare(share float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.share != share {
		b.share = share
		b.applyLocked()
	}
}

func (b *budget) applyLocked() {
	// The burst is lowered with the rate: tokens that are saved up during a pause would be refused at its
	// end, call for call, once the cloud has cut the quota.
	perSecond, burst := b.found*b.share, wholeBurst(float64(b.rate.Burst)*b.share*min(1, b.found/float64(b.rate.PerSecond)))
	if b.share == 0 {
		perSecond, burst = trickle, 1
	}
	if err := b.bucket.SetLimit(rate.Limit(perSecond), burst); err != nil {
		panic(fmt.Sprintf("quota: %v", err)) // the numbers are ours, and were checked
	}
}

// take takes a token if one is there and neither a key nor a call waits for it: those go
// first, or a stream of new runs would keep them waiting for ever.
func (b *budget) take() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.closedLocked(); err != nil {
		return err
	}
	if s := b.bucket.Stats(); b.tightLocked(s) || !s.Until.IsZero() {
		b.stats.refused++
		why := "it is used up"
		switch {
		case b.circuit.open:
			why = downText
		case !s.Until.IsZero():
			why = "it is paused"
		}
		return refuse(b, time.Now(), why)
	}
	b.bucket.Charge(1)
	return nil
}

// downText is what a budget says of an endpoint that does not answer. Package inspect knows it by these words.
const downText = "the endpoint is down"

// downCounts is how long a failed call is news. An open breaker of which nothing makes calls any
// more, as when the account's keys went to another server, stays open.
const downCounts = 10 * time.Minute

// down is since when the endpoint is down, and what its last call ended with; zero: it is not, as far as is known.
func (b *budget) down() (since time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.downLocked(), b.circuit.err
}

func (b *budget) downLocked() (since time.Time) {
	if b.circuit.open && time.Since(b.circuit.down) < downCounts {
		since = b.circuit.changed
	}
	return since
}

// closedLocked refuses calls while this server has no share: what it would
// spend belongs to others.
func (b *budget) closedLocked() error {
	if b.share > 0 {
		return nil
	}
	b.stats.refused++
	return refuse(b, time.Now().Add(time.Second), "this server has no share of it at the moment")
}

// wait takes a token when one is there, after all calls that came to wait before.
//
// It is taken when the turn has come, and not before (but for the first call, beside keys that
// wait too; see pay): what steers the bucket, a pause or another part, holds for the calls that
// wait, and one that is given up owes nothing.
func (b *budget) wait(ctx context.Context) error {
	b.mu.Lock()
	turn, err := b.turnLocked(len(b.line) + min(b.owing, len(b.line))) // keys take turns with calls
	if end, ok := ctx.Deadline(); err == nil && ok && end.Before(turn) {
		b.stats.refused++
		err = refuse(b, turn, "its turn comes after the deadline")
	}
	if err != nil {
		b.mu.Unlock()
		return err
	}
	first := make(chan struct{}) // closed when it is
	if b.line = append(b.line, first); len(b.line) == 1 {
		close(first)
	}
	b.mu.Unlock()
	defer b.leave(first)
	select {
	case <-first:
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		left, err := b.pay()
		if left <= 0 || err != nil {
			return err
		}
		sleep.For(ctx, min(left, waitStep))
	}
	return context.Cause(ctx)
}

// waitStep is how long it takes at most until the first call of the line notices that a
// pause has ended before its time, or that the rate is another.
const waitStep = time.Second

// keyTime is how long a token lies there for the keys that wait in queues, when it is their turn.
const keyTime = time.Millisecond

// pay takes a token for the first call of the line, or says how long it takes until there may
// be one.
//
// Calls take turns with the keys that wait in queues, or the one that looks a moment earlier
// would get every token. After a call a key has some time to take the next one; after that
// the call takes its own before it is there, and waits for it, or the keys would be first again.
func (b *budget) pay() (left time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	turn, err := b.turnLocked(0)
	if err != nil {
		return 0, err
	}
	s := b.bucket.Stats()
	keys := b.owing > 0 && !b.ahead && s.Taken == b.taken && s.Tokens < 2 && time.Now().Before(b.spared)
	if keys && turn.Before(b.spared) {
		turn = b.spared
	}
	left = time.Until(turn)
	if !b.ahead && (left <= 0 || b.owing > 0 && !keys) {
		b.bucket.Charge(1)
		b.ahead = true
	}
	if left <= 0 {
		b.ahead, b.taken = false, b.bucket.Stats().Taken
		next, _ := b.turnLocked(0)
		b.spared = next.Add(keyTime)
	}
	return left, nil
}

// farAway bounds a wait: what no Duration can hold would be one below zero.
const farAway = float64(100 * 365 * 24 * time.Hour)

// turnLocked is when, by what is known now, there is a token for a call that comes after
// so many others.
func (b *budget) turnLocked(ahead int) (turn time.Time, err error) {
	if err := b.closedLocked(); err != nil {
		return turn, err
	}
	s := b.bucket.Stats()
	turn, tokens := time.Now(), s.Tokens
	if pause := s.Until.Sub(turn); pause > 0 {
		turn, tokens = s.Until, min(tokens+pause.Seconds()*float64(s.PerSecond), float64(s.Burst))
	}
	if b.ahead {
		tokens++
	}
	if missing := float64(ahead) + 1 - tokens; missing > 0 {
		turn = turn.Add(time.Duration(min(missing/float64(s.PerSecond)*float64(time.Second), farAway)) + 1) // rounded up
	}
	return turn, nil
}

// leave ends a wait, whatever came of it.
func (b *budget) leave(first chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.line, first)
	if i == 0 && b.ahead { // it was given up, and owes nothing
		b.ahead = false
		b.bucket.Refund(1)
	}
	if b.line = slices.Delete(b.line, i, i+1); i == 0 && len(b.line) > 0 {
		close(b.line[0])
	}
}

// call is one call under way.
type call struct {
	left  time.Time
	probe bool // of an open circuit
	tight bool // the budget was used up when it left

	says error // what it ended with, if the endpoint is down
}

// begin is asked just before a call leaves, which has been paid for.
func (b *budget) begin() (call, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := call{left: time.Now()}
	// The part may have been lost since the call was paid for: the token is of a part that
	// others have now.
	if err := b.closedLocked(); err != nil {
		return c, err
	}
	if b.circuit.open {
		if again := b.circuit.again; c.left.Before(again) {
			b.stats.refused++
			b.bucket.Refund(1)
			return c, refuse(b, again, downText)
		}
		// One call finds out. Until it has, or has had its time, all others wait.
		c.probe = true
		b.bucket.Throttle(b.circuit.probe(c.left))
	}
	b.stats.calls++
	c.tight = b.tightLocked(b.bucket.Stats())
	return c, nil
}

// tightLocked says whether the next call would have to wait: others do, or no token is there.
func (b *budget) tightLocked(s ratelimit.Stats) bool {
	return b.owing > 0 || len(b.line) > 0 || s.Tokens < 1
}

// end takes note of how a call ended. Calls overtake each other: one that left
// before the last change of rate or circuit tells of the time before it, and
// would lower the rate, or trip the circuit, twice for one cause. It says whether the
// call opened the circuit or closed it, and then for how long that was open.
func (b *budget) end(c call, v Verdict) (opened, closed bool, after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case v.Throttled:
		b.stats.throttled++
		if until := time.Now().Add(v.pause()); until.After(b.asked) {
			// Calls under way that are refused too are no news within the second.
			if b.tell != nil && v.pause() >= leastShared && until.After(b.told.Add(leastShared)) {
				b.told = until
				b.tell(v.pause())
			}
			b.asked = until
		}
		closed, after = b.closeLocked(c) // it answers
		b.bucket.Throttle(b.asked)
		b.lowerLocked(c)
	case v.Down:
		b.stats.down++
		if opened = b.circuit.failed(c, time.Now()); opened {
			b.bucket.Throttle(b.circuit.again)
		}
	default:
		closed, after = b.closeLocked(c)
		b.raiseLocked(c)
	}
	return opened, closed, after
}

func (b *budget) closeLocked(c call) (closed bool, after time.Duration) {
	if closed, after = b.circuit.answered(c); closed {
		b.pauseLocked() // the other pauses were not ours to end
	}
	return closed, after
}

// The rate is found as CUBIC finds a congestion window (RFC 9438): it goes down to a
// part of the rate that was refused, and up again by the cube of the time, so that it
// comes back to that rate soon, stays near it for long, and leaves it ever faster if
// nothing is refused.
//
//	found  │ ·                          ·
//	       │  ·                        ·
//	  peak ┼───·─ ─ ─ ─ ─ ─ ·  ·  ·  · ─ ─
//	       │   │      ·                       peak + steep × Ceiling × (used − rise)³
//	       │   │  ·
//	       │   │·
//	       └───┴──────────────┴────────── seconds of full use
//	         refused         rise
const (
	down  = 0.8
	half  = 0.5                  // of a rate that was refused long before it was back: the quota was cut
	steep = 0.9 / (40 * 40 * 40) // from a tenth of Ceiling to all of it within 40 s after the rise
)

// riseLocked is how many seconds of full use the rate takes back to its peak.
func (b *budget) riseLocked() float64 {
	return math.Cbrt(max(b.peak-b.low, 0) / (steep * float64(b.rate.Ceiling)))
}

func (b *budget) lowerLocked(c call) {
	if b.rate.Ceiling == 0 || c.left.Before(b.lowered) {
		return
	}
	part := down
	if b.used < b.riseLocked()/2 {
		part = half
	}
	b.lowered = time.Now()
	b.peak, b.used = b.found, 0
	b.found = max(b.found*part, float64(b.rate.floor()))
	b.low = b.found
	b.applyLocked()
}

// raiseLocked raises the rate by what one call is of a second's calls. A budget
// that was not used up proves nothing about what the cloud would take.
func (b *budget) raiseLocked(c call) {
	if b.rate.Ceiling == 0 || b.found == float64(b.rate.Ceiling) || b.share == 0 || !c.tight || c.left.Before(b.lowered) {
		return
	}
	b.used += 1 / (b.found * b.share)
	after := b.used - b.riseLocked()
	b.found = min(max(b.found, b.peak+steep*float64(b.rate.Ceiling)*after*after*after), float64(b.rate.Ceiling))
	if now := float64(b.bucket.Stats().PerSecond); math.Abs(b.found*b.share-now) > now/100 || b.found == float64(b.rate.Ceiling) {
		b.applyLocked() // not for each call: it wakes all waiters
	}
}

// owe counts keys that come to wait in the bucket, or leave it.
func (b *budget) owe(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owing += n
}
