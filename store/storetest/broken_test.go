package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// The suite is worth what it rejects. Each of these backends breaks one sentence
// of the contract; the checks named must fail, or the suite is blind to it.
var broken = []struct {
	name   string
	fails  string // a check that must fail
	broken func(b *override)
}{
	{"Get returns the record of another key", "Get/any address", func(b *override) {
		b.get = func(ctx context.Context, kind string, key store.Key) (store.Record, error) {
			key.Namespace = strings.ReplaceAll(key.Namespace, "-", "")
			return b.inner.Get(ctx, kind, key)
		}
	}},
	{"Get invents an empty record", "Get/a record that does not exist", func(b *override) {
		b.get = func(ctx context.Context, kind string, key store.Key) (store.Record, error) {
			r, err := b.inner.Get(ctx, kind, key)
			if errors.Is(err, store.ErrNotFound) {
				return store.Record{Kind: kind, Key: key}, nil
			}
			return r, err
		}
	}},
	{"Get reads what was there a moment ago", "Get/sees every commit", func(b *override) {
		var mu sync.Mutex
		old := make(map[store.Key]store.Record)
		b.get = func(ctx context.Context, kind string, key store.Key) (store.Record, error) {
			r, err := b.inner.Get(ctx, kind, key)
			mu.Lock()
			defer mu.Unlock()
			if stale, ok := old[key]; ok && err == nil {
				old[key] = r
				return stale, nil
			}
			old[key] = r
			return r, err
		}
	}},
	{"Get takes any key", "Get/an impossible kind", func(b *override) {
		b.get = func(ctx context.Context, kind string, key store.Key) (store.Record, error) {
			r, err := b.inner.Get(ctx, kind, key)
			if errors.Is(err, store.ErrInvalid) {
				err = store.ErrNotFound
			}
			return r, err
		}
	}},
	{"the create revision survives a deletion", "Get/a record made again", func(b *override) {
		var mu sync.Mutex
		first := make(map[store.Key]store.Revision)
		b.get = func(ctx context.Context, kind string, key store.Key) (store.Record, error) {
			r, err := b.inner.Get(ctx, kind, key)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && first[key] != 0 {
				r.Created = first[key]
			}
			return r, err
		}
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			r, err := b.inner.Commit(ctx, t)
			mu.Lock()
			defer mu.Unlock()
			for _, op := range t.Ops {
				if err == nil && first[op.Key] == 0 {
					first[op.Key] = r
				}
			}
			return r, err
		}
	}},
	{"guards are ignored", "Commit/a guard that does not hold", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			t.Guards = nil
			return b.inner.Commit(ctx, t)
		}
	}},
	{"guards in the context are ignored", "Commit/every guard in the context", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			return b.inner.Commit(store.WithoutGuards(ctx), t)
		}
	}},
	{"only the last guard in the context counts", "Commit/every guard in the context", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			if g := store.Guards(ctx); len(g) > 1 {
				ctx = store.WithGuard(store.WithoutGuards(ctx), g[len(g)-1])
			}
			return b.inner.Commit(ctx, t)
		}
	}},
	{"a failed guard is an ordinary conflict", "Commit/a guard that does not hold", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			t.If = slices.Concat(t.Guards, t.If)
			t.Guards = nil
			return b.inner.Commit(ctx, t)
		}
	}},
	{"conditions are ignored", "Commit/a revision must be equal", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			t.If = nil
			return b.inner.Commit(ctx, t)
		}
	}},
	{"only the first condition counts", "Commit/happens whole", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			t.If = t.If[:min(1, len(t.If))]
			return b.inner.Commit(ctx, t)
		}
	}},
	{"create revisions are not compared", "Commit/a create revision", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			t.If = slices.DeleteFunc(slices.Clone(t.If), func(c store.Compare) bool { return c.Created != 0 })
			return b.inner.Commit(ctx, t)
		}
	}},
	{"check and write are two steps", "Commit/of many writers", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			if r, err := b.inner.Commit(ctx, store.Txn{Guards: t.Guards, If: t.If}); err != nil || len(t.Ops) == 0 {
				return r, err
			}
			time.Sleep(time.Microsecond) // fake time: lets the others in between
			return b.inner.Commit(ctx, store.Txn{Ops: t.Ops})
		}
	}},
	{"what was read a moment ago is written over", "Commit/of owners", func(b *override) {
		b.get = func(ctx context.Context, kind string, key store.Key) (store.Record, error) {
			r, err := b.inner.Get(ctx, kind, key)
			time.Sleep(time.Microsecond) // fake time: everybody reads the same
			return r, err
		}
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			t.If = nil
			return b.inner.Commit(ctx, t)
		}
	}},
	{"a conflict does not say what is there", "Commit/a revision must be equal", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			r, err := b.inner.Commit(ctx, t)
			if errors.Is(err, store.ErrConflict) {
				err = store.ErrConflict
			}
			return r, err
		}
	}},
	{"each write is a commit of its own", "Commit/all records of a commit", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			r, err := b.inner.Commit(ctx, store.Txn{Guards: t.Guards, If: t.If})
			for i := 0; err == nil && i < len(t.Ops); i++ {
				r, err = b.inner.Commit(ctx, store.Txn{Ops: t.Ops[i : i+1]})
			}
			return r, err
		}
	}},
	{"a commit without writes counts", "Commit/without writes", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			r, err := b.inner.Commit(ctx, t)
			return r + 1, err
		}
	}},
	{"a failed commit is written", "Commit/happens whole", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			r, err := b.inner.Commit(ctx, t)
			if errors.Is(err, store.ErrConflict) {
				_, _ = b.inner.Commit(ctx, store.Txn{Ops: t.Ops})
			}
			return r, err
		}
	}},
	{"a dead context is not looked at", "Commit/with a context that is over", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			return b.inner.Commit(context.WithoutCancel(ctx), t)
		}
	}},
	{"a commit that was made is said to have ended with its context", "Commit/whose context ends", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			r, err := b.inner.Commit(context.WithoutCancel(ctx), t)
			time.Sleep(time.Microsecond) // fake time: the context ends
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return r, err
		}
	}},
	{"half of a commit is made when its context ends", "Commit/whose context ends", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			r, err := b.inner.Commit(ctx, store.Txn{Ops: t.Ops[:min(1, len(t.Ops))]})
			time.Sleep(time.Microsecond) // fake time: the context ends
			if err == nil && len(t.Ops) > 1 {
				return b.inner.Commit(ctx, store.Txn{Ops: t.Ops[1:]})
			}
			return r, err
		}
	}},
	{"a Value is stamped twice", "Commit/a Value that is kept", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			r, err := b.inner.Commit(ctx, t)
			stampAll(t, r, err == nil)
			return r, err
		}
	}},
	{"a Value that is not written is stamped", "Commit/a Value that is kept", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			r, err := b.inner.Commit(ctx, t)
			stampAll(t, 1, err != nil)
			return r, err
		}
	}},
	{"a Value is not stamped", "Commit/a Value that is kept", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			t.Ops = slices.Clone(t.Ops)
			for i := range t.Ops {
				t.Ops[i].Put = struct{ store.Value }{t.Ops[i].Put}
			}
			return b.inner.Commit(ctx, t)
		}
	}},
	{"a list says that a record was made when it was written last", "Reads/each tells", func(b *override) {
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			p, err := b.inner.List(ctx, kind, o)
			p.Records = slices.Clone(p.Records)
			for i := range p.Records {
				p.Records[i].Created = p.Records[i].Revision
			}
			return p, err
		}
	}},
	{"a watch says that a record was made when it was written last", "Reads/each tells", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return filter(b.inner.Watch(ctx, kind, after), func(batch store.Batch) []store.Batch {
				batch.Changes = slices.Clone(batch.Changes)
				for i := range batch.Changes {
					batch.Changes[i].Created = batch.Changes[i].Revision
				}
				return []store.Batch{batch}
			})
		}
	}},
	{"a list of slots does not look at its context", "Slots/a context that is over", func(b *override) {
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			return b.inner.List(context.WithoutCancel(ctx), kind, o)
		}
	}},
	{"a watch of slots ends without the cause of its context", "Slots/a context that is over", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			if ctx.Err() != nil {
				return func(func(store.Batch, error) bool) {}
			}
			return b.inner.Watch(ctx, kind, after)
		}
	}},
	{"the records of a lease that expires go one by one", "Lease/that expires", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			r, err := b.inner.Commit(ctx, t)
			if err == nil && len(t.Ops) > 1 {
				go func() {
					time.Sleep(store.MinTTL) // the lease has not ended
					_, _ = b.inner.Commit(ctx, store.Txn{Ops: []store.Op{del(t.Ops[0].Key)}})
				}()
			}
			return r, err
		}
	}},
	{"a list leaves out its last record", "List/has every record", func(b *override) {
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			p, err := b.inner.List(ctx, kind, o)
			if p.Cursor == "" && len(p.Records) > 0 {
				p.Records = p.Records[:len(p.Records)-1]
			}
			return p, err
		}
	}},
	{"a namespace is a prefix", "List/has every record", func(b *override) {
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			ns := o.Namespace
			o.Namespace = ""
			p, err := b.inner.List(ctx, kind, o)
			p.Records = slices.DeleteFunc(slices.Clone(p.Records), func(r store.Record) bool { return !strings.HasPrefix(r.Key.Namespace, ns) })
			return p, err
		}
	}},
	{"each page shows its own instant", "List/pages show one instant", func(b *override) {
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			return unpinned(ctx, b.inner, kind, o)
		}
	}},
	{"a list has what is newer than it says", "Reads/show whole commits", func(b *override) {
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			p, err := b.inner.List(ctx, kind, o)
			p.Revision -= min(p.Revision, 1)
			return p, err
		}
	}},
	{"a read shows a commit that is not made yet", "Reads/show whole commits", func(b *override) {
		var early atomic.Pointer[store.Op]
		b.get = func(ctx context.Context, kind string, key store.Key) (store.Record, error) {
			r, err := b.inner.Get(ctx, kind, key)
			if op := early.Load(); op != nil && op.Key == key {
				head, _ := b.inner.Commit(ctx, store.Txn{})
				return store.Record{Kind: kind, Key: key, Created: head + 1, Revision: head + 1, Value: op.Put}, nil
			}
			return r, err
		}
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			if len(t.Ops) > 1 {
				early.Store(&t.Ops[1])
				time.Sleep(time.Microsecond) // fake time: everybody reads meanwhile
			}
			defer early.Store(nil)
			return b.inner.Commit(ctx, t)
		}
	}},
	{"a list shows half of a commit", "Reads/show whole commits", func(b *override) {
		var last sync.Map
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			p, err := b.inner.List(ctx, kind, o)
			p.Records = slices.Clone(p.Records)
			for i, r := range p.Records {
				if old, ok := last.Swap(r.Key, r); ok && r.Revision == p.Revision && i%2 == 0 {
					p.Records[i] = old.(store.Record)
				}
			}
			return p, err
		}
	}},
	{"a snapshot is torn", "Watch/a snapshot and the changes", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return filter(b.inner.Watch(ctx, kind, after), func(batch store.Batch) []store.Batch {
				if batch.Kind == store.BatchSnapshot && len(batch.Changes) > 5 {
					batch.Changes = batch.Changes[1:]
				}
				return []store.Batch{batch}
			})
		}
	}},
	{"the end of the snapshot is not marked", "Watch/after 0", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return filter(b.inner.Watch(ctx, kind, after), func(batch store.Batch) []store.Batch {
				if batch.Kind == store.BatchSnapshotEnd {
					return nil
				}
				return []store.Batch{batch}
			})
		}
	}},
	{"an event is lost now and then", "Watch/many watchers", func(b *override) {
		var n atomic.Int64
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return filter(b.inner.Watch(ctx, kind, after), func(batch store.Batch) []store.Batch {
				if batch.Kind == store.BatchChanges && n.Add(1)%3 == 0 {
					return nil
				}
				return []store.Batch{batch}
			})
		}
	}},
	{"an event comes twice now and then", "Watch/after a revision", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return filter(b.inner.Watch(ctx, kind, after), func(batch store.Batch) []store.Batch {
				return []store.Batch{batch, batch}
			})
		}
	}},
	{"a watch resumes with what was already seen", "Watch/after a revision", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return b.inner.Watch(ctx, kind, max(after, 2)-1)
		}
	}},
	{"a watch resumes one too late", "Watch/after a revision", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return filter(b.inner.Watch(ctx, kind, after), func(batch store.Batch) []store.Batch {
				if batch.Kind == store.BatchChanges && batch.Changes[0].Revision == after+1 {
					batch.Changes = batch.Changes[1:]
				}
				return []store.Batch{batch}
			})
		}
	}},
	{"progress is told before what it covers", "Watch/after a revision", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return filter(b.inner.Watch(ctx, kind, after), func(batch store.Batch) []store.Batch {
				if batch.Kind != store.BatchChanges {
					return []store.Batch{batch}
				}
				return []store.Batch{{Kind: store.BatchProgress, Revision: batch.Revision}, batch}
			})
		}
	}},
	{"a commit is split over batches", "Watch/one commit is in one batch", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return filter(b.inner.Watch(ctx, kind, after), func(batch store.Batch) (split []store.Batch) {
				if batch.Kind != store.BatchChanges {
					return []store.Batch{batch}
				}
				for i := range batch.Changes {
					split = append(split, store.Batch{Kind: batch.Kind, Revision: batch.Changes[i].Revision, Changes: batch.Changes[i : i+1]})
				}
				return split
			})
		}
	}},
	{"changes of one batch come in reverse", "Watch/after a revision", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return filter(b.inner.Watch(ctx, kind, after), func(batch store.Batch) []store.Batch {
				batch.Changes = slices.Clone(batch.Changes)
				slices.Reverse(batch.Changes)
				return []store.Batch{batch}
			})
		}
	}},
	{"a watch that is resumed right before the newest revision is one too late", "History/is resumed and listed", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			if head, err := b.inner.Commit(ctx, store.Txn{}); err == nil && after == head-1 {
				after = head - 2
			}
			return b.inner.Watch(ctx, kind, after)
		}
	}},
	{"a list of the past shows what is there now", "History/is resumed and listed", func(b *override) {
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			at := o.At
			o.At = 0
			p, err := b.inner.List(ctx, kind, o)
			if at != 0 {
				p.Revision = at
			}
			return p, err
		}
	}},
	{"a watch waits for a revision that is not reached", "History/is resumed from its newest", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			if head, err := b.inner.Commit(ctx, store.Txn{}); err == nil && after == head+1 {
				after = head
			}
			return b.inner.Watch(ctx, kind, after)
		}
	}},
	{"a watch that is older than the history begins with what is left", "History/what is left", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return func(yield func(store.Batch, error) bool) {
				head, _ := b.inner.Commit(ctx, store.Txn{})
				for first := true; first && after <= head; after++ {
					for batch, err := range b.inner.Watch(ctx, kind, after) {
						if first && errors.Is(err, store.ErrCompacted) {
							break
						}
						if first = false; !yield(batch, err) {
							return
						}
					}
				}
			}
		}
	}},
	{"a deletion is at the revision of the last write", "Watch/a deletion carries", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			last := make(map[store.Key]store.Revision)
			return filter(b.inner.Watch(ctx, kind, after-1), func(batch store.Batch) []store.Batch {
				batch.Changes = slices.Clone(batch.Changes)
				for i := range batch.Changes {
					c := &batch.Changes[i]
					if c.Deleted {
						c.Revision = last[c.Key]
					}
					last[c.Key] = c.Revision
				}
				return []store.Batch{batch}
			})
		}
	}},
	{"a deletion is a put", "Watch/a deletion carries", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return filter(b.inner.Watch(ctx, kind, after), func(batch store.Batch) []store.Batch {
				batch.Changes = slices.Clone(batch.Changes)
				for i := range batch.Changes {
					batch.Changes[i].Deleted = false
				}
				return []store.Batch{batch}
			})
		}
	}},
	{"a watch from the future waits for it", "Watch/a revision that the store has not", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			head, _ := b.inner.Commit(context.WithoutCancel(ctx), store.Txn{})
			return b.inner.Watch(ctx, kind, min(after, max(head, 1)))
		}
	}},
	{"a compacted watch goes on from where history begins", "Watch/a revision older", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return func(yield func(store.Batch, error) bool) {
				for batch, err := range b.inner.Watch(ctx, kind, after) {
					if errors.Is(err, store.ErrCompacted) {
						head, _ := b.inner.Commit(ctx, store.Txn{})
						b.inner.Watch(ctx, kind, head)(yield)
						return
					}
					if !yield(batch, err) {
						return
					}
				}
			}
		}
	}},
	{"a slow watcher takes the others with it", "Watch/a watcher that is too slow", func(b *override) {
		var cut atomic.Bool
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return func(yield func(store.Batch, error) bool) {
				for batch, err := range b.inner.Watch(ctx, kind, after) {
					if errors.Is(err, store.ErrCompacted) || cut.Load() {
						cut.Store(true)
						err = store.ErrCompacted
					}
					if !yield(batch, err) || err != nil {
						return
					}
				}
			}
		}
	}},
	{"a watch ends without a word", "Watch/ends with the cause", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return func(yield func(store.Batch, error) bool) {
				for batch, err := range b.inner.Watch(ctx, kind, after) {
					if err != nil || !yield(batch, nil) {
						return
					}
				}
			}
		}
	}},
	{"a watch sends other kinds too", "Watch/sends no other kind", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			if kind == "Thing" && after != 0 {
				return b.inner.Watch(ctx, "Thing2", after)
			}
			return b.inner.Watch(ctx, kind, after)
		}
	}},
	{"a watch that waits is not told of every third commit", "Watch/that waits is told", func(b *override) {
		b.commit, b.watch = deaf(b, func(r store.Revision) bool { return r%3 == 0 })
	}},
	{"a watch that waits does not end with its context", "Watch/ends with the cause", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return func(yield func(store.Batch, error) bool) {
				over := ctx.Err() != nil
				for batch, err := range b.inner.Watch(ctx, kind, after) {
					if err != nil && !over { // it waited
						b.inner.Watch(context.WithoutCancel(ctx), kind, after)(yield)
						return
					}
					if after = batch.Revision; !yield(batch, err) {
						return
					}
					over = ctx.Err() != nil
				}
			}
		}
	}},
	{"a watch that waits does not end with Close", "Close/every method", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return func(yield func(store.Batch, error) bool) {
				for batch, err := range b.inner.Watch(ctx, kind, after) {
					if errors.Is(err, store.ErrClosed) && after > 1 { // it waited
						<-ctx.Done()
						err = context.Cause(ctx)
					}
					if !yield(batch, err) {
						return
					}
				}
			}
		}
	}},
	{"a deletion after Close is made", "Close/every method", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			r, err := b.inner.Commit(ctx, t)
			if errors.Is(err, store.ErrClosed) && len(t.Ops) > 0 && t.Ops[0].Put == nil {
				err = nil
			}
			return r, err
		}
	}},
	{"guards on another kind than is written are ignored", "Commit/conditions and guards on another kind", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			t.Guards = slices.DeleteFunc(slices.Clone(t.Guards), func(c store.Compare) bool { return len(t.Ops) > 0 && c.Kind != t.Ops[0].Kind })
			return b.inner.Commit(ctx, t)
		}
	}},
	{"conditions on another kind than is written are ignored", "Commit/conditions and guards on another kind", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			t.If = slices.DeleteFunc(slices.Clone(t.If), func(c store.Compare) bool { return len(t.Ops) > 0 && c.Kind != t.Ops[0].Kind })
			return b.inner.Commit(ctx, t)
		}
	}},
	{"guards of a commit without writes are ignored", "Commit/conditions and guards on another kind", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			if len(t.Ops) == 0 {
				t.Guards, ctx = nil, store.WithoutGuards(ctx)
			}
			return b.inner.Commit(ctx, t)
		}
	}},
	{"a list misses what a commit of two kinds wrote last", "List/sees every commit", func(b *override) {
		var behind atomic.Bool
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			behind.Store(len(t.Ops) == 2 && t.Ops[0].Kind != t.Ops[1].Kind)
			return b.inner.Commit(ctx, t)
		}
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			if behind.Load() {
				if head, err := b.inner.Commit(ctx, store.Txn{}); err == nil {
					o.At = head - 1
				}
			}
			return b.inner.List(ctx, kind, o)
		}
	}},
	{"a record that was deleted and made again is told as one put", "Watch/a record that goes and comes", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return filter(b.inner.Watch(ctx, kind, after), func(batch store.Batch) []store.Batch {
				batch.Changes = slices.Clone(batch.Changes)
				for i := len(batch.Changes) - 1; i > 0; i-- {
					if a, z := batch.Changes[i-1], batch.Changes[i]; a.Key == z.Key && a.Deleted && !z.Deleted {
						batch.Changes = slices.Delete(batch.Changes, i-1, i)
					}
				}
				return []store.Batch{batch}
			})
		}
	}},
	{"a snapshot is of when the watch was made, not of when it is read", "Watch/nothing runs before", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			page, err := b.inner.List(ctx, kind, store.ListOptions{})
			if err != nil || after != 0 {
				return b.inner.Watch(ctx, kind, after)
			}
			return func(yield func(store.Batch, error) bool) {
				snapshot := store.Batch{Kind: store.BatchSnapshot, Revision: page.Revision}
				for _, r := range page.Records {
					snapshot.Changes = append(snapshot.Changes, store.Change{Record: r})
				}
				if yield(snapshot, nil) && yield(store.Batch{Kind: store.BatchSnapshotEnd, Revision: page.Revision}, nil) {
					b.inner.Watch(ctx, kind, page.Revision)(yield)
				}
			}
		}
	}},
	{"a watch that is never read has a goroutine", "Watch/nothing runs before", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			go func() { <-ctx.Done() }()
			return b.inner.Watch(ctx, kind, after)
		}
	}},
	{"a watch leaves a goroutine until its context ends", "Watch/nothing runs before", func(b *override) {
		b.watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
			return func(yield func(store.Batch, error) bool) {
				go func() { <-ctx.Done() }()
				b.inner.Watch(ctx, kind, after)(yield)
			}
		}
	}},
	{"Get gives out bytes that the next one overwrites", "Get/what was read stays", func(b *override) {
		var mu sync.Mutex
		var scratch []byte
		b.get = func(ctx context.Context, kind string, key store.Key) (store.Record, error) {
			r, err := b.inner.Get(ctx, kind, key)
			data, _ := r.Encode()
			mu.Lock()
			defer mu.Unlock()
			scratch = append(scratch[:0], data...)
			r.Value, r.Bytes = nil, scratch
			return r, err
		}
	}},
	{"texts end before their last newline", "Store/random values", func(b *override) {
		b.get = rewriting(b, func(data []byte) []byte { return bytes.ReplaceAll(data, []byte(`\n"`), []byte(`"`)) })
	}},
	{"the keys of objects come back in their order", "Store/random values", func(b *override) {
		b.get = rewriting(b, func(data []byte) []byte {
			var tree any
			d := json.NewDecoder(bytes.NewReader(data))
			d.UseNumber()
			if d.Decode(&tree) == nil {
				data, _ = json.Marshal(tree)
			}
			return data
		})
	}},
	{"null comes back as nothing", "Store/random values", func(b *override) {
		b.get = rewriting(b, func(data []byte) []byte { return bytes.ReplaceAll(data, []byte(`[null]`), []byte(`[]`)) })
	}},
	{"a commit that changes nothing is one", "Store/random values", func(b *override) {
		var mu sync.Mutex
		n := 0
		b.get = func(ctx context.Context, kind string, key store.Key) (store.Record, error) {
			r, err := b.inner.Get(ctx, kind, key)
			mu.Lock()
			defer mu.Unlock()
			if n++; err == nil && n%2 == 0 {
				_, err = b.inner.Commit(ctx, store.Txn{Ops: []store.Op{{Kind: kind, Key: key, Put: r.Value}}})
			}
			return r, err
		}
	}},
	{"what is too large is refused as a conflict", "Store/random values", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			if data, err := t.Encode(); err == nil && len(data) > 0 && len(data[0])%7 == 0 {
				return 0, store.ErrConflict
			}
			return b.inner.Commit(ctx, t)
		}
	}},
	{"Close closes nothing", "Close/every method", func(b *override) {
		b.close = func() error { return nil }
	}},
	{"a revoked lease keeps its records", "Lease/revoking deletes", func(b *override) {
		b.revoke = func(context.Context, store.LeaseID) error { return nil }
	}},
	{"a lease that ended can be renewed", "Lease/that ended", func(b *override) {
		b.renew = func(ctx context.Context, id store.LeaseID) error {
			err := b.inner.Renew(ctx, id)
			if errors.Is(err, store.ErrLeaseGone) {
				return nil
			}
			return err
		}
	}},
	{"a lease that expired can be renewed", "Lease/that is not renewed", func(b *override) {
		b.renew = func(ctx context.Context, id store.LeaseID) error {
			err := b.inner.Renew(ctx, id)
			if errors.Is(err, store.ErrLeaseGone) {
				return nil
			}
			return err
		}
	}},
	{"a lease that expired can be written under", "Lease/that was renewed", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			r, err := b.inner.Commit(ctx, t)
			if errors.Is(err, store.ErrLeaseGone) {
				t.Ops = slices.Clone(t.Ops)
				for i := range t.Ops {
					t.Ops[i].Lease = 0
				}
				return b.inner.Commit(ctx, t)
			}
			return r, err
		}
	}},
	{"a lease id comes again", "Lease/an id is given once", func(b *override) {
		var free []store.LeaseID
		b.revoke = func(ctx context.Context, id store.LeaseID) error {
			free = append(free, id)
			return nil
		}
		b.grant = func(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
			if len(free) > 0 {
				return free[0], nil
			}
			return b.inner.Grant(ctx, ttl)
		}
	}},
	{"a page after the history was forgotten shows what there is", "List/a page after the history", func(b *override) {
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			return unpinned(ctx, b.inner, kind, o)
		}
	}},
	{"At goes before the cursor", "List/with a cursor", func(b *override) {
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			if o.At != 0 {
				o.Cursor = ""
			}
			return b.inner.List(ctx, kind, o)
		}
	}},
	{"a huge limit is taken for none", "List/a limit may be", func(b *override) {
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			if o.Limit > 1<<24 {
				return store.Page{Revision: 1}, nil
			}
			return b.inner.List(ctx, kind, o)
		}
	}},
	{"every other list is old", "List/never goes back", func(b *override) {
		var n atomic.Int64
		b.list = func(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
			p, err := b.inner.List(ctx, kind, o)
			if n.Add(1)%2 == 0 && p.Revision > 1 {
				p.Revision--
			}
			return p, err
		}
	}},
	{"renewing a lease does nothing", "Lease/that is renewed", func(b *override) {
		b.renew = func(context.Context, store.LeaseID) error { return nil }
	}},
	{"a renewed lease lives for the least time that there is", "Lease/that was renewed", func(b *override) {
		b.renew = func(ctx context.Context, id store.LeaseID) error {
			go func() {
				select {
				case <-time.After(store.MinTTL):
					_ = b.inner.Revoke(ctx, id)
				case <-ctx.Done():
				}
			}()
			return b.inner.Renew(ctx, id)
		}
	}},
	{"a lease lives twice as long as asked for", "Lease/that is not renewed", func(b *override) {
		b.grant = func(ctx context.Context, ttl time.Duration) (store.LeaseID, error) { return b.inner.Grant(ctx, 2*ttl) }
	}},
	{"a lease that was renewed never ends", "Lease/that was renewed", func(b *override) {
		b.renew = func(ctx context.Context, id store.LeaseID) error {
			go func() {
				for b.inner.Renew(ctx, id) == nil {
					select {
					case <-time.After(store.MinTTL / 2):
					case <-ctx.Done():
					}
				}
			}()
			return nil
		}
	}},
	{"what was deleted goes once more when its lease ends", "Lease/a record follows", func(b *override) {
		var mu sync.Mutex
		ended := make(map[store.LeaseID]store.Key)
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, op := range t.Ops {
				if op.Lease != 0 {
					ended[op.Lease] = op.Key
				}
			}
			return b.inner.Commit(ctx, t)
		}
		b.revoke = func(ctx context.Context, id store.LeaseID) error {
			mu.Lock()
			k, ok := ended[id]
			delete(ended, id)
			mu.Unlock()
			if _, err := b.inner.Get(ctx, kind, k); ok && errors.Is(err, store.ErrNotFound) {
				for _, ops := range [][]store.Op{{put(k, "")}, {del(k)}} {
					if _, err := b.inner.Commit(ctx, store.Txn{Ops: ops}); err != nil {
						return err
					}
				}
			}
			return b.inner.Revoke(ctx, id)
		}
	}},
	{"a lease is shorter than asked for", "Lease/that is not renewed", func(b *override) {
		b.grant = func(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
			return b.inner.Grant(ctx, max(store.MinTTL, ttl/2))
		}
	}},
	{"records are not bound to their lease", "Lease/revoking deletes", func(b *override) {
		b.commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
			t.Ops = slices.Clone(t.Ops)
			for i := range t.Ops {
				t.Ops[i].Lease = 0
			}
			return b.inner.Commit(ctx, t)
		}
	}},
}

