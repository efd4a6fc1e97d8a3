package reconcile

import (
	"fmt"
	"testing"
)

// Kinds that many ways lead to are looked at once: of seventeen kinds, each woken by the one before
// through two controllers, there are 2^16 ways. What the search allocates grows with its steps.
//
// Negative control: the mutant "a kind is searched again along each way to it".
func TestGraphOfManyWaysIsSearchedOnce(t *testing.T) {
	var all []graphNode
	for i := range 17 {
		from, to := fmt.Sprint(i), fmt.Sprint(i+1)
		for _, name := range []string{"first", "second"} {
			all = append(all, graphNode{name: name + to, kind: to, wakes: []edge{{from, to, name + to, from}}})
		}
	}
	if n := testing.AllocsPerRun(1, func() {
		if err := checkCycles(all); err != nil {
			t.Error(err)
		}
	}); n > 1000 {
		t.Errorf("the search allocated %v times", n)
	}
}
