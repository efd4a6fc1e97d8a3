package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// controller is the machine of a Controller[K] of any K, as a Manager needs it.
type controller interface {
	Run(ctx context.Context) error
	Name() string
	startable() error
	caches() []Cached
	shown() []Cached
	adopt(l *slog.Logger, stop time.Duration)
	placementOf() lease.Placement
	setPlacement(p lease.Placement) error
	node() graphNode
	summarise(in time.Duration)
	unseen() map[Cached]store.Revision
}

// graphNode is a controller in the dependency graph.
type graphNode struct {
	name      string
	kind      string // that it is about
	wakes     []edge // its sources of other kinds, one of each kind
	relations []introspect.Relation
	writes    []string // kinds that it writes besides, by its own account
	ends      bool     // its runs only delete, so that no cycle goes on through it
}

// edge is one source of one controller: a change of an object of the kind from wakes
// objects of the kind to.
type edge struct{ from, to, controller, source string }

// A machine is what a Controller is made of, which is behind an interface there. Its parts have their own mutexes and fields.
type machine[K comparable] struct {
	k          *kernel[K]
	writes     *pendingWrites[K]
	pool       *pool[K]
	sources    *sources[K]
	supervisor supervisor[K]
	summed     introspect.Counts // what the last summary counted; the summaries alone have it
}

// remember has r told of keys that have left or were removed, if it is a Forgetter or a sweeper.
func (k *kernel[K]) remember(r any) {
	if f, ok := r.(Forgetter[K]); ok {
		k.forgets = append(k.forgets, f)
	}
	if s, ok := r.(sweeper[K]); ok {
		k.sweeps = append(k.sweeps, s)
	}
}

// build makes a controller of r, a Reconciler or a BatchReconciler.
func build[K comparable](name string, r any, o *Options[K], batch bool) (*machine[K], error) {
	k := &kernel[K]{name: name, o: orZero(o), epoch: time.Now(), rung: make(chan struct{}, 1)}
	switch {
	case name == "":
		return nil, errors.New("no name")
	case isNil(r):
		return nil, errors.New("no reconciler")
	}
	if err := k.o.complete(batch); err != nil {
		return nil, err
	}
	k.ownHash = k.o.Hash != nil
	k.view.Store(&view[K]{logger: k.o.Logger, caches: k.o.Reads})
	if err := k.makeQueue(); err != nil {
		return nil, err
	}
	k.remember(r)
	k.work = parts{&k.mu, make(map[chan struct{}]string)}
	k.parts = parts{&k.mu, make(map[chan struct{}]string)}
	w := &pendingWrites[K]{k: k, of: make(map[K]*pendingWrite), shown: make(map[Cached]store.Revision), waits: make(map[Cached]*waits[K])}
	p := &pool[K]{k: k, settler: settler[K]{k, w}, alarm: &alarm{signal: make(chan struct{}, 1)}, want: k.o.Workers, slots: make(map[*slot[K]]struct{})}
	from := &sources[K]{k: k, writes: w, pool: p}
	c := &machine[K]{k: k, writes: w, pool: p, sources: from}
	c.supervisor = supervisor[K]{k: k, writes: w, pool: p, sources: from, loading: make(map[int]string)}
	if k.o.Adapt != nil {
		c.supervisor.adapt = &adaptive{Adapt: *k.o.Adapt}
	}
	return c, c.setPlacement(k.o.Placement)
}

// setPlacement decides where the controller runs; nil: here, at once. It is
// called before Run.
func (m *machine[K]) setPlacement(p lease.Placement) error {
	shards := 1
	if p != nil {
		shards = p.Shards()
	}
	if shards < 1 {
		return fmt.Errorf("placement %v has %d shards, want 1 or more", p, shards)
	}
	if shards > 1 && m.k.o.Hash == nil {
		hash, ok := any(lease.HashKey).(func(K) uint64)
		if !ok {
			return fmt.Errorf("%v needs Options.Hash: there is no stable hash of %T", p, *new(K))
		}
		m.k.o.Hash = hash
	}
	m.k.changeView(func(v *view[K]) {
		v.place = p
		if len(v.holds) != shards {
			v.holds = make([]atomic.Pointer[hold], shards)
		}
		v.leased = leased(p)
	})
	return nil
}

// kick is how Kick adds a key.
var kick = queue.AddOptions{Priority: bandLive, Urgent: true, Reason: "kick"}

func (m *machine[K]) add(key K, o queue.AddOptions) error {
	// Only what can never be meant is refused here, not all that a store would:
	// reading every byte of a key costs as much as queueing it.
	if k, ok := any(key).(store.Key); ok && k.Name == "" {
		return fmt.Errorf("reconcile: controller %q: %w", m.k.name, k.Check())
	}
	if m.k.elsewhere(key) {
		return fmt.Errorf("reconcile: controller %q: %v: %w", m.k.name, key, ErrElsewhere)
	}
	return m.writes.admit(key, o)
}

