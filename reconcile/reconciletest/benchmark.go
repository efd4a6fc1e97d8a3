package reconciletest

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// benchmark is what the flags of NewBenchmark say.
type benchmark struct {
	workers, batch []int
	work           []time.Duration
}

// NewBenchmark makes a func that runs a reconciler of your own under go test -bench, once for
// each combination of its flags:
//
//	var tune = reconciletest.NewBenchmark(flag.CommandLine)
//
//	func BenchmarkDisks(b *testing.B) { tune(b, setup) }
//
//	go test -run '^$' -bench Disks -args -workers 8,64 -work 0,10ms
//
// It declares the flags, which go test takes behind -args:
//
//	-workers  how many workers, separated by commas; 1,8,64
//	-batch    how many keys a call has; more than 1 needs a [reconcile.BatchReconciler]; 1
//	-work     how long each call waits besides, in place of calls that a fake answers at once; 0
//
// A line has, for each key, beside ns/op: queue-ns/op, from when it was ready until a worker had
// it; run-ns/op, in the reconciler, which overlaps with the runs of other workers; and
// store-ns/op, the part of that in Get, List and Commit of the store. The line after those of
// a -work says which setting to change first. benchstat reads the output.
//
// setup makes the reconciler of one line, and the keys that it runs, at least one, in turns. It is
// called for each line several times. A store on what timed returns is counted as store-ns/op;
// leases of the backend are not reachable through it. Results of the runs do not count, each
// add is one run; an error fails the benchmark.
func NewBenchmark(flags *flag.FlagSet) func(b *testing.B, setup func(b testing.TB, timed func(store.Backend) store.Backend) (reconcile.Reconciler[reconcile.Request], []reconcile.Request)) {
	x := &benchmark{workers: []int{1, 8, 64}, batch: []int{1}, work: []time.Duration{0}}
	list(flags, "workers", "numbers of `workers`, separated by commas", &x.workers, strconv.Atoi)
	list(flags, "batch", "`sizes` of batches, separated by commas", &x.batch, strconv.Atoi)
	list(flags, "work", "`times` that each call waits besides, separated by commas", &x.work, time.ParseDuration)
	return x.run
}

func list[T cmp.Ordered](flags *flag.FlagSet, name, usage string, to *[]T, parse func(string) (T, error)) {
	flags.Func(name, usage, func(s string) error {
		var all []T
		for field := range strings.SplitSeq(s, ",") {
			v, err := parse(field)
			var zero T
			if err == nil && v < zero || err == nil && v == zero && name != "work" {
				err = fmt.Errorf("%v is too small", v)
			}
			if err != nil {
				return err
			}
			all = append(all, v)
		}
		*to = all
		return nil
	})
}

type setup = func(b testing.TB, timed func(store.Backend) store.Backend) (reconcile.Reconciler[reconcile.Request], []reconcile.Request)

func (x *benchmark) run(b *testing.B, of setup) {
	for _, work := range x.work {
		var fastest timing
		for _, batch := range x.batch {
			for _, workers := range x.workers {
				var last timing // b.N grows from one to the next
				b.Run(settings{workers, batch, work}.String(), func(b *testing.B) {
					last = measure(b, settings{workers, batch, work}, of, b.N, b.ResetTimer, b.StopTimer)
					b.ReportMetric(float64(last.queue)/float64(b.N), "queue-ns/op")
					b.ReportMetric(float64(last.run)/float64(b.N), "run-ns/op")
					b.ReportMetric(float64(last.store)/float64(b.N), "store-ns/op")
				})
				if last.n > 0 && (fastest.n == 0 || last.each(last.wall) < fastest.each(fastest.wall)) {
					fastest = last
				}
			}
		}
		if fastest.n > 0 { // on a line of its own: benchstat reads the others
			_, _ = fmt.Fprintf(os.Stdout, "--- %s: %v is the fastest; %s\n", b.Name(), fastest.settings, fastest.advice())
		}
	}
}

// settings are those of one line.
type settings struct {
	workers, batch int
	work           time.Duration
}

func (s settings) String() string {
	return fmt.Sprintf("workers=%d/batch=%d/work=%v", s.workers, s.batch, s.work)
}

// timing is what n runs took, all together.
type timing struct {
	settings
	n                       int
	wall, queue, run, store time.Duration
	cpu                     float64 // of all cores, from 0 to 1
}

func (t timing) each(d time.Duration) time.Duration { return d / time.Duration(max(t.n, 1)) }

// advice is which setting to change first.
func (t timing) advice() string {
	switch run, stored := t.each(t.run), t.each(t.store); {
	case t.cpu > 0.7:
		return fmt.Sprintf("change the run first: %.0f %% of the cores are in use, and more workers than cores (%d) only add hand-offs", 100*t.cpu, runtime.GOMAXPROCS(0))
	case 2*t.run < t.wall*time.Duration(t.workers):
		return fmt.Sprintf("change the batch first, if one call can serve many keys: the workers are idle for more than half of the time, a run takes only %v", run)
	case 2*t.store > t.run:
		return fmt.Sprintf("change the writes first: a run takes %v, and %v of that in the store; write once a run, or many keys in one transaction by a batch", run, stored)
	default:
		return fmt.Sprintf("change the workers first: a run takes %v and mostly waits, and %.0f a second is what the workers (%d) can make; double them until ns/op stops falling, at the quota of what the runs call", run, float64(t.n)/t.wall.Seconds(), t.workers)
	}
}

