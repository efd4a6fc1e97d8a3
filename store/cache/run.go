package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// reopen is the pause before a watch is opened again, or a list begins again: none the first time for
// a watch, so that one cut connection costs nothing, then doubling, and never more than 5 s. Its tries are
// counted where it is used.
var reopen = sleep.Backoff{Min: 40 * time.Millisecond, Max: 4 * time.Second}

// Run feeds the cache until ctx ends, and blocks meanwhile. It opens the watch,
// opens it again with a growing pause when it breaks, and takes a new snapshot
// when the backend has forgotten the changes in between (store.ErrCompacted) or
// was restored to an earlier revision. It reads the watch on the caller's goroutine and starts
// none, unless the cache is one of shards: then another one lists those that are gained, and ends
// before Run. It returns nil
// when ctx ended, ErrRunning when the cache is running already, an error that
// wraps store.ErrClosed when the backend was closed under it, and one that
// wraps ErrMutated when Options.DetectMutations found something.
//
// After Run has returned the cache keeps what it had and may be run again: then its consumers
// see what has changed meanwhile.
func (c *Cache[S, T]) Run(ctx context.Context) error { return c.core.run(ctx) }

func (c *core) run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return fmt.Errorf("%w: %s", ErrRunning, c.name)
	}
	defer c.running.Store(false)
	c.mu.Lock()
	c.began = true
	c.mu.Unlock()
	if err := c.readStore(ctx); err != nil {
		return err
	}
	return c.checkMutations()
}

// readStore runs what feeds the cache, and returns when all of it has ended.
func (c *core) readStore(ctx context.Context) error {
	defer c.ended()
	if c.opts.Shards > 0 {
		c.reach(c.at(), false) // of no shard everything is there
		ctx, stop := context.WithCancel(ctx)
		var lists sync.WaitGroup
		defer lists.Wait()
		defer stop()
		lists.Go(func() { c.readLists(ctx) })
	}
	return c.keepUp(ctx)
}

// keepUp reads one watch after the other until ctx ends. Its error is that the backend was closed.
func (c *core) keepUp(ctx context.Context) error {
	var pause time.Time // until then no watch is opened
	for failures := 0; ctx.Err() == nil; {
		watch, stop := context.WithCancel(ctx)
		slots, after := c.fit(stop)
		if slots.Len() == 0 {
			<-watch.Done()
			continue
		}
		if !sleep.For(watch, time.Until(pause)) {
			continue
		}
		progressed, err := c.follow(watch, slots, after)
		if progressed {
			failures = 0
		}
		if watch.Err() != nil {
			continue // other parts are wanted, or ctx ended
		}
		stop()
		if err := c.watchEnded(err, failures > 0); err != nil {
			return err
		}
		if failures > 0 {
			pause = time.Now().Add(reopen.After(failures - 1))
		}
		failures++
	}
	c.down(nil)
	return nil
}

// follow reads one watch to its end. progressed says that it got beyond the snapshot, so that a
// watch that fails at once, again and again, is paced; so does the time that it took: it may have
// had nothing to tell, and one that failed after so long was paced by itself.
func (c *core) follow(ctx context.Context, slots store.SlotSet, after store.Revision) (progressed bool, err error) {
	began := time.Now()
	err = errEnded
	for b, failed := range store.WatchSlots(ctx, c.backend, c.kind, slots, after) {
		if failed != nil {
			err = failed
			break
		}
		c.take(b)
		progressed = progressed || b.Kind == store.BatchChanges || b.Kind == store.BatchProgress
	}
	c.feed.relist = nil // what a snapshot that broke off has named: by the next one some of it may be gone
	return progressed || time.Since(began) > reopen.Max, err
}

// errEnded is the reason of a watch that ended without giving one.
var errEnded = errors.New("no reason given")

// watchEnded notes why a watch ended, and whether the one before it failed too. Its error ends Run.
func (c *core) watchEnded(err error, again bool) error {
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	c.down(err)
	if errors.Is(err, store.ErrClosed) {
		return fmt.Errorf("cache: %s: %w", c.name, err)
	}
	c.mu.Lock()
	if errors.Is(err, store.ErrCompacted) {
		c.conn.compacted++
		c.feed.startOver = true
	} else {
		c.conn.broken++
	}
	c.mu.Unlock()
	c.reportWatch(fmt.Errorf("cache: watch of %s ended: %w", c.name, err), again)
	return nil
}

// take applies one batch.
func (c *core) take(b store.Batch) {
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	c.up()
	if c.opts.Shards > 0 {
		b = c.ours(b)
	}
	switch b.Kind {
	case store.BatchSnapshot:
		c.beginSnapshot(b.Revision)
		c.takeSnapshot(b)
	case store.BatchSnapshotEnd:
		c.beginSnapshot(b.Revision)
		c.endSnapshot(b.Revision)
	case store.BatchChanges:
		c.takeChanges(b.Changes)
		c.reach(b.Revision, false)
	case store.BatchProgress:
		c.reach(b.Revision, false)
	}
}

// takeChanges applies changes revision by revision: a batch holds whole
// revisions, so each becomes visible as one, and within one revision a key
// occurs only once, which prepare relies on.
func (c *core) takeChanges(rest []store.Change) {
	for len(rest) > 0 {
		n := 1
		for n < len(rest) && rest[n].Record.Revision == rest[0].Record.Revision {
			n++
		}
		c.takeRevision(rest[:n])
		rest = rest[n:]
	}
}

// report hands an error to the hook, if there is one. It is called without Cache.mu, and
// a hook that panics ends nothing else.
func (c *core) report(key store.Key, err error) {
	if c.opts.OnError == nil {
		what, attrs := "cache: watch failed", []any{"cache", c.name}
		if key != (store.Key{}) {
			what, attrs = "cache: object error", append(attrs, "key", key.String())
		}
		c.logger().Warn(what, append(attrs, "err", store.Brief(err))...)
		return
	}
	if wrong := contain.Apart(func() error { c.opts.OnError(key, err); return nil }); wrong != nil {
		c.logger().Error("cache: OnError failed", append([]any{"cache", c.name, "err", store.Brief(wrong), "of", store.Brief(err)}, contain.Stack(wrong)...)...)
	}
}

// reportWatch reports a watch that ended. Of a row of them the log has the first
// and the end; hooks hear all.
func (c *core) reportWatch(err error, again bool) {
	if c.opts.OnError != nil || !again {
		c.report(store.Key{}, err)
		return
	}
	c.logger().Debug("cache: watch failed again", "cache", c.name, "err", store.Brief(err))
}

func (c *core) logger() *slog.Logger { return cmp.Or(c.opts.Logger, slog.Default()) }
