//go:build peers

package bench

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
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
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrl "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	tendmetrics "github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// BenchmarkController: end to end, ns per run. Every key is fed once a round, by one
// goroutine, while the workers are at it. What a run does is the dimension work (see
// jobFor); without one it only counts. Metrics are on where the name says so; logs are
// discarded everywhere.
func BenchmarkController(b *testing.B) {
	keys := diskKeys(or(*keysFlag, 1e5)[0])
	for _, w := range *workFlag {
		j := sync.OnceValue(func() job { return jobFor(b, w, keys) }) // made only if a row needs it
		for _, workers := range *workersFlag {
			name := "workers=" + strconv.Itoa(workers)
			if w != "none" {
				name += "/work=" + w
			}
			b.Run(name, func(b *testing.B) {
				for _, s := range services(w) {
					b.Run("impl="+s.name, func(b *testing.B) { serve(b, s, keys, workers, j()) })
				}
			})
		}
	}
}

// service starts a controller that runs j for each key. feed adds keys.
type service struct {
	name  string
	start func(b *testing.B, workers int, j job) (feed func(keys []store.Key))
}

// services are the implementations for some work: all of them for a run that does
// nothing, and those that people use for real work.
func services(work string) []service {
	used := []service{
		{"tend+prom", startTendProm},
		{"client-go+prom", startLoop(false)},
		{"client-go-careful+prom", startLoop(true)},
		{"controller-runtime+prom", startChannel(true)},
	}
	for _, size := range *batchFlag {
		used = append(used, service{"tend-batch-" + strconv.Itoa(size) + "+prom", startTendBatch(size)})
	}
	if work != "none" {
		return used
	}
	return append(
		used,
		service{"tend", startTend},
		service{"tend-chan+prom", startTendChan},
		service{"controller-runtime-classic+prom", startChannel(false)},
		service{"controller-runtime-direct+prom", startDirect},
		service{"ticker", startTicker},
		service{"tend-queue+prom", startSubject(newTendProm[store.Key])},
		service{"least-entry", startSubject(newLeastEntry[store.Key])}, // least loses what is added while it runs
	)
}

func serve(b *testing.B, s service, keys []store.Key, workers int, j job) {
	var left atomic.Int64
	done := make(chan struct{}, 1)
	do := j.do
	j.do = func(ctx context.Context, key store.Key) error {
		if err := do(ctx, key); err != nil {
			return err
		}
		if left.Add(-1) == 0 {
			done <- struct{}{}
		}
		return nil
	}
	feed := s.start(b, workers, j)
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

func options(workers int, j job) *reconcile.Options[store.Key] {
	return &reconcile.Options[store.Key]{
		Workers: workers, Logger: discard, Reads: j.reads,
		Queue: queue.Options[store.Key]{Shards: shards()},
	}
}

// reconciler is what tend's controllers run. Deadline, recover and logger are as
// they are by default.
func reconciler(j job) reconcile.Func[store.Key] {
	return func(ctx context.Context, key store.Key) (reconcile.Result, error) {
		if j.looks {
			select {
			case <-ctx.Done():
				return reconcile.Result{}, ctx.Err()
			default:
			}
			reconcile.Logger(ctx).DebugContext(ctx, "run")
		}
		return reconcile.Result{}, j.do(ctx, key)
	}
}

// launch runs c in a Manager and feeds it through a source's sink.
func launch(b *testing.B, c *reconcile.Controller[store.Key], err error, prom bool) func(keys []store.Key) {
	if err != nil {
		b.Fatal(err)
	}
	sinks := make(chan reconcile.Sink[store.Key], 1)
	m := manage(b, c, reconcile.Source[store.Key]{Name: "bench", Run: func(ctx context.Context, to reconcile.Sink[store.Key]) error {
		to.Synced()
		sinks <- to
		<-ctx.Done()
		return nil
	}})
	if prom {
		watchTend(b, m)
	}
	to := <-sinks
	return func(keys []store.Key) {
		for _, key := range keys {
			_ = to.Add(key, queue.AddOptions{})
		}
	}
}

func manage(b *testing.B, c *reconcile.Controller[store.Key], src reconcile.Source[store.Key]) *reconcile.Manager {
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

func startTend(b *testing.B, workers int, j job) func([]store.Key) {
	c, err := reconcile.New("bench", reconciler(j), options(workers, j))
	return launch(b, c, err, false)
}

func startTendProm(b *testing.B, workers int, j job) func([]store.Key) {
	c, err := reconcile.New("bench", reconciler(j), options(workers, j))
	return launch(b, c, err, true)
}

// startTendChan feeds through a channel, as controller-runtime is fed.
func startTendChan(b *testing.B, workers int, j job) func([]store.Key) {
	c, err := reconcile.New("bench", reconciler(j), options(workers, j))
	if err != nil {
		b.Fatal(err)
	}
	ch := make(chan store.Key, 1024)
	watchTend(b, manage(b, c, reconcile.Chan("bench", ch)))
	return func(keys []store.Key) {
		for _, key := range keys {
			ch <- key
		}
	}
}

type batchOf struct{ job }

func (r batchOf) ReconcileBatch(ctx context.Context, keys []store.Key) []reconcile.Outcome {
	outcomes := make([]reconcile.Outcome, len(keys))
	for i, key := range keys {
		outcomes[i].Err = r.do(ctx, key)
	}
	return outcomes
}

func startTendBatch(size int) func(*testing.B, int, job) func([]store.Key) {
	return func(b *testing.B, workers int, j job) func([]store.Key) {
		o := options(workers, j)
		o.Batch = size
		c, err := reconcile.NewBatch("bench", batchOf{j}, o)
		return launch(b, c, err, true)
	}
}

// startLoop is client-go's queue with the worker loop that its documentation shows
// and everybody writes: no deadline, no recover, one logger for all. careful adds
// what a careful user does: all three, with the key in the logger.
func startLoop(careful bool) func(*testing.B, int, job) func([]store.Key) {
	return func(b *testing.B, workers int, j job) func([]store.Key) {
		scrape(b, metrics.Registry)
		q := workqueue.NewTypedRateLimitingQueueWithConfig(perKey[store.Key](backoffBase),
			workqueue.TypedRateLimitingQueueConfig[store.Key]{Name: peersName})
		reconcile := func(ctx context.Context, logger *slog.Logger, key store.Key) error {
			if j.looks {
				select {
				case <-ctx.Done():
					return ctx.Err()
				default:
				}
				logger.DebugContext(ctx, "run")
			}
			return j.do(ctx, key)
		}
		guarded := func(ctx context.Context, key store.Key) (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
				}
			}()
			ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
			defer cancel()
			return reconcile(ctx, discard.With("key", key), key)
		}
		run := func(ctx context.Context, key store.Key) error { return reconcile(ctx, discard, key) }
		if careful {
			run = guarded
		}
		next := func(ctx context.Context) bool {
			key, shutdown := q.Get()
			if shutdown {
				return false
			}
			defer q.Done(key)
			if err := run(ctx, key); err != nil {
				q.AddRateLimited(key)
			} else {
				q.Forget(key)
			}
			return true
		}
		ctx, cancel := context.WithCancel(context.Background())
		var pool sync.WaitGroup
		for range workers {
			pool.Go(func() {
				for next(ctx) {
				}
			})
		}
		b.Cleanup(func() { q.ShutDown(); cancel(); pool.Wait() })
		return func(keys []store.Key) {
			for _, key := range keys {
				q.Add(key)
			}
		}
	}
}

