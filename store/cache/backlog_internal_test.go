package cache

import (
	"testing"

	"github.com/tendhq/tend/store"
)

// A change of an object that its consumer has not seen yet is news, also when it is folded
// into the change that showed the object with its shard: a source leaves out what is initial.
//
// promise Q1
func TestChangeFoldedIntoAnInitialOneIsNews(t *testing.T) {
	type object = store.Meta
	version := func(name string, r store.Revision) *object {
		return &object{Name: name, Revision: r}
	}
	q := newBacklog(1)
	add := func(name string, old, now *object, initial bool) {
		q.add(change{Key: store.Key{Name: name}, Old: old, New: now, Revision: now.Revision, Initial: initial})
	}
	first := version("a", 1)
	add("a", nil, first, true)
	add("b", nil, version("b", 2), true)
	add("a", first, version("a", 3), false)
	got := q.take(nil)
	if len(got) != 2 || got[1].New.Revision != 3 || got[1].Old != nil || got[1].Initial || !got[0].Initial {
		t.Errorf("got %+v, want b as it was, and then the newest a as news", got)
	}
}

// As many changes as the limit says are kept one by one, and with one more they are one per key.
func TestBacklogIsFoldedBeyondItsLimit(t *testing.T) {
	for n, want := range map[int]int{3: 3, 4: 1} {
		q := newBacklog(3)
		for i := range n {
			q.add(change{Key: store.Key{Name: "a"}, New: &store.Meta{Name: "a", Revision: store.Revision(i + 1)}})
		}
		if got := q.take(nil); len(got) != want || got[len(got)-1].New.Revision != store.Revision(n) {
			t.Errorf("%d changes of an object are %+v, want %d, the newest last", n, got, want)
		}
	}
}
