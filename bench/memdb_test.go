//go:build peers

package bench

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/hashicorp/go-memdb"

	"github.com/tendhq/tend/store"
)

// memdbThings keeps things in go-memdb, the database in memory that Consul and
// Nomad keep their state in: immutable radix trees, of which readers hold a
// snapshot without a lock.
//
// What is fair about it:
//   - One table with one index, the one it must have. The index is a type of our
//     own: the ready-made field indexes find their fields by reflection.
//   - A write transaction for each operation, because each is a caller of its own
//     that needs the outcome before it goes on. Writes that share a
//     transaction are cheaper by far; so are tend's.
//   - It keeps the pointer that it is given and hands out the same, and no caller
//     may write to what is behind it. So a writer copies once, before it changes what
//     it has read, and a reader only if it writes. tend and
//     impl=limit copy what goes in and what comes out. get and list-10k give a
//     copy that is the caller's own, as they do for the others; cached-get and
//     cached-list-10k give what is shared.
//   - It knows neither revision nor generation: the compare-and-swap is the
//     caller's, within the transaction, with the spec compared by hand.
type memdbThings struct {
	db  *memdb.MemDB
	rev store.Revision // written by write transactions, of which there is one at a time
}

const memdbTable, memdbID = "thing", "id"

// memdbKey is the primary index: namespace and name, each with a zero byte at its
// end so that no key is the beginning of another.
type memdbKey struct{}

func (memdbKey) FromArgs(args ...any) ([]byte, error) {
	if len(args) != 1 {
		return nil, errors.New("bench: one key, please")
	}
	return memdbKeyBytes(args[0].(store.Key)), nil
}

func (memdbKey) FromObject(o any) (bool, []byte, error) {
	return true, memdbKeyBytes(o.(*thing).Key()), nil
}

func memdbKeyBytes(k store.Key) []byte {
	b := make([]byte, 0, len(k.Namespace)+len(k.Name)+2)
	b = append(append(b, k.Namespace...), 0)
	return append(append(b, k.Name...), 0)
}

