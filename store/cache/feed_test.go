package cache_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

func sorted(s []string) string {
	slices.Sort(s)
	return strings.Join(s, " ")
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func expectSteps(t *testing.T, p *tape, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, p.take()); diff != "" {
		t.Errorf("the consumer saw something else (-want +got):\n%s", diff)
	}
}

func isSynced(c *cache.Cache[spec, status]) bool {
	select {
	case <-c.Synced():
		return true
	default:
		return false
	}
}

func TestCacheIsSyncedOnlyAfterTheWholeSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(5, put(at(1, "a"))), snapshot(5, put(at(2, "b"))))
		if isSynced(c) || c.Revision() != 0 {
			t.Errorf("in the middle of the snapshot: synced %v at revision %d, want not synced, 0", isSynced(c), c.Revision())
		}
		if c.Health() == nil {
			t.Error("a cache that is not synced says it is healthy")
		}
		f.send(end(5))
		if !isSynced(c) || c.Revision() != 5 {
			t.Errorf("after the snapshot: synced %v at revision %d, want synced, 5", isSynced(c), c.Revision())
		}
		if err := c.Health(); err != nil {
			t.Errorf("Health is %v, want nil", err)
		}
		expect(t, "All", names(c.All()), "a@1 b@2")
	})
}

func TestChangesAreAppliedAndObjectsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(2, put(at(1, "a")), put(at(2, "b"))), end(2))
		a, ok := c.Get(store.Key{Name: "a"})
		again, _ := c.Get(store.Key{Name: "a"})
		if !ok || a != again {
			t.Errorf("two reads returned %p and %p, want the same object", a, again)
		}
		f.send(changes(5, put(at(3, "a")), put(at(4, "c")), del(at(2, "b"), 5)))
		expect(t, "All", names(c.All()), "a@3 c@4")
		if _, ok := c.Get(store.Key{Name: "b"}); ok {
			t.Error("b was deleted and is still there")
		}
		if c.Revision() != 5 || c.Len() != 2 {
			t.Errorf("revision %d, %d objects; want 5, 2", c.Revision(), c.Len())
		}
	})
}

// No backend of ours does this, but a list must not hold a key twice for ever if one does.
//
// Negative control: without the look into the table of a step that knows of no entry,
// the first list is "a@1 a@2"; without that of one whose entry is gone, the last panics.
func TestKeyThatABatchNamesTwiceIsHeldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(3, put(at(1, "a")), put(at(2, "a")), put(at(3, "b"))), end(3))
		expect(t, "All", names(c.All()), "a@2 b@3")
		f.send(changes(4, del(at(2, "a"), 4), del(at(2, "a"), 4)))
		expect(t, "All after two deletions", names(c.All()), "b@3")
		f.send(changes(5, del(at(3, "b"), 5), put(at(5, "b"))))
		expect(t, "All after a deletion and a creation", names(c.All()), "b@5")
	})
}

func TestAllAndByShowTheMomentTheyBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed()
		c := newCache(t, f, nil)
		regions, _ := byRegion(t, c)
		run(t, c)
		f.send(snapshot(2, put(at(1, "a", region("eu"))), put(at(2, "b", region("eu")))), end(2))
		for _, seq := range []struct {
			name string
			run  func() string
		}{
			{"All", func() string {
				var got []string
				for o := range c.All() {
					if len(got) == 0 {
						f.send(changes(c.Revision()+1, put(at(c.Revision()+1, "z", region("eu")))))
					}
					got = append(got, o.Name)
				}
				return sorted(got)
			}},
			{"By", func() string {
				var got []string
				for o := range regions.Get("eu") {
					if len(got) == 0 {
						f.send(changes(c.Revision()+1, del(at(c.Revision(), "z", region("eu")), c.Revision()+1)))
					}
					got = append(got, o.Name)
				}
				return sorted(got)
			}},
		} {
			before := c.Len()
			if got := strings.Fields(seq.run()); len(got) != before {
				t.Errorf("%s yielded %v, want the %d objects that were there when the loop began", seq.name, got, before)
			}
		}
	})
}

