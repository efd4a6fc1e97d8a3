package reconcile

import "fmt"

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
func (k *kernel[K]) checkShards() error {
	for _, p := range k.partialCaches() {
		if n := len(k.view.Load().holds); p.Shards() != n {
			return fmt.Errorf("reconcile: controller %q: cache %q holds shards of %d, and the placement has %d", k.name, p.Name(), p.Shards(), n)
		}
		if k.ownHash {
			return fmt.Errorf("reconcile: controller %q: cache %q holds shards, and Options.Hash divides the keys otherwise", k.name, p.Name())
		}
	}
	return nil
}
