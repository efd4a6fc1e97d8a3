package bench

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrl "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	tendmetrics "github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
)

// BenchmarkController: end to end, ns per reconcile. Every key is fed once a
// round, by one goroutine, while the workers are at it; the reconciler does
// nothing but count, or waits for -work. Metrics are on where the name says so;
// logs are discarded everywhere.
func BenchmarkController(b *testing.B) {
	n := or(*keysFlag, 1e5)[0]
	keys := objectKeys(n)
	for _, work := range *workFlag {
		for _, workers := range *workersFlag {
			name := "workers=" + strconv.Itoa(workers)
			if work > 0 {
				name += "/work=" + work.String()
			}
			b.Run(name, func(b *testing.B) {
				for _, s := range services() {
					b.Run("impl="+s.name, func(b *testing.B) { serve(b, s, keys, workers, work) })
				}
			})
		}
	}
}

// service starts a controller that calls run for each key. feed adds keys.
type service struct {
	name  string
	start func(b *testing.B, workers int, run func()) (feed func(keys []object))
}

func services() []service {
	ss := []service{
		{"tend", startTend},
		{"tend+prom", startTendProm},
		{"tend-context", startTendContext},
		{"tend-chan+prom", startTendChan},
		{"client-go+prom", startLoop},
		{"controller-runtime+prom", startChannel(true)},
		{"controller-runtime-classic+prom", startChannel(false)},
		{"controller-runtime-direct+prom", startDirect},
		{"ticker", startTicker},
		{"tend-queue+prom", startSubject(newTendProm[object])},
		{"least-entry", startSubject(newLeastEntry[object])}, // least loses what is added while it runs
	}
	for _, size := range *batchFlag {
		ss = append(ss, service{"tend-batch-" + strconv.Itoa(size) + "+prom", startTendBatch(size)})
	}
	return ss
}

func serve(b *testing.B, s service, keys []object, workers int, work time.Duration) {
	var left atomic.Int64
	done := make(chan struct{}, 1)
	feed := s.start(b, workers, func() {
		if work > 0 {
			time.Sleep(work)
		}
		if left.Add(-1) == 0 {
			done <- struct{}{}
		}
	})
	round := func(n int) {
		left.Store(int64(n))
		feed(keys[:n])
		<-done
	}
	round(min(len(keys), 1000))
	measure(b, func() {
		for todo := b.N; todo > 0; todo -= len(keys) {
			round(min(todo, len(keys)))
		}
	})
}

// background runs f until the benchmark ends, and waits for it then.
func background(b *testing.B, f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("run: %v", err)
		}
	})
}

func options(workers int) *reconcile.Options[object] {
	return &reconcile.Options[object]{
		Workers: workers, Logger: slog.New(slog.DiscardHandler),
		Queue: queue.Options[object]{Shards: shards()},
	}
}

// nothing is the reconciler of tend's controllers. Deadline, recover and logger
// are as they are by default.
func nothing(run func()) reconcile.Func[object] {
	return func(context.Context, object) (reconcile.Result, error) {
		run()
		return reconcile.Result{}, nil
	}
}

// launch runs c in a Manager and feeds it through a source's sink.
func launch(b *testing.B, c *reconcile.Controller[object], err error, prom bool) func(keys []object) {
	if err != nil {
		b.Fatal(err)
	}
	sinks := make(chan reconcile.Sink[object], 1)
	m := manage(b, c, reconcile.Source[object]{Name: "bench", Run: func(ctx context.Context, to reconcile.Sink[object]) error {
		to.Synced()
		sinks <- to
		<-ctx.Done()
		return nil
	}})
	if prom {
		watchTend(b, m)
	}
	to := <-sinks
	return func(keys []object) {
		for _, key := range keys {
			_ = to.Add(key, queue.AddOptions{})
		}
	}
}

func manage(b *testing.B, c *reconcile.Controller[object], src reconcile.Source[object]) *reconcile.Manager {
	if err := c.Watch(src); err != nil {
		b.Fatal(err)
	}
	m := new(reconcile.Manager)
	if err := m.Register(c); err != nil {
		b.Fatal(err)
	}
	background(b, m.Run)
	return m
}

func watchTend(b *testing.B, m *reconcile.Manager) {
	scrape(b, registry(tendmetrics.New(m)))
}

func startTend(b *testing.B, workers int, run func()) func([]object) {
	c, err := reconcile.New("bench", nothing(run), options(workers))
	return launch(b, c, err, false)
}

func startTendProm(b *testing.B, workers int, run func()) func([]object) {
	c, err := reconcile.New("bench", nothing(run), options(workers))
	return launch(b, c, err, true)
}

// startTendContext is startTend with a reconciler that asks its context, as one does
// that calls anything else: the context is made then, and made anew for each run.
func startTendContext(b *testing.B, workers int, run func()) func([]object) {
	c, err := reconcile.New("bench", reconcile.Func[object](func(ctx context.Context, _ object) (reconcile.Result, error) {
		ctx.Done()
		run()
		return reconcile.Result{}, nil
	}), options(workers))
	return launch(b, c, err, false)
}

