package cache_test

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tendhq/tend/internal/sleep"
	notes "github.com/tendhq/tend/internal/written"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted counts the watches that are opened on a backend.
type counted struct {
	store.FullBackend
	watches atomic.Int32
}

func (c *counted) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	c.watches.Add(1)
	return c.FullBackend.Watch(ctx, kind, after)
}

func newMemory(t testing.TB) (*counted, *store.Store[spec, status]) {
	t.Helper()
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	c := &counted{FullBackend: b}
	s, err := store.New[spec, status](c, "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func create(t testing.TB, s *store.Store[spec, status], name string) *object {
	t.Helper()
	o, err := s.Create(t.Context(), &object{Meta: store.Meta{Name: name}, Spec: spec{Region: "eu"}})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A cache, a list and the backend hold one object between them, not three.
func TestCacheSharesTheValuesOfTheMemoryBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newMemory(t)
		create(t, s, "a")
		one, two := newCache(t, s.Backend(), nil), newCache(t, s.Backend(), nil)
		run(t, one)
		run(t, two)
		synctest.Wait()
		a, _ := one.Get(store.Key{Name: "a"})
		b, _ := two.Get(store.Key{Name: "a"})
		if a == nil || a != b {
			t.Errorf("two caches hold %p and %p, want the backend's own value", a, b)
		}
	})
}

// case 101
func TestTwoConsumersCostOneWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newMemory(t)
		create(t, s, "a")
		c := newCache(t, b, nil)
		run(t, c)
		synctest.Wait()
		one, two := record(t, c, nil), record(t, c, nil)
		expectSteps(t, one, "initial a@1", "synced@1")
		create(t, s, "b")
		expectSteps(t, one, "b ->2@2")
		expectSteps(t, two, "initial a@1", "synced@1", "b ->2@2")
		if n := b.watches.Load(); n != 1 {
			t.Errorf("%d watches were opened, want 1", n)
		}
	})
}

// promise S4
func TestWriterWaitsForItsOwnWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newMemory(t)
		c := newCache(t, s.Backend(), nil)
		run(t, c)
		var w notes.Writes[store.Backend, store.Key, store.Revision]
		ctx := notes.With(t.Context(), &w)
		for i := range 100 {
			if _, err := s.Create(ctx, &object{Meta: store.Meta{Name: string(rune('a'+i%26)) + string(rune('a'+i/26))}}); err != nil {
				t.Fatal(err)
			}
			r := w.Highest(c.Backend(), c.Kind())
			seen := make(chan store.Revision, 1)
			c.OnRevision(r, func() { seen <- c.Revision() })
			if got := <-seen; got < r || c.Len() != i+1 {
				t.Fatalf("called at revision %d with %d objects, want at least %d and %d", got, c.Len(), r, i+1)
			}
		}
	})
}

// Over a backend whose watch breaks all the time, the cache, its index and a slow
// consumer end up with what is stored, each change fits what the consumer saw
// before, and each list that it asks for is what it saw. The negative controls let a folded
// change keep its own Old, skipped what vanished in a relist, and left replaced objects in
// the index.
func TestCacheOverAFaultyBackendEndsUpWithWhatIsStored(t *testing.T) {
	snapshots := 0
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { snapshots += runFaulty(t, seed) })
	}
	if snapshots < 30 {
		t.Errorf("%d snapshots in 20 runs, want the faults to cause more", snapshots)
	}
}