// byRegion adds an index by region and one by label.
func byRegion(t *testing.T, c *cache.Cache[spec, status]) (regions, labels *cache.Index[spec, status]) {
	t.Helper()
	regions = addIndex(t, c, "region", func(o *object) []string { return []string{o.Spec.Region} })
	labels = addIndex(t, c, "labels", func(o *object) []string {
		var vs []string
		for k, v := range o.Labels {
			vs = append(vs, k+"="+v)
		}
		return vs
	})
	return regions, labels
}

func addIndex(t *testing.T, c *cache.Cache[spec, status], name string, fn cache.IndexFunc[spec, status]) *cache.Index[spec, status] {
	t.Helper()
	x, err := c.AddIndex(name, fn)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// All changes of a revision become visible at once: while the last of them is made ready none is
// to be seen, and afterwards all are.
//
// promise S1. Negative control: mutant "half of a transaction is visible".
func TestChangesOfARevisionAreVisibleAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed()
		c := newCache(t, f, nil)
		early := 0
		addIndex(t, c, "region", func(o *object) []string { // asked of each object before its change is applied
			for other := range c.All() {
				if o.Revision == 2 && other.Revision == 2 {
					early++
				}
			}
			return nil
		})
		run(t, c)
		f.send(snapshot(1, put(at(1, "a")), put(at(1, "b")), put(at(1, "c"))), end(1))
		f.send(changes(2, put(at(2, "a")), put(at(2, "b")), put(at(2, "c"))))
		expect(t, "afterwards", names(c.All()), "a@2 b@2 c@2")
		if early != 0 {
			t.Errorf("%d times a change of the revision was visible before the others", early)
		}
	})
}

// case 102
func TestIndexYieldsExactlyTheMatchingSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed()
		c := newCache(t, f, nil)
		regions, labels := byRegion(t, c)
		run(t, c)
		f.send(snapshot(3, put(at(1, "a", region("eu"))), put(at(2, "b", region("us"), label("k", "v"))), put(at(3, "c", region("eu")))), end(3))
		expect(t, "eu", names(regions.Get("eu")), "a@1 c@3")
		expect(t, "label", names(labels.Get("k=v")), "b@2")

		f.send(changes(6, put(at(4, "d", region("eu"))), put(at(5, "a", region("us"))), del(at(3, "c", region("eu")), 6)))
		expect(t, "eu after edits", names(regions.Get("eu")), "d@4")
		expect(t, "us after edits", names(regions.Get("us")), "a@5 b@2")
		expect(t, "none in a region that no object has", names(regions.Get("mars")), "")

		f.send(changes(7, put(at(7, "b", region("us")))))
		expect(t, "label gone", names(labels.Get("k=v")), "")
	})
}

// An index that is added later would lack the objects that are there already.
func TestIndexIsAddedBeforeTheCacheRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, newFeed(), nil)
		if _, err := c.AddIndex("region", nil); err == nil || !strings.Contains(err.Error(), "region") {
			t.Errorf("AddIndex without a function: %v, want an error that names it", err)
		}
		stop := run(t, c)
		synctest.Wait()
		for range 2 {
			if _, err := c.AddIndex("late", func(*object) []string { return nil }); !errors.Is(err, cache.ErrRunning) {
				t.Errorf("AddIndex after Run: %v, want ErrRunning", err)
			}
			stop()
		}
	})
}

func TestPanickingIndexFunctionHurtsOnlyItsIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []string
		f := newFeed()
		c := newCache(t, f, &cache.Options[spec, status]{
			OnError: func(k store.Key, err error) { reported = append(reported, k.Name); panic("and the hook too") },
		})
		bad := addIndex(t, c, "bad", func(o *object) []string { panic("boom " + o.Name) })
		good := addIndex(t, c, "good", func(o *object) []string { return []string{o.Name} })
		run(t, c)
		f.send(snapshot(1, put(at(1, "a"))), end(1))
		expect(t, "good index", names(good.Get("a")), "a@1")
		expect(t, "bad index", names(bad.Get("a")), "")
		expect(t, "reported", sorted(reported), "a")
	})
}

