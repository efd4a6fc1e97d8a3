package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// reopen is the pause before a watch is opened again: none the first time, so that one
// cut connection costs nothing, then doubling, and never more than 5 s. Its tries are
// counted where it is used.
var reopen = sleep.Backoff{Min: 40 * time.Millisecond, Max: 4 * time.Second}

// Run feeds the cache until ctx ends, and blocks meanwhile. It opens the watch,
// opens it again with a growing pause when it breaks, and takes a new snapshot
// when the backend has forgotten the changes in between (store.ErrCompacted) or
// was restored to an earlier revision. It starts no goroutine, unless
// the cache is one of shards: then two read the store, and end before Run. It returns nil
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
	if c.shards != nil {
		return c.runShards(ctx)
	}
	var failures int
	for {
		progressed, err := c.follow(ctx)
		if ctx.Err() != nil {
			c.down(nil)
			return c.checkMutations()
		}
		if progressed {
			failures = 0
		}
		if err := c.watchEnded(err, failures > 0); err != nil {
			return err
		}
		if failures > 0 {
			sleep.For(ctx, reopen.After(failures-1))
		}
		failures++
	}
}

// watchEnded notes why a watch ended, and whether the one before it failed too. Its error ends Run.
func (c *core) watchEnded(err error, again bool) error {
	c.down(err)
	if errors.Is(err, store.ErrClosed) {
		return fmt.Errorf("cache: %s: %w", c.name, err)
	}
	c.startOver = c.startOver || errors.Is(err, store.ErrCompacted)
	c.lost(err)
	c.reportWatch(fmt.Errorf("cache: watch of %s ended: %w", c.name, err), again)
	return nil
}

// errEnded is the reason of a watch that ended without giving one.
var errEnded = errors.New("no reason given")

// follow reads one watch to its end. progressed says that it got beyond the
// snapshot, so that a watch that fails at once, again and again, is paced.
func (c *core) follow(ctx context.Context) (progressed bool, err error) {
	defer c.abandonSnapshot()
	began := time.Now()
	for b, err := range c.backend.Watch(ctx, c.kind, c.resumeFrom()) {
		if err != nil {
			return progressed || hadWorked(began), err
		}
		c.take(b)
		progressed = progressed || b.Kind == store.BatchChanges || b.Kind == store.BatchProgress
	}
	return progressed || hadWorked(began), errEnded
}

// hadWorked tells of a watch that began then and ended now whether it need not be paced: it
// may have had nothing to tell. One that failed after so long was paced by itself.
func hadWorked(began time.Time) bool { return time.Since(began) > reopen.Max }

// resumeFrom is the revision after which changes are wanted; zero asks for a
// snapshot.
func (c *core) resumeFrom() store.Revision {
	if c.startOver {
		return 0
	}
	return c.at()
}

// take applies one batch.
func (c *core) take(b store.Batch) {
	c.up()
	switch b.Kind {
	case store.BatchSnapshot:
		c.beginSnapshot(b.Revision)
		c.takeSnapshot(b)
	case store.BatchSnapshotEnd:
		c.beginSnapshot(b.Revision)
		c.endSnapshot(b.Revision)
	case store.BatchChanges:
		c.takeChanges(b)
		c.reach(b.Revision, false)
	case store.BatchProgress:
		c.reach(b.Revision, false)
	}
}

// takeChanges applies a batch revision by revision: a batch holds whole
// revisions, so each becomes visible as one, and within one revision a key
// occurs only once, which prepare relies on.
func (c *core) takeChanges(b store.Batch) {
	for rest := b.Changes; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Record.Revision == rest[0].Record.Revision {
			n++
		}
		c.takeRevision(rest[:n])
		rest = rest[n:]
	}
}

// report hands an error to the hook, if there is one. It is called without the lock, and
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

func (c *core) logger() *slog.Logger {
	if c.opts.Logger != nil {
		return c.opts.Logger
	}
	return slog.Default()
}
