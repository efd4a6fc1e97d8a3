package quota_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/quota"
)

// Keys that read and then write, beside keys that only read and keys that only write and that all
// always want to run: both budgets are used up at every moment, and what needs both of them ends all
// the same, each key within 32 tokens of the slower budget for each key that wants one, whatever the
// rates and bursts.
//
// promise Q5
// promise Q6
//
// Seen to fail: with keys of two buckets that save no token such a key ended no run.
func TestReadsThatAreFollowedByWritesEndBesideBoth(t *testing.T) {
	const each = 8 // keys of each sort
	for _, c := range []struct {
		read, write quota.Rate
	}{
		{quota.Rate{PerSecond: 10, Burst: 20}, quota.Rate{PerSecond: 10, Burst: 20}},
		{quota.Rate{PerSecond: 30, Burst: 10}, quota.Rate{PerSecond: 6, Burst: 2}},
		{quota.Rate{PerSecond: 7.3, Burst: 1}, quota.Rate{PerSecond: 20, Burst: 40}},
	} {
		t.Run(fmt.Sprint(c.read, c.write), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				q := must(newSet(c.read, c.write).Get(quota.Name{API: "dns"}))
				var mu sync.Mutex
				last, longest, ended := map[string]time.Time{}, map[string]time.Duration{}, map[string]int{}
				call := func(context.Context) error { return nil }
				ctrl := run(t, "zones", workers(4), always(q), func(ctx context.Context, key string) (reconcile.Result, error) {
					if key[0] != 'w' {
						if err := q.Do(ctx, quota.Read, call); err != nil {
							return reconcile.Result{}, err
						}
					}
					if key[0] != 'r' {
						if err := q.Do(ctx, quota.Write, call); err != nil {
							return reconcile.Result{}, err
						}
					}
					mu.Lock()
					defer mu.Unlock()
					longest[key] = max(longest[key], time.Since(last[key]))
					last[key] = time.Now()
					ended[key]++
					return reconcile.Result{RequeueAfter: time.Millisecond}, nil
				})
				for _, sort := range []string{"r", "w", "both"} {
					mu.Lock()
					for i := range each {
						last[fmt.Sprint(sort, i)] = time.Now()
					}
					mu.Unlock()
					addAll(t, ctrl, sort, each)
				}
				time.Sleep(4 * time.Minute)
				mu.Lock()
				defer mu.Unlock()
				limit := time.Duration(32 * 3 * each / float64(min(c.read.PerSecond, c.write.PerSecond)) * float64(time.Second))
				for key, at := range last {
					if wait := max(longest[key], time.Since(at)); ended[key] == 0 || wait > limit {
						t.Errorf("%s ended %d runs in four minutes, and waited for %v, want %v at most", key, ended[key], wait, limit)
					}
				}
			})
		})
	}
}