// case 99
func TestLimitedCacheHoldsOnlyWhatMatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, &cache.Options[spec, status]{Selector: selector(t, "prod", "tier=web")})
		f.send(snapshot(4,
			put(at(1, "in", namespace("prod"), label("tier", "web"))),
			put(at(2, "other-ns", namespace("dev"), label("tier", "web"))),
			put(at(3, "other-label", namespace("prod"), label("tier", "db"))),
			put(at(4, "none", namespace("prod")))), end(4))
		expect(t, "limited", names(c.All()), "in@1")

		f.send(changes(5, put(at(5, "other-label", namespace("prod"), label("tier", "web")))))
		expect(t, "began to match", names(c.All()), "in@1 other-label@5")
		p := record(t, c, nil)
		p.take()
		f.send(changes(6, put(at(6, "in", namespace("prod"), label("tier", "db")))))
		expect(t, "stopped matching", names(c.All()), "other-label@5")
		expectSteps(t, p, "in 1>-@6")
		f.send(changes(7, put(at(7, "in", namespace("prod"), label("tier", "db")))))
		expectSteps(t, p)
		if c.Revision() != 7 {
			t.Errorf("revision %d, want 7: a change outside the limits counts as seen", c.Revision())
		}
	})
}

// case 100
// The negative control made limits look at the selector alone: the object was
// dropped when its label changed, and both halves failed.
func TestLimitedCacheFollowsAnObjectThatCarriesOurFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &cache.Options[spec, status]{Selector: selector(t, "", "tier=web"), Finalizers: []string{"tend/bucket"}}
		f, c := start(t, o)
		f.send(snapshot(1, put(at(1, "a", label("tier", "web"), finalizer("tend/bucket")))), end(1))
		p := record(t, c, nil)
		p.take()
		f.send(changes(2, put(at(2, "a", label("tier", "db"), finalizer("x", "tend/bucket")))))
		f.send(changes(3, put(at(3, "a", label("tier", "db"), finalizer("x")))))
		expectSteps(t, p, "a 1>2@2", "a 2>-@3")

		// After a restart it is not known that it once matched.
		f, c = start(t, o)
		f.send(snapshot(2, put(at(2, "a", label("tier", "db"), finalizer("tend/bucket")))), end(2))
		expect(t, "after a restart", names(c.All()), "a@2")
	})
}

// An object of another namespace is none of the cache's, whatever finalizer it carries.
//
// Negative control: mutant "a finalizer brings in an object of another namespace".
func TestFinalizerBringsInNoObjectOfAnotherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &cache.Options[spec, status]{Selector: selector(t, "n1", "tier=web"), Finalizers: []string{"tend/bucket"}}
		f, c := start(t, o)
		in := func(namespace string) edit { return func(o *object) { o.Namespace = namespace } }
		ours := finalizer("tend/bucket")
		f.send(snapshot(3, put(at(1, "a", in("n1"), ours)), put(at(2, "b", in("n2"), ours)), put(at(3, "c", in("n2"), ours, label("tier", "web")))), end(3))
		expect(t, "of the first snapshot", names(c.All()), "a@1")
		f.send(changes(4, put(at(4, "d", in("n2"), ours))), changes(5, put(at(5, "e", in("n1"), ours))))
		expect(t, "after changes", names(c.All()), "a@1 e@5")
	})
}

