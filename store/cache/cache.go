package cache

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/tendhq/tend/internal/spin"
	"github.com/tendhq/tend/store"
)

// A Cache is a watch-fed, read-only copy of one kind:
//
//	backend ── watch ──▶ Run ──▶ objects ──▶ Get              (no lock)
//	                      │      list ───────▶ All             (copied under a read lock)
//	                      │      indexes ────▶ Index.Get       (copied under a read lock)
//	                      │      backlogs ───▶ Changes         (one per consumer)
//	                      └────▶ revision ───▶ OnRevision
//
// Run alone writes, by its feed. All methods are safe for concurrent use.
type Cache[S, T any] struct {
	core  *core
	store *store.Store[S, T]
}

// core is a [Cache] without its types, so that its methods are compiled once and not for each
// kind. It knows an object by the address of its Meta: see typed.
type core struct {
	backend store.Backend
	kind    string
	decode  func(store.Record) (*store.Meta, error)
	look    func(*store.Meta) fingerprint
	opts    Options[struct{}, struct{}] // these have no use for the types
	name    string

	objects  *xsync.Map[store.Key, *held]
	revision atomic.Uint64
	unread   atomic.Int64 // how many broken has
	running  atomic.Bool
	synced   chan struct{} // closed at the end of the first snapshot

	indexes []*index // complete when Run begins; their values are guarded by mu

	feed feed

	mu         spin.RWMutex // guards what follows; never held over user code
	began      bool         // Run was called
	list       []*store.Meta
	consumers  []*backlog
	early      []*backlog // consumers that came before the first snapshot had ended
	waiters    []waiter   // by revision
	lastWaiter uint64
	broken     map[store.Key]error // stored, but cannot be decoded; written by breaks and mend
	conn       connection
	prints     map[*store.Meta]fingerprint // of what list has; empty unless Options.DetectMutations
}

// held is what the table keeps for a key for as long as there is an object: the
// object as it is now, and its place in list, so that a removal finds it without a
// search. An update replaces obj in place: to put another value into the table would
// cost two more searches and an allocation.
type held struct {
	obj  atomic.Pointer[store.Meta]
	slot int // guarded by Cache.mu; -1: it is not in the table any more
	// print is the recordPrint of obj; guarded by feed.mu.
	print uint64
}

// Options tune a Cache. Nil and zero fields mean the stated default. New copies
// them.
type Options[S, T any] struct {
	// Name is for logs, health and the debug page. Default: the store's kind.
	Name string

	// Selector limits the cache to a namespace, to objects whose labels match,
	// or both. Default: all. It is evaluated on each object, never by the
	// backend, because of Finalizers.
	Selector store.Selector
	// Finalizers keep an object of the namespace in the cache although its
	// labels do not match, for as long as it carries one of them: the
	// owner of a finalizer must see the deletion. Default: none.
	Finalizers []string

	// Shards divides the kind into so many shards by the hash of the key
	// (store.ShardOf), of which the cache holds, decodes and indexes those that
	// HoldShard asks for; of others it keeps nothing. A controller with a sharded
	// placement of as many shards asks for those that it owns. With a power of two up to
	// store.Slots the store sends nothing else, if it can (store.SlotReader). The cache
	// has synced at once, of nothing; Holds and HoldShard say what is complete. Get, All
	// and By know of no other objects. Default: 0, the whole kind.
	Shards int

	// Backlog is how many changes are kept in order for one consumer of
	// Changes before they are folded to one per key, which costs more than to keep them
	// as long as they are few. Default: 8192.
	Backlog int

	// OnError hears, once per occurrence, of an object that cannot be decoded
	// (with its key; the cache goes on without it), of a watch that failed (with
	// the zero key; it is opened again), of an index function that panicked and
	// of a mutated object. It runs on a goroutine of Run, one call at a time, and must not block.
	// Default: a warning in the log.
	OnError func(key store.Key, err error)

	// DetectMutations makes the cache remember what each object looked like
	// and report the key of one that was written to. It costs a fingerprint per
	// object: for tests. Default: off.
	DetectMutations bool

	// Logger is used where OnError is nil. Default: slog.Default().
	Logger *slog.Logger
}

const defaultBacklog = 8192

// ErrRunning is returned by Run while another Run of the same cache is running.
var ErrRunning = errors.New("cache: already running")

// New returns a cache of what s stores. It starts nothing and is empty until
// Run has synced it.
func New[S, T any](s *store.Store[S, T], o *Options[S, T]) (*Cache[S, T], error) {
	if s == nil {
		return nil, errors.New("cache: New: no store")
	}
	c := &core{
		backend: s.Backend(),
		kind:    s.Kind(),
		decode: func(r store.Record) (*store.Meta, error) {
			o, err := s.Decode(r)
			return (*store.Meta)(unsafe.Pointer(o)), err // see typed
		},
		look:    func(m *store.Meta) fingerprint { return printOf(typed[S, T](m)) },
		name:    s.Kind(),
		objects: xsync.NewMap[store.Key, *held](),
		synced:  make(chan struct{}),
		broken:  make(map[store.Key]error),
		prints:  make(map[*store.Meta]fingerprint),
	}
	if o != nil {
		c.opts = Options[struct{}, struct{}](*o)
	}
	if err := c.setup(); err != nil {
		return nil, err
	}
	return &Cache[S, T]{c, s}, nil
}

