package reconcile

import (
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
		w := new(store.Writes)
		w.Note(cached.Backend(), cached.Kind(), key, rev)
		c.writes.wrote(key, w, false)
	}
	wrote(7)
	if err := c.Add(key); err != nil {
		t.Fatal(err)
	}
	for _, want := range []queue.State{queue.StateHeld, queue.StateReady} {
		if e, _ := c.k.q.Lookup(key); e.State != want {
			t.Errorf("at revision %d the key is %v, want %v", cached.rev, e.State, want)
		}
		cached.rev = 8
		wrote(8)
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
	w := new(store.Writes)
	w.Note(few.Backend(), few.Kind(), key, 2)
	for i := range 300 {
		w.Note(many.Backend(), many.Kind(), key, store.Revision(3+i))
	}
	c.writes.wrote(key, w, false)
	w = new(store.Writes)
	w.Note(many.Backend(), many.Kind(), key, 500)
	c.writes.wrote(key, w, false)
	many.rev = 500
	if k := c.writes.lookup(key, false); k.left <= 0 || !k.stale {
		t.Errorf("while the cache of few is at revision 1, and 2 was written, the key is to wait for %v, stale: %t", k.left, k.stale)
	}
	few.rev = 2
	if k := c.writes.lookup(key, false); k.left > 0 || k.stale {
		t.Errorf("when both caches have what was written the key is to wait for %v, stale: %t", k.left, k.stale)
	}
}
