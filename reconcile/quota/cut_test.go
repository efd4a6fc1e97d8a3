package quota_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
)

// For an hour a cloud grants a tenth of its quota and says so by refusals alone: at
// most 2 % of the calls are refused meanwhile, the calls that have an effect are within
// 1.25 of what is granted, and a minute after the hour all of the quota is in use again.
//
// It was seen to fail with a rate that went down to seven tenths and up again by a
// hundredth of Ceiling a second: 5 % were refused, 25,949 calls had an effect, and a
// minute after the cut there were 69 a second.
func TestSilentCutOfTheQuotaIsFoundAndForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		retryAfter time.Duration
		limited    bool // by runs of a controller, and not by goroutines that wait
	}{"says when": {}, "asks for a second": {time.Second, false}, "says when, to runs": {0, true}, "asks for a second, runs": {time.Second, true}} {
		bubble(t, func(t *testing.T) {
			cloud := must(reconciletest.NewCloud(&reconciletest.CloudOptions{WriteRate: 100, Latency: 50 * time.Millisecond, RetryAfter: c.retryAfter}))
			q := must(newSet(quota.Rate{PerSecond: 200}, quota.Rate{PerSecond: 100, Burst: 10, Ceiling: 100}).Get(quota.Name{API: "cloud"}))
			call := func(ctx context.Context) error {
				err := q.Do(ctx, quota.Write, func(ctx context.Context) error { return cloud.Delete(ctx, "none") })
				if errors.Is(err, reconciletest.ErrNotFound) {
					return nil
				}
				return err
			}
			if c.limited {
				addAll(t, run(t, "calls", workers(16), always(q), func(ctx context.Context, _ string) (reconcile.Result, error) {
					return reconcile.Result{RequeueAfter: time.Millisecond}, call(ctx)
				}), "k", 200)
			} else {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range 16 { // they end at cancel
					go func() {
						for ctx.Err() == nil {
							_ = call(ctx)
						}
					}()
				}
			}
			length := time.Hour
			if c.limited {
				length /= 4 // it takes longer to simulate, and has fewer refusals
			}
			wantCutFound(t, name, cloud, length)
		})
	}
}

// wantCutFound cuts the quota to a tenth for so long while calls are made all the time.
func wantCutFound(t *testing.T, name string, cloud *reconciletest.Cloud, length time.Duration) {
	phase := func(d time.Duration) (served, refused int) {
		served, refused = cloud.Calls("Delete"), cloud.Calls("refused")
		time.Sleep(d)
		refused = cloud.Calls("refused") - refused
		return cloud.Calls("Delete") - served - refused, refused
	}
	phase(time.Minute)
	cloud.Grant(0.1)
	served, refused := phase(length)
	if most := (served + refused) / 50; refused > most {
		t.Errorf("%s: %d of %d calls were refused during the cut, want at most %d", name, refused, served+refused, most)
	}
	granted := int(length.Seconds() * 10)
	if least := granted * 100 / 125; served < least {
		t.Errorf("%s: %d calls were served during the cut, want at least %d", name, served, least)
	}
	t.Logf("%s: %d served of %d, %d refused", name, served, granted, refused)
	cloud.Grant(1)
	phase(time.Minute)
	if served, refused = phase(10 * time.Second); served < 950 {
		t.Errorf("%s: %d calls in the 10 s that begin a minute after the cut, want 950", name, served)
	}
	t.Logf("%s: %d served of 1000, %d refused", name, served, refused)
}
