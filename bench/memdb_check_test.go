//go:build peers

package bench

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/tendhq/tend/store"
)

// A peer that did not do the work would look fast. Negative control: with the
// comparison of revisions taken out of update, the first of these fails.

func TestGoMemdbRefusesDuplicatesAndStaleWrites(t *testing.T) {
	m := newMemdb(t, 2)
	if err := m.create(newThing(1)); !errors.Is(err, store.ErrExists) {
		t.Errorf("creating a thing again: %v, want %v", err, store.ErrExists)
	}
	key := newThing(1).Key()
	first, _, err := m.shared(key)
	if err != nil || first == nil || first.Generation != 1 {
		t.Fatalf("created thing is %+v, %v", first, err)
	}
	mine, yours := copyByHand(first), copyByHand(first)
	mine.Spec.A = "mine"
	if err := m.update(mine); err != nil {
		t.Fatal(err)
	}
	yours.Spec.A = "yours"
	if err := m.update(yours); !errors.Is(err, store.ErrConflict) {
		t.Errorf("writing over what was not read: %v, want %v", err, store.ErrConflict)
	}
	now, _, err := m.shared(key)
	if err != nil {
		t.Fatal(err)
	}
	if now.Spec.A != "mine" || now.Generation != 2 || now.Revision <= first.Revision {
		t.Errorf("stored thing is %+v, want mine in its second generation", now)
	}
	if first.Spec.A != newThing(1).Spec.A {
		t.Error("an update wrote to what an earlier reader holds")
	}
	same := copyByHand(now)
	same.Status.ARN = "arn:new"
	if err := m.update(same); err != nil || same.Generation != 2 {
		t.Errorf("a write of the status alone: %v, generation %d, want 2", err, same.Generation)
	}
	if err := m.update(newThing(7)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("updating what is not there: %v, want %v", err, store.ErrConflict)
	}
}

func TestGoMemdbFindsAndListsEveryThing(t *testing.T) {
	const n = 1000
	m, listed := newMemdb(t, n), map[store.Key]bool{}
	if err := m.each(func(o *thing) { listed[o.Key()] = true }); err != nil {
		t.Fatal(err)
	}
	for _, k := range thingKeys(n) {
		if o, _, err := m.shared(k); err != nil || o == nil || o.Key() != k || !listed[k] {
			t.Fatalf("%v: got %+v, %v, listed %v", k, o, err, listed[k])
		}
	}
	if len(listed) != n {
		t.Errorf("%d things listed, want %d", len(listed), n)
	}
}

func TestGoMemdbWatchersSeeTheLastWrite(t *testing.T) {
	const writes, watchers = 500, 10
	m, key := newMemdb(t, 1), newThing(0).Key()
	o, _, err := m.shared(key)
	if err != nil {
		t.Fatal(err)
	}
	last := o.Revision + writes
	var all sync.WaitGroup
	for range watchers {
		all.Go(func() {
			var before store.Revision
			if err := m.follow(context.Background(), key, func(o *thing) bool {
				if o.Revision <= before {
					t.Errorf("revision %d seen after %d", o.Revision, before)
				}
				before = o.Revision
				return o.Revision < last
			}); err != nil {
				t.Error(err)
			}
		})
	}
	for range writes {
		o = copyByHand(o)
		if err := m.update(o); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
}