func TestSuiteRejectsBrokenBackends(t *testing.T) {
	for _, bad := range broken {
		t.Run(bad.name, func(t *testing.T) {
			failed := failures(t, bad.fails, func(t testing.TB) store.Backend {
				b := newOverride(t)
				bad.broken(b)
				return b
			})
			if len(failed) == 0 {
				t.Errorf("%q did not fail", bad.fails)
			}
		})
	}
}

// The other half of the proof: what rejects the broken ones accepts the backend
// that they are made from.
func TestSuiteAcceptsWhatIsNotBroken(t *testing.T) {
	if failed := failures(t, "", func(t testing.TB) store.Backend { return newOverride(t) }); len(failed) > 0 {
		t.Errorf("failed: %q", failed)
	}
}

// failures runs every check whose name begins with prefix, in a bubble of its own, and
// returns the names of those that failed.
func failures(t *testing.T, prefix string, newBackend func(t testing.TB) store.Backend) (failed []string) {
	for _, c := range checks() {
		if !strings.HasPrefix(c.name, prefix) {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() { // a failing check leaves by Goexit
				defer close(done)
				c.against(r, newBackend, Options{Patience: time.Minute, Bubble: true})
			}()
			<-done
			r.end()
			if r.failed.Load() {
				failed = append(failed, c.name)
			}
		})
	}
	return failed
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	failed   atomic.Bool
	mu       sync.Mutex // guards cleanups
	cleanups []func()
}

