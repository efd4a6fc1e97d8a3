package external_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// usage is what a process holds on to.
type usage struct {
	goroutines int
	heap       uint64
}

func measure() usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), m.HeapAlloc}
}

// grew says what is kept now and was not before. Goroutines are counted exactly;
// memory may breathe by a megabyte.
func (u usage) grew(since usage) error {
	if u.goroutines > since.goroutines {
		return fmt.Errorf("%d goroutines, there were %d", u.goroutines, since.goroutines)
	}
	if u.heap > since.heap+1<<20 {
		return fmt.Errorf("%d KiB in use, it was %d", u.heap>>10, since.heap>>10)
	}
	return nil
}

// soak lets one system live through so many storms, with a calm after each. What it
// holds after the second calm it may hold after the last one, and no more. leak is
// what an ill-made part keeps after each storm; nil for none.
func soak(t *testing.T, seed uint64, storms int, leak func()) (wrong error) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.backend = must(memory.New(&memory.Options{History: 256}))
		w.cloud = badCloud(seed, true)
		w.o.CreationGrace = 15 * time.Second
		w.restart(nil)
		bucket := must(ratelimit.NewBucket("cloud", 18, 10))
		w.with(throttled(w.client, bucket))
		stop := w.start(bucket, 4)
		defer func() { stop() }()
		var after usage
		for n := 0; n < storms && wrong == nil; n++ {
			wrong = w.storm(seed<<32 + uint64(n))
			if leak != nil {
				leak()
			}
			synctest.Wait() // for what the same instant has begun
			switch now := measure(); {
			case n == 1:
				after = now
			case n > 1 && wrong == nil:
				// The runtime's own goroutines come and go: what is kept stays.
				for tries := 1; ; tries++ {
					if wrong = now.grew(after); wrong == nil || tries == 5 {
						break
					}
					now = measure()
				}
			}
			if wrong != nil {
				wrong = fmt.Errorf("storm %d: %w", n, wrong)
			}
		}
		t.Logf("campaign: %d hours, %d operations", 4*storms, w.cloud.TotalCalls())
	})
	return wrong
}

// storm is two hours of bad weather and two calm ones. After the first of these all is as
// declared, and in the second nothing is written, to the cloud or to the store.
func (w *world) storm(seed uint64) error {
	w.cloud.Relapse()
	var at store.Revision
	weather := reconciletest.Simulation{
		Seed: seed, Cloud: w.cloud, Every: time.Minute, Storm: 2 * time.Hour, Calm: time.Hour, Drift: 0.2, Jump: 0.05,
		Acts: w.user(25), Invariant: w.noDoubles,
		Start: func() (func(), error) { return nil, nil }, // it runs all the time
		Check: func() error { at = w.revision(); return w.asDeclared() },
	}
	if err := weather.Run(w.t.Context()); err != nil {
		return err
	}
	if now := w.revision(); now != at {
		return fmt.Errorf("%d commits to the store although nothing changed", now-at)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events, w.changes = nil, nil // the test's own
	return nil
}

func (w *world) revision() store.Revision {
	return must(w.backend.Commit(w.t.Context(), store.Txn{}))
}

// One process lives through storms of every fault, each with a calm of two hours after
// it. It keeps no goroutine and no memory beyond what it had, ends up as declared,
// and writes nothing when nothing changes.
//
// promise Q7, E1. Negative control: TestSoakCatchesWhatIsKept.
func TestSoakKeepsNothingAndEndsInSilence(t *testing.T) {
	storms := 3
	if campaign.Length() > 0 {
		storms = 40 // a week
	}
	for seed := range campaign.Seeds(t, 1, campaign.Length()) {
		if err := soak(t, seed, storms, nil); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func TestSoakCatchesWhatIsKept(t *testing.T) {
	var kept [][]byte
	err := soak(t, 1, 3, func() { kept = append(kept, make([]byte, 2<<20)) })
	if err == nil || !strings.Contains(err.Error(), "KiB") {
		t.Errorf("%v, want a complaint about memory", err)
	}
	runtime.KeepAlive(kept)
	if err := (usage{goroutines: 8}).grew(usage{goroutines: 7}); err == nil {
		t.Error("a goroutine that was left was accepted")
	}
}
