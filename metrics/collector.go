package metrics

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/reconcile/quota"
)

type keysQueue = interface {
	Name() string
	Stats() queue.Stats
}

// Collector is a prometheus.Collector of what a Manager runs, and of queues,
// buckets and quotas that were added to it. Make one with New. Its methods are safe for
// concurrent use.
type Collector struct {
	manager *reconcile.Manager
	looker  *inspect.Looker          // nil: there is no manager
	times   *prometheus.HistogramVec // of measured backends
	ready   *prometheus.HistogramVec // of the objects' kinds

	exemplar traces
	scrape   sync.Mutex // held while the objects are listed; guards what a watched keeps

	mu          sync.Mutex // guards what follows
	queues      []keysQueue
	buckets     []*ratelimit.Bucket
	backends    []*measured
	quotas      []*quota.Set
	externals   []counting
	inventories []reporting
	kinds       []*watched
	bands       map[string]map[int]bool  // by queue: the priorities that were seen
	runs        map[string]*runExemplars // by controller
	labels      map[string]map[any]label // by what is labelled, and which it is
}

type counting = interface {
	Stats() introspect.External
}

type reporting = interface {
	Snapshot() introspect.Inventory[external.Report]
}

// New makes a collector of everything that m runs, also of what is registered
// later. m may be nil.
func New(m *reconcile.Manager) *Collector {
	c := &Collector{manager: m, times: newStoreTimes(), ready: newReadyTimes(), bands: map[string]map[int]bool{}, runs: map[string]*runExemplars{}}
	if m != nil {
		c.looker, _ = inspect.New(m, nil) // which fails without a manager only
	}
	return c
}

// AddQueue adds a queue that is not a controller's, a *queue.Queue[K]. It fails on nil and on a name
// that was added before: Prometheus could not tell the two apart.
func (c *Collector) AddQueue(q interface {
	Name() string
	Stats() queue.Stats
},
) error {
	return addTo(c, &c.queues, q, "AddQueue", keysQueue.Name)
}

// AddBucket adds a bucket. It fails on nil and on a name that was added before.
func (c *Collector) AddBucket(b *ratelimit.Bucket) error {
	return addTo(c, &c.buckets, b, "AddBucket", (*ratelimit.Bucket).Name)
}

// AddQuotas adds the budgets of a set, also those that are made later, with their
// buckets: these need no AddBucket. It fails on nil and on a set that was added
// before.
func (c *Collector) AddQuotas(s *quota.Set) error {
	if s == nil {
		return errors.New("metrics: AddQuotas: nil")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.quotas, s) {
		return errors.New("metrics: AddQuotas: the set was added before")
	}
	c.quotas = append(c.quotas, s)
	return nil
}

// AddExternal adds a reconciler of external resources, an *external.Reconciler: its calls, and the drift it
// found. It fails on nil and on a kind that was added before.
func (c *Collector) AddExternal(r interface{ Stats() introspect.External }) error {
	return addTo(c, &c.externals, r, "AddExternal", func(r counting) string { return r.Stats().Kind })
}

// AddInventory adds an *external.Inventory: its calls, and from its first report on what
// that found. It fails on nil and on a kind that was added before.
func (c *Collector) AddInventory(v interface {
	Snapshot() introspect.Inventory[external.Report]
},
) error {
	return addTo(c, &c.inventories, v, "AddInventory", func(v reporting) string { return v.Snapshot().Kind })
}

// addTo adds one to a list of c, unless there is one of its name.
func addTo[V comparable](c *Collector, list *[]V, one V, what string, name func(V) string) error {
	if one == *new(V) {
		return fmt.Errorf("metrics: %s: nil", what)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range *list {
		if name(o) == name(one) {
			return fmt.Errorf("metrics: %s: there is one of the name %q already", what, name(one))
		}
	}
	*list = append(*list, one)
	return nil
}

// Describe sends the metrics' descriptions.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range all {
		to <- d
	}
}

// cached is a *cache.Cache[S, T] of any types.
type cached interface {
	Snapshot() introspect.Cache
}

// Collect reads everything.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	// A copy: what is read below takes locks of its own.
	c.mu.Lock()
	queues, buckets, backends := slices.Clone(c.queues), slices.Clone(c.buckets), slices.Clone(c.backends)
	quotas, externals, inventories := slices.Clone(c.quotas), slices.Clone(c.externals), slices.Clone(c.inventories)
	kinds := slices.Clone(c.kinds)
	known := slices.AppendSeq(slices.Collect(maps.Keys(c.runs)), maps.Keys(c.bands))
	c.mu.Unlock()

	var runners []reconcile.Runner
	if c.manager != nil {
		runners = c.manager.Runners()
	}
	c.times.Collect(to)
	s := sink{to}
	c.scrape.Lock()
	for _, k := range kinds {
		k.read(s, c.ready)
	}
	c.scrape.Unlock()
	c.ready.Collect(to)
	c.collectBuckets(s, buckets, quotas)
	for _, b := range backends {
		s.count(fenced, b.refused.Load(), b.name)
	}
	for _, r := range externals {
		outside(s, r.Stats())
	}
	for _, v := range inventories {
		inventory(s, v.Snapshot())
	}
	c.collectCaches(s, runners)
	c.collectTrouble(s)
	live := c.collectQueues(s, queues, runners)
	if c.manager != nil {
		c.forget(known, live)
	}
}

