package memory

import (
	"context"
	"fmt"

	"github.com/tendhq/tend/internal/spin"
	"github.com/tendhq/tend/store"
)

// Options are those of [New]. Nil and zero fields mean the defaults.
type Options struct {
	// History is how many changes of each kind are kept at least, for watches
	// to resume from. Their old values stay in memory as long. While a watch is
	// further behind, more is kept for it: as many changes as the kind has
	// records. Zero means 8192.
	History int
	// Encode keeps the encoding of every value instead of the value itself,
	// as a backend of bytes does: each read decodes. Set it in tests of a program that keeps
	// its objects in a file, on etcd or on PostgreSQL.
	Encode bool
}

// backend implements [store.Backend], [store.Leaser] and [store.SlotReader]. Make one with [New].
type backend struct {
	history int
	encode  bool
	done    chan struct{} // closed by Close, ends every watch
	pins    pins

	mu        spin.RWMutex // guards what follows, and the tables
	rev       store.Revision
	tables    map[string]*table
	lastLease store.LeaseID
	leases    map[store.LeaseID]*lease
	bound     map[address]store.LeaseID
	closed    bool
}

var (
	_ store.Backend    = (*backend)(nil)
	_ store.Leaser     = (*backend)(nil)
	_ store.SlotReader = (*backend)(nil)
)

// table is one kind.
type table struct {
	kind    string
	entries map[store.Key]entry
	log     changelog
	// wake is closed when something was committed; nil while no watcher waits.
	wake chan struct{}
}

type entry struct {
	created, revision store.Revision
	value             store.Value
}

type address struct {
	kind string
	key  store.Key
}

// String names the backend for people.
func (b *backend) String() string { return "memory" }

// New returns an empty backend, safe for concurrent use. It starts nothing. The error is
// [store.ErrInvalid] for a negative History.
func New(o *Options) (store.FullBackend, error) {
	if o == nil {
		o = &Options{}
	}
	b := &backend{
		history: o.History,
		encode:  o.Encode,
		done:    make(chan struct{}),
		tables:  make(map[string]*table),
		leases:  make(map[store.LeaseID]*lease),
		bound:   make(map[address]store.LeaseID),
	}
	if b.history < 0 {
		return nil, fmt.Errorf("%w: memory: History is %d", store.ErrInvalid, o.History)
	}
	if b.history == 0 {
		b.history = 8192
	}
	return b, nil
}

// Get implements [store.Backend].
func (b *backend) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	if err := store.CheckAddress(kind, key); err != nil {
		return store.Record{}, err
	}
	if ctx.Err() != nil {
		return store.Record{}, ended(ctx)
	}
	e, ok, err := b.lookup(kind, key)
	if err != nil {
		return store.Record{}, err
	}
	if !ok {
		return store.Record{}, fmt.Errorf("%w: %s %s", store.ErrNotFound, kind, key)
	}
	return e.record(kind, key), nil
}

func (b *backend) lookup(kind string, key store.Key) (entry, bool, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return entry{}, false, store.ErrClosed
	}
	e, ok := b.findLocked(kind, key)
	return e, ok, nil
}

// Close implements [store.Backend].
func (b *backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	close(b.done)
	for _, l := range b.leases {
		l.timer.Stop()
	}
	b.tables, b.leases, b.bound = nil, nil, nil
	b.pins.drop()
	return nil
}

func (b *backend) findLocked(kind string, key store.Key) (entry, bool) {
	t := b.tables[kind]
	if t == nil {
		return entry{}, false
	}
	e, ok := t.entries[key]
	return e, ok
}

// tableLocked returns the table of the kind and makes it if need be.
func (b *backend) tableLocked(kind string) *table {
	t := b.tables[kind]
	if t == nil {
		t = &table{kind: kind, entries: make(map[store.Key]entry), log: changelog{keep: b.history, watchers: make(map[*watcher]struct{})}}
		b.tables[kind] = t
	}
	return t
}

func (e entry) record(kind string, key store.Key) store.Record {
	r := store.Record{Kind: kind, Key: key, Created: e.created, Revision: e.revision}
	if data, ok := e.value.(store.Bytes); ok {
		r.Bytes = data
	} else {
		r.Value = e.value
	}
	return r
}

// ended is the error of a call whose context is over.
func ended(ctx context.Context) error {
	return fmt.Errorf("store: memory: %w", context.Cause(ctx))
}
