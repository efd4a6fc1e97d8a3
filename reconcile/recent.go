package reconcile

import (
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"time"
)

// A RunRecord is one run that has ended.
type RunRecord struct {
	Ended  time.Time     `json:"ended"` // to a tenth of a second
	Took   time.Duration `json:"took"`  // to 100 µs
	Result string        `json:"result"`
}

// What RunRecord.Result may be.
const (
	RunSucceeded = "succeeded" // also if it asked to be run again
	RunFailed    = "failed"
	RunParked    = "given up" // it failed in a way that no retry mends
	RunThrottled = "throttled"
	RunCanceled  = "cancelled" // by a lost lease or the controller's stop
)

var runResults = [resultKinds]string{
	resultSuccess: RunSucceeded, resultRequeue: RunSucceeded, resultRequeueAfter: RunSucceeded,
	resultError: RunFailed, resultTerminal: RunParked, resultThrottled: RunThrottled, resultCanceled: RunCanceled,
}

// The bounds of what is kept: about 1.5 MB for a controller, keys not counted.
const (
	recentPerKey = 20
	recentParts  = 8
	recentKeys   = 4096 / recentParts // of each part
)

// recentRuns keeps the last runs of keys. When it has as many keys as it may have, a
// record of an arbitrary key makes place: with more keys than that, which all run in
// turn, it has those of some, where a list in the order of use would have those of none.
type recentRuns[K comparable] struct {
	epoch time.Time // of the controller
	seed  maphash.Seed
	parts [recentParts]recentPart[K]
}

// recentPart is one of several, so that workers seldom wait for each other.
type recentPart[K comparable] struct {
	mu   sync.Mutex // guards keys
	keys map[K]*keyRuns
	_    [48]byte // the next part has a cache line of its own
}

// keyRuns is a ring; n counts all runs.
type keyRuns struct {
	n    uint64
	runs [recentPerKey]packedRun
}

type packedRun struct {
	ended uint32 // in tenths of a second since the epoch: 13 years
	took  uint32 // in units of 100 µs: 5 days
	kind  resultKind
}

func newRecentRuns[K comparable](epoch time.Time) *recentRuns[K] {
	r := &recentRuns[K]{epoch: epoch, seed: maphash.MakeSeed()}
	for i := range r.parts {
		r.parts[i].keys = make(map[K]*keyRuns)
	}
	return r
}

func (r *recentRuns[K]) part(key K) *recentPart[K] {
	return &r.parts[maphash.Comparable(r.seed, key)%recentParts]
}

// add records a run that ended so long after the epoch.
func (r *recentRuns[K]) add(key K, ended, took time.Duration, kind resultKind) {
	p := r.part(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[key]
	if k == nil {
		k = p.placeLocked()
		p.keys[key] = k
	}
	k.runs[k.n%recentPerKey] = packedRun{saturated(ended, 100*time.Millisecond), saturated(took, 100*time.Microsecond), kind}
	k.n++
}

// placeLocked is the record of a new key.
func (p *recentPart[K]) placeLocked() *keyRuns {
	if len(p.keys) >= recentKeys {
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

// of returns the last runs of a key, the newest first.
func (r *recentRuns[K]) of(key K) (all []RunRecord) {
	p := r.part(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[key]
	for i := uint64(1); k != nil && i <= min(k.n, recentPerKey); i++ {
		x := k.runs[(k.n-i)%recentPerKey]
		all = append(all, RunRecord{
			Ended: r.epoch.Add(time.Duration(x.ended) * 100 * time.Millisecond), Took: time.Duration(x.took) * 100 * time.Microsecond, Result: runResults[x.kind],
		})
	}
	return all
}

// printed finds the key that is printed like that.
func (r *recentRuns[K]) printed(text string) (key K, found bool) {
	for i := range r.parts {
		if key, found = r.parts[i].printed(text); found {
			break
		}
	}
	return key, found
}

func (p *recentPart[K]) printed(text string) (key K, found bool) {
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
