package cache

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/store"
)

// feed is what the cache knows about its watch.
type feed struct {
	connected bool
	since     time.Time // of the last turn of connected
	err       error     // why it is not connected; nil before Run and after it
	down      bool      // the backend did not serve when err came
	snapshots int
	restores  int
	broken    uint64 // watches that ended and could be resumed
	compacted uint64 // watches that ended and could not
}

// Snapshot returns the cache's present state, as pages and metrics show it. Its field
// Restores counts the snapshots that were older than what the cache had seen: the backend
// was restored from a backup. A program that deletes what the store does not name must
// stop when Restores rises, and ask a person. The call copies and does not block on
// consumers.
func (c *Cache[S, T]) Snapshot() introspect.Cache { return c.core.state() }

func (c *core) state() introspect.Cache {
	s := c.snapshot()
	c.mu.RLock()
	down := c.feed.down
	c.mu.RUnlock()
	switch u, ok := errors.AsType[*store.UnavailableError](store.Health(c.backend)); {
	case !ok && down:
		s.Err = nil // of before: the watch is about to be opened again
	case ok && !introspect.RefusesWrites(u.Err):
		addUnavailable(&s, u)
	}
	return s
}

// addUnavailable adds what the backend says about itself to what the watch shows: the
// watch of a backend that does not answer stays open and is silent.
func addUnavailable(s *introspect.Cache, u *store.UnavailableError) {
	if s.Connected || s.Idle {
		s.Connected, s.Since, s.Err = false, u.Since, u
	}
	if s.LagSince.IsZero() || u.Since.Before(s.LagSince) {
		s.LagSince = u.Since
	}
}

func (c *core) snapshot() introspect.Cache {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := introspect.Cache{
		Name: c.name, Kind: c.kind, Selector: copied(c.opts.Selector),
		Objects: len(c.list), Revision: c.at(), Synced: c.hasSynced(),
		Connected: c.feed.connected, Since: c.feed.since, Err: c.feed.err,
		Snapshots: c.feed.snapshots, Restores: c.feed.restores,
		Undecodable: maps.Clone(c.broken), Waiters: len(c.waiters),
		Disconnected: c.feed.broken, Compacted: c.feed.compacted,
	}
	s.LagRevisions, s.LagSince = c.lagLocked()
	if c.shards != nil {
		s.Shards = c.shards.snapshotLocked()
		s.Idle = c.running.Load() && len(c.shards.wanted) == 0
	}
	for _, x := range c.indexes {
		s.Indexes = append(s.Indexes, x.name)
	}
	for _, q := range c.consumers {
		s.Consumers = append(s.Consumers, q.snapshot())
	}
	return s
}

// healthyWait is for how long a shard that was gained may be on its way.
const healthyWait = 10 * time.Second

// Health returns nil when the cache is synced, follows its backend and could
// decode everything, and otherwise the reasons, joined, with a warning of its backend. A cache that is not
// healthy still serves what it has.
func (c *Cache[S, T]) Health() error { return c.core.health() }

func (c *core) health() error {
	s := c.state()
	var reasons []error
	if !s.Synced {
		reasons = append(reasons, fmt.Errorf("cache: %s is not synced yet", s.Name))
	}
	if !s.Connected && s.Err != nil {
		reasons = append(reasons, fmt.Errorf("cache: %s has had no watch since %s: %w", s.Name, s.Since.Format(time.RFC3339), s.Err))
	} else if err := c.ready(); err != nil { // it takes no writes
		reasons = append(reasons, err)
	}
	if p := s.Shards; p != nil && len(p.Waiting) > 0 && time.Since(p.Since) > healthyWait {
		reasons = append(reasons, fmt.Errorf("cache: %s waits for the objects of shards %v of %d since %s", s.Name, p.Waiting, p.Of, p.Since.Format(time.RFC3339)))
	}
	if n := len(s.Undecodable); n > 0 {
		reasons = append(reasons, fmt.Errorf("cache: %s cannot decode %d of its objects", s.Name, n))
	}
	if err := store.Health(c.backend); err != nil && !unavailable(err) {
		reasons = append(reasons, fmt.Errorf("cache: %s: a warning: %w", s.Name, err))
	}
	return errors.Join(reasons...)
}

// Ready returns nil unless the backend says that it cannot serve. Whether the
// cache has synced is Synced.
func (c *Cache[S, T]) Ready() error { return c.core.ready() }

func (c *core) ready() error {
	if err := store.Health(c.backend); unavailable(err) {
		return fmt.Errorf("cache: %s: %w", c.name, err)
	}
	return nil
}

func unavailable(err error) bool {
	_, ok := errors.AsType[*store.UnavailableError](err)
	return ok
}

func (c *core) up() {
	if c.isUp {
		return
	}
	c.isUp = true
	c.mu.Lock()
	was, since := c.feed.err, c.feed.since
	if !c.feed.connected {
		c.feed.connected, c.feed.since, c.feed.err, c.feed.down = true, time.Now(), nil, false
	}
	c.mu.Unlock()
	if was != nil && c.opts.OnError == nil {
		c.logger().Info("cache: the watch is back", "cache", c.name, "after", time.Since(since).Round(time.Millisecond))
	}
}

func (c *core) down(err error) {
	c.isUp = false
	unserved := unavailable(store.Health(c.backend))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.feed.connected || c.feed.since.IsZero() {
		c.feed.since = time.Now()
	}
	c.feed.connected, c.feed.err, c.feed.down = false, err, unserved
}

// lost notes a watch that ended and is going to be opened again.
func (c *core) lost(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(err, store.ErrCompacted) {
		c.feed.compacted++
	} else {
		c.feed.broken++
	}
}

func (c *core) lagLocked() (revisions store.Revision, since time.Time) {
	for _, w := range c.waiters {
		if now := c.at(); w.revision > now {
			revisions = max(revisions, w.revision-now)
		}
		if since.IsZero() || w.since.Before(since) {
			since = w.since
		}
	}
	return revisions, since
}

func (c *core) countSnapshot(restored bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.feed.snapshots++
	if restored {
		c.feed.restores++
	}
}