func (c *Collector) collectBuckets(s sink, buckets []*ratelimit.Bucket, quotas []*quota.Set) {
	type budgetOf struct {
		set  *quota.Set
		name string
		nth  int // of those of one name
	}
	var things []thing
	var budgets []introspect.Budget
	for _, b := range buckets {
		things = append(things, thing{b, b.Name()})
	}
	for _, set := range quotas {
		seen := map[string]int{}
		for _, b := range set.Snapshot() {
			name := b.Bucket.Name
			budgets, things = append(budgets, b), append(things, thing{budgetOf{set, name, seen[name]}, name})
			seen[name]++
		}
	}
	labels := c.label("bucket", things)
	for i, b := range buckets {
		st := b.Stats()
		st.Name = labels[i]
		bucket(s, st)
	}
	for i, b := range budgets {
		b.Bucket.Name = labels[len(buckets)+i]
		budget(s, b)
	}
}

func (c *Collector) collectCaches(s sink, runners []reconcile.Runner) {
	var things []thing
	var snaps []introspect.Cache
	for i, r := range runners {
		if _, ok := reconcile.Inspect(r); ok {
			continue
		}
		if x, ok := r.(cached); ok {
			snap := x.Snapshot()
			snaps, things = append(snaps, snap), append(things, thing{identity(r, i), snap.Name})
		}
	}
	for i, label := range c.label("cache", things) {
		snaps[i].Name = label
		watch(s, snaps[i])
	}
}

// collectQueues shows the queues that were added, and the controllers with theirs. It returns
// their names and labels.
func (c *Collector) collectQueues(s sink, queues []keysQueue, runners []reconcile.Runner) (live map[string]bool) {
	var things []thing
	var controllers []reconcile.Inspection
	for i, q := range queues {
		things = append(things, thing{identity(q, i), q.Name()})
	}
	for i, r := range runners {
		if x, ok := reconcile.Inspect(r); ok {
			controllers, things = append(controllers, x), append(things, thing{identity(r, i), x.Name()})
		}
	}
	labels := c.label("queue", things)
	live = make(map[string]bool)
	for i, t := range things {
		live[t.name], live[labels[i]] = true, true
	}
	for i, q := range queues {
		st := q.Stats()
		st.Name = labels[i]
		c.queue(s, st, nil)
	}
	for i, x := range controllers {
		snap, st := x.Snapshot(), x.QueueStats()
		runs := c.exemplarsSeen(snap.Name)
		snap.Name = labels[len(queues)+i]
		st.Name = snap.Name
		c.queue(s, st, runs)
		control(s, snap, st, runs)
	}
	return live
}

// forget drops what is kept of controllers that were known before a scrape and are not of
// the manager any more: those that were stopped.
func (c *Collector) forget(known []string, live map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range known {
		if !live[name] {
			delete(c.runs, name)
			delete(c.bands, name)
		}
	}
}

// A thing is what a label tells from others: it, or what stands for it, and its name.
type thing struct {
	id   any
	name string
}

// label is that of a thing, and the name that it was made of.
type label struct{ name, text string }

// identity stands for one of several things; i tells those apart that cannot be compared.
func identity(x any, i int) any {
	if !reflect.ValueOf(x).Comparable() {
		return i
	}
	return x
}

// label gives each of all things of a sort a label: its name, or that and a number if another
// has it. Two controllers may each have a cache of the same kind, and one series that occurs
// twice would spoil the whole scrape. The order is that of registration, and each keeps its
// label as long as it is there: else one that goes would leave its series to the next.
func (c *Collector) label(of string, all []thing) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, now := c.labels[of], make(map[any]label, len(all))
	used := make(map[string]bool, len(all))
	for _, t := range all {
		if l, ok := before[t.id]; ok && l.name == t.name {
			now[t.id], used[l.text] = l, true
		}
	}
	labels := make([]string, len(all))
	for i, t := range all {
		l, ok := now[t.id]
		if !ok {
			name := valid(t.name)
			l = label{t.name, name}
			for n := 2; used[l.text]; n++ {
				l.text = fmt.Sprintf("%s#%d", name, n)
			}
			now[t.id], used[l.text] = l, true
		}
		labels[i] = l.text
	}
	if c.labels == nil {
		c.labels = make(map[string]map[any]label)
	}
	c.labels[of] = now
	return labels
}