// startTendChan feeds through a channel, as controller-runtime is fed.
func startTendChan(b *testing.B, workers int, run func()) func([]object) {
	c, err := reconcile.New("bench", nothing(run), options(workers))
	if err != nil {
		b.Fatal(err)
	}
	ch := make(chan object, 1024)
	watchTend(b, manage(b, c, reconcile.Chan("bench", ch)))
	return func(keys []object) {
		for _, key := range keys {
			ch <- key
		}
	}
}

type batchOf struct{ run func() }

func (r batchOf) ReconcileBatch(_ context.Context, keys []object) []reconcile.Outcome {
	for range keys {
		r.run()
	}
	return make([]reconcile.Outcome, len(keys))
}

func startTendBatch(size int) func(*testing.B, int, func()) func([]object) {
	return func(b *testing.B, workers int, run func()) func([]object) {
		o := options(workers)
		o.Batch = size
		c, err := reconcile.NewBatch("bench", batchOf{run}, o)
		return launch(b, c, err, true)
	}
}

// startLoop is client-go's queue with the worker loop that its documentation
// shows and everybody writes: no deadline, no recover, no logger.
func startLoop(b *testing.B, workers int, run func()) func([]object) {
	scrape(b, metrics.Registry)
	q := workqueue.NewTypedRateLimitingQueueWithConfig(perKey[object](backoffBase),
		workqueue.TypedRateLimitingQueueConfig[object]{Name: peersName})
	reconcile := func(context.Context, object) error { run(); return nil }
	next := func(ctx context.Context) bool {
		key, shutdown := q.Get()
		if shutdown {
			return false
		}
		defer q.Done(key)
		if err := reconcile(ctx, key); err != nil {
			q.AddRateLimited(key)
		} else {
			q.Forget(key)
		}
		return true
	}
	var pool sync.WaitGroup
	for range workers {
		pool.Go(func() {
			for next(context.Background()) {
			}
		})
	}
	b.Cleanup(func() { q.ShutDown(); pool.Wait() })
	return func(keys []object) {
		for _, key := range keys {
			q.Add(key)
		}
	}
}

// startSubject is a loop of workers around a queue and no controller at all: no
// deadline, no recover, no logger, no rules for what a run returns. What a
// controller takes beyond it is the price of these.
func startSubject(fresh func(*testing.B, time.Duration) subject[object]) func(*testing.B, int, func()) func([]object) {
	return func(b *testing.B, workers int, run func()) func([]object) {
		s := fresh(b, backoffBase)
		var pool sync.WaitGroup
		for range workers {
			pool.Go(func() { s.Consume(func(object) { run() }) })
		}
		b.Cleanup(func() { s.Close(); pool.Wait() })
		return s.Fill
	}
}

// controllerRuntime makes a controller as its builder does, with as many workers
// as asked for. Names need not be unique here; everything else is the default,
// priority being its default queue.
func controllerRuntime(b *testing.B, workers int, priority bool, run func(), src source.TypedSource[object]) {
	scrape(b, metrics.Registry)
	yes := true
	c, err := controller.NewTypedUnmanaged(peersName, controller.TypedOptions[object]{
		SkipNameValidation: &yes, MaxConcurrentReconciles: workers, UsePriorityQueue: &priority, Logger: logr.Discard(),
		Reconciler: ctrl.TypedFunc[object](func(context.Context, object) (ctrl.Result, error) {
			run()
			return ctrl.Result{}, nil
		}),
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Watch(src); err != nil {
		b.Fatal(err)
	}
	background(b, c.Start)
}

// startChannel feeds through a channel source, which is what controller-runtime
// documents for events that do not come from a cluster.
func startChannel(priority bool) func(*testing.B, int, func()) func([]object) {
	return func(b *testing.B, workers int, run func()) func([]object) {
		ch := make(chan event.TypedGenericEvent[object], 1024)
		controllerRuntime(b, workers, priority, run, source.TypedChannel(ch, handler.TypedFuncs[object, object]{
			GenericFunc: func(_ context.Context, e event.TypedGenericEvent[object], q workqueue.TypedRateLimitingInterface[object]) {
				q.Add(e.Object)
			},
		}))
		return func(keys []object) {
			for _, key := range keys {
				ch <- event.TypedGenericEvent[object]{Object: key}
			}
		}
	}
}

// startDirect adds to the queue itself, from a source that is a function: less
// than what is documented for use, and the fastest way in.
func startDirect(b *testing.B, workers int, run func()) func([]object) {
	queues := make(chan workqueue.TypedRateLimitingInterface[object], 1)
	controllerRuntime(b, workers, true, run, source.TypedFunc[object](
		func(_ context.Context, q workqueue.TypedRateLimitingInterface[object]) error {
			queues <- q
			return nil
		}))
	q := <-queues
	return func(keys []object) {
		for _, key := range keys {
			q.Add(key)
		}
	}
}

// startTicker is what people write before they look for a library: at each tick
// a loop over everything, one after another whatever the workers, no queue, no
// retry. It shows what the figure of a round would be if all keys changed
// between two ticks; when one key changed, it does the same work.
func startTicker(_ *testing.B, _ int, run func()) func([]object) {
	return func(keys []object) {
		for range keys {
			run()
		}
	}
}