func (r *recorder) Error(...any)          { r.failed.Store(true) }
func (r *recorder) Errorf(string, ...any) { r.failed.Store(true) }
func (r *recorder) Logf(string, ...any)   {}
func (r *recorder) Fatal(...any)          { r.FailNow() }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }

func (r *recorder) FailNow() {
	r.failed.Store(true)
	runtime.Goexit()
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

// override is a memory backend with methods replaced.
type override struct {
	inner  store.FullBackend
	get    func(context.Context, string, store.Key) (store.Record, error)
	list   func(context.Context, string, store.ListOptions) (store.Page, error)
	commit func(context.Context, store.Txn) (store.Revision, error)
	watch  func(context.Context, string, store.Revision) iter.Seq2[store.Batch, error]
	grant  func(context.Context, time.Duration) (store.LeaseID, error)
	renew  func(context.Context, store.LeaseID) error
	revoke func(context.Context, store.LeaseID) error
	close  func() error
}

func newOverride(t testing.TB) *override {
	m, err := memory.New(&memory.Options{History: 300})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return &override{
		inner: m, get: m.Get, list: m.List, commit: m.Commit, watch: m.Watch,
		grant: m.Grant, renew: m.Renew, revoke: m.Revoke, close: m.Close,
	}
}

func (b *override) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	return b.get(ctx, kind, key)
}