// valid is a label that Prometheus takes. Names may be made of what a file or a cloud
// says, and a single one that is not UTF-8 would spoil the whole scrape.
func valid(label string) string { return strings.ToValidUTF8(label, "\uFFFD") }

func validAll(labels []string) []string {
	for i := range labels {
		labels[i] = valid(labels[i])
	}
	return labels
}

// sink makes metrics and sends them.
type sink struct{ to chan<- prometheus.Metric }

func (s sink) count(d *prometheus.Desc, n uint64, labels ...string) { s.sum(d, float64(n), labels...) }

func (s sink) sum(d *prometheus.Desc, x float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, x, validAll(labels)...)
}

func (s sink) gauge(d *prometheus.Desc, x float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, x, validAll(labels)...)
}

func (c *Collector) queue(s sink, st queue.Stats, runs []prometheus.Exemplar) {
	name := st.Name
	for label, n := range c.depths(st) {
		s.gauge(depth, float64(n), name, name, label)
	}
	s.count(adds, st.Adds, name, name)
	s.count(retries, st.Retries, name, name)
	s.histogram(queueTime, &st.QueueTime, workqueueBuckets, nil, name, name)
	s.histogram(workTime, &st.WorkTime, workqueueBuckets, runs, name, name)
	running, longest := st.Of(queue.StateRunning), time.Duration(0)
	if running.Keys > 0 {
		longest = time.Since(running.Oldest)
	}
	s.gauge(unfinishedWork, running.Total.Seconds(), name, name)
	s.gauge(longestRunning, longest.Seconds(), name, name)

	s.count(dispatched, st.Dispatched, name)
	for state := queue.StateReady; state <= queue.StateParked; state++ {
		s.gauge(keys, float64(st.Of(state).Keys), name, state.String())
	}
	age := 0.0
	if oldest := st.Of(queue.StateReady).Oldest; !oldest.IsZero() {
		age = time.Since(oldest).Seconds()
	}
	s.gauge(oldestReady, age, name)
	s.gauge(paused, truth(st.HeldBy != ""), name)
}

// maxPriorities is how many priorities a queue's depth is split by, as in
// controller-runtime. A queue that has more is not split any more.
const (
	maxPriorities = 25
	tooMany       = "exceeded_cardinality_limit"
)

// depths are the ready keys by the priority's label. A priority that was seen
// once is shown for ever, with 0, so that no series goes stale whenever it is
// empty.
func (c *Collector) depths(st queue.Stats) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.bands[st.Name]
	if seen == nil {
		seen = map[int]bool{0: true}
		c.bands[st.Name] = seen
	}
	for p := range st.Bands {
		if len(seen) <= maxPriorities {
			seen[p] = true
		}
	}
	if len(seen) > maxPriorities {
		return map[string]int{tooMany: st.Of(queue.StateReady).Keys}
	}
	depths := make(map[string]int, len(seen))
	for p := range seen {
		depths[strconv.Itoa(p)] = st.Bands[p]
	}
	return depths
}

func control(s sink, c introspect.Controller, st queue.Stats, runs []prometheus.Exemplar) {
	name := c.Name
	for result, n := range map[string]uint64{
		"success": c.Runs.Success, "requeue": c.Runs.Requeue, "requeue_after": c.Runs.RequeueAfter,
		"error": c.Runs.Error + c.Runs.Terminal, "throttled": c.Runs.Throttled, "canceled": c.Runs.Canceled,
	} {
		s.count(reconciles, n, name, result)
	}
	s.count(reconcileErrors, c.Runs.Error+c.Runs.Terminal, name)
	s.count(terminalErrors, c.Runs.Terminal, name)
	s.count(panics, c.Runs.Panic, name)
	s.count(timeouts, c.Runs.Timeout, name)
	s.count(putOff, c.PutOff, name)
	s.histogram(reconcileTime, &st.WorkTime, reconcileBuckets, runs, name)
	s.gauge(maxWorkers, float64(c.Workers), name)
	s.gauge(activeWorkers, float64(c.Active), name)
	stuck := 0
	for _, r := range c.Running {
		if r.Stuck {
			stuck++
		}
	}
	s.gauge(stuckWorkers, float64(stuck), name)
	s.gauge(isLeader, truth(c.Held > 0), name)
	s.gauge(ownedShards, float64(c.Held), name)
	s.gauge(shards, float64(c.Shards), name)
	s.count(shardsWon, c.Leases.Won, name)
	s.count(handovers, c.Leases.HandedOver, name)
	s.count(leasesLost, c.Leases.Lost, name)
	if a := c.Adapt; a != nil {
		s.gauge(adaptLimit, float64(a.Min), name, "min")
		s.gauge(adaptLimit, float64(a.Max), name, "max")
		s.count(adaptSteps, a.Raised, name, "up")
		s.count(adaptSteps, a.Lowered, name, "down")
	}
	s.gauge(healthy, truth(c.Error == ""), name)
	for _, src := range c.Sources {
		s.gauge(sourceSynced, truth(src.Synced), name, src.Name)
		s.count(sourceRestarts, uint64(src.Restarts), name, src.Name)
		s.count(sourceSkipped, src.Skipped, name, src.Name)
	}
}

