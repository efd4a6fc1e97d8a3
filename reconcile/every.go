package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
)

// Every polls a list: it calls list at once and then again after each interval,
// less a random 0 to 10 %, and adds the keys that are new, gone, or whose value
// is not the one seen before. Values are whatever tells two states of an item
// apart: an etag, a hash, a modification time, or the item itself.
//
// It is synced after the first list that succeeded. A list that fails takes no
// key for gone: it is reported and tried again with a backoff (500 ms to 1 min,
// never later than the interval), and not before the time of a ratelimit.Throttled, which is no illness and pauses its
// bucket as that of a run does. A key that the latest list does not have is gone for
// Options.Resync, unless another source knows it. What vanishes while the process is down, or
// while the key's shard is on its way from one server to another, is not noticed. Watch
// refuses it without a list, and with an interval of zero or less.
func Every[K, V comparable](name string, interval time.Duration, list func(ctx context.Context) (map[K]V, error)) Source[K] {
	if interval <= 0 || list == nil {
		return Source[K]{Name: name, bad: fmt.Errorf("Every(%q): needs a list function and an interval above 0, got %v", name, interval)}
	}
	p := &polled[K, V]{list: list, same: func(a, b V) bool { return a == b }}
	return p.source(name, interval)
}

// polled is a list that Every or Each polls.
type polled[K comparable, V any] struct {
	list func(context.Context) (map[K]V, error)
	same func(a, b V) bool
	all  bool                    // keys whose value stayed the same are added each time too, and the others are urgent
	last atomic.Pointer[map[K]V] // the latest list, which is not written to; nil: none yet

	// What follows is for Each, and belongs to the source's goroutine.
	maxGone func(known int) int // nil: as many as there are
	lacking map[K]V             // what the list before lacked and was not taken for gone
	since   time.Time           // the list that lacked all of these first
	apart   time.Duration       // the least time between two lists that agree
}

// value is a copy of the value of a key in the latest list; nil: that does not have the key.
func (p *polled[K, V]) value(key K) *V {
	if last := p.last.Load(); last != nil {
		if v, listed := (*last)[key]; listed {
			return &v
		}
	}
	return nil
}

// exists reports whether the latest list has the key; before the first one it may.
func (p *polled[K, V]) exists(key K) bool {
	return p.value(key) != nil || p.last.Load() == nil
}

// source calls the list at once and then after each interval, less a random 0 to 10 %. A
// failure is reported to the sink, and tried again with backoff, never later than the
// interval.
func (p *polled[K, V]) source(name string, interval time.Duration) Source[K] {
	p.apart = interval / 2 // a list after an interval is later than that, one for a gained shard may not be
	return Source[K]{Name: name, exists: p.exists, Run: func(ctx context.Context, to Sink[K]) error {
		out, backoff := outletOf(to), restarts()
		out.cannotList()
		known, ok := (*out.kept()).(map[K]V) // what vanishes between two runs of the source must be noticed too
		if !ok {
			known = make(map[K]V)
			*out.kept() = known
		}
		for first, failing := true, false; ; {
			wait := interval - rand.N(interval/10+1)
			err := p.poll(ctx, to, known, first)
			switch {
			case ctx.Err() != nil:
				return nil //nolint:nilerr // told to stop: what the list said to that is no news
			case errors.Is(err, queue.ErrStopped):
				return err
			case err != nil:
				out.Failed(err)
				if failing = true; !errors.Is(err, errTooManyGone) {
					wait = min(backoff.Next(), interval)
				}
				if until, throttled := ratelimit.Pause(err); throttled {
					wait = max(wait, time.Until(until))
				}
			case failing:
				out.Failed(nil)
				backoff.Reset()
				failing = false
			}
			if (err == nil || errors.Is(err, errTooManyGone)) && first {
				first = false
				to.Synced()
			}
			if !sleep.For(ctx, wait) {
				return nil
			}
		}
	}}
}

// poll lists once and adds keys. known has the values that keys were added with: what
// could not be added will differ again.
func (p *polled[K, V]) poll(ctx context.Context, to Sink[K], known map[K]V, first bool) error {
	var now map[K]V
	err := isolate(func() (err error) {
		now, err = p.list(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if now = maps.Clone(now); now == nil { // list may return the same map each time
		now = make(map[K]V)
	}
	var refused error
	if p.all {
		refused = p.keep(now, known, outletOf(to))
	}
	p.last.Store(&now)
	initial := queue.AddOptions{Priority: bandInitial}
	changed := queue.AddOptions{Priority: bandLive, Urgent: p.all}
	if len(known) == 0 && first {
		changed = initial
	}
	for key, value := range now {
		o := changed
		if was, ok := known[key]; ok && p.same(was, value) {
			if !first && !p.all {
				continue
			}
			o = initial
		}
		if err := AddWaiting(ctx, to, key, o); err != nil {
			return err
		}
		known[key] = value
	}
	for key := range known {
		if _, ok := now[key]; ok {
			continue
		}
		if err := AddWaiting(ctx, to, key, changed); err != nil {
			return err
		}
		delete(known, key)
	}
	return refused
}

// manyGone is how many keys may go at once although they are more than half of all.
const manyGone = 10

var errTooManyGone = errors.New("more keys are gone than EachOptions.MaxGone allows")

// keep puts back into a list what it lacks and what is not to be taken for gone yet. The API
// of a cloud that answers with an empty list, or with the first page alone, is no reason to
// remove everything: what many keys' end hangs on has to be missing twice, half an interval
// apart at least. It returns an error if MaxGone keeps them.
func (p *polled[K, V]) keep(now, known map[K]V, to outlet[K]) error {
	lacking, confirmed := make(map[K]V), true
	for key := range known {
		if _, listed := now[key]; listed {
			continue
		}
		_, before := p.lacking[key]
		confirmed = confirmed && before
		lacking[key] = known[key]
		if v := p.value(key); v != nil {
			lacking[key] = *v
		}
	}
	doubtful := len(lacking) > 0 && (len(now) == 0 || len(lacking) > manyGone && 2*len(lacking) > len(known))
	most := len(lacking)
	if p.maxGone != nil && len(lacking) > 0 {
		most = p.maxGone(len(known))
	}
	controller, source, _, log := to.about()
	attrs := []any{"controller", controller, "source", source, "gone", len(lacking), "of", len(known)}
	switch {
	case len(lacking) > most:
		maps.Copy(now, lacking)
		p.lacking = lacking
		return fmt.Errorf("the list lacks %d of %d keys: %w (%d)", len(lacking), len(known), errTooManyGone, most)
	case doubtful && !confirmed:
		log.Warn("reconcile: the list lacks so many keys that a second one has to agree before they are taken for gone", attrs...)
		p.since = time.Now()
		fallthrough
	case doubtful && time.Since(p.since) < p.apart:
		maps.Copy(now, lacking)
		p.lacking = lacking
		return nil
	case doubtful:
		log.Warn("reconcile: a second list lacks the keys too: they are taken for gone", attrs...)
	}
	p.lacking = nil
	return nil
}