// case 104
// The negative control let read drop the held version of an object that cannot
// be decoded: the consumer saw a deletion of b. Mutant "a broken object that went during a
// gap stays broken".
func TestUndecodableObjectIsReportedAndLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []string
		f, c := start(t, &cache.Options[spec, status]{
			OnError: func(k store.Key, err error) { reported = append(reported, k.Name) },
		})
		f.send(snapshot(3, put(at(1, "a")), garbage(2, "bad"), put(at(3, "b"))), end(3))
		expect(t, "the others", names(c.All()), "a@1 b@3")
		expect(t, "reported", sorted(reported), "bad")
		if err := c.Health(); err == nil || !strings.Contains(err.Error(), "cannot decode 1 of its objects") {
			t.Errorf("Health is %v, want it to count the object", err)
		}
		p := record(t, c, nil)
		p.take()

		f.send(changes(5, garbage(4, "b"), put(at(5, "a"))))
		expect(t, "what was readable stays", names(c.All()), "a@5 b@3")
		if c.Revision() != 5 {
			t.Errorf("revision %d, want 5: the bad one must not hold up the others", c.Revision())
		}
		// A new snapshot names them still: neither is gone.
		f.send(store.ErrCompacted, snapshot(6, put(at(5, "a")), garbage(2, "bad"), garbage(4, "b")), end(6))
		expect(t, "after a relist", names(c.All()), "a@5 b@3")
		expectSteps(t, p, "a 1>5@5")

		f.send(changes(8, put(at(7, "bad")), del(at(4, "b"), 8)))
		expect(t, "mended and deleted", names(c.All()), "a@5 bad@7")
		if err := c.Health(); err != nil {
			t.Errorf("Health is %v, want nil", err)
		}
		// One that goes while the watch is away is not counted any more either.
		f.send(changes(9, garbage(9, "worse")))
		if err := c.Health(); err == nil {
			t.Error("Health does not count the object")
		}
		f.send(store.ErrCompacted, snapshot(10, put(at(5, "a")), put(at(7, "bad"))), end(10))
		if err := c.Health(); err != nil {
			t.Errorf("Health is %v after the object was deleted, want nil", err)
		}
	})
}

// case 64; weak point 003 (g)
// promise S2
// The negative control made endSnapshot skip vanished: b stayed as a ghost.
func TestObjectDeletedWhileNobodyLookedBecomesADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(2, put(at(1, "a")), put(at(2, "b"))), end(2))
		p := record(t, c, nil)
		p.take()
		f.send(store.ErrCompacted, snapshot(9, put(at(1, "a")), put(at(8, "c"))))
		expect(t, "until the end of the snapshot", names(c.All()), "a@1 b@2 c@8")
		f.send(end(9))
		expect(t, "afterwards", names(c.All()), "a@1 c@8")
		expectSteps(t, p, "c ->8@9", "b 2>-@9")
		if diff := cmp.Diff([]store.Revision{0, 0}, f.opened()); diff != "" {
			t.Errorf("watches were opened after other revisions (-want +got):\n%s", diff)
		}
	})
}

func TestWatchThatBreaksIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []string
		f, c := start(t, &cache.Options[spec, status]{OnError: func(_ store.Key, err error) { reported = append(reported, err.Error()) }})
		f.send(snapshot(2, put(at(1, "a"))), end(2), changes(3, put(at(3, "a"))), progress(7), errors.New("cable pulled"))
		if diff := cmp.Diff([]store.Revision{0, 7}, f.opened()); diff != "" {
			t.Errorf("watches were opened after other revisions (-want +got):\n%s", diff)
		}
		if len(reported) != 1 || !strings.Contains(reported[0], "cable pulled") {
			t.Errorf("reported %q, want the cause once", reported)
		}
		if err := c.Health(); err == nil || !strings.Contains(err.Error(), "cable pulled") {
			t.Errorf("Health is %v, want the cause until the watch delivers again", err)
		}
		f.send(changes(8, put(at(8, "a"))))
		if err := c.Health(); err != nil {
			t.Errorf("Health is %v, want nil", err)
		}
		expect(t, "All", names(c.All()), "a@8")
	})
}

