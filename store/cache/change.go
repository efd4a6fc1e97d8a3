package cache

import (
	"context"
	"iter"
	"log/slog"
	"slices"

	"github.com/tendhq/tend/store"
)

// A Change is one step from what a consumer last saw to what the cache holds
// now. The objects are shared: read them, never write to them.
type Change[S, T any] struct {
	// Key is the changed object's key; zero for the Synced marker.
	Key store.Key
	// Old is the object as this consumer last saw it; nil if it saw none.
	Old *store.Object[S, T]
	// New is the object as it is; nil if it is gone or left the cache's limits.
	New *store.Object[S, T]
	// Revision is the backend's revision at which the step was seen.
	Revision store.Revision
	// Initial says that New was there when the consumer arrived, or when its shard did
	// (Options.Shards).
	Initial bool
	// Left says that New is nil because the cache does not hold the object's shard any
	// more, not because the object is gone.
	Left bool
	// Again marks the beginning of a list that was asked for (Cache.Changes), and
	// carries nothing else.
	Again bool
	// Synced marks the end of the initial objects, and of each list that was asked for. It
	// carries nothing but the revision of that snapshot.
	Synced bool
}

// change is a Change without its types.
type change struct {
	Key                          store.Key
	Old, New                     *store.Meta
	Revision                     store.Revision
	Initial, Left, Again, Synced bool
}

// LogValue logs of which object the change is, and nothing that is in it.
func (ch Change[S, T]) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("key", ch.Key.String()), slog.Uint64("revision", uint64(ch.Revision)),
		slog.Bool("initial", ch.Initial), slog.Bool("again", ch.Again), slog.Bool("synced", ch.Synced),
	}
	if ch.Old != nil {
		attrs = append(attrs, slog.Any("old", *ch.Old))
	}
	if ch.New != nil {
		attrs = append(attrs, slog.Any("new", *ch.New))
	}
	return slog.GroupValue(attrs...)
}

// Changes yields everything the cache holds (Initial), then one Synced marker,
// then each change as the cache applies it. Before the cache has synced it
// waits; then the first snapshot is what it begins with, and what changed while that was
// on its way are the first changes. Each call is a consumer of its own, with its own pace:
//
//   - The cache never waits for a consumer. Up to Options.Backlog changes are
//     kept in order for one that is behind. Beyond that its backlog is folded to
//     one change per key (from what it last saw to what is there now), so
//     what a slow consumer costs is bounded by the number of keys that changed,
//     and it skips intermediate states, never the last one. The order between keys
//     is then that of their newest changes.
//   - An object deleted and created again is always two changes, also when
//     the backlog was folded.
//   - When the cache itself had to start over from a new snapshot, a consumer
//     sees only the differences: what vanished meanwhile arrives as a deletion.
//
// The sequence ends when the loop is left, or with ctx: then the last pair
// carries context.Cause(ctx). It does not end with Run: while Run is not
// running, there is nothing to yield.
//
// A consumer may need all objects once more. For each value that again gives, which may be nil, it
// gets an Again marker, everything the cache holds (Initial), and a
// Synced marker. Such a list has its place among the changes: it shows exactly what the
// changes before it have led to, and those after it begin with what it shows.
func (c *Cache[S, T]) Changes(ctx context.Context, again <-chan struct{}) iter.Seq2[Change[S, T], error] {
	return func(yield func(Change[S, T], error) bool) {
		c.core.changes(ctx, again, func(ch change, err error) bool {
			return yield(Change[S, T]{ch.Key, typed[S, T](ch.Old), typed[S, T](ch.New), ch.Revision, ch.Initial, ch.Left, ch.Again, ch.Synced}, err)
		})
	}
}

func (c *core) changes(ctx context.Context, again <-chan struct{}, yield func(change, error) bool) {
	q := c.join()
	defer c.leave(q)
	select {
	case <-c.synced:
	case <-ctx.Done():
		yield(change{}, context.Cause(ctx))
		return
	}
	initial, at := q.initial, q.at
	if q.initial = nil; yieldInitial(initial, at, yield) {
		c.deliver(ctx, q, again, yield)
	}
}

// deliver yields changes, and lists that are asked for, until the consumer leaves or ctx ends.
func (c *core) deliver(ctx context.Context, q *backlog, again <-chan struct{}, yield func(change, error) bool) {
	var batch []change
	for {
		select {
		case <-q.wake:
			batch = q.take(batch[:0])
			if !yieldChanges(ctx, batch, yield) {
				return
			}
		case <-again:
			var list []*store.Meta
			var at store.Revision
			batch, list, at = c.takeAll(q, batch[:0])
			if !yieldChanges(ctx, batch, yield) || !yield(change{Again: true}, nil) || !yieldInitial(list, at, yield) {
				return
			}
		case <-ctx.Done():
			yield(change{}, context.Cause(ctx))
			return
		}
		if cap(batch) > min(q.limit, spareBacklog) {
			batch = nil
		}
	}
}

// takeAll takes what waits for a consumer, and all that the cache holds at that moment.
func (c *core) takeAll(q *backlog, spare []change) (batch []change, list []*store.Meta, at store.Revision) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return q.take(spare), slices.Clone(c.list), c.at()
}

// join registers a consumer. One that comes before the first snapshot has ended begins with
// that, and not with what is there when its goroutine goes on: what changed while the snapshot
// was on its way is news, and a source serves news first.
func (c *core) join() *backlog {
	q := newBacklog(c.opts.Backlog)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasSynced() {
		c.beginLocked(q)
	} else {
		c.early = append(c.early, q)
	}
	return q
}

// beginLocked takes the consumer's snapshot and registers it in one step, so that every later
// change reaches it and no earlier one does.
func (c *core) beginLocked(q *backlog) {
	q.initial, q.at = slices.Clone(c.list), c.at()
	c.consumers = append(c.consumers, q)
}

func (c *core) leave(q *backlog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := func(o *backlog) bool { return o == q }
	c.consumers, c.early = slices.DeleteFunc(c.consumers, is), slices.DeleteFunc(c.early, is)
}

// yieldInitial reports whether the consumer wants to go on.
func yieldInitial(objs []*store.Meta, at store.Revision, yield func(change, error) bool) bool {
	for i, o := range objs {
		// A snapshot of 100,000 objects is consumed over minutes by a source
		// that throttles: let go of each as it is handed over.
		objs[i] = nil
		if !yield(change{Key: o.Key(), New: o, Revision: o.Revision, Initial: true}, nil) {
			return false
		}
	}
	return yield(change{Revision: at, Synced: true}, nil)
}