func newMemdb(tb testing.TB, n int) *memdbThings {
	tb.Helper()
	db, err := memdb.NewMemDB(&memdb.DBSchema{Tables: map[string]*memdb.TableSchema{
		memdbTable: {Name: memdbTable, Indexes: map[string]*memdb.IndexSchema{
			memdbID: {Name: memdbID, Unique: true, Indexer: memdbKey{}},
		}},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	m := &memdbThings{db: db}
	for i := range n {
		if err := m.create(newThing(i)); err != nil {
			tb.Fatal(err)
		}
	}
	return m
}

// create stores o itself: it is no longer the caller's.
func (m *memdbThings) create(o *thing) error {
	txn := m.db.Txn(true)
	defer txn.Abort()
	old, err := txn.First(memdbTable, memdbID, o.Key())
	if err != nil {
		return err
	}
	if old != nil {
		return store.ErrExists
	}
	o.Generation = 1
	return m.commit(txn, o)
}

// update stores o itself, which the caller has copied and changed, if the stored
// thing is still of o's revision.
func (m *memdbThings) update(o *thing) error {
	txn := m.db.Txn(true)
	defer txn.Abort()
	stored, err := txn.First(memdbTable, memdbID, o.Key())
	if err != nil {
		return err
	}
	old, _ := stored.(*thing)
	if old == nil || old.Revision != o.Revision {
		return store.ErrConflict
	}
	o.Generation = old.Generation
	if !sameByHand(&old.Spec, &o.Spec) {
		o.Generation++
	}
	return m.commit(txn, o)
}

func (m *memdbThings) commit(txn *memdb.Txn, o *thing) error {
	o.Revision = m.rev + 1
	if err := txn.Insert(memdbTable, o); err != nil {
		return err
	}
	m.rev++
	txn.Commit()
	return nil
}

// shared gives the stored thing, or nil, and what is closed when it is replaced.
func (m *memdbThings) shared(k store.Key) (*thing, <-chan struct{}, error) {
	changed, o, err := m.db.Txn(false).FirstWatch(memdbTable, memdbID, k)
	stored, _ := o.(*thing)
	return stored, changed, err
}

func (m *memdbThings) each(f func(o *thing)) error {
	all, err := m.db.Txn(false).Get(memdbTable, memdbID)
	if err != nil {
		return err
	}
	for o := all.Next(); o != nil; o = all.Next() {
		f(o.(*thing))
	}
	return nil
}

// follow gives to seen the thing as it is, and again whenever it was written since,
// until seen says false or ctx ends. Two writes in a row may be seen as one.
func (m *memdbThings) follow(ctx context.Context, k store.Key, seen func(o *thing) bool) error {
	for {
		o, changed, err := m.shared(k)
		if err != nil || !seen(o) {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func createMemdb(b *testing.B, _ []store.Key) func(int) {
	m, names, o := newMemdb(b, 0), newNames(b), newThing(0)
	return func(i int) {
		next := copyByHand(o) // what is stored must be a thing of its own
		next.Name = names[i]
		if err := m.create(next); err != nil {
			b.Fatal(err)
		}
	}
}

func getMemdb(b *testing.B, keys []store.Key) func(int) {
	m := newMemdb(b, len(keys))
	return func(i int) {
		o, _, err := m.shared(keys[i%len(keys)])
		if err != nil {
			b.Fatal(err)
		}
		copyByHand(o)
	}
}

func cachedGetMemdb(b *testing.B, keys []store.Key) func(int) {
	m := newMemdb(b, len(keys))
	return func(i int) {
		o, _, err := m.shared(keys[i%len(keys)])
		if err != nil {
			b.Fatal(err)
		}
		generations += o.Generation
	}
}

func updateMemdb(b *testing.B, keys []store.Key) func(int) {
	m, held := newMemdb(b, len(keys)), make([]*thing, len(keys))
	for i, k := range keys {
		held[i], _, _ = m.shared(k)
	}
	return func(i int) {
		o := copyByHand(held[i%len(held)])
		o.Spec.A = strconv.Itoa(i)
		if err := m.update(o); err != nil {
			b.Fatal(err)
		}
		held[i%len(held)] = o
	}
}

func listMemdb(b *testing.B, keys []store.Key) func(int) {
	m := newMemdb(b, len(keys))
	return func(int) {
		if err := m.each(func(o *thing) { copyByHand(o) }); err != nil {
			b.Fatal(err)
		}
	}
}

func cachedListMemdb(b *testing.B, keys []store.Key) func(int) {
	m := newMemdb(b, len(keys))
	return func(int) {
		if err := m.each(func(o *thing) { generations += o.Generation }); err != nil {
			b.Fatal(err)
		}
	}
}

// watchMemdb is watchTendStore with watch channels. It is less work, and its name
// in the results says so, go-memdb-latest: a watcher learns that there is something
// new and reads the latest; what was written between two looks it never sees. The
// writer waits after every 1,024 updates until all watchers have read the last.
func watchMemdb(b *testing.B, watchers int) {
	const burst = 1024
	m, key := newMemdb(b, 1), newThing(0).Key()
	o, _, err := m.shared(key)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	start := o.Revision
	var watching, seen, all sync.WaitGroup
	seen.Add(watchers)
	watching.Add(watchers)
	for range watchers {
		all.Go(func() {
			next := min(burst, b.N)
			if err := m.follow(ctx, key, func(o *thing) bool {
				if o.Revision == start {
					watching.Done() // its channel is made; the first write is yet to come
				}
				if int(o.Revision-start) == next { // no writer goes beyond it before all have said so
					next = min(next+burst, b.N)
					seen.Done()
				}
				return int(o.Revision-start) < b.N
			}); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	watching.Wait()
	measure(b, func() {
		for i := range b.N {
			o = copyByHand(o)
			o.Spec.A = strconv.Itoa(i)
			if err := m.update(o); err != nil {
				b.Fatal(err)
			}
			if (i+1)%burst == 0 || i+1 == b.N {
				seen.Wait()
				seen.Add(watchers)
			}
		}
	})
	all.Wait()
}
