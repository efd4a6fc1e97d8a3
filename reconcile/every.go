package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue"
)

// Every polls a list: it calls list at once and then again after each interval,
// less a random 0 to 10 %, and adds the keys that are new, gone, or whose value
// is not the one seen before. Values are whatever tells two states of an item
// apart: an etag, a hash, a modification time, or the item itself.
//
// It is synced after the first list that succeeded. A list that fails takes no
// key for gone: it is reported and tried again with a backoff (500 ms to 1 min,
// never later than the interval). Watch refuses it without a list, and with an
// interval of zero or less.
func Every[K, V comparable](name string, interval time.Duration, list func(ctx context.Context) (map[K]V, error)) Source[K] {
	if interval <= 0 || list == nil {
		return Source[K]{Name: name, bad: fmt.Errorf("Every(%q): needs a list function and an interval above 0, got %v", name, interval)}
	}
	return Source[K]{Name: name, Run: func(ctx context.Context, to Sink[K]) error {
		p, kernel := &poll[K, V]{to: to, list: list, first: true}, kernelSinkOf(to)
		// What vanishes between two runs of the source must be noticed too.
		p.known, _ = kernel.kept().(map[K]V)
		defer func() { kernel.keep(p.known) }()
		if p.known == nil {
			p.known = make(map[K]V)
		}
		return pollUntil(ctx, to, interval, p.once)
	}}
}

// poll is the state of one run of Every; only its goroutine touches it.
type poll[K, V comparable] struct {
	to    Sink[K]
	list  func(context.Context) (map[K]V, error)
	known map[K]V
	first bool // no list was complete yet
}

// pollUntil calls once now and then after each interval, less a random 0 to 10 %,
// until ctx ends or the queue is stopped. A failure is reported to the sink, and
// tried again with backoff, never later than the interval.
func pollUntil[K comparable](ctx context.Context, to Sink[K], interval time.Duration, once func(context.Context) error) error {
	kernel, backoff := kernelSinkOf(to), restarts()
	for failing := false; ; {
		wait := interval - rand.N(interval/10+1)
		err := once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // told to stop: what the list said to that is no news
		case errors.Is(err, queue.ErrStopped):
			return err
		case err != nil:
			kernel.Failed(err)
			wait = min(backoff.Next(), interval)
			failing = true
		case failing:
			kernel.Failed(nil)
			backoff.Reset()
			failing = false
		}
		if !sleep.For(ctx, wait) {
			return nil
		}
	}
}

func (p *poll[K, V]) once(ctx context.Context) error {
	var now map[K]V
	err := isolate(func() (err error) {
		now, err = p.list(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if err := p.compare(ctx, now); err != nil {
		return err
	}
	if p.first {
		p.first = false
		p.to.Synced()
	}
	return nil
}

// compare adds what differs, and takes note of it key by key: what could not be
// added will differ again.
func (p *poll[K, V]) compare(ctx context.Context, now map[K]V) error {
	o := queue.AddOptions{Priority: bandLive}
	if p.first {
		o.Priority = bandInitial
	}
	for k, v := range now {
		if was, ok := p.known[k]; ok && was == v && !p.first {
			continue
		}
		if err := AddWaiting(ctx, p.to, k, o); err != nil {
			return err
		}
		p.known[k] = v
	}
	for k := range p.known {
		if _, ok := now[k]; ok {
			continue
		}
		if err := AddWaiting(ctx, p.to, k, o); err != nil {
			return err
		}
		delete(p.known, k)
	}
	return nil
}
