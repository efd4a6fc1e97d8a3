package metrics_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

type traceKey struct{}

// traced is a context of a call that belongs to a trace.
func traced(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, traceKey{}, id)
}

func labelsOf(ctx context.Context) map[string]string {
	id, _ := ctx.Value(traceKey{}).(string)
	if id == "" {
		return nil
	}
	return map[string]string{"trace_id": id}
}

// exemplars are the traces of a histogram's buckets by their upper bounds.
func exemplars(h *dto.Histogram) map[float64]string {
	found := map[float64]string{}
	for _, b := range h.GetBucket() {
		for _, l := range b.GetExemplar().GetLabel() {
			found[b.GetUpperBound()] = l.GetValue()
		}
	}
	return found
}

// Runs of 30 ms and 3 s, each in a trace of its own: each bucket names the trace that fell
// into it, and a run without a trace takes no exemplar away.
func TestHistogramsOfRunsHaveExemplars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
		c := metrics.New(m)
		c.Exemplars(labelsOf)
		o := metrics.With(c, &reconcile.Options[string]{Middleware: []func(reconcile.Reconciler[string]) reconcile.Reconciler[string]{
			func(next reconcile.Reconciler[string]) reconcile.Reconciler[string] { // as package tracing does
				return reconcile.Func[string](func(ctx context.Context, key string) (reconcile.Result, error) {
					if key == "untraced" {
						return next.Reconcile(ctx, key)
					}
					return next.Reconcile(traced(ctx, "trace-of-"+key), key)
				})
			},
		}})
		ctl, err := reconcile.New("disks", reconcile.Func[string](func(_ context.Context, key string) (reconcile.Result, error) {
			if key == "slow" {
				time.Sleep(3 * time.Second)
				return reconcile.Result{}, reconcile.Terminal(errors.New("a run that failed has an exemplar too"))
			}
			time.Sleep(30 * time.Millisecond)
			return reconcile.Result{}, nil
		}), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Register(ctl); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ended by cancel, waited for below
		for _, key := range []string{"slow", "fast", "untraced"} {
			if err := ctl.Add(key); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		families := scrape(t, c)
		for name, want := range map[string]map[float64]string{
			"controller_runtime_reconcile_time_seconds": {0.05: "trace-of-fast", 3: "trace-of-slow"},
			"workqueue_work_duration_seconds":           {0.1: "trace-of-fast", 10: "trace-of-slow"},
		} {
			got := exemplars(families[name].GetMetric()[0].GetHistogram())
			if len(got) != len(want) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
			for bound, trace := range want {
				if got[bound] != trace {
					t.Errorf("%s: the bucket up to %v has the exemplar %q, want %q", name, bound, got[bound], trace)
				}
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A store call within a trace has an exemplar; labels that Prometheus refuses break nothing.
func TestStoreCallsHaveExemplars(t *testing.T) {
	c, b := measure(t, newBackend(t))
	get := func(id string) {
		t.Helper()
		if _, err := b.Get(traced(t.Context(), id), "Disk", store.Key{Name: "a"}); !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	seen := func() (found []string) {
		for _, m := range scrape(t, c)["tend_store_operation_duration_seconds"].GetMetric() {
			for _, id := range exemplars(m.GetHistogram()) {
				found = append(found, id)
			}
		}
		return found
	}
	get("not asked for")
	if found := seen(); len(found) != 0 {
		t.Errorf("exemplars %v, although none were asked for", found)
	}
	c.Exemplars(labelsOf)
	for _, bad := range []string{"", "\xff", strings.Repeat("x", 200)} {
		get(bad)
	}
	if found := seen(); len(found) != 0 {
		t.Errorf("exemplars %v", found)
	}
	get("t1")
	if found := seen(); len(found) != 1 || found[0] != "t1" {
		t.Errorf("exemplars %v, want t1", found)
	}
	c.Exemplars(func(context.Context) map[string]string { return map[string]string{"__reserved": "x"} })
	get("t2")
	c.Exemplars(nil)
	get("t3")
	if found := seen(); len(found) != 1 || found[0] != "t1" {
		t.Errorf("exemplars %v, want t1 still", found)
	}
}

// A function of labels that panics costs its calls their exemplars, and nothing else: the
// call goes on, is timed, and the next one has its exemplar.
//
// Negative control: mutant "labels that panic end a store call".
func TestLabelsThatPanicCostTheExemplarOnly(t *testing.T) {
	c, b := measure(t, newBackend(t))
	panics := true
	c.Exemplars(func(context.Context) map[string]string {
		if panics {
			panic("no span")
		}
		return map[string]string{"trace_id": "a"}
	})
	for n := range 2 {
		if _, err := b.Get(t.Context(), "Disk", store.Key{Name: "a"}); !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		times, found := uint64(0), 0
		for _, m := range scrape(t, c)["tend_store_operation_duration_seconds"].GetMetric() {
			times += m.GetHistogram().GetSampleCount()
			found += len(exemplars(m.GetHistogram()))
		}
		if times != uint64(n+1) || found != n {
			t.Errorf("after %d calls %d are timed and %d have an exemplar, want %d", n+1, times, found, n)
		}
		panics = false
	}
}
