package reconcile

import (
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