// case 103 (the cache's part)
func TestWatchThatKeepsFailingIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f, _ := start(t, &cache.Options[spec, status]{OnError: func(store.Key, error) {}})
		for range 20 {
			f.send(errors.New("refused"))
		}
		f.send(snapshot(1), end(1))
		if d := time.Since(began); d < 20*time.Second || d > 120*time.Second {
			t.Errorf("20 failures took %v, want a pause that grows to between 2.5 s and 5 s", d)
		}
	})
}

// The negative control kept the relist of the snapshot that broke off: b, which it
// had named, stayed for ever.
func TestSnapshotThatBreaksOffIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, &cache.Options[spec, status]{OnError: func(store.Key, error) {}})
		f.send(snapshot(3, put(at(1, "a")), put(at(2, "b"))), end(3), store.ErrCompacted)
		f.send(snapshot(9, put(at(8, "a")), put(at(2, "b"))), errors.New("cable pulled"))
		f.send(snapshot(10, put(at(8, "a"))), end(10))
		expect(t, "All", names(c.All()), "a@8")
		if diff := cmp.Diff([]store.Revision{0, 0, 0}, f.opened()); diff != "" {
			t.Errorf("watches were opened after other revisions (-want +got):\n%s", diff)
		}
	})
}

// A copy of an older state was written to until it was beyond what the cache had seen. A
// revision of it may be of another version than the same revision of the lost history.
//
// promise S2. Negative control: mutant "equal revisions are equal versions".
func TestCopyThatWasWrittenBeyondWhatWasSeenIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(10, put(at(4, "a", region("lost"))), put(at(9, "b")), put(at(10, "c"))), end(10))
		p := record(t, c, nil)
		p.take()
		f.send(store.ErrCompacted, snapshot(12, put(at(4, "a", region("kept"))), put(at(9, "b")), put(at(12, "c"))), end(12))
		expectSteps(t, p, "a 4>4@12", "c 10>12@12")
		if got, _ := c.Get(store.Key{Name: "a"}); got.Spec.Region != "kept" {
			t.Errorf("region is %q, want that of the copy", got.Spec.Region)
		}
		f.send(changes(13, put(at(13, "a", region("next")))))
		f.send(store.ErrCompacted, snapshot(14, put(at(13, "a", region("next"))), put(at(9, "b")), put(at(12, "c"))), end(14))
		expectSteps(t, p, "a 4>13@13")
	})
}

// promise S2
func TestBackendRestoredFromABackupIsReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(10, put(at(4, "a", region("new"))), put(at(10, "b"))), end(10))
		p := record(t, c, nil)
		p.take()
		var called bool
		c.OnRevision(12, func() { called = true })
		// The same revision 4 means another version in the restored history.
		f.send(store.ErrCompacted, snapshot(5, put(at(4, "a", region("old")))), end(5))
		expectSteps(t, p, "a 4>4@5", "b 10>-@5")
		if got, _ := c.Get(store.Key{Name: "a"}); got.Spec.Region != "old" {
			t.Errorf("region is %q, want the restored one", got.Spec.Region)
		}
		if c.Revision() != 5 || c.Snapshot().Restores != 1 {
			t.Errorf("revision %d, %d restores; want 5, 1", c.Revision(), c.Snapshot().Restores)
		}
		if !called {
			t.Error("a waiter for a revision of the lost history was not called")
		}
	})
}

func TestClosedBackendEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed()
		c := newCache(t, f, nil)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context()) }()
		f.send(snapshot(1), end(1), fmt.Errorf("x: %w", store.ErrClosed))
		if err := <-ended; !errors.Is(err, store.ErrClosed) {
			t.Errorf("Run returned %v, want ErrClosed", err)
		}
	})
}

