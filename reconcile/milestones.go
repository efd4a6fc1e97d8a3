package reconcile

import (
	"errors"
	"slices"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// What a healthy controller says in its life, each once: which leases it won and lost, that
// it synced, that it drains, and that it ended. Each line is at level Info, but for a lease
// that was lost, which is a warning. A Manager says that it started, and that it ended.

// handovers are the shards that came and went since the last line about them.
type handovers struct {
	gained     []int
	lost, gave int
	why        error // of the last that was lost
}

func (h *handovers) lose(why error) {
	if errors.Is(why, lease.ErrLost) {
		h.lost, h.why = h.lost+1, why
	} else {
		h.gave++
	}
}

func (h *handovers) any() bool { return len(h.gained)+h.lost+h.gave > 0 }

// sayHandovers logs what came and went; held is what is there now.
func (k *kernel[K]) sayHandovers(place lease.Placement, h handovers, held int) {
	attrs := []any{"controller", k.name, "lease", place.String()}
	if place.Shards() > 1 {
		attrs = append(attrs, "held", held, "of", place.Shards())
	}
	attrs = slices.Clip(attrs)
	if len(h.gained) > 0 {
		more := attrs
		if place.Shards() > 1 {
			more = append(more, "gained", len(h.gained))
		}
		if l := place.Lease(h.gained[0]); place.Shards() == 1 && l != nil {
			if guard, ok := l.Held(); ok {
				more = append(more, "token", uint64(guard.Created))
			}
		}
		if from := previous(place, h.gained); len(from) > 0 {
			more = append(more, "from", from)
		}
		k.log().Info("reconcile: "+one(place, "lease won", "shards gained"), more...)
	}
	if h.lost > 0 {
		k.log().Warn("reconcile: "+one(place, "lease lost", "shards lost"), append(attrs, "lost", h.lost, "err", store.Brief(h.why))...)
	}
	if h.gave > 0 {
		k.log().Info("reconcile: "+one(place, "lease given up", "shards handed over"), append(attrs, "given", h.gave)...)
	}
}

func one(p lease.Placement, single, several string) string {
	if p.Shards() == 1 {
		return single
	}
	return several
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
