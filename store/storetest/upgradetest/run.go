package upgradetest

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// Run upgrades a program from a version to the next, and goes back in the middle of it: servers of
// version 1, then of both, then of version 2; of both again, then of version 1 alone, then of version 2.
// The servers of both versions share shards; external resources, a provider, handlers and
// reconcile.For run the same objects. Objects are made, edited and deleted through each version
// at each step. Run fails if a write to the cloud is made from a spec that was read in part, and waits
// at each step until everything is served that is to be. Open gives each server a backend of the same
// store, which Run does not close; its Leaser is used.
func Run(t *testing.T, open func() store.Backend) { upgrade(t, open, func() {}) }

// upgrade is Run. It calls linger at each step, when everything is as it is to stay.
func upgrade(t *testing.T, open func() store.Backend, linger func()) {
	w := newWorld()
	declarer1, declarer2 := first.operate(t, w, open()), second.operate(t, w, open())

	one := first.start(t, w, open(), "one")
	declarer1.create(t, "made", append(names("a", 12), names("gone", 6)...))
	w.awaitServed(t, "version 1 alone", false)
	linger()

	// Forwards: both. What version 1 declares is served by either.
	w.begin()
	two := second.start(t, w, open(), "two")
	w.awaitRuns(t, "version 2 joins", 2, false)
	declarer1.create(t, "made beside", names("b", 12))
	w.awaitServed(t, "version 2 beside, and version 1 declares", false)
	w.begin()
	declarer2.edit(t, "edited", names("a", 12))
	declarer2.delete(t, names("gone", 6))
	w.awaitServed(t, "version 2 beside, and version 2 declares", true)
	w.awaitRuns(t, "version 1 leaves alone what version 2 declares", 1, true)
	linger()
	standsOff(t, w, one)
	one.stop()
	w.awaitServed(t, "version 2 alone", false)
	w.rewrite(t, declarer1.store, two.store)
	linger()

	// Backwards: both, then version 1 alone.
	w.begin()
	one = first.start(t, w, open(), "three")
	w.awaitRuns(t, "version 1 comes back, and leaves alone what it finds", 1, true)
	declarer1.create(t, "made later", names("c", 12))
	declarer2.create(t, "made by version 2", names("d", 12))
	declarer2.edit(t, "edited again", names("a", 12))
	w.awaitServed(t, "version 1 beside", true)
	linger()
	declarer2.delete(t, names("d", 6))
	two.stop()
	declarer1.create(t, "made in the end", names("e", 12))
	w.awaitServed(t, "version 1 alone again", true)
	linger()
	standsOff(t, w, one)
	for _, name := range names("a", 12) {
		o := must(one.store.Get(t.Context(), store.Key{Name: name}))(t)
		if !o.Newer || o.Ready() {
			t.Errorf("to version 1, %s of version 2 is Newer %v, Ready %v", name, o.Newer, o.Ready())
		}
	}

	// And forwards for good.
	two = second.start(t, w, open(), "four")
	one.stop()
	w.awaitServed(t, "version 2 alone for good", false)
	w.rewrite(t, declarer1.store, two.store)
	linger()
	two.stop()
}

// rewrite ends a rollout: when each object is as declared, nothing is stored any more as version 1 did.
func (w *world) rewrite(t *testing.T, before *store.Store[specV1, none], now *store.Store[specV2, none]) {
	t.Helper()
	must(store.Rewrite(t.Context(), now))(t)
	w.await(t, "with version 2 alone", func() (missing []string) {
		for name := range w.declared {
			o, err := now.Get(t.Context(), store.Key{Name: name})
			if gone := errors.Is(err, store.ErrNotFound); gone && w.deleted[name] {
				continue
			}
			if err != nil || w.deleted[name] || o.Spec.Content != w.wantLocked(name) || !o.Ready() {
				missing = append(missing, name)
				continue
			}
			if old, err := before.Get(t.Context(), store.Key{Name: name}); err != nil || !old.Newer {
				t.Errorf("after Rewrite %s is as version 1 stored it (error %v)", name, err)
			}
		}
		return missing
	})
}

// standsOff checks what an old server does beside its runs: it prunes nothing, and no declared set of
// its own touches what a newer version stored.
func standsOff(t *testing.T, w *world, s *server[specV1]) {
	t.Helper()
	w.mu.Lock()
	all := w.allLocked()
	w.mu.Unlock()
	v := must(external.NewInventory(&external.InventoryOptions[specV1, none, string]{
		Store: s.store, Installation: "acme",
		List: func(context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for _, r := range all {
					if r.controller == "external" && !yield(r.name, nil) {
						return
					}
				}
				yield("orphan", nil)
			}
		},
		Get:  func(_ context.Context, id string) (string, bool, error) { return id, true, nil },
		ID:   func(id string) string { return id },
		IDOf: func(o *store.Object[specV1, none]) string { return o.Name },
		Owner: func(id string) (external.Mark, bool) {
			return external.Mark{Installation: "acme", Kind: kind, Key: store.Key{Name: id}}, true
		},
		Compare: func(*store.Object[specV1, none], string) external.Observation {
			return external.Observation{Exists: true, UpToDate: true}
		},
		Delete: func(_ context.Context, id string) error { w.remove(1, resource{"external", id}); return nil },
	}))(t)
	if _, err := v.Prune(t.Context(), external.Cap{Count: 100, Percent: 100}); !errors.Is(err, store.ErrNewer) {
		t.Errorf("version 1 prunes beside objects of version 2: error %v, want ErrNewer", err)
	}
	b := s.store.Backend()
	for what, set := range map[string][]*store.Object[specV1, none]{
		"a set without it":  nil,
		"a set of its spec": {{Meta: store.Meta{Name: "s"}, Spec: specV1{"other"}}},
	} {
		two := must(store.New(b, "declared", second.options))(t)
		must(two.Apply(t.Context(), []*store.Object[specV2, none]{{Meta: store.Meta{Name: "s"}, Spec: specV2{"text"}}}, "file", 10))(t)
		one := must(store.New[specV1, none](b, "declared", nil))(t)
		if _, err := one.Apply(t.Context(), set, "file", 10); !errors.Is(err, store.ErrNewer) {
			t.Errorf("version 1 applies %s over an object of version 2: error %v, want ErrNewer", what, err)
		}
		if o := must(two.Get(t.Context(), store.Key{Name: "s"}))(t); o.Spec.Content != "text" {
			t.Errorf("after %s was applied the object is %+v", what, o.Spec)
		}
	}
}
