package external

import (
	"hash/fnv"
	"io"
	"math/rand/v2"
	"time"

	"github.com/tendhq/tend/store"
)

// pollAnnotation on an object is its own poll interval: a Go duration such
// as "10m". What is shorter than [Options.MinPoll] counts as MinPoll, what
// cannot be read counts as not there.
const pollAnnotation = "tend.poll"

// poll is when to look at a resource again that is as it should be.
type poll[S, T any] struct {
	every  time.Duration
	floor  time.Duration
	jitter time.Duration // negative: none
	hook   func(o *store.Object[S, T], d time.Duration) time.Duration
	phased bool
	start  time.Time // of this process, as far as polls are concerned
}

// next is the time until the next look, and zero if there is to be none.
func (p poll[S, T]) next(o *store.Object[S, T]) time.Duration {
	d := p.interval(o)
	switch {
	case d == 0:
		return 0
	case p.phased:
		// Not before half an interval is over: a look that was made for a change
		// shortly before the phase is as good as one at the phase.
		return d/2 + untilPhase(o.Key(), d, time.Now().Add(d/2))
	}
	return d + p.spread(d, rand.Int64N)
}

// interval is the object's poll interval without jitter.
func (p poll[S, T]) interval(o *store.Object[S, T]) time.Duration {
	d := p.every
	if own, err := time.ParseDuration(o.Annotations[pollAnnotation]); err == nil {
		d = max(own, p.floor)
	}
	if p.hook != nil {
		d = p.hook(o, d)
	}
	return min(max(d, 0), longestPoll)
}

// longestPoll bounds an interval, so that sums of it and its jitter do not overflow.
const longestPoll = 100 * 365 * 24 * time.Hour

// notDue is the time until an object's first look in this process, if that can
// wait for its phase: it was in order when another process last looked, nothing
// was changed or asked for since, and its phase has not come around
// since we started. It is zero if the object has to be looked at now.
func (p poll[S, T]) notDue(o *store.Object[S, T]) time.Duration {
	d := p.interval(o)
	synced, _ := o.Condition(store.ConditionSynced)
	if !p.phased || d == 0 || !o.Ready() || synced.Status != store.True || o.Deleting() {
		return 0
	}
	first := p.start.Add(untilPhase(o.Key(), d, p.start))
	return max(time.Until(first), 0)
}

// untilPhase is the time from t to the next moment at which it is the key's
// turn in every interval of length d. It is a pure function, the same in every
// process, so that nothing has to be stored for polls to stay spread out. It goes by
// the time of day: a clock that is wrong, or jumps, moves the moments of all keys alike,
// each by less than d, and what is waited for is a duration from then on.
func untilPhase(key store.Key, d time.Duration, t time.Time) time.Duration {
	h := fnv.New64a()
	_, _ = io.WriteString(h, key.String())
	phase := time.Duration(h.Sum64() % uint64(d))
	since := time.Duration(t.UnixNano()) % d
	return (phase - since + d) % d
}

// spread is a random duration from -jitter to +jitter. It leaves at least half
// of d: an object with a short interval of its own, under a long jitter, must
// not be polled in a loop.
func (p poll[S, T]) spread(d time.Duration, random func(int64) int64) time.Duration {
	j := min(p.jitter, d/2)
	if j <= 0 {
		return 0
	}
	return time.Duration(random(int64(2*j)+1)) - j
}
