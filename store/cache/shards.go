package cache

import (
	"fmt"
	"slices"
	"sync"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// HoldShard asks for the objects of a shard. ready is closed once the cache has all of
// them, as they were after HoldShard was called or later; it is closed already if another call
// holds the shard, and then they are as the watch has shown them so far. So controllers that share
// such a cache need one placement, by which both are given a shard at once. They stay until each call's
// release was called; calling it again does nothing. Then the cache forgets them: a
// consumer of Changes sees them go with Left. HoldShard does not block. It panics if the
// cache is not one of shards (Options.Shards), or has no such shard.
func (c *Cache[S, T]) HoldShard(shard int) (ready <-chan struct{}, release func()) {
	return c.core.holdShard(shard)
}

func (c *core) holdShard(shard int) (ready <-chan struct{}, release func()) {
	if shard < 0 || shard >= c.opts.Shards {
		panic(fmt.Sprintf("cache: %s: HoldShard(%d) of %d", c.name, shard, c.opts.Shards))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.feed.wanted[shard]
	if p == nil {
		p = newPart()
		c.feed.wanted[shard] = p
		c.feed.stirLocked()
	}
	p.users++
	return p.done, sync.OnceFunc(func() { c.releaseShard(shard, p) })
}

func (c *core) releaseShard(shard int, p *part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(c.feed.wanted, shard)
		c.feed.stirLocked()
		sleep.Wake(c.feed.unread) // if Run goes on with its watch, the part is forgotten all the same
	}
}

// Shards is Options.Shards: 0 for a cache of the whole kind.
func (c *Cache[S, T]) Shards() int { return c.core.opts.Shards }

// Holds reports whether what Get says of the key can be relied on: whether the cache
// has synced and, if it is one of shards, has the whole shard of the key.
func (c *Cache[S, T]) Holds(k store.Key) bool { return c.core.holds(k) }

func (c *core) holds(k store.Key) bool {
	if !c.hasSynced() || c.opts.Shards == 0 {
		return c.hasSynced()
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	p := c.feed.wanted[c.shardOf(k)]
	return p != nil && p.ready
}

// shardsLocked says which shards are there.
func (c *core) shardsLocked() *introspect.CacheShards {
	out := &introspect.CacheShards{Of: c.opts.Shards, Others: c.feed.others}
	for shard, p := range c.feed.wanted {
		if p.ready {
			out.Ready = append(out.Ready, shard)
			continue
		}
		out.Waiting = append(out.Waiting, shard)
		if out.Since.IsZero() || p.since.Before(out.Since) {
			out.Since = p.since
		}
	}
	slices.Sort(out.Ready)
	slices.Sort(out.Waiting)
	return out
}
