package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// scrape registers c with a registry that checks names, labels and types against
// the descriptions, and gathers.
func scrape(t *testing.T, c *metrics.Collector) map[string]*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatalf("register: %v", err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// value is the value of the series with these labels, NaN if there is none.
func value(f *dto.MetricFamily, labels ...string) float64 {
	for _, m := range f.GetMetric() {
		var have []string
		for _, l := range m.GetLabel() {
			have = append(have, l.GetName()+"="+l.GetValue())
		}
		if !slices.Equal(have, labels) {
			continue
		}
		switch f.GetType() {
		case dto.MetricType_COUNTER:
			return m.GetCounter().GetValue()
		case dto.MetricType_GAUGE:
			return m.GetGauge().GetValue()
		case dto.MetricType_HISTOGRAM:
			return float64(m.GetHistogram().GetSampleCount())
		}
	}
	return math.NaN()
}

func want(t *testing.T, families map[string]*dto.MetricFamily, name string, x float64, labels ...string) {
	t.Helper()
	if got := value(families[name], labels...); got != x {
		t.Errorf("%s%v is %v, want %v", name, labels, got, x)
	}
}

// The names, labels and types that dashboards made for client-go and
// controller-runtime ask for.
func TestNamesLabelsAndTypesAreThePeers(t *testing.T) {
	c, stop := running(t)
	defer stop()
	families := scrape(t, c)
	for _, w := range []struct {
		name   string
		typ    dto.MetricType
		labels string
	}{
		{"workqueue_depth", dto.MetricType_GAUGE, "controller name priority"},
		{"workqueue_adds_total", dto.MetricType_COUNTER, "controller name"},
		{"workqueue_queue_duration_seconds", dto.MetricType_HISTOGRAM, "controller name"},
		{"workqueue_work_duration_seconds", dto.MetricType_HISTOGRAM, "controller name"},
		{"workqueue_unfinished_work_seconds", dto.MetricType_GAUGE, "controller name"},
		{"workqueue_longest_running_processor_seconds", dto.MetricType_GAUGE, "controller name"},
		{"workqueue_retries_total", dto.MetricType_COUNTER, "controller name"},
		{"controller_runtime_reconcile_total", dto.MetricType_COUNTER, "controller result"},
		{"controller_runtime_reconcile_errors_total", dto.MetricType_COUNTER, "controller"},
		{"controller_runtime_terminal_reconcile_errors_total", dto.MetricType_COUNTER, "controller"},
		{"controller_runtime_reconcile_panics_total", dto.MetricType_COUNTER, "controller"},
		{"controller_runtime_reconcile_timeouts_total", dto.MetricType_COUNTER, "controller"},
		{"controller_runtime_reconcile_time_seconds", dto.MetricType_HISTOGRAM, "controller"},
		{"controller_runtime_max_concurrent_reconciles", dto.MetricType_GAUGE, "controller"},
		{"controller_runtime_active_workers", dto.MetricType_GAUGE, "controller"},
		{"leader_election_master_status", dto.MetricType_GAUGE, "name"},
	} {
		f := families[w.name]
		if f == nil {
			t.Errorf("there is no %s", w.name)
			continue
		}
		if f.GetType() != w.typ {
			t.Errorf("%s is a %v, want a %v", w.name, f.GetType(), w.typ)
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			if got := strings.Join(labels, " "); got != w.labels {
				t.Errorf("%s has labels %q, want %q", w.name, got, w.labels)
			}
		}
	}
}

func TestEveryFamilyHasHelpAndIsNamedForItsType(t *testing.T) {
	c, stop := running(t)
	defer stop()
	for name, f := range scrape(t, c) {
		if h := f.GetHelp(); len(h) < 10 || !strings.HasSuffix(h, ".") {
			t.Errorf("%s: help %q says little", name, h)
		}
		if total := strings.HasSuffix(name, "_total"); total != (f.GetType() == dto.MetricType_COUNTER) {
			t.Errorf("%s is a %v", name, f.GetType())
		}
	}
}

type spec struct{ Size int }

// running is a Manager with a controller that has run once and a cache.
func running(t *testing.T) (*metrics.Collector, func()) {
	t.Helper()
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New[spec, struct{}](b, "Disk", nil)
	if err != nil {
		t.Fatal(err)
	}
	disks, err := cache.New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan struct{}, 1)
	ctl, err := reconcile.New("disks", reconcile.Func[reconcile.Request](func(context.Context, reconcile.Request) (reconcile.Result, error) {
		ran <- struct{}{}
		return reconcile.Result{}, nil
	}), &reconcile.Options[reconcile.Request]{Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := ctl.Watch(reconcile.From(disks)); err != nil {
		t.Fatal(err)
	}
	m := new(reconcile.Manager)
	if err := m.Register(ctl); err != nil {
		t.Fatal(err)
	}
	bucket, err := ratelimit.NewBucket("cloud", 10, 5)
	if err != nil {
		t.Fatal(err)
	}
	c := metrics.New(m)
	if err := c.AddBucket(bucket); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), &store.Object[spec, struct{}]{Meta: store.Meta{Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	<-ran
	return c, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestCollectorFindsControllersCachesAndBuckets(t *testing.T) {
	c, stop := running(t)
	defer stop()
	f := scrape(t, c)
	want(t, f, "tend_cache_objects", 1, "cache=Disk")
	want(t, f, "tend_cache_synced", 1, "cache=Disk")
	want(t, f, "tend_bucket_tokens", 5, "bucket=cloud")
	want(t, f, "workqueue_adds_total", 1, "controller=disks", "name=disks")
	want(t, f, "tend_queue_dispatched_total", 1, "name=disks")
	want(t, f, "controller_runtime_max_concurrent_reconciles", 3, "controller=disks")
	want(t, f, "leader_election_master_status", 1, "name=disks")
}

func TestResultsAreCountedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := map[string]func() (reconcile.Result, error){
			"ok":       func() (reconcile.Result, error) { return reconcile.Result{}, nil },
			"later":    func() (reconcile.Result, error) { return reconcile.Result{RequeueAfter: time.Hour}, nil },
			"again":    func() (reconcile.Result, error) { return reconcile.Result{Requeue: true}, nil },
			"failed":   func() (reconcile.Result, error) { return reconcile.Result{}, errors.New("no") },
			"terminal": func() (reconcile.Result, error) { return reconcile.Result{}, reconcile.Terminal(errors.New("no")) },
			"panics":   func() (reconcile.Result, error) { panic("no") },
		}
		ctl, err := reconcile.New("r", reconcile.Func[string](func(_ context.Context, key string) (reconcile.Result, error) {
			return results[key]()
		}), &reconcile.Options[string]{
			Backoff: queue.Backoff{Base: time.Hour, NoJitter: true}, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		m := new(reconcile.Manager)
		if err := m.Register(ctl); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		synctest.Wait()
		for key := range results {
			if err := ctl.Add(key); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		f := scrape(t, metrics.New(m))
		for result, n := range map[string]float64{"success": 1, "requeue_after": 1, "requeue": 1, "error": 3, "canceled": 0} {
			want(t, f, "controller_runtime_reconcile_total", n, "controller=r", "result="+result)
		}
		want(t, f, "controller_runtime_reconcile_errors_total", 3, "controller=r")
		want(t, f, "workqueue_retries_total", 4, "controller=r", "name=r") // also those of the key that is parked, and of Requeue
		want(t, f, "controller_runtime_terminal_reconcile_errors_total", 1, "controller=r")
		want(t, f, "controller_runtime_reconcile_panics_total", 1, "controller=r")
		want(t, f, "tend_queue_keys", 1, "name=r", "state=parked")
		want(t, f, "tend_queue_keys", 1, "name=r", "state=delayed")
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// A worker is stuck whose run goes on after its context ended. The first snapshot of a cache
// is its start and no resync; one after a compaction is.
//
// Negative control: mutants "no worker is stuck" and "the start counts as a resync".
func TestStuckWorkersAndResyncsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		watched := &cutOnce{Backend: b, cut: make(chan struct{})}
		s, err := store.New[spec, struct{}](watched, "Disk", nil)
		if err != nil {
			t.Fatal(err)
		}
		goOn := make(chan struct{})
		ctl, err := reconcile.For(s, func(context.Context, *store.Object[spec, struct{}]) (reconcile.Result, error) {
			<-goOn // deaf to its context
			return reconcile.Result{}, nil
		}, &reconcile.ForOptions[spec, struct{}]{Options: reconcile.Options[reconcile.Request]{
			Workers: 2, Timeout: time.Second, Logger: slog.New(slog.DiscardHandler),
		}})
		if err != nil {
			t.Fatal(err)
		}
		m := &reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
		if err := m.Register(ctl); err != nil {
			t.Fatal(err)
		}
		c := metrics.New(m)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		look := func(when string, stuck, resyncs float64) {
			t.Helper()
			synctest.Wait()
			f := scrape(t, c)
			if got := value(f["tend_controller_stuck_workers"], "controller=Disk"); got != stuck {
				t.Errorf("%s: %v workers are stuck, want %v", when, got, stuck)
			}
			if got := value(f["tend_watch_resyncs_total"], "cache=Disk", "reason=lost"); got != resyncs {
				t.Errorf("%s: %v resyncs, want %v", when, got, resyncs)
			}
		}
		if _, err := s.Create(t.Context(), &store.Object[spec, struct{}]{Meta: store.Meta{Name: "a"}}); err != nil {
			t.Fatal(err)
		}
		look("at the start", 0, 0)
		time.Sleep(3 * time.Second)
		close(watched.cut)
		time.Sleep(3 * time.Second)
		look("after the timeout and a compaction", 1, 1)
		close(goOn)
		look("when the run has returned", 0, 1)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// cutOnce is a backend whose first watch ends, when cut is closed, because the history was
// compacted.
type cutOnce struct {
	store.Backend
	cut  chan struct{}
	once atomic.Bool
}

func (b *cutOnce) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	if !b.once.CompareAndSwap(false, true) {
		return b.Backend.Watch(ctx, kind, after)
	}
	return func(yield func(store.Batch, error) bool) {
		ctx, end := context.WithCancelCause(ctx)
		stop := make(chan struct{})
		defer close(stop)
		go func() { // ends with the watch
			select {
			case <-b.cut:
				end(store.ErrCompacted)
			case <-stop:
			}
		}()
		for batch, err := range b.Backend.Watch(ctx, kind, after) {
			if !yield(batch, err) {
				return
			}
		}
	}
}

func newQueue(t *testing.T, name string) *queue.Queue[string] {
	t.Helper()
	q, err := queue.New(&queue.Options[string]{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestRunningAndWaitingKeysShowTheirAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, "q")
		for _, key := range []string{"a", "b", "c"} {
			if err := q.Add(key); err != nil {
				t.Fatal(err)
			}
		}
		first, _ := q.Get(t.Context())
		time.Sleep(10 * time.Second)
		second, _ := q.Get(t.Context())
		time.Sleep(5 * time.Second)
		c := metrics.New(nil)
		if err := c.AddQueue(q); err != nil {
			t.Fatal(err)
		}
		f := scrape(t, c)
		near := func(name string, x float64, labels ...string) {
			t.Helper()
			if got := value(f[name], labels...); math.Abs(got-x) > 0.02 {
				t.Errorf("%s is %v, want about %v", name, got, x)
			}
		}
		near("workqueue_unfinished_work_seconds", 20, "controller=q", "name=q")
		near("workqueue_longest_running_processor_seconds", 15, "controller=q", "name=q")
		near("tend_queue_oldest_ready_age_seconds", 15, "name=q")
		want(t, f, "workqueue_depth", 1, "controller=q", "name=q", "priority=0")
		want(t, f, "workqueue_queue_duration_seconds", 2, "controller=q", "name=q")
		first.Done()
		second.Done()
		q.Close()
	})
}

func TestPrioritiesStayVisibleAndAreBounded(t *testing.T) {
	q := newQueue(t, "q")
	c := metrics.New(nil)
	if err := c.AddQueue(q); err != nil {
		t.Fatal(err)
	}
	add := func(p int8) {
		t.Helper()
		if err := q.AddWith(fmt.Sprint(p), queue.AddOptions{Priority: queue.At(p)}); err != nil {
			t.Fatal(err)
		}
	}
	add(10)
	want(t, scrape(t, c), "workqueue_depth", 1, "controller=q", "name=q", "priority=10")
	it, _ := q.Get(t.Context())
	it.Done()
	f := scrape(t, c)
	want(t, f, "workqueue_depth", 0, "controller=q", "name=q", "priority=10")
	for p := range int8(100) {
		add(p)
	}
	f = scrape(t, c)
	want(t, f, "workqueue_depth", 100, "controller=q", "name=q", "priority=exceeded_cardinality_limit")
	if n := len(f["workqueue_depth"].GetMetric()); n != 1 {
		t.Errorf("%d series of workqueue_depth, want 1", n)
	}
}

// The number of series does not grow with the keys.
func TestSeriesDoNotGrowWithKeys(t *testing.T) {
	q := newQueue(t, "q")
	c := metrics.New(nil)
	if err := c.AddQueue(q); err != nil {
		t.Fatal(err)
	}
	series := func() (n int) {
		for _, f := range scrape(t, c) {
			n += len(f.GetMetric())
		}
		return n
	}
	before := series()
	for i := range 1000 {
		if err := q.Add(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if after := series(); after != before {
		t.Errorf("%d series with 1000 keys, %d without", after, before)
	}
}

func TestAddRefusesNilAndTwins(t *testing.T) {
	c := metrics.New(nil)
	b, err := ratelimit.NewBucket("b", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	set := newQuotas(t)
	for what, err := range map[string]error{
		"nil queue":    c.AddQueue(nil),
		"nil bucket":   c.AddBucket(nil),
		"first queue":  nil,
		"second queue": errors.Join(c.AddQueue(newQueue(t, "q")), c.AddQueue(newQueue(t, "q"))),
		"two buckets":  errors.Join(c.AddBucket(b), c.AddBucket(b)),
		"nil quotas":   c.AddQuotas(nil),
		"two quotas":   errors.Join(c.AddQuotas(set), c.AddQuotas(set)),
	} {
		if (err == nil) != (what == "first queue") {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

// Two controllers may each have a cache of one kind. A series that occurred twice
// would spoil the whole scrape.
func TestTwoCachesOfOneNameAreToldApart(t *testing.T) {
	s, err := store.New[spec, struct{}](newBackend(t), "Disk", nil)
	if err != nil {
		t.Fatal(err)
	}
	m := new(reconcile.Manager)
	for _, name := range []string{"a", "b"} {
		ctl, err := reconcile.New(name, reconcile.Func[reconcile.Request](func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		disks, err := cache.New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := ctl.Watch(reconcile.From(disks)); err != nil {
			t.Fatal(err)
		}
		if err := m.Register(ctl); err != nil {
			t.Fatal(err)
		}
	}
	f := scrape(t, metrics.New(m))
	want(t, f, "tend_cache_objects", 0, "cache=Disk")
	want(t, f, "tend_cache_objects", 0, "cache=Disk#2")
}

// A cache that holds no shard is no alarm, unless its store does not serve; and a reader that hangs
// is one, however few changes there are. With more servers than shards one was disconnected for
// ever, and of a small kind the backlog never grew to what raised the alert.
//
// Negative control: mutant "a cache that needs no watch is shown without one".
func TestCachesThatNeedNoWatchAndReadersThatHangAreShown(t *testing.T) {
	s := &shown{}
	m := new(reconcile.Manager)
	if err := m.Register(s); err != nil {
		t.Fatal(err)
	}
	c := metrics.New(m)
	for _, x := range []struct {
		snap      introspect.Cache
		connected float64
	}{
		{introspect.Cache{Connected: true}, 1},
		{introspect.Cache{}, 0},
		{introspect.Cache{Idle: true}, 1},
		{introspect.Cache{Idle: true, Err: errAway}, 0},
	} {
		s.Snap = x.snap
		want(t, scrape(t, c), "tend_cache_connected", x.connected, "cache=things")
	}
	synctest.Test(t, func(t *testing.T) {
		s.Snap.Consumers = []introspect.CacheConsumer{{}, {Pending: 1, Since: time.Now()}, {Pending: 9, Since: time.Now().Add(time.Second)}}
		time.Sleep(time.Minute)
		f := scrape(t, c)
		want(t, f, "tend_cache_pending_seconds", 60, "cache=things")
		want(t, f, "tend_cache_pending_changes", 9, "cache=things")
	})
}

// shown is a cache of which nothing but its snapshot is asked.
type shown struct {
	idle
	Snap introspect.Cache
}

func (s *shown) Snapshot() introspect.Cache {
	s.Snap.Name = "things"
	return s.Snap
}

type fixed struct {
	stats    introspect.External
	snapshot introspect.Inventory[external.Report]
}

func (f fixed) Stats() introspect.External                      { return f.stats }
func (f fixed) Snapshot() introspect.Inventory[external.Report] { return f.snapshot }

func TestExternalCallsDriftAndOrphansAreShown(t *testing.T) {
	c := metrics.New(nil)
	v := &fixed{
		stats:    introspect.External{Kind: "Disk", Drifted: 3, Calls: map[string]introspect.Calls{"update": {OK: 5, Throttled: 2, Failed: 1}}},
		snapshot: introspect.Inventory[external.Report]{Kind: "Disk", Lists: 4, Failed: 3, Gets: 2, Served: 100, Held: "restored"},
	}
	if err := errors.Join(c.AddExternal(v), c.AddInventory(v)); err != nil {
		t.Fatal(err)
	}
	f := scrape(t, c)
	want(t, f, "tend_external_drift_total", 3, "kind=Disk")
	want(t, f, "tend_external_calls_total", 5, "call=update", "kind=Disk", "result=ok")
	want(t, f, "tend_external_calls_total", 2, "call=update", "kind=Disk", "result=throttled")
	want(t, f, "tend_external_calls_total", 1, "call=update", "kind=Disk", "result=failed")
	want(t, f, "tend_inventory_served_total", 100, "kind=Disk")
	want(t, f, "tend_inventory_failed_lists_total", 3, "kind=Disk")
	want(t, f, "tend_inventory_prune_held", 1, "kind=Disk")
	if f["tend_inventory_resources"] != nil {
		t.Error("before the first report nothing is known, and there are findings")
	}
	v.snapshot.Report = &external.Report{Declared: 10, Orphans: make([]external.Finding, 2), Different: make([]external.Finding, 1), Listed: time.UnixMilli(1500)}
	f = scrape(t, c)
	want(t, f, "tend_inventory_resources", 2, "finding=orphan", "kind=Disk")
	want(t, f, "tend_inventory_resources", 1, "finding=different", "kind=Disk")
	want(t, f, "tend_inventory_resources", 0, "finding=missing", "kind=Disk")
	want(t, f, "tend_inventory_listed_timestamp_seconds", 1.5, "kind=Disk")
	if c.AddExternal(v) == nil || c.AddInventory(v) == nil || c.AddExternal(nil) == nil || c.AddInventory(nil) == nil {
		t.Error("nil and twins were taken")
	}
}

func TestWorkersThatAdaptAreShown(t *testing.T) {
	ctl, err := reconcile.New("a", reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	}), &reconcile.Options[string]{Workers: 2, Adapt: &reconcile.Adapt{Min: 1, Max: 9}})
	if err != nil {
		t.Fatal(err)
	}
	m := new(reconcile.Manager)
	if err := m.Register(ctl); err != nil {
		t.Fatal(err)
	}
	f := scrape(t, metrics.New(m))
	want(t, f, "controller_runtime_max_concurrent_reconciles", 2, "controller=a")
	want(t, f, "tend_controller_adapt_limit", 9, "controller=a", "limit=max")
	want(t, f, "tend_controller_adapt_steps_total", 0, "controller=a", "direction=down")
}

// One name must not cost all others their metrics.
//
// Negative controls: with labels sent as they come the scrape failed whole, and so it did
// with a name given that a second "a" had been shown under.
func TestNamesThatPrometheusDoesNotTakeAreShownOtherwise(t *testing.T) {
	c := metrics.New(nil)
	set, err := quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) {
		return quota.Limits{Read: quota.Rate{PerSecond: 1}, Judge: func(error) quota.Verdict { return quota.Verdict{} }}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	var held []*quota.Quota
	for _, n := range []quota.Name{{Account: "a", Region: "b"}, {Account: "a", API: "b"}, {Account: "\xff"}, {Account: "\xfe"}} {
		q, err := set.Get(n)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, q)
	}
	b, err := ratelimit.NewBucket("a/b/read#2", 1, 1)
	if err == nil {
		err = errors.Join(c.AddBucket(b), c.AddQuotas(set))
	}
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range scrape(t, c)["tend_bucket_tokens"].GetMetric() {
		names = append(names, m.GetLabel()[0].GetValue())
	}
	slices.Sort(names)
	if want := []string{"a/b/read", "a/b/read#2", "a/b/read#3", "\uFFFD/read", "\uFFFD/read#2"}; !slices.Equal(names, want) {
		t.Errorf("buckets %q, want %q", names, want)
	}
	runtime.KeepAlive(held)
	backend, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	if _, err := c.Measure("\xff", backend); err == nil {
		t.Error("a backend was measured under a name that is not UTF-8")
	}
}

// Caches of one kind are told apart by a number. When the first went with its controller,
// each took the number of the one before it, and with that its series.
func TestCacheKeepsItsLabelWhenAnotherGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		silent := slog.New(slog.DiscardHandler)
		m := &reconcile.Manager{Logger: silent}
		c := metrics.New(m)
		start := func(name string, objects int) (stop func() error) {
			disks, err := store.New[struct{}, struct{}](b, "Disk", nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range objects {
				if _, err := disks.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Namespace: name, Name: fmt.Sprint(i)}}); err != nil {
					t.Fatal(err)
				}
			}
			own, err := cache.New(disks, &cache.Options[struct{}, struct{}]{Selector: store.Selector{Namespace: name}})
			if err != nil {
				t.Fatal(err)
			}
			ctl, err := reconcile.New(name, reconcile.Func[reconcile.Request](func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}), &reconcile.Options[reconcile.Request]{Logger: silent})
			if err == nil {
				err = ctl.Watch(reconcile.From(own))
			}
			if err != nil {
				t.Fatal(err)
			}
			stop, err = m.Start(ctl)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return stop
		}
		if err := m.Register(idle{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ended by cancel, waited for below
		synctest.Wait()
		first := start("a", 1)
		_ = start("b", 2)
		f := scrape(t, c)
		want(t, f, "tend_cache_objects", 1, "cache=Disk")
		want(t, f, "tend_cache_objects", 2, "cache=Disk#2")
		if err := first(); err != nil {
			t.Fatal(err)
		}
		want(t, scrape(t, c), "tend_cache_objects", 2, "cache=Disk#2")
		_ = start("c", 3)
		f = scrape(t, c)
		want(t, f, "tend_cache_objects", 2, "cache=Disk#2")
		want(t, f, "tend_cache_objects", 3, "cache=Disk") // the name is free again
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// idle is a runner that does nothing.
type idle struct{}

func (idle) Run(ctx context.Context) error { <-ctx.Done(); return nil }
