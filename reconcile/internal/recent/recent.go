// Package recent keeps the last runs of the keys of a controller.
package recent

import (
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"time"
)

// A Run is one run that has ended: to a tenth of a second, and how long it took to 100 µs.
type Run struct {
	Ended time.Time
	Took  time.Duration
	Kind  uint8 // what the caller has said
}

// The bounds of what is kept: about 1.5 MB for a controller, keys not counted.
const (
	perKey      = 20
	partsOfRuns = 8
	keysOfPart  = 4096 / partsOfRuns // of each part
)

// Runs keeps the last runs of keys. When it has as many keys as it may have, a
// record of an arbitrary key makes place: with more keys than that, which all run in
// turn, it has those of some, where a list in the order of use would have those of none.
type Runs[K comparable] struct {
	epoch time.Time // of the controller
	seed  maphash.Seed
	parts [partsOfRuns]part[K]
}

// part is one of several, so that workers seldom wait for each other.
type part[K comparable] struct {
	mu   sync.Mutex // guards keys
	keys map[K]*keyRuns
	_    [48]byte // the next part has a cache line of its own
}

// keyRuns is a ring; n counts all runs.
type keyRuns struct {
	n    uint64
	runs [perKey]packedRun
}

type packedRun struct {
	ended uint32 // in tenths of a second since the epoch: 13 years
	took  uint32 // in units of 100 µs: 5 days
	kind  uint8
}

// New keeps nothing yet; times of runs are counted from the epoch.
func New[K comparable](epoch time.Time) *Runs[K] {
	r := &Runs[K]{epoch: epoch, seed: maphash.MakeSeed()}
	for i := range r.parts {
		r.parts[i].keys = make(map[K]*keyRuns)
	}
	return r
}

func (r *Runs[K]) partOf(key K) *part[K] {
	return &r.parts[maphash.Comparable(r.seed, key)%partsOfRuns]
}

// Add records a run that ended so long after the epoch.
func (r *Runs[K]) Add(key K, ended, took time.Duration, kind uint8) {
	p := r.partOf(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[key]
	if k == nil {
		k = p.placeLocked()
		p.keys[key] = k
	}
	k.runs[k.n%perKey] = packedRun{saturated(ended, 100*time.Millisecond), saturated(took, 100*time.Microsecond), kind}
	k.n++
}

// placeLocked is the record of a new key.
func (p *part[K]) placeLocked() *keyRuns {
	if len(p.keys) >= keysOfPart {
		for other, k := range p.keys {
			delete(p.keys, other)
			*k = keyRuns{}
			return k
		}
	}
	return new(keyRuns)
}

func saturated(d, unit time.Duration) uint32 {
	return uint32(min(max(d/unit, 0), math.MaxUint32))
}

// Of returns the last runs of a key, the newest first.
func (r *Runs[K]) Of(key K) (all []Run) {
	p := r.partOf(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[key]
	for i := uint64(1); k != nil && i <= min(k.n, perKey); i++ {
		x := k.runs[(k.n-i)%perKey]
		all = append(all, Run{
			Ended: r.epoch.Add(time.Duration(x.ended) * 100 * time.Millisecond), Took: time.Duration(x.took) * 100 * time.Microsecond, Kind: x.kind,
		})
	}
	return all
}

// Printed finds the key that is printed like that.
func (r *Runs[K]) Printed(text string) (key K, found bool) {
	for i := range r.parts {
		if key, found = r.parts[i].printed(text); found {
			break
		}
	}
	return key, found
}

func (p *part[K]) printed(text string) (key K, found bool) {
	p.mu.Lock()
	keys := make([]K, 0, len(p.keys))
	for k := range p.keys {
		keys = append(keys, k)
	}
	p.mu.Unlock() // the keys' String methods are user code
	for _, k := range keys {
		if fmt.Sprint(k) == text {
			return k, true
		}
	}
	return key, false
}