// counts says how the runs so far have ended. It may be called often.
func (m *machine[K]) counts() introspect.Counts {
	n, _ := m.pool.totals()
	return n
}

// adopt makes the controller part of a Manager, which gives it stop in all to end and runs
// its cache. It is called before Run.
func (m *machine[K]) adopt(l *slog.Logger, stop time.Duration) {
	m.k.changeView(func(v *view[K]) { v.logger = cmp.Or(v.logger, l) })
	m.k.o.StopTimeout = min(cmp.Or(m.k.o.StopTimeout, stop), stop)
	m.supervisor.owned = nil
}

func (m *machine[K]) backoff() string {
	if m.k.o.Queue.Policy != nil {
		return "a retry policy of its own"
	}
	b := m.k.o.Backoff
	base := cmp.Or(b.Base, queue.DefaultBase)
	return fmt.Sprintf("backoff %v to %v", base, max(base, cmp.Or(b.Max, queue.DefaultMax)))
}

// What a Manager and introspection ask the parts of a controller.

func (m *machine[K]) shown() []Cached                   { return m.k.view.Load().shows }
func (m *machine[K]) unseen() map[Cached]store.Revision { return m.writes.unseen() }
func (m *machine[K]) caches() []Cached                  { return m.k.caches() }
func (m *machine[K]) placementOf() lease.Placement      { return m.k.placementOf() }

func (m *machine[K]) Watch(sources []Source[K]) error {
	began := m.startable() != nil
	for _, src := range sources {
		if p, ok := src.cache.(partial); ok && began && p.Shards() > 0 {
			return fmt.Errorf("reconcile: controller %q: Watch: cache %q holds shards: watch it before Run", m.k.name, p.Name())
		}
	}
	if err := m.sources.addSources(sources); err != nil {
		return fmt.Errorf("reconcile: controller %q: Watch: %w", m.k.name, err)
	}
	m.k.wake()
	return nil
}

func (m *machine[K]) Unwatch(name string) error {
	ended, err := m.sources.removeSource(name)
	if err == nil && !ended {
		err = fmt.Errorf("Unwatch(%q): %w", name, errSourceRunning)
	}
	if err != nil {
		return fmt.Errorf("reconcile: controller %q: %w", m.k.name, err)
	}
	return nil
}

// startable refuses a controller that has run.
func (m *machine[K]) startable() error {
	m.k.mu.Lock()
	defer m.k.mu.Unlock()
	if m.sources.running != nil {
		return fmt.Errorf("controller %q: %w", m.k.name, errRunning)
	}
	return nil
}

func (m *machine[K]) Name() string { return m.k.name }

func (m *machine[K]) Queue() *queue.Queue[K] { return m.k.q }

func (m *machine[K]) SetWorkers(n int) error {
	if n < 0 || n > maxWorkers {
		return fmt.Errorf("reconcile: controller %q: SetWorkers(%d): want 0 to %d", m.k.name, n, maxWorkers)
	}
	m.pool.change(func() { m.pool.want = n })
	return nil
}

func (m *machine[K]) String() string {
	at, kind, watched := m.supervisor.condition(), "", []string{}
	if at.Kind != "" {
		kind = " of " + at.Kind
	}
	for _, f := range at.Sources {
		watched = append(watched, f.Name)
	}
	slices.Sort(watched)
	return fmt.Sprintf("controller %q%s, watches %s; %d workers, %s, timeout %v, %s", m.k.name, kind,
		cmp.Or(strings.Join(watched, ", "), "nothing"), m.k.o.Workers, m.backoff(), m.k.o.Timeout, at.Placement)
}

func (m *machine[K]) Run(ctx context.Context) error {
	return m.supervisor.run(ctx)
}

func (m *machine[K]) condition() condition { return m.supervisor.condition() }

// own makes a cache part of the controller, which runs it.
func (m *machine[K]) own(cached Cached) { m.supervisor.owned = []Cached{cached} }

func (m *machine[K]) node() graphNode {
	n := graphNode{name: m.k.name, kind: m.k.kindOf(), writes: m.k.o.Writes, ends: m.k.o.OnlyDeletes}
	if n.kind == "" {
		n.kind = m.k.name // it is about something that is no kind of a store
	}
	for _, f := range m.sources.allFeeds() {
		n.relations = append(n.relations, f.Relations...)
		if f.mapped && f.kind != "" && f.kind != n.kind && !slices.ContainsFunc(n.wakes, func(e edge) bool { return e.from == f.kind }) {
			n.wakes = append(n.wakes, edge{f.kind, n.kind, n.name, f.Name})
		}
	}
	return n
}
