package reconcile

import (
	"slices"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// What a healthy controller says in its life, each once: which leases it won and lost, that
// it synced, that it drains, and that it ended. Each line is at level Info, but for a lease
// that was lost, which is a warning. A Manager says that it started, and that it ended.

// sayHandovers logs what came and went: which shards were gained, how many others lost or
// handed over, and why the last one was lost. held is what is there now.
func (k *kernel[K]) sayHandovers(place lease.Placement, gained []int, others introspect.LeaseCounts, why error, held int) {
	attrs := []any{"controller", k.name, "lease", place.String()}
	won, lost, gave := "lease won", "lease lost", "lease given up"
	if place.Shards() > 1 {
		attrs = append(attrs, "held", held, "of", place.Shards())
		won, lost, gave = "shards gained", "shards lost", "shards handed over"
	}
	attrs = slices.Clip(attrs)
	if len(gained) > 0 {
		more := attrs
		if place.Shards() > 1 {
			more = append(more, "gained", len(gained))
		} else if l := place.Lease(gained[0]); l != nil {
			if guard, ok := l.Held(); ok {
				more = append(more, "token", uint64(guard.Created))
			}
		}
		if from := previous(place, gained); len(from) > 0 {
			more = append(more, "from", from)
		}
		k.log().Info("reconcile: "+won, more...)
	}
	if others.Lost > 0 {
		k.log().Warn("reconcile: "+lost, append(attrs, "lost", others.Lost, "err", store.Brief(why))...)
	}
	if others.HandedOver > 0 {
		k.log().Info("reconcile: "+gave, append(attrs, "given", others.HandedOver)...)
	}
}

// previous are the servers that held shards before this one, as far as this one has heard.
func previous(p lease.Placement, shards []int) (servers []string) {
	known, ok := p.(interface {
		Previous(shard int) (string, bool)
	})
	if !ok {
		return nil
	}
	for _, shard := range shards {
		if server, ok := known.Previous(shard); ok && !slices.Contains(servers, server) {
			servers = append(servers, server)
		}
	}
	slices.Sort(servers)
	return servers
}

// saySynced logs that the workers begin, so long after the controller asked for lists.
func (k *kernel[K]) saySynced(took time.Duration) {
	objects := 0
	for _, c := range k.caches() {
		if sized, ok := c.(interface{ Len() int }); ok {
			objects += sized.Len()
		}
	}
	k.log().Info("reconcile: controller synced", "controller", k.name, "objects", objects,
		"keys", k.q.Len(), "in", took.Round(time.Millisecond))
}
