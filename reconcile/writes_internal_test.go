package reconcile

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// unread is a cache that has reached a revision and has not called anything about it yet.
type unread struct {
	Cached
	rev store.Revision
}

func (*unread) Name() string               { return "unread" }
func (*unread) Kind() string               { return "thing" }
func (*unread) Backend() store.Backend     { return nil }
func (c *unread) Revision() store.Revision { return c.rev }
func (*unread) OnRevision(store.Revision, func()) (stop func() bool) {
	return func() bool { return true }
}

// A key that a worker had already taken is held when it is added, and runs although its hold has not
// ended: its cache has what it wrote, and has not said so yet. Nothing ends that hold but the end of
// the run, and without it the key's next run would wait for all of CacheWait.
//
// promise S4. Negative control: the mutant "a run that wrote leaves the hold of an earlier write".
func TestRunThatWroteEndsTheHoldOfAnEarlierWrite(t *testing.T) {
	cached, key := &unread{rev: 6}, store.Key{Name: "a"}
	c := still(t, "things", &Options[Request]{Reads: []Cached{cached}})
	wrote := func(rev store.Revision) {
		w := new(runWrites)
		w.Note(cached.Backend(), cached.Kind(), key, rev)
		inside(c).writes.wrote(key, w, false)
	}
	wrote(7)
	if err := c.Add(key); err != nil {
		t.Fatal(err)
	}
	for _, want := range []queue.State{queue.StateHeld, queue.StateReady} {
		if e, _ := inside(c).k.q.Lookup(key); e.State != want {
			t.Errorf("at revision %d the key is %v, want %v", cached.rev, e.State, want)
		}
		cached.rev = 8
		wrote(8)
	}
}

// What a cache has to reach is the last write of all keys.
func TestUnseenIsTheLastWriteOfAllKeys(t *testing.T) {
	cached := &unread{rev: 6}
	c := still(t, "things", &Options[Request]{Reads: []Cached{cached}})
	for i := range 20 {
		key, w := store.Key{Name: strconv.Itoa(i)}, new(runWrites)
		w.Note(cached.Backend(), cached.Kind(), key, store.Revision(10+i))
		inside(c).writes.wrote(key, w, false)
	}
	for range 20 {
		if got := inside(c).unseen(); len(got) != 1 || got[cached] != 29 {
			t.Fatalf("the caches are to reach %v, want revision 29", got)
		}
	}
}

// kindCache is an unread cache of another kind.
type kindCache struct {
	unread
	kind string
}

func (c *kindCache) Name() string { return c.kind }
func (c *kindCache) Kind() string { return c.kind }

// A key wrote one object of a kind, and then very many of another, and its cache of the first is
// late: a run that did not wait for that any more, and wrote, leaves the key waiting for it.
//
// promise S4. Negative control: the mutant "of many earlier writes only the last are waited for".
func TestKeyThatWroteManyObjectsWaitsForTheCacheOfEachKind(t *testing.T) {
	few, many := &kindCache{unread{rev: 1}, "few"}, &kindCache{unread{rev: 1}, "many"}
	c, key := still(t, "things", &Options[Request]{Reads: []Cached{few, many}}), store.Key{Name: "a"}
	w := new(runWrites)
	w.Note(few.Backend(), few.Kind(), key, 2)
	for i := range 300 {
		w.Note(many.Backend(), many.Kind(), key, store.Revision(3+i))
	}
	inside(c).writes.wrote(key, w, false)
	w = new(runWrites)
	w.Note(many.Backend(), many.Kind(), key, 500)
	inside(c).writes.wrote(key, w, false)
	many.rev = 500
	if k := inside(c).writes.lookup(key, false); k.left <= 0 || !k.stale {
		t.Errorf("while the cache of few is at revision 1, and 2 was written, the key is to wait for %v, stale: %t", k.left, k.stale)
	}
	few.rev = 2
	if k := inside(c).writes.lookup(key, false); k.left > 0 || k.stale {
		t.Errorf("when both caches have what was written the key is to wait for %v, stale: %t", k.left, k.stale)
	}
}

// asked is a cache that calls when it is told to.
type asked struct {
	unread
	calls map[store.Revision][]func()
}

func (c *asked) OnRevision(r store.Revision, f func()) (stop func() bool) {
	c.calls[r] = append(c.calls[r], f)
	return func() bool { return true }
}

// reach makes the calls up to a revision; after a restore all of them.
func (c *asked) reach(rev store.Revision, all bool) {
	c.rev = rev
	for r, calls := range c.calls {
		if all || r <= rev {
			delete(c.calls, r)
			for _, f := range calls {
				f()
			}
		}
	}
}

// Many keys wrote, in an order that is not that of their revisions. Each waits until the cache has
// shown its own write and no longer, and as long as some wait the cache has a call to make; all go
// on when it turns out that the store was restored.
//
// promise S4.
func TestKeysWaitForTheirOwnWritesWhateverTheirOrder(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		cached := &asked{unread: unread{rev: 100}, calls: make(map[store.Revision][]func())}
		c := still(t, "things", &Options[Request]{Reads: []Cached{cached}})
		rev := make(map[store.Key]store.Revision)
		check := func() {
			t.Helper()
			for key, r := range rev {
				if lacks := len(inside(c).writes.of[key].lackingNow()) > 0; lacks != (r > cached.rev) {
					t.Fatalf("seed %d: at revision %d the key that wrote %d waits: %t", seed, cached.rev, r, lacks)
				}
				if r > cached.rev && len(cached.calls) == 0 {
					t.Fatalf("seed %d: a key waits for revision %d, and the cache at %d was asked for no call", seed, r, cached.rev)
				}
			}
		}
		for i := range 200 {
			key := store.Key{Name: strconv.Itoa(rnd.IntN(60))}
			if now := cached.rev + store.Revision(rnd.IntN(30)); now > rev[key] {
				w := new(runWrites)
				w.Note(cached.Backend(), cached.Kind(), key, now)
				inside(c).writes.wrote(key, w, false)
				rev[key] = now
			}
			if i%7 == 0 {
				cached.reach(cached.rev+store.Revision(rnd.IntN(12)), false)
			}
			check()
		}
		waiting := 0
		for _, r := range rev {
			if r > cached.rev {
				waiting++
			}
		}
		if waiting < 2 {
			t.Fatalf("seed %d: %d keys wait at the end: the test is to have more", seed, waiting)
		}
		cached.reach(3, true)
		for key := range rev {
			if len(inside(c).writes.of[key].lackingNow()) > 0 {
				t.Fatalf("seed %d: after a restore %s still waits", seed, key)
			}
		}
	}
}

func (r *pendingWrite) lackingNow() []Cached {
	if r == nil {
		return nil
	}
	return r.lacking
}
