package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
)

// defect is what is wrong with a queue. Its nil functions are those of the queue
// itself.
type defect struct {
	add   func(q *Queue[string], key string, o AddOptions) error
	hold  func(q *Queue[string], key string, most time.Duration) (release func())
	get   func(ctx context.Context, q *Queue[string]) (Item[string], error)
	done  func(it Item[string])
	retry func(it Item[string], err error, atLeast time.Duration)

	refund func(b *ratelimit.Bucket, n int)
}

func (d *defect) orRefund(b *ratelimit.Bucket, n int) {
	if d.refund == nil {
		b.Refund(n)
		return
	}
	d.refund(b, n)
}

func (d *defect) orAdd(q *Queue[string], key string, o AddOptions) error {
	if d.add == nil {
		return q.AddWith(key, o)
	}
	return d.add(q, key, o)
}

func (d *defect) orHold(q *Queue[string], key string, most time.Duration) (release func()) {
	if d.hold == nil {
		return holdKey(q, key, most)
	}
	return d.hold(q, key, most)
}

func (d *defect) orGet(ctx context.Context, q *Queue[string]) (Item[string], error) {
	if d.get == nil {
		return q.Get(ctx)
	}
	return d.get(ctx, q)
}

func (d *defect) orDone(it Item[string]) {
	if d.done == nil {
		it.Done()
		return
	}
	d.done(it)
}

func (d *defect) orRetry(it Item[string], err error, atLeast time.Duration) {
	if d.retry == nil {
		it.Retry(err, atLeast)
		return
	}
	d.retry(it, err, atLeast)
}

// The test of stamps is worth what it catches too: here its workers get a queue
// that hands keys out twice, one that loses what is added during a run, and one that
// runs too many of a tenant.
//
// It is the negative control of promises Q1 and Q2 in
// TestEveryAddIsSeenAndNoKeyRunsTwiceAtOnce.
func TestStampsCatchALostAddAndASecondRun(t *testing.T) {
	s := newStamps()
	s.added.Add(1)
	end, err := s.begin()
	if err != nil {
		t.Fatalf("the only run: %v", err)
	}
	if _, err := s.begin(); err == nil {
		t.Error("a second run at once was accepted")
	}
	s.running.Add(-1) // of the refused one
	s.tenant.Add(-1)
	s.tenant.Add(stampsPerTenant - 1)
	other := newStamps()
	other.tenant = s.tenant
	if _, err := other.begin(); err == nil {
		t.Error("one run too many of a tenant was accepted")
	}
	s.tenant.Add(-stampsPerTenant)
	s.added.Add(1) // during the run: no run sees it
	end()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("waited long enough"))
	if err := s.await(ctx, 2); err == nil {
		t.Error("an add that no run has seen was accepted")
	}
	if end, err := s.begin(); err != nil {
		t.Error(err)
	} else {
		end()
	}
	if err := s.await(ctx, 2); err != nil {
		t.Error(fmt.Errorf("all was seen: %w", err))
	}
}
