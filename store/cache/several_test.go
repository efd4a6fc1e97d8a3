package cache_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/storetest"
)

// promise S2, where there are several of each thing: caches of one backend whose watches break
// apart from each other, with limits of their own, two indexes each, one of which files an object
// under several values, and consumers that are fast, slow and late. Each shows its part of what
// is stored, and what a cache has lent does not change.
//
// Negative controls: the mutants "an object stays under the second of its values in an index", "a
// cache keeps the limits of its caller" and "All gives the list itself".
func TestSeveralCachesOfOneBackendShowTheirParts(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { runSeveral(t, seed) }) })
	}
}

// several is one cache of several, with what is to be in it.
type several struct {
	*cache.Cache[spec, status]
	within     func(o *object) bool
	one, many  *cache.Index[spec, status]
	views      []func() map[store.Key]store.Revision
	lent       []introspect.Cache
	lentBefore []string
	readers    []*reader
}

// reader is a reader of objects as of one moment, that takes its time.
type reader struct {
	next func() (*object, bool)
	stop func()
	want map[store.Key]store.Revision
}

// begin reads the first of the objects that are shown now. Nothing may change meanwhile.
func begin(shown iter.Seq[*object]) *reader {
	r := &reader{want: revisionsOf(shown)}
	r.next, r.stop = iter.Pull(shown)
	if o, ok := r.next(); ok {
		if r.want[o.Key()] == o.Revision {
			delete(r.want, o.Key())
		}
	}
	return r
}

// finish reads the others.
func (r *reader) finish(t *testing.T, what string) {
	t.Helper()
	defer r.stop()
	got := revisionsOf(func(yield func(*object) bool) {
		for o, ok := r.next(); ok && o != nil && yield(o); o, ok = r.next() {
		}
	})
	if diff := cmp.Diff(r.want, got); diff != "" {
		t.Errorf("%s, read slowly (-want +got):\n%s", what, diff)
	}
}

func regionOf(o *object) []string  { return []string{o.Spec.Region} }
func lettersOf(o *object) []string { return strings.Split(o.Spec.Size, "") }

