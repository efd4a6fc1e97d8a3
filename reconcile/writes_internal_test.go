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