func (b *override) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	return b.list(ctx, kind, o)
}

func (b *override) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	return b.commit(ctx, t)
}

func (b *override) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return b.watch(ctx, kind, after)
}

func (b *override) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	return b.grant(ctx, ttl)
}

func (b *override) Renew(ctx context.Context, id store.LeaseID) error  { return b.renew(ctx, id) }
func (b *override) Revoke(ctx context.Context, id store.LeaseID) error { return b.revoke(ctx, id) }
func (b *override) Shared() bool                                       { return false }
func (b *override) Close() error                                       { return b.close() }

// stampAll stamps the Values of a transaction.
func stampAll(t store.Txn, r store.Revision, stamp bool) {
	for _, op := range t.Ops {
		if s, ok := op.Put.(store.Stamper); ok && stamp {
			s.Stamp(r)
		}
	}
}

// filter replaces the batches of a watch.
func filter(seq iter.Seq2[store.Batch, error], change func(store.Batch) []store.Batch) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for batch, err := range seq {
			if err != nil {
				yield(batch, err)
				return
			}
			for _, x := range change(batch) {
				if !yield(x, nil) {
					return
				}
			}
		}
	}
}

// rewriting is a Get of bytes that are not those that were written.
func rewriting(b *override, rewrite func([]byte) []byte) func(context.Context, string, store.Key) (store.Record, error) {
	return func(ctx context.Context, kind string, key store.Key) (store.Record, error) {
		r, err := b.inner.Get(ctx, kind, key)
		if err == nil {
			var data []byte
			if data, err = r.Encode(); err == nil {
				r.Value, r.Bytes = nil, rewrite(data)
			}
		}
		return r, err
	}
}