func TestRunIsOnceAtATimeAndGoesOnWhereItStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed()
		c := newCache(t, f, nil)
		stop := run(t, c)
		f.send(snapshot(3, put(at(1, "a"))), end(3))
		if err := c.Run(t.Context()); !errors.Is(err, cache.ErrRunning) {
			t.Errorf("a second Run returned %v, want ErrRunning", err)
		}
		stop()
		expect(t, "after Run", names(c.All()), "a@1")
		run(t, c)
		f.send(changes(4, put(at(4, "a"))))
		expect(t, "after the second Run", names(c.All()), "a@4")
		if diff := cmp.Diff([]store.Revision{0, 3}, f.opened()); diff != "" {
			t.Errorf("watches were opened after other revisions (-want +got):\n%s", diff)
		}
	})
}

// case 96 (the cache's part)
func TestIllegalOptionsAreRefused(t *testing.T) {
	s, err := store.New[spec, status](newFeed(), "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*cache.Options[spec, status]{
		"Backlog": {Backlog: -1},
	} {
		if c, err := cache.New(s, o); err == nil || c != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New returned %v, %v; want an error that names %s", c, err, name)
		}
	}
	if _, err := cache.New[spec, status](nil, nil); err == nil || !strings.Contains(err.Error(), "store") {
		t.Errorf("New(nil) returned %v, want an error that names the store", err)
	}
}

func TestMutatedObjectIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []error
		f := newFeed()
		c := newCache(t, f, &cache.Options[spec, status]{DetectMutations: true, OnError: func(_ store.Key, err error) { reported = append(reported, err) }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		f.send(snapshot(2, put(at(1, "a", label("k", "v"))), put(at(2, "b"))), end(2), changes(3, put(at(3, "b"))))
		if err := c.CheckMutations(); err != nil {
			t.Errorf("CheckMutations found %v, and there was no write", err)
		}
		a, _ := c.Get(store.Key{Name: "a"})
		a.Labels["k"] = "mine"
		if err := c.CheckMutations(); !errors.Is(err, cache.ErrMutated) || !strings.Contains(err.Error(), "a") {
			t.Errorf("CheckMutations returned %v, want ErrMutated for a", err)
		}
		f.send(changes(4, put(at(4, "a"))))
		if len(reported) != 1 || !errors.Is(reported[0], cache.ErrMutated) {
			t.Errorf("reported %v, want ErrMutated when a was replaced", reported)
		}
		b, _ := c.Get(store.Key{Name: "b"})
		b.Spec.Size = "huge"
		cancel()
		if err := <-ended; !errors.Is(err, cache.ErrMutated) {
			t.Errorf("Run returned %v, want ErrMutated for b", err)
		}
	})
}

func TestSnapshotTellsWhyTheWatchWasOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, &cache.Options[spec, status]{OnError: func(store.Key, error) {}})
		f.send(snapshot(3), end(3), errors.New("cable pulled"))
		f.send(progress(4), errors.New("cable pulled"))
		f.send(store.ErrCompacted, snapshot(9), end(9))
		if s := c.Snapshot(); s.Disconnected != 2 || s.Compacted != 1 {
			t.Errorf("%d watches went on and %d could not, want 2 and 1", s.Disconnected, s.Compacted)
		}
	})
}

func lag(c *cache.Cache[spec, status]) (store.Revision, time.Time) {
	s := c.Snapshot()
	return s.LagRevisions, s.LagSince
}

// Negative control: mutant "the lag is since any one waiter began".
func TestLagIsTheWriteThatSomebodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(3), end(3))
		began := time.Now()
		c.OnRevision(3, func() {})
		if revisions, since := lag(c); revisions != 0 || !since.IsZero() {
			t.Errorf("there is no waiter, and the lag is %d revisions since %v", revisions, since)
		}
		c.OnRevision(10, func() {})
		time.Sleep(time.Minute)
		// Neither the oldest waiter nor the one of the highest revision is the first of all, or the last.
		for _, r := range []store.Revision{5, 12, 11} {
			c.OnRevision(r, func() {})
		}
		if revisions, since := lag(c); revisions != 9 || !since.Equal(began) {
			t.Errorf("lag %d revisions since %v, want 9 since %v", revisions, since, began)
		}
		f.send(progress(6))
		if revisions, since := lag(c); revisions != 6 || !since.Equal(began) {
			t.Errorf("lag %d revisions since %v, want 6 since %v", revisions, since, began)
		}
		f.send(progress(10))
		if revisions, since := lag(c); revisions != 2 || !since.Equal(began.Add(time.Minute)) {
			t.Errorf("lag %d revisions since %v, want 2 since %v", revisions, since, began.Add(time.Minute))
		}
		f.send(progress(12))
		if revisions, since := lag(c); revisions != 0 || !since.IsZero() {
			t.Errorf("everything was seen, and the lag is %d revisions since %v", revisions, since)
		}
	})
}

