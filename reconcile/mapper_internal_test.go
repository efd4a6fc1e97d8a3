package reconcile

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// A shard is gained while an object changes: the list that is read for the shard
// holds the object as it was, and may come to its place in that list after the
// change. What is mapped is the newest all the same, and for every shard.
//
// Negative control: with the later of two steps deciding what is mapped, what the
// object refers to since its change was never woken.
func TestListingAgainDoesNotHideANewerChange(t *testing.T) {
	type object = store.Object[int, int]
	v1, v2 := &object{Meta: store.Meta{Revision: 1}}, &object{Meta: store.Meta{Revision: 2}}
	name := func(o *object) string { return map[*object]string{v1: "v1", v2: "v2", nil: "nothing"}[o] }
	type steps = []step[int, int]
	change := step[int, int]{old: v1, now: v2, at: 2}
	gone := step[int, int]{old: v1, at: 2}
	listed := func(o *object, shard int) step[int, int] {
		return step[int, int]{old: o, now: o, initial: true, only: []int{shard}}
	}
	for what, c := range map[string]struct {
		steps steps
		now   *object
		only  []int
	}{
		"listed late":               {steps{change, listed(v1, 3)}, v2, nil},
		"listed early":              {steps{listed(v1, 3), change}, v2, nil},
		"gone, and listed late":     {steps{gone, listed(v1, 3)}, nil, nil},
		"gone, and listed early":    {steps{listed(v1, 3), gone}, nil, nil},
		"listed twice":              {steps{listed(v1, 3), listed(v2, 4)}, v2, []int{3, 4}},
		"listed early and late":     {steps{listed(v1, 3), change, listed(v1, 4)}, v2, nil},
		"listed late after another": {steps{change, listed(v1, 3), listed(v1, 4)}, v2, nil},
	} {
		t.Run(what, func(t *testing.T) {
			q, err := queue.New(&queue.Options[store.Key]{Name: "test"})
			if err != nil {
				t.Fatal(err)
			}
			p := &mapping[store.Key, int, int]{q: q, todo: make(map[store.Key]step[int, int])}
			key := store.Key{Name: "a"}
			for _, s := range c.steps {
				if err := p.note(key, s); err != nil {
					t.Fatal(err)
				}
			}
			got := p.todo[key]
			if got.old != v1 || got.now != c.now || !slices.Equal(got.only, c.only) {
				t.Errorf("maps %v for shards %v, want %v for %v", name(got.now), got.only, name(c.now), c.only)
			}
		})
	}
}

// A change that comes while the mapper fails with the one before is not lost: the retry
// maps from what was mapped last to the newest object.
//
// promise R1. Negative control: with the failed step put back over the newer one, the
// retry mapped the object of before.
func TestChangeDuringAFailedMappingIsMappedByTheRetry(t *testing.T) {
	type object = store.Object[int, int]
	v1, v2, v3 := &object{Meta: store.Meta{Revision: 1}}, &object{Meta: store.Meta{Revision: 2}}, &object{Meta: store.Meta{Revision: 3}}
	q, err := queue.New(&queue.Options[store.Key]{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	key := store.Key{Name: "a"}
	p := &mapping[store.Key, int, int]{q: q, to: new(sink[store.Key]), todo: make(map[store.Key]step[int, int])}
	calls := 0
	p.mapper = func(_ context.Context, old, now *object) ([]store.Key, error) {
		if calls++; calls == 1 {
			return nil, errors.Join(errors.New("not yet"), p.note(key, step[int, int]{old: v2, now: v3, at: 3}))
		}
		if old != v1 || now != v3 {
			t.Errorf("the retry maps from revision %d to %d, want from 1 to 3", old.Revision, now.Revision)
		}
		return nil, nil
	}
	if err := p.note(key, step[int, int]{old: v1, now: v2, at: 2}); err != nil {
		t.Fatal(err)
	}
	if err := p.mapOne(t.Context(), key); err == nil {
		t.Error("the first mapping succeeded")
	}
	if err := p.mapOne(t.Context(), key); err != nil || calls != 2 {
		t.Errorf("the retry returned %v after %d calls", err, calls)
	}
}