// startSubject is a loop of workers around a queue and no controller at all: no
// deadline, no recover, no logger, no rules for what a run returns. What a
// controller takes beyond it is the price of these.
func startSubject(fresh func(*testing.B, time.Duration) subject[store.Key]) func(*testing.B, int, job) func([]store.Key) {
	return func(b *testing.B, workers int, j job) func([]store.Key) {
		s := fresh(b, backoffBase)
		var pool sync.WaitGroup
		for range workers {
			pool.Go(func() { s.Consume(func(key store.Key) { _ = j.do(context.Background(), key) }) })
		}
		b.Cleanup(func() { s.Close(); pool.Wait() })
		return s.Fill
	}
}

// controllerRuntime makes a controller as its builder does, with as many workers
// as asked for. Names need not be unique here; everything else is the default,
// priority being its default queue.
func controllerRuntime(b *testing.B, workers int, priority bool, j job, src source.TypedSource[store.Key]) {
	scrape(b, metrics.Registry)
	yes := true
	c, err := controller.NewTypedUnmanaged(peersName, controller.TypedOptions[store.Key]{
		SkipNameValidation: &yes, MaxConcurrentReconciles: workers, UsePriorityQueue: &priority, Logger: logr.Discard(),
		Reconciler: ctrl.TypedFunc[store.Key](func(ctx context.Context, key store.Key) (ctrl.Result, error) {
			if j.looks {
				select {
				case <-ctx.Done():
					return ctrl.Result{}, ctx.Err()
				default:
				}
				log.FromContext(ctx).V(1).Info("run")
			}
			return ctrl.Result{}, j.do(ctx, key)
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
func startChannel(priority bool) func(*testing.B, int, job) func([]store.Key) {
	return func(b *testing.B, workers int, j job) func([]store.Key) {
		ch := make(chan event.TypedGenericEvent[store.Key], 1024)
		controllerRuntime(b, workers, priority, j, source.TypedChannel(ch, handler.TypedFuncs[store.Key, store.Key]{
			GenericFunc: func(_ context.Context, e event.TypedGenericEvent[store.Key], q workqueue.TypedRateLimitingInterface[store.Key]) {
				q.Add(e.Object)
			},
		}))
		return func(keys []store.Key) {
			for _, key := range keys {
				ch <- event.TypedGenericEvent[store.Key]{Object: key}
			}
		}
	}
}

// startDirect adds to the queue itself, from a source that is a function: less
// than what is documented for use, and the fastest way in.
func startDirect(b *testing.B, workers int, j job) func([]store.Key) {
	queues := make(chan workqueue.TypedRateLimitingInterface[store.Key], 1)
	controllerRuntime(b, workers, true, j, source.TypedFunc[store.Key](
		func(_ context.Context, q workqueue.TypedRateLimitingInterface[store.Key]) error {
			queues <- q
			return nil
		}))
	q := <-queues
	return func(keys []store.Key) {
		for _, key := range keys {
			q.Add(key)
		}
	}
}

// startTicker is what people write before they look for a library: at each tick
// a loop over everything, one after another whatever the workers, no queue, no
// retry. It shows what the figure of a round would be if all keys changed
// between two ticks; when one key changed, it does the same work.
func startTicker(_ *testing.B, _ int, j job) func([]store.Key) {
	return func(keys []store.Key) {
		for _, key := range keys {
			_ = j.do(context.Background(), key)
		}
	}
}
