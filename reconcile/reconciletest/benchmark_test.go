package reconciletest_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

var tune = reconciletest.NewBenchmark(flag.CommandLine)

// BenchmarkOwn is what TestResultsOfABenchmarkAreWholeLines runs.
func BenchmarkOwn(b *testing.B) { tune(b, writer) }

// writer writes the status of an object in each run.
func writer(b testing.TB, timed func(store.Backend) store.Backend) (reconcile.Reconciler[reconcile.Request], []reconcile.Request) {
	s := things(b, timed(things(b, nil).Backend()))
	o := must(s.Create(b.Context(), &thing{Meta: store.Meta{Name: "a"}}))
	return reconcile.Func[reconcile.Request](func(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
		_, err := s.Get(ctx, key)
		return reconcile.Result{Requeue: true}, err // which does not count
	}), []reconcile.Request{o.Key()}
}

// benchstat reads whole lines: what a Manager or a run logs must not stand in one.
//
// Seen to fail with a controller that logs to slog.Default, and for benchstat itself with an advice that
// began with the benchmark's name.
func TestResultsOfABenchmarkAreWholeLines(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$", "-test.bench=Own", "-test.benchtime=10x", "-workers", "1,2", "-work", "0,1us").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	result := regexp.MustCompile(`^BenchmarkOwn/workers=[12]/batch=1/work=\S+\s+10\s+[\d.]+ ns/op\s+[\d.]+ queue-ns/op\s+[\d.]+ run-ns/op\s+[\d.]+ store-ns/op$`)
	advice := regexp.MustCompile(`^--- BenchmarkOwn: workers=\S+ is the fastest; change the .* first`)
	results, advices := 0, 0
	for line := range strings.Lines(string(out)) {
		switch line = strings.TrimSpace(line); {
		case result.MatchString(line):
			results++
		case advice.MatchString(line):
			advices++
		case strings.Contains(line, "Benchmark") || strings.Contains(line, "ns/op"):
			t.Errorf("%q is not a result", line)
		}
	}
	if results != 4 || advices != 2 {
		t.Errorf("%d results and %d advices, want 4 and 2:\n%s", results, advices, out)
	}
}

// waiting takes some time for each call.
type waiting struct {
	wait time.Duration
	err  error
}

func (w waiting) Reconcile(context.Context, reconcile.Request) (reconcile.Result, error) {
	time.Sleep(w.wait)
	return reconcile.Result{}, w.err
}

func (w waiting) ReconcileBatch(_ context.Context, keys []reconcile.Request) []reconcile.Outcome {
	time.Sleep(w.wait)
	return make([]reconcile.Outcome, len(keys))
}

// slow is a store that takes 4 ms for each read.
type slow struct{ store.Backend }

func (s slow) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	time.Sleep(4 * time.Millisecond)
	return s.Backend.Get(ctx, kind, key)
}

// In fake time what a benchmark measures is exact, but for the queue's own sample.
func TestBenchmarkMeasuresQueueRunAndStore(t *testing.T) {
	keys := []reconcile.Request{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}}
	waits := func(testing.TB, func(store.Backend) store.Backend) (reconcile.Reconciler[reconcile.Request], []reconcile.Request) {
		return waiting{wait: 10 * time.Millisecond}, keys
	}
	reads := func(b testing.TB, timed func(store.Backend) store.Backend) (reconcile.Reconciler[reconcile.Request], []reconcile.Request) {
		r, keys := writer(b, func(backend store.Backend) store.Backend { return timed(slow{backend}) })
		return r, keys
	}
	for name, c := range map[string]struct {
		workers, batch   int
		work             time.Duration
		setup            reconciletest.Setup
		wall, run, store time.Duration // of 100 runs
		advice           string
	}{
		"one worker":         {1, 1, 0, waits, time.Second, time.Second, 0, "change the workers first"},
		"five workers":       {5, 1, 0, waits, time.Second / 5, time.Second, 0, "change the workers first"},
		"fewer keys":         {10, 1, 0, waits, time.Second / 5, time.Second, 0, "change the workers first"},
		"work besides":       {1, 1, 10 * time.Millisecond, waits, 2 * time.Second, 2 * time.Second, 0, "change the workers first"},
		"reads of the store": {1, 1, 0, reads, 400 * time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond, "change the writes first"},
	} {
		synctest.Test(t, func(t *testing.T) {
			got := reconciletest.Measure(t, c.workers, c.batch, c.work, c.setup, 100)
			if got.Wall != c.wall || got.Run != c.run || got.Store != c.store || got.Queue > c.run/10 {
				t.Errorf("%s: %+v, want wall %v, run %v, store %v and hardly any time in the queue", name, got, c.wall, c.run, c.store)
			}
			if !strings.HasPrefix(got.Advice, c.advice) {
				t.Errorf("%s: %q, want %q", name, got.Advice, c.advice)
			}
		})
	}
}

// How full a batch is depends on how keys fall into the queue's shards: one call serves one to five.
func TestBenchmarkOfBatchesCountsEachKey(t *testing.T) {
	keys := []reconcile.Request{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}}
	synctest.Test(t, func(t *testing.T) {
		got := reconciletest.Measure(t, 1, 5, 0, func(testing.TB, func(store.Backend) store.Backend) (reconcile.Reconciler[reconcile.Request], []reconcile.Request) {
			return waiting{wait: 10 * time.Millisecond}, keys
		}, 100)
		if got.Wall < time.Second/5 || got.Wall > time.Second || got.Run != got.Wall {
			t.Errorf("%+v, want 20 to 100 calls of 10ms", got)
		}
	})
}

func TestAdviceNamesWhatLimits(t *testing.T) {
	for name, c := range map[string]struct {
		wall, run, store time.Duration // of 100 runs by 10 workers
		cpu              float64
		want             string
	}{
		"calls":  {time.Second, 10 * time.Second, time.Second, 0.1, "change the workers first: a run takes 100ms"},
		"writes": {time.Second, 10 * time.Second, 6 * time.Second, 0.1, "change the writes first"},
		"kernel": {time.Second, time.Second, 0, 0.5, "change the batch first"},
		"cores":  {time.Second, 10 * time.Second, 6 * time.Second, 0.9, "change the run first: 90 % of the cores"},
	} {
		if got := reconciletest.Advice(10, 100, c.wall, c.run, c.store, c.cpu); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestBenchmarkThatCannotRunFails(t *testing.T) {
	errBad := errors.New("bad")
	for name, c := range map[string]struct {
		batch int
		setup reconciletest.Setup
		want  string
	}{
		"a run that fails": {1, func(testing.TB, func(store.Backend) store.Backend) (reconcile.Reconciler[reconcile.Request], []reconcile.Request) {
			return waiting{err: errBad}, []reconcile.Request{{Name: "a"}}
		}, "a: bad"},
		"no keys": {1, func(testing.TB, func(store.Backend) store.Backend) (reconcile.Reconciler[reconcile.Request], []reconcile.Request) {
			return waiting{}, nil
		}, "no keys"},
		"no batches": {2, writer, "needs a reconciler with ReconcileBatch"},
	} {
		f := &failing{TB: t}
		got := f.of(func() { reconciletest.Measure(f, 1, c.batch, 0, c.setup, 10) })
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: failed with %q, want %q", name, got, c.want)
		}
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(discard{})
	reconciletest.NewBenchmark(flags)
	for _, args := range []string{"-workers=0", "-workers=1,-2", "-batch=a", "-work=-1s", "-work="} {
		if err := flags.Parse([]string{args}); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
