package quota_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
)

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// busy is an answer that says "too many".
type busy struct{ after time.Duration }

func (b *busy) Error() string { return "busy" }

var errDown = errors.New("down")

// judge knows the errors of these tests and of the pretend cloud.
func judge(err error) quota.Verdict {
	if b, ok := errors.AsType[*busy](err); ok {
		return quota.Verdict{Throttled: true, RetryAfter: b.after}
	}
	if q, ok := errors.AsType[*reconciletest.QuotaError](err); ok {
		return quota.Verdict{Throttled: true, RetryAfter: q.RetryAfter}
	}
	return quota.Verdict{Down: errors.Is(err, errDown)}
}

// limits are the same for every name.
func limits(read, write quota.Rate) func(quota.Name) (quota.Limits, error) {
	return func(quota.Name) (quota.Limits, error) {
		return quota.Limits{Read: read, Write: write, Judge: judge}, nil
	}
}

func newSet(read, write quota.Rate) *quota.Set {
	return must(quota.NewSet(&quota.Options{Limits: limits(read, write)}))
}

// api records when calls were made.
type api struct {
	mu    sync.Mutex
	begun time.Time
	at    map[string][]time.Duration // by what was called
	now   int                        // calls under way
	most  int                        // of those, at any time
}

func newAPI() *api { return &api{begun: time.Now(), at: map[string][]time.Duration{}} }

// call notes one call of that name, and answers err after took.
func (a *api) call(what string, took time.Duration, err error) error {
	a.mu.Lock()
	a.at[what] = append(a.at[what], time.Since(a.begun))
	a.now++
	a.most = max(a.most, a.now)
	a.mu.Unlock()
	time.Sleep(took)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now--
	return err
}

func (a *api) count(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.at[what])
}

// within is how many calls were made from the time from on, for a while.
func (a *api) within(what string, from, length time.Duration) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.at[what] {
		if at >= from && at < from+length {
			n++
		}
	}
	return n
}

// wantRate fails if more calls were made in any while than the budget gives.
func (a *api) wantRate(t *testing.T, what string, perSecond float64, burst int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.at[what]
	for i := range at {
		for j := i + burst; j < len(at); j++ {
			if n, most := j-i+1, float64(burst)+perSecond*(at[j]-at[i]).Seconds()+1e-3; float64(n) > most {
				t.Fatalf("%s: %d calls from %v to %v, at most %.1f fit into the budget", what, n, at[i], at[j], most)
			}
		}
	}
}

// run starts a controller in the bubble, until the test ends.
func run(t *testing.T, name string, o reconcile.Options[string], of func(string) (*quota.Quota, error), f func(ctx context.Context, key string) (reconcile.Result, error)) *reconcile.Controller[string] {
	t.Helper()
	o.Hooks.OnError = func(fail reconcile.Failure[string]) {
		if !errors.Is(fail.Err, errDown) && !errors.Is(fail.Err, io.EOF) {
			t.Errorf("%s: %s failed: %v", name, fail.Key, fail.Err)
		}
	}
	limited, err := quota.Limit(of, &o)
	if err != nil {
		t.Fatal(err)
	}
	c := must(reconcile.New(name, reconcile.Func[string](f), limited))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }() // ends at cancel
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return c
}

// bubble runs f in fake time; controllers of run end inside it.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func addAll(t *testing.T, c *reconcile.Controller[string], prefix string, n int) {
	t.Helper()
	for i := range n {
		if err := c.Add(fmt.Sprintf("%s%d", prefix, i)); err != nil {
			t.Fatal(err)
		}
	}
}

// always is one quota for every key.
func always(q *quota.Quota) func(string) (*quota.Quota, error) {
	return func(string) (*quota.Quota, error) { return q, nil }
}

func workers(n int) reconcile.Options[string] {
	return reconcile.Options[string]{Workers: n, Backoff: queue.Backoff{Base: time.Second, Max: time.Minute}}
}