// A watch that stays away is one line when it goes and one when it is back.
func TestLostWatchIsLoggedOnceAndItsReturnToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		f, _ := start(t, &cache.Options[spec, status]{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		f.send(snapshot(2), end(2), progress(3))
		for range 20 {
			f.send(errors.New("cable pulled"))
		}
		f.send(progress(7))
		synctest.Wait()
		if got := lines.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "cable pulled") != 1 || strings.Count(got, "the watch is back") != 1 {
			t.Errorf("want a line for the loss and one for the return, have\n%s", got)
		}
	})
}

// A watch of a cluster that is gone is open and silent. What the backend says of
// itself counts then.
func TestCacheOfABackendThatDoesNotServeSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(5, put(at(1, "a"))), end(5))
		if s := c.Snapshot(); !s.Connected || s.Err != nil || s.LagRevisions != 0 || !s.LagSince.IsZero() || c.Ready() != nil || c.Health() != nil {
			t.Fatalf("while the backend serves: %+v, ready %v, health %v", s, c.Ready(), c.Health())
		}
		since := time.Now().Add(-40 * time.Second)
		gone := &store.UnavailableError{Since: since, Err: errors.New("no answer from 10.0.0.1:2379")}
		f.fails(gone)
		s := c.Snapshot()
		if s.Connected || !s.Since.Equal(since) || !errors.Is(s.Err, gone) || !s.LagSince.Equal(since) {
			t.Errorf("the snapshot is %+v, want not connected since %v", s, since)
		}
		for what, err := range map[string]error{"Ready": c.Ready(), "Health": c.Health()} {
			if !errors.Is(err, gone) || !strings.Contains(err.Error(), "10.0.0.1:2379") {
				t.Errorf("%s is %v, want what the backend says", what, err)
			}
		}
		f.fails(nil)
		if s := c.Snapshot(); !s.Connected || s.Err != nil || s.LagRevisions != 0 || !s.LagSince.IsZero() || c.Ready() != nil || c.Health() != nil {
			t.Errorf("once it serves again: %+v, ready %v, health %v", s, c.Ready(), c.Health())
		}
	})
}

// A store that only refuses writes can be read: the watch is open, and the cache is not of the past. It is
// not well all the same, as no write succeeds.
func TestCacheOfABackendThatRefusesWritesIsConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(5, put(at(1, "a"))), end(5))
		m, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		writes := store.NewWriteHealth(m, "10.0.0.1:5432", nil)
		defer writes.Close()
		writes.Committed(t.Context(), store.Txn{Ops: []store.Op{{Put: store.Bytes("1")}}}, errors.New("read-only"))
		f.fails(writes.Health())
		if s := c.Snapshot(); !s.Connected || s.Err != nil || !s.LagSince.IsZero() {
			t.Errorf("the snapshot is %+v, want a cache that is connected", s)
		}
		for what, err := range map[string]error{"Ready": c.Ready(), "Health": c.Health()} {
			if err == nil || strings.Count(err.Error(), "read-only") != 1 {
				t.Errorf("%s is %v, want what the backend says, once", what, err)
			}
		}
	})
}