// deaf are methods of b of which watches learn of the commits that are lost with the next
// one that is not.
func deaf(b *override, lost func(store.Revision) bool) (
	commit func(context.Context, store.Txn) (store.Revision, error),
	watch func(context.Context, string, store.Revision) iter.Seq2[store.Batch, error],
) {
	var mu sync.Mutex // guards told
	told := make(chan struct{})
	commit = func(ctx context.Context, t store.Txn) (store.Revision, error) {
		r, err := b.inner.Commit(ctx, t)
		if err == nil && !lost(r) {
			mu.Lock()
			defer mu.Unlock()
			close(told)
			told = make(chan struct{})
		}
		return r, err
	}
	watch = func(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
		return filter(b.inner.Watch(ctx, kind, after), func(batch store.Batch) []store.Batch {
			mu.Lock()
			next := told
			mu.Unlock()
			if batch.Kind == store.BatchChanges && lost(batch.Revision) {
				select {
				case <-next:
				case <-ctx.Done():
				}
			}
			return []store.Batch{batch}
		})
	}
	return commit, watch
}

// unpinned pages by position in the list of the moment.
func unpinned(ctx context.Context, b store.Backend, kind string, o store.ListOptions) (store.Page, error) {
	if o.Limit <= 0 || o.At != 0 {
		return b.List(ctx, kind, o)
	}
	from := len(o.Cursor)
	p, err := b.List(ctx, kind, store.ListOptions{Namespace: o.Namespace})
	if err != nil {
		return p, err
	}
	slices.SortFunc(p.Records, func(a, b store.Record) int { return strings.Compare(a.Key.Name, b.Key.Name) })
	to := min(from+o.Limit, len(p.Records))
	p.Cursor = strings.Repeat("x", to)
	if to == len(p.Records) {
		p.Cursor = ""
	}
	p.Records = p.Records[min(from, to):to]
	return p, nil
}