var _ [0]byte = [unsafe.Offsetof(store.Object[struct{}, struct{}]{}.Meta)]byte{} // typed relies on it

// typed is the object that has this Meta as its first field; nil of nil.
func typed[S, T any](m *store.Meta) *store.Object[S, T] {
	return (*store.Object[S, T])(unsafe.Pointer(m))
}

// setup fills in the defaults and refuses what cannot work.
func (c *core) setup() error {
	o := &c.opts
	if o.Name != "" {
		c.name = o.Name
	}
	if o.Backlog < 0 {
		return fmt.Errorf("cache: New(%s): Backlog is %d, must not be negative", c.name, o.Backlog)
	}
	if o.Shards < 0 {
		return fmt.Errorf("cache: New(%s): Shards is %d, must not be negative", c.name, o.Shards)
	}
	c.feed.parts, c.feed.wanted, c.feed.unread = make(map[int]*part), make(map[int]*part), make(chan struct{}, 1)
	if o.Shards == 0 {
		c.feed.wanted[0] = newPart()
	}
	if o.Backlog == 0 {
		o.Backlog = defaultBacklog
	}
	o.Finalizers = slices.Clone(o.Finalizers)
	o.Selector = copied(o.Selector)
	return nil
}

// copied is a selector that shares nothing with another.
func copied(sel store.Selector) store.Selector {
	sel.Labels = slices.Clone(sel.Labels)
	for i := range sel.Labels {
		sel.Labels[i].Values = slices.Clone(sel.Labels[i].Values)
	}
	return sel
}

// Get returns the object as the cache holds it, and whether it holds one. It
// takes no lock and copies nothing: the object is shared and read-only. Edit
// a copy, made by the store's Clone.
func (c *Cache[S, T]) Get(k store.Key) (*store.Object[S, T], bool) {
	h, ok := c.core.objects.Load(k)
	if !ok {
		return nil, false
	}
	return typed[S, T](h.obj.Load()), true
}

// Undecodable returns why what is stored under a key cannot be decoded; nil if it can be, or if nothing
// is stored. Of such an object Get, All and the indexes have the last version that could be, if
// the cache saw one: ask before acting on an object that the cache holds. As long as the cache can
// decode everything that takes no lock.
func (c *Cache[S, T]) Undecodable(k store.Key) error { return c.core.undecodable(k) }

func (c *core) undecodable(k store.Key) error {
	if c.unread.Load() == 0 {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.broken[k]
}

// All yields every object the cache holds, as of one moment, in no particular
// order. The objects are shared and read-only. No lock is held while the loop
// body runs.
func (c *Cache[S, T]) All() iter.Seq[*store.Object[S, T]] {
	return func(yield func(*store.Object[S, T]) bool) {
		for _, o := range c.core.copyList() {
			if !yield(typed[S, T](o)) {
				return
			}
		}
	}
}

func (c *core) copyList() []*store.Meta {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.list)
}

// Len returns how many objects the cache holds.
func (c *Cache[S, T]) Len() int { return c.core.len() }

func (c *core) len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.list)
}

// Name returns the cache's name: Options.Name, or else the kind.
func (c *Cache[S, T]) Name() string { return c.core.name }

// Kind returns the kind of the objects held.
func (c *Cache[S, T]) Kind() string { return c.core.kind }

// Backend returns the backend that feeds the cache. Together with Kind it says
// which writes OnRevision can wait for: a revision of another backend, or of
// another kind, never arrives here.
func (c *Cache[S, T]) Backend() store.Backend { return c.core.backend }

// Store returns the store that was given to New.
func (c *Cache[S, T]) Store() *store.Store[S, T] { return c.store }

// Revision returns the backend's revision up to which the cache has applied
// every change of its kind. Zero before it has synced.
func (c *Cache[S, T]) Revision() store.Revision { return c.core.at() }

func (c *core) at() store.Revision { return store.Revision(c.revision.Load()) }

// Synced is closed once the cache holds a complete snapshot. It stays closed:
// a cache that loses its watch goes on serving what it has, see Health.
func (c *Cache[S, T]) Synced() <-chan struct{} { return c.core.synced }

// hasSynced reports whether Synced is closed.
func (c *core) hasSynced() bool {
	select {
	case <-c.synced:
		return true
	default:
		return false
	}
}

// within reports whether o is within the cache's limits.
func (c *core) within(o *store.Meta) bool {
	sel := &c.opts.Selector
	if sel.Namespace != "" && o.Namespace != sel.Namespace {
		return false
	}
	return sel.Matches(o) || slices.ContainsFunc(c.opts.Finalizers, o.HasFinalizer)
}

// String names the cache and says how far it is.
func (c *Cache[S, T]) String() string {
	return fmt.Sprintf("cache %s: %d objects at revision %d", c.core.name, c.Len(), c.Revision())
}