// The error of a watch that broke while the backend did not answer is of the past once it answers: until the watch
// was opened again it was told as a fault of its own, after the cure.
func TestErrorOfAWatchInAnOutageEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(5, put(at(1, "a"))), end(5))
		cut := errors.New("cut")
		f.fails(&store.UnavailableError{Since: time.Now(), Err: errors.New("silent")})
		f.send(cut)
		synctest.Wait()
		if s := c.Snapshot(); s.Connected || !errors.Is(s.Err, cut) {
			t.Errorf("in the outage the snapshot is %+v", s)
		}
		f.fails(nil)
		if s, err := c.Snapshot(), c.Health(); s.Connected || s.Err != nil || err != nil {
			t.Errorf("after it, before the watch is opened again: %+v, health %v", s, err)
		}
		f.send(cut)
		synctest.Wait()
		if s := c.Snapshot(); s.Connected || !errors.Is(s.Err, cut) || c.Health() == nil {
			t.Errorf("of a backend that answers and ends the watch: %+v, health %v", s, c.Health())
		}
	})
}

// A warning of the backend shows in Health. The cache is ready and connected meanwhile: a server
// that was taken out of service for it would help nothing. Seen to fail: with every error of Health
// taken for an outage the cache was not ready.
//
// promise S7
func TestWarningOfABackendIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(5, put(at(1, "a"))), end(5))
		warning := errors.New("nearly full")
		f.fails(warning)
		if s := c.Snapshot(); !s.Connected || s.Err != nil || s.LagRevisions != 0 || !s.LagSince.IsZero() || c.Ready() != nil {
			t.Errorf("the snapshot is %+v, ready %v, want a cache that is connected and ready", s, c.Ready())
		}
		if err := c.Health(); !errors.Is(err, warning) {
			t.Errorf("Health is %v, want the warning", err)
		}
	})
}

// promise S2
// promise E2
// A relist at the revision that the cache has reached is no restore: after a compaction
// of a quiet store it is what there is. One that went back is, and prunes stop for it.
func TestSnapshotAtTheSameRevisionIsNoRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(5, put(at(1, "a"))), end(5), store.ErrCompacted)
		f.send(snapshot(5, put(at(1, "a"))), end(5))
		if s := c.Snapshot(); s.Restores != 0 || s.Snapshots != 2 {
			t.Errorf("after a second snapshot at revision 5: %d restores of %d snapshots, want 0 of 2", s.Restores, s.Snapshots)
		}
		f.send(store.ErrCompacted)
		f.send(snapshot(4, put(at(1, "a"))), end(4))
		if s := c.Snapshot(); s.Restores != 1 || s.Snapshots != 3 {
			t.Errorf("after a snapshot at revision 4: %d restores of %d snapshots, want 1 of 3", s.Restores, s.Snapshots)
		}
	})
}

// here is a backend whose watch says whether a function is among those that called it.
type here struct {
	store.Backend
	caller string
	is     bool
}

func (h *here) Watch(ctx context.Context, _ string, _ store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		pcs := make([]uintptr, 100)
		frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
		for frame, more := frames.Next(); more && !h.is; frame, more = frames.Next() {
			h.is = strings.Contains(frame.Function, h.caller)
		}
		if yield(end(1), nil) {
			<-ctx.Done()
			yield(store.Batch{}, context.Cause(ctx))
		}
	}
}

// Of a whole kind Run starts no goroutine: it reads the watch on that of its caller.
//
// Seen to fail: with a watch that is read on a goroutine of its own.
func TestRunOfAWholeKindReadsTheWatchOnItsGoroutine(t *testing.T) {
	h := &here{caller: "TestRunOfAWholeKind"}
	c := newCache(t, h, nil)
	ctx, cancel := context.WithCancel(t.Context())
	c.OnRevision(1, cancel)
	if err := c.Run(ctx); err != nil || !isSynced(c) || !h.is {
		t.Errorf("Run returned %v, synced %v, on this goroutine: %v", err, isSynced(c), h.is)
	}
}