// measure makes n runs, after some that warm up. begin and end are called around them.
func measure(b testing.TB, s settings, of setup, n int, begin, end func()) timing {
	var stored, ran atomic.Int64
	timed := func(backend store.Backend) store.Backend {
		return &aroundBackend{backend, func(_ string, call func() error) error {
			defer since(&stored, time.Now())
			return call()
		}}
	}
	r, keys := of(b, timed)
	if len(keys) == 0 {
		b.Fatalf("reconciletest: Benchmark: no keys")
	}
	f := &feeder{free: make(chan reconcile.Request, len(keys)), all: make(chan struct{}, 1)}
	for _, key := range keys {
		f.free <- key
	}
	c := f.controller(b, s, r, &ran)
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }() // stopped and waited for below
	outstanding := min(s.workers*s.batch, len(keys))
	f.round(c, min(len(keys), 100), outstanding)
	stored.Store(0)
	ran.Store(0)
	cores := useOfCores()
	queued, started := c.Queue().Stats().QueueTime.Sum, time.Now()
	begin()
	f.round(c, n, outstanding)
	end()
	t := timing{settings: s, n: n, wall: time.Since(started), run: time.Duration(ran.Load()), store: time.Duration(stored.Load())}
	t.queue = time.Duration((c.Queue().Stats().QueueTime.Sum - queued) * float64(time.Second))
	t.cpu = cores()
	stop()
	if err := cmp.Or(<-ended, f.err); err != nil {
		b.Fatalf("reconciletest: Benchmark: %v", err)
	}
	return t
}

// feeder keeps as many keys on their way as the workers can have.
type feeder struct {
	free chan reconcile.Request // keys that are not on their way
	todo atomic.Int64           // runs of this round whose key was not added yet
	left atomic.Int64           // runs of this round that have not ended
	all  chan struct{}          // has a token when none is left

	once sync.Once
	err  error // of the first run that failed
}

// round makes n runs and waits for them.
func (f *feeder) round(c *reconcile.Controller[reconcile.Request], n, outstanding int) {
	first := min(n, outstanding)
	f.todo.Store(int64(n - first))
	f.left.Store(int64(n))
	for range first {
		_ = c.Add(<-f.free)
	}
	<-f.all
}

// ran is told of each run that has ended.
func (f *feeder) ran(c *reconcile.Controller[reconcile.Request], key reconcile.Request, err error) {
	if err != nil {
		f.once.Do(func() { f.err = fmt.Errorf("%v: %w", key, err) })
	}
	f.free <- key
	if f.todo.Add(-1) >= 0 {
		_ = c.Add(<-f.free)
	}
	if f.left.Add(-1) == 0 {
		f.all <- struct{}{}
	}
}

// controller runs r with the settings, and adds up for how long.
func (f *feeder) controller(b testing.TB, s settings, r reconcile.Reconciler[reconcile.Request], ran *atomic.Int64) (c *reconcile.Controller[reconcile.Request]) {
	o := &reconcile.Options[reconcile.Request]{Workers: s.workers, Logger: slog.New(slog.DiscardHandler)}
	var err error
	if batched, ok := r.(reconcile.BatchReconciler[reconcile.Request]); s.batch > 1 && ok {
		o.Batch = s.batch
		c, err = reconcile.NewBatch("bench", timedBatch(func(ctx context.Context, keys []reconcile.Request) []reconcile.Outcome {
			begun := time.Now()
			outcomes := batched.ReconcileBatch(ctx, keys)
			_ = sleep(ctx, s.work)
			since(ran, begun)
			for i, key := range keys {
				f.ran(c, key, outcomes[i].Err)
			}
			return make([]reconcile.Outcome, len(keys))
		}), o)
	} else if s.batch > 1 {
		b.Fatalf("reconciletest: Benchmark: a batch of %d needs a reconciler with ReconcileBatch, which %T has not", s.batch, r)
	} else {
		c, err = reconcile.New("bench", reconcile.Func[reconcile.Request](func(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
			begun := time.Now()
			_, err := r.Reconcile(ctx, key)
			_ = sleep(ctx, s.work)
			since(ran, begun)
			f.ran(c, key, err)
			return reconcile.Result{}, nil
		}), o)
	}
	if err != nil {
		b.Fatalf("reconciletest: Benchmark: %v", err)
	}
	return c
}

type timedBatch func(context.Context, []reconcile.Request) []reconcile.Outcome

func (f timedBatch) ReconcileBatch(ctx context.Context, keys []reconcile.Request) []reconcile.Outcome {
	return f(ctx, keys)
}

func since(sum *atomic.Int64, begun time.Time) { sum.Add(int64(time.Since(begun))) }

// useOfCores begins to measure which part of all cores' time this process uses, from 0 to 1. The
// runtime knows it as of the last collection of garbage.
func useOfCores() (end func() float64) {
	read := func() (used, all float64) {
		runtime.GC()
		s := []metrics.Sample{{Name: "/cpu/classes/idle:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}}
		metrics.Read(s)
		return s[1].Value.Float64() - s[0].Value.Float64(), s[1].Value.Float64()
	}
	used, all := read()
	return func() float64 {
		usedNow, allNow := read()
		return (usedNow - used) / max(allNow-all, 1e-9)
	}
}
