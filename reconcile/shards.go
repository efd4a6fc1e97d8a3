package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// partial is a cache that holds some shards of a kind: cache.Options.Shards.
type partial interface {
	Cached
	Shards() int
	HoldShard(shard int) (ready <-chan struct{}, release func())
}

// partialCaches are those of the controller's caches that hold shards.
func (k *kernel[K]) partialCaches() (all []partial) {
	for _, cached := range k.caches() {
		if p, ok := cached.(partial); ok && p.Shards() > 0 {
			all = append(all, p)
		}
	}
	return all
}

// checkShards refuses a cache whose shards are not those of the placement.
func (k *kernel[K]) checkShards(hashed bool) error {
	for _, p := range k.partialCaches() {
		if n := len(k.view.Load().holds); p.Shards() != n {
			return fmt.Errorf("reconcile: controller %q: cache %q holds shards of %d, and the placement has %d", k.name, p.Name(), p.Shards(), n)
		}
		if hashed {
			return fmt.Errorf("reconcile: controller %q: cache %q holds shards, and Options.Hash divides the keys otherwise", k.name, p.Name())
		}
	}
	return nil
}

// loadShard has the caches hold a shard, and waits until they have all of it: before, no
// key of the shard may run (promise R4). It reports false if ctx ends first. In any
// case release is to be called when the last run of the shard has ended.
func (s *supervisor[K]) loadShard(ctx context.Context, shard int) (release func(), ok bool) {
	caches := s.partialCaches()
	var readies []<-chan struct{}
	var releases []func()
	for _, p := range caches {
		ready, release := p.HoldShard(shard)
		readies, releases = append(readies, ready), append(releases, release)
	}
	release = func() {
		for _, f := range releases {
			f()
		}
	}
	for i, ready := range readies {
		s.setLoading(shard, caches[i].Name())
		if !waitFor(ctx, ready) {
			s.setLoading(shard, "")
			return release, false
		}
	}
	s.setLoading(shard, "")
	return release, ctx.Err() == nil
}

// setLoading notes which cache a shard waits for; "": none.
func (s *supervisor[K]) setLoading(shard int, cache string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cache == "" {
		delete(s.loading, shard)
		return
	}
	if s.loading == nil {
		s.loading = make(map[int]string)
	}
	s.loading[shard] = cache
}

// loadingShards are those whose lease is held and whose objects a cache does not have
// yet, and one of these caches.
func (s *supervisor[K]) loadingShards() (shards []int, cache string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shards = slices.Sorted(maps.Keys(s.loading))
	if len(shards) > 0 {
		cache = s.loading[shards[0]]
	}
	return shards, cache
}
