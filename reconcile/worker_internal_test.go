package reconcile

import (
	"math/rand/v2"
	"testing"
)

// A slot that leaves its list moves one other at most: where all behind it moved, a
// pool that stops would cost the square of its workers.
func TestSlotThatLeavesItsListMovesOneOther(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l slotList[int]
	var all []*slot[int]
	for range 1000 {
		s := &slot[int]{}
		l.add(s)
		all = append(all, s)
	}
	here := make(map[*slot[int]]bool)
	for _, s := range all {
		here[s] = true
	}
	for _, i := range r.Perm(len(all)) {
		before := make(map[*slot[int]]int)
		for s := range here {
			before[s] = s.place
		}
		if !l.remove(all[i]) || l.remove(all[i]) {
			t.Fatal("a slot left not once")
		}
		delete(here, all[i])
		moved := 0
		for s := range here {
			if l[s.place] != s {
				t.Fatal("a slot does not know its place")
			}
			if before[s] != s.place {
				moved++
			}
		}
		if moved > 1 || len(l) != len(here) {
			t.Fatalf("%d slots moved, %d of %d are left", moved, len(l), len(here))
		}
	}
}
