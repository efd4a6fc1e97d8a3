//go:build peers

package bench

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/tendhq/tend/store"
)

// The object of all store families: two labels and a finalizer, a spec of five
// strings and a map of two, two conditions.
type thingSpec struct {
	A, B, C, D, E string
	Tags          map[string]string
}

type (
	thingStatus struct{ ARN string }
	thing       = store.Object[thingSpec, thingStatus]
	thingStore  = store.Store[thingSpec, thingStatus]
)

func newThing(i int) *thing {
	n := strconv.Itoa(i)
	return &thing{
		Meta: store.Meta{
			Namespace: "bench", Name: "object-" + n,
			Labels:     map[string]string{"team": "t" + n, "env": "prod"},
			Finalizers: []string{"bench/finalizer"},
		},
		Spec: thingSpec{
			A: "a" + n, B: "b" + n, C: "c" + n, D: "d" + n, E: "e" + n,
			Tags: map[string]string{"one": "1" + n, "two": "2" + n},
		},
		Status:     thingStatus{ARN: "arn:" + n},
		Conditions: []store.Condition{{Type: "Ready", Status: store.True}, {Type: "Synced", Status: store.True}},
	}
}

// thingKeys are the keys of n things, in no order that memory would like.
func thingKeys(n int) []store.Key {
	keys := make([]store.Key, n)
	for i := range keys {
		keys[i] = newThing(i * 7919 % n).Key()
	}
	return keys
}

// plainStore is the least that can do the work of a store in memory: a map under
// a lock, objects copied and compared by hand, a channel per watcher. It copies
// what goes in and what comes out, as any store must whose callers may write to
// what they hold.
type plainStore struct {
	mu       sync.RWMutex
	rev      store.Revision
	objects  map[store.Key]*thing
	watchers []chan *thing
}

func newPlainStore(n int) *plainStore {
	p := &plainStore{objects: make(map[store.Key]*thing)}
	for i := range n {
		p.create(newThing(i))
	}
	return p
}

func copyByHand(o *thing) *thing {
	c := *o
	c.Labels = maps.Clone(o.Labels)
	c.Annotations = maps.Clone(o.Annotations)
	c.Finalizers = slices.Clone(o.Finalizers)
	c.Owners = slices.Clone(o.Owners)
	c.Conditions = slices.Clone(o.Conditions)
	c.Spec.Tags = maps.Clone(o.Spec.Tags)
	return &c
}

func sameByHand(a, b *thingSpec) bool {
	return a.A == b.A && a.B == b.B && a.C == b.C && a.D == b.D && a.E == b.E && maps.Equal(a.Tags, b.Tags)
}

func (p *plainStore) create(o *thing) *thing {
	next := copyByHand(o)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.objects[o.Key()]; ok {
		return nil
	}
	p.rev++
	next.Revision, next.Generation = p.rev, 1
	p.objects[next.Key()] = next
	return copyByHand(next)
}

// shared gives the stored object itself: what a cache does.
func (p *plainStore) shared(k store.Key) *thing {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.objects[k]
}

func (p *plainStore) get(k store.Key) *thing { return copyByHand(p.shared(k)) }

func (p *plainStore) update(o *thing) *thing {
	next := copyByHand(o)
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.objects[o.Key()]
	if old == nil || old.Revision != o.Revision {
		return nil
	}
	if !sameByHand(&old.Spec, &next.Spec) {
		next.Generation = old.Generation + 1
	}
	p.rev++
	next.Revision = p.rev
	p.objects[o.Key()] = next
	for _, w := range p.watchers {
		w <- next
	}
	return copyByHand(next)
}