func watch(s sink, c introspect.Cache) {
	s.gauge(cacheObjects, float64(c.Objects), c.Name)
	s.gauge(cacheSynced, truth(c.Synced), c.Name)
	s.gauge(cacheConnected, truth(c.Connected || c.Idle && c.Err == nil), c.Name)
	s.gauge(cacheUndecodable, float64(len(c.Undecodable)), c.Name)
	pending, waits := 0, time.Duration(0)
	for _, consumer := range c.Consumers {
		pending = max(pending, consumer.Pending)
		if !consumer.Since.IsZero() {
			waits = max(waits, time.Since(consumer.Since))
		}
	}
	s.gauge(cachePending, float64(pending), c.Name)
	s.gauge(cachePendingAge, waits.Seconds(), c.Name)
	lag := 0.0
	if !c.LagSince.IsZero() {
		lag = time.Since(c.LagSince).Seconds()
	}
	s.gauge(watchLag, lag, c.Name)
	s.gauge(watchLagRevs, float64(c.LagRevisions), c.Name)
	s.count(watchRestarts, c.Disconnected, c.Name, "disconnected")
	s.count(watchRestarts, c.Compacted, c.Name, "compacted")
	// The first snapshot is the start, not a restart.
	s.count(watchResyncs, uint64(max(c.Snapshots-c.Restores-1, 0)), c.Name, "lost")
	s.count(watchResyncs, uint64(c.Restores), c.Name, "restored")
}

func bucket(s sink, b ratelimit.Stats) {
	s.gauge(bucketTokens, b.Tokens, b.Name)
	s.gauge(bucketPaused, truth(!b.Until.IsZero()), b.Name)
	s.sum(bucketThrottled, b.Throttled.Seconds(), b.Name)
}

func budget(s sink, b introspect.Budget) {
	bucket(s, b.Bucket)
	name := b.Bucket.Name
	s.gauge(quotaLimit, b.Found*b.Share, name)
	s.gauge(quotaFound, b.Found, name)
	s.gauge(quotaShare, b.Share, name)
	s.gauge(quotaMembers, float64(b.Live), name)
	s.gauge(quotaWaiting, float64(b.Owing), name)
	s.gauge(quotaOpen, truth(b.Open), name)
	s.count(quotaCalls, b.Calls, name)
	s.count(quotaThrottled, b.Throttled, name)
	s.count(quotaDown, b.Down, name)
	s.count(quotaRefused, b.Refused, name)
}

func outside(s sink, e introspect.External) {
	for call, n := range e.Calls {
		s.count(externalCalls, n.OK, e.Kind, call, "ok")
		s.count(externalCalls, n.Throttled, e.Kind, call, "throttled")
		s.count(externalCalls, n.Failed, e.Kind, call, "failed")
	}
	s.count(externalDrift, e.Drifted, e.Kind)
}

func inventory(s sink, v introspect.Inventory[external.Report]) {
	s.count(inventoryLists, v.Lists, v.Kind)
	s.count(inventoryFailed, v.Failed, v.Kind)
	s.count(inventoryGets, v.Gets, v.Kind)
	s.count(inventoryServed, v.Served, v.Kind)
	s.gauge(inventoryHeld, truth(v.Held != ""), v.Kind)
	r := v.Report
	if r == nil {
		return // nothing was found yet, which is not the same as 0
	}
	for finding, n := range map[string]int{
		"declared": r.Declared, "present": r.Present, "ours": r.Ours, "missing": len(r.Missing), "different": len(r.Different),
		"unclaimed": len(r.Unclaimed), "duplicate": len(r.Duplicates), "orphan": len(r.Orphans), "foreign": r.Foreign,
		"unreadable": len(r.Unreadable), "unsettled": len(r.Unsettled), "letter_case": len(r.LetterCase),
	} {
		s.gauge(inventoryFindings, float64(n), v.Kind, finding)
	}
	s.gauge(inventoryListed, float64(r.Listed.UnixMilli())/1000, v.Kind)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