func runFaulty(t *testing.T, seed uint64) (snapshots int) {
	b, err := memory.New(&memory.Options{History: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	faults := storetest.Random(seed, storetest.Rates{Refused: 0.3, Delayed: 0.3})
	s, err := store.New[spec, status](b, "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newCache(t, storetest.Faulty(b, faults), &cache.Options[spec, status]{
		Backlog: 8, DetectMutations: true, OnError: func(store.Key, error) {},
	})
	regions, _ := byRegion(t, c)
	run(t, c)
	view := follow(t, c)
	churn(t, s, rand.New(rand.NewPCG(seed, 1)))
	last := create(t, s, "last")
	seen := make(chan struct{})
	c.OnRevision(last.Revision, func() { close(seen) })
	<-seen
	time.Sleep(time.Second) // of the bubble: the consumer is slow

	want, held := map[store.Key]store.Revision{}, map[store.Key]store.Revision{}
	for o, err := range s.All(t.Context(), store.Selector{}) {
		if err != nil {
			t.Fatal(err)
		}
		want[o.Key()] = o.Revision
	}
	for o := range c.All() {
		held[o.Key()] = o.Revision
	}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Errorf("seed %d: the cache differs from the store (-want +got):\n%s", seed, diff)
	}
	if diff := cmp.Diff(want, view()); diff != "" {
		t.Errorf("seed %d: the consumer differs from the store (-want +got):\n%s", seed, diff)
	}
	checkIndex(t, c, regions)
	return c.Snapshot().Snapshots
}

// churn creates, edits and deletes a few objects, over and over.
func churn(t *testing.T, s *store.Store[spec, status], r *rand.Rand) {
	t.Helper()
	for range 300 {
		name := string(rune('a' + r.IntN(12)))
		o, err := s.Get(t.Context(), store.Key{Name: name})
		switch {
		case errors.Is(err, store.ErrNotFound):
			create(t, s, name)
			err = nil
		case err == nil && r.IntN(3) == 0:
			err = s.Delete(t.Context(), o)
		case err == nil:
			o.Spec.Region = string(rune('A' + r.IntN(4)))
			o.Spec.Size += "x"
			_, err = s.Update(t.Context(), o)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
	}
}

// follow keeps a slow consumer's own view, and complains of a change that does
// not fit it. It asks for lists, and complains of one that is not that view.
func follow(t *testing.T, c *cache.Cache[spec, status]) func() map[store.Key]store.Revision {
	t.Helper()
	view := map[store.Key]*object{}
	var mu sync.Mutex
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		again := make(chan struct{}, 1)
		changes, left := 0, -1 // objects that the present list lacks; -1: there is none
		for ch, err := range c.Changes(t.Context(), again) {
			if err != nil {
				return
			}
			mu.Lock()
			switch {
			case ch.Again:
				left = len(view)
			case ch.Synced:
				if left > 0 {
					t.Errorf("a list lacks %d objects that the consumer has", left)
				}
				left = -1
			case left >= 0:
				if left--; !ch.Initial || view[ch.Key] != ch.New {
					t.Errorf("a list has another %s than the consumer", ch.Key)
				}
			case view[ch.Key] != ch.Old:
				t.Errorf("a change of %s does not start from what the consumer has", ch.Key)
			default:
				if view[ch.Key] = ch.New; ch.New == nil {
					delete(view, ch.Key)
				}
				if changes++; changes%7 == 0 {
					sleep.Wake(again)
				}
			}
			mu.Unlock()
			time.Sleep(15 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { <-ended })
	return func() map[store.Key]store.Revision {
		mu.Lock()
		defer mu.Unlock()
		got := map[store.Key]store.Revision{}
		for k, o := range view {
			got[k] = o.Revision
		}
		return got
	}
}

// checkIndex compares an index with what All says.
func checkIndex(t *testing.T, c *cache.Cache[spec, status], regions *cache.Index[spec, status]) {
	t.Helper()
	want := map[string]int{}
	for o := range c.All() {
		want[o.Spec.Region]++
	}
	for region, n := range want {
		got := 0
		for o := range regions.Get(region) {
			if held, _ := c.Get(o.Key()); held != o {
				t.Errorf("the index files an object of %s that the cache does not hold", o.Key())
			}
			got++
		}
		if got != n {
			t.Errorf("the index files %d objects under %q, want %d", got, region, n)
		}
	}
}