func runSeveral(t *testing.T, seed uint64) {
	b, err := memory.New(&memory.Options{History: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	s, err := store.New[spec, status](b, "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	red := func(o *object) bool { return o.Labels["team"] == "red" }
	finalizers, labels := []string{"keep", "hold"}, selector(t, "", "team in (red)")
	var all []*several
	for i, limit := range []struct {
		cache.Options[spec, status]
		within func(*object) bool
	}{
		{cache.Options[spec, status]{}, func(*object) bool { return true }},
		{cache.Options[spec, status]{Selector: selector(t, "n1", "")}, func(o *object) bool { return o.Namespace == "n1" }},
		{cache.Options[spec, status]{Selector: labels, Finalizers: finalizers}, func(o *object) bool { return red(o) || o.HasFinalizer("keep") || o.HasFinalizer("hold") }},
		{cache.Options[spec, status]{Selector: selector(t, "n2", "team!=red")}, func(o *object) bool { return o.Namespace == "n2" && !red(o) }},
	} {
		o := limit.Options
		o.Name, o.Backlog, o.DetectMutations, o.OnError = fmt.Sprint("cache ", i), 8, true, func(store.Key, error) {}
		faults := storetest.Random(seed*10+uint64(i), storetest.Rates{Refused: 0.3, Delayed: 0.3})
		x := &several{Cache: newCache(t, storetest.Faulty(b, faults), &o), within: limit.within}
		x.one, x.many = mustIndex(t, x.Cache, "region", regionOf), mustIndex(t, x.Cache, "letters", lettersOf)
		all = append(all, x)
	}
	// What was given to New is the caller's again.
	finalizers[0], finalizers[1] = "gone", "gone"
	labels.Labels[0].Values[0], labels.Labels[0] = "blue", store.Requirement{Key: "none"}
	for _, x := range all {
		run(t, x.Cache)
		for _, pause := range []time.Duration{0, 40 * time.Millisecond} {
			x.views = append(x.views, followAt(t, x.Cache, pause))
		}
	}
	r := rand.New(rand.NewPCG(seed, 2))
	for step := range 250 {
		changeOne(t, s, r)
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		if step%50 == 45 {
			for _, x := range all {
				for _, r := range x.readers {
					r.finish(t, x.Name())
				}
				x.readers = nil
			}
		}
		if step%50 == 25 {
			synctest.Wait() // a change on its way would come between the two looks of begin
			for _, x := range all {
				x.readers = append(x.readers, begin(x.All()), begin(x.many.Get("s")), begin(x.one.Get("A")))
				snap := x.Snapshot()
				x.lent, x.lentBefore = append(x.lent, snap), append(x.lentBefore, printed(t, snap))
				for _, requirement := range x.Snapshot().Selector.Labels { // it is the caller's
					clear(requirement.Values)
				}
				x.views = append(x.views, followAt(t, x.Cache, 10*time.Millisecond))
			}
		}
	}
	last := create(t, s, "last")
	for _, x := range all {
		seen := make(chan struct{})
		x.OnRevision(last.Revision, func() { close(seen) })
		<-seen
	}
	time.Sleep(time.Minute) // of the bubble: some consumers are slow
	for _, x := range all {
		x.check(t, s)
	}
}

func mustIndex(t *testing.T, c *cache.Cache[spec, status], name string, f cache.IndexFunc[spec, status]) *cache.Index[spec, status] {
	t.Helper()
	x, err := c.AddIndex(name, f)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func printed(t *testing.T, s introspect.Cache) string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// changeOne creates, edits or deletes an object of one of two namespaces.
func changeOne(t *testing.T, s *store.Store[spec, status], r *rand.Rand) {
	t.Helper()
	key := store.Key{Namespace: []string{"n1", "n2"}[r.IntN(2)], Name: string(rune('a' + r.IntN(6)))}
	o, err := s.Get(t.Context(), key)
	absent := errors.Is(err, store.ErrNotFound)
	if err != nil && !absent {
		t.Fatal(err)
	}
	if !absent && r.IntN(4) == 0 {
		if err := s.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return
	}
	if absent {
		o = &object{Meta: store.Meta{Namespace: key.Namespace, Name: key.Name}}
	}
	o.Spec.Region = string(rune('A' + r.IntN(3)))
	o.Spec.Size = []string{"s", "st", "tsu", "u"}[r.IntN(4)]
	o.Labels = map[string]string{"team": []string{"red", "blue"}[r.IntN(2)]}
	if o.Finalizers = nil; r.IntN(3) == 0 && !o.Deleting() {
		o.Finalizers = []string{[]string{"keep", "hold", "gone"}[r.IntN(3)]}
	}
	if absent {
		_, err = s.Create(t.Context(), o)
	} else {
		_, err = s.Update(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// followAt is the view of a consumer that takes its time for each change.
func followAt(t *testing.T, c *cache.Cache[spec, status], pause time.Duration) func() map[store.Key]store.Revision {
	var mu sync.Mutex
	view := map[store.Key]*object{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ch, err := range c.Changes(t.Context(), nil) {
			if err != nil {
				return
			}
			mu.Lock()
			if !ch.Synced && view[ch.Key] != ch.Old {
				t.Errorf("%s: a change of %s does not start from what the consumer has", c.Name(), ch.Key)
			}
			if !ch.Synced && ch.Old == nil && ch.New == nil {
				t.Errorf("%s: a change of %q from nothing to nothing", c.Name(), ch.Key)
			}
			if view[ch.Key] = ch.New; ch.New == nil {
				delete(view, ch.Key)
			}
			mu.Unlock()
			time.Sleep(pause)
		}
	}()
	t.Cleanup(func() { <-ended })
	return func() map[store.Key]store.Revision {
		mu.Lock()
		defer mu.Unlock()
		return revisionsOf(maps.Values(view))
	}
}

func revisionsOf(objects func(yield func(*object) bool)) map[store.Key]store.Revision {
	revisions := map[store.Key]store.Revision{}
	for o := range objects {
		revisions[o.Key()] = o.Revision
	}
	return revisions
}

// check compares all that a cache shows with the store.
func (x *several) check(t *testing.T, s *store.Store[spec, status]) {
	t.Helper()
	stored, err := s.List(t.Context(), store.Selector{})
	if err != nil {
		t.Fatal(err)
	}
	stored = slices.DeleteFunc(stored, func(o *object) bool { return !x.within(o) })
	want := revisionsOf(slices.Values(stored))
	equal := func(what string, want, got map[store.Key]store.Revision) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", what, x.Name(), diff)
		}
	}
	equal("All", want, revisionsOf(x.All()))
	got := map[store.Key]store.Revision{}
	for key := range want {
		if o, ok := x.Get(key); ok {
			got[key] = o.Revision
		}
	}
	equal("Get", want, got)
	if x.Len() != len(want) {
		t.Errorf("%s has %d objects, want %d", x.Name(), x.Len(), len(want))
	}
	for i, view := range x.views {
		equal(fmt.Sprint("consumer ", i), want, view())
	}
	for _, v := range []string{"A", "B", "C", "s", "t", "u", ""} {
		of := func(values func(*object) []string) map[store.Key]store.Revision {
			return revisionsOf(slices.Values(slices.DeleteFunc(slices.Clone(stored), func(o *object) bool { return !slices.Contains(values(o), v) })))
		}
		equal("the index by region, "+v, of(regionOf), revisionsOf(x.one.Get(v)))
		equal("the index by letters, "+v, of(lettersOf), revisionsOf(x.many.Get(v)))
	}
	if err := x.CheckMutations(); err != nil {
		t.Error(err)
	}
	for i, snap := range x.lent {
		if now := printed(t, snap); now != x.lentBefore[i] {
			t.Errorf("a snapshot of %s has become %s, was %s", x.Name(), now, x.lentBefore[i])
		}
	}
}

// A cache that holds nothing but objects that cannot be decoded notices that they went while it
// was away; and what a snapshot says of them is the caller's.
//
// Negative controls: the mutants "a cache of broken objects alone keeps those that went" and "a
// snapshot lends the map of broken objects".
func TestBrokenObjectsAloneAreFollowedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, &cache.Options[spec, status]{OnError: func(store.Key, error) {}})
		f.send(snapshot(2, garbage(1, "a"), garbage(2, "b")), end(2))
		first := c.Snapshot()
		f.send(changes(3, garbage(3, "c")))
		if n := len(first.Undecodable); n != 2 {
			t.Errorf("a snapshot from before has become one of %d broken objects, want 2", n)
		}
		clear(first.Undecodable)
		if n := len(c.Snapshot().Undecodable); n != 3 || c.Health() == nil {
			t.Errorf("%d objects cannot be decoded, want 3, and Health says %v", n, c.Health())
		}
		f.send(store.ErrCompacted, snapshot(7, garbage(3, "c")), end(7))
		if left := c.Snapshot().Undecodable; len(left) != 1 || left[store.Key{Name: "c"}] == nil {
			t.Errorf("after a gap in which a and b went it names %v, want c", left)
		}
		f.send(store.ErrCompacted, end(8))
		if left := c.Snapshot().Undecodable; len(left) != 0 || c.Health() != nil {
			t.Errorf("after a gap in which c went it names %v, and Health says %v", left, c.Health())
		}
	})
}
