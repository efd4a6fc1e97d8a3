package queue

import (
	"slices"
	"testing"

	"github.com/tendhq/tend/queue/ratelimit"
)

// This file is all that the model, the stamps and the tests of bounds use of what
// the package does not export.

// shardOf is the number of the shard that a key belongs to.
func shardOf[K comparable](q *Queue[K], key K) int { return int(q.shards.of(q.hash(key)).id) }

// shardCount is how many shards a queue has.
func shardCount[K comparable](q *Queue[K]) int { return len(q.shards.all) }

// verify looks at everything that must be true of a queue whenever no lock is held.
func verify[K comparable](t testing.TB, q *Queue[K]) {
	t.Helper()
	checkInvariants(t, q)
}

// holdsExpireInEveryState says that a hold whose maximum has passed counts no more
// whatever the state of its key.
const holdsExpireInEveryState = true

// works leaves out of the matrix what is known not to work.
func (k kind) works() bool { return true }

// savedBy is the buckets of which a key has a token that it took before its run.
func savedBy[K comparable](q *Queue[K], key K) (of []*ratelimit.Bucket) {
	q.with(key, func(s *shard, i uint32, e *entry) bool {
		of = slices.Clone(q.keepers[s.id].savedBy(i, e))
		return true
	})
	return of
}

// touched is how many entries and cells loops looked at since the last call under one
// critical section, at most.
func touched[K comparable](q *Queue[K]) (most int) {
	for k := range q.shards.all {
		s := &q.shards.all[k]
		s.mu.Lock()
		most = max(most, s.most)
		s.most = 0
		s.mu.Unlock()
	}
	return most
}

// skipRuns counts n runs that did not happen.
func skipRuns[K comparable](q *Queue[K], n uint64) {
	for k := range q.shards.all {
		q.shards.all[k].number += numbers(n)
	}
}

// emptiest are the places for keys and the keys of the flow that has most of the former
// beyond two for each key.
func emptiest[K comparable](q *Queue[K]) (places, keys int) {
	for k := range q.shards.all {
		var all []*deque
		switch o := q.shards.all[k].ready.(type) {
		case *plain:
			for _, l := range o.lanes {
				all = append(all, &l.deque)
			}
		case *bands:
			for _, f := range o.flows() {
				all = append(all, &f.deque)
			}
		}
		for _, d := range all {
			if n := d.places(); n-2*d.n > places-2*keys {
				places, keys = n, d.n
			}
		}
	}
	return places, keys
}

// places is how many cells a deque has memory for.
func (d *deque) places() (n int) {
	for _, b := range d.blocks {
		n += cap(b.cells)
	}
	if d.spare != nil {
		n += cap(d.spare.cells)
	}
	return n
}
