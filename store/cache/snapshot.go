package cache

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/store"
)

// connection is what the cache knows about its watch.
type connection struct {
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
	down := c.conn.down
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
		Connected: c.conn.connected, Since: c.conn.since, Err: c.conn.err,
		Snapshots: c.conn.snapshots, Restores: c.conn.restores,
		Undecodable: maps.Clone(c.broken), Waiters: len(c.waiters),
		Disconnected: c.conn.broken, Compacted: c.conn.compacted,
	}
	s.LagRevisions, s.LagSince = c.lagLocked()
	if c.opts.Shards > 0 {
		s.Shards = c.shardsLocked()
		s.Idle = c.running.Load() && len(c.feed.wanted) == 0
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
	if c.feed.isUp {
		return
	}
	c.feed.isUp = true
	c.mu.Lock()
	was, since := c.conn.err, c.conn.since
	if !c.conn.connected {
		c.conn.connected, c.conn.since, c.conn.err, c.conn.down = true, time.Now(), nil, false
	}
	c.mu.Unlock()
	if was != nil && c.opts.OnError == nil {
		c.logger().Info("cache: the watch is back", "cache", c.name, "after", time.Since(since).Round(time.Millisecond))
	}
}

func (c *core) down(err error) {
	c.feed.isUp = false
	unserved := err != nil && unavailable(store.Health(c.backend))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn.connected || c.conn.since.IsZero() {
		c.conn.since = time.Now()
	}
	c.conn.connected, c.conn.err, c.conn.down = false, err, unserved
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
