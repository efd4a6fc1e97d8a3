package metrics_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile/quota"
)

var (
	errBusy = errors.New("too many")
	errAway = errors.New("no answer")
)

// newQuotas is a set whose quotas have ten reads and two writes a second.
func newQuotas(t *testing.T) *quota.Set {
	t.Helper()
	s, err := quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) {
		return quota.Limits{
			Read:  quota.Rate{PerSecond: 10, Burst: 20},
			Write: quota.Rate{PerSecond: 2, Ceiling: 20},
			Judge: func(err error) quota.Verdict {
				return quota.Verdict{Throttled: errors.Is(err, errBusy), Down: errors.Is(err, errAway)}
			},
		}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBudgetsAreShownWithTheirBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, c := newQuotas(t), metrics.New(nil)
		if err := c.AddQuotas(set); err != nil {
			t.Fatal(err)
		}
		q, err := set.Get(quota.Name{Account: "acme", API: "disks"}) // after it was added
		if err != nil {
			t.Fatal(err)
		}
		call := func(op quota.Op, err error) {
			_ = q.Do(t.Context(), op, func(context.Context) error { return err })
		}
		call(quota.Write, nil)
		call(quota.Write, errBusy)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_ = q.Do(ended, quota.Write, func(context.Context) error { return nil })
		for range 5 {
			call(quota.Read, errAway)
		}
		f := scrape(t, c)
		write, read := "budget=acme/disks/write", "budget=acme/disks/read"
		want(t, f, "tend_quota_calls_total", 2, write)
		want(t, f, "tend_quota_throttled_total", 1, write)
		want(t, f, "tend_quota_found", 1.6, write)
		want(t, f, "tend_quota_limit", 1.6, write)
		want(t, f, "tend_quota_share", 1, write)
		want(t, f, "tend_quota_members", 1, write)
		want(t, f, "tend_quota_circuit_open", 0, write)
		want(t, f, "tend_quota_calls_total", 5, read)
		want(t, f, "tend_quota_down_total", 5, read)
		want(t, f, "tend_quota_circuit_open", 1, read)
		want(t, f, "tend_quota_refused_total", 0, read)
		want(t, f, "tend_quota_waiting_keys", 0, read)
		want(t, f, "tend_quota_limit", 10, read)
		want(t, f, "tend_bucket_paused", 1, "bucket=acme/disks/read")
		want(t, f, "tend_bucket_tokens", 15, "bucket=acme/disks/read")
	})
}

// The breaker of an endpoint that nothing calls any more stays open, and is no alarm.
func TestBreakerThatNothingAsksIsNotShownOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, c := newQuotas(t), metrics.New(nil)
		if err := c.AddQuotas(set); err != nil {
			t.Fatal(err)
		}
		q, err := set.Get(quota.Name{API: "disks"})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			_ = q.Do(t.Context(), quota.Read, func(context.Context) error { return errAway })
		}
		want(t, scrape(t, c), "tend_quota_circuit_open", 1, "budget=disks/read")
		time.Sleep(10 * time.Minute)
		want(t, scrape(t, c), "tend_quota_circuit_open", 0, "budget=disks/read")
	})
}

// A bucket that was added twice, by itself and with its set, and the same budget in
// two sets, do not spoil the scrape.
func TestBudgetsOfOneNameAreToldApart(t *testing.T) {
	c := metrics.New(nil)
	var buckets []*ratelimit.Bucket
	for range 2 {
		set := newQuotas(t)
		if _, err := set.Get(quota.Name{API: "disks"}); err != nil {
			t.Fatal(err)
		}
		buckets = set.Buckets()
		if err := c.AddQuotas(set); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.AddBucket(buckets[0]); err != nil {
		t.Fatal(err)
	}
	f := scrape(t, c)
	want(t, f, "tend_quota_limit", 10, "budget=disks/read#2")
	want(t, f, "tend_quota_limit", 10, "budget=disks/read#3")
	want(t, f, "tend_bucket_tokens", 20, "bucket=disks/read")
}
