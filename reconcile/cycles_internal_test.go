package reconcile

import (
	"fmt"
	"testing"
)

// Kinds that many ways lead to are looked at once: of forty kinds, each woken by the one before through
// two controllers, there are 2^39 ways.
//
// Negative control: the mutant "a kind is searched again along each way to it".
func TestGraphOfManyWaysIsSearchedOnce(t *testing.T) {
	var all []graphNode
	for i := range 40 {
		from, to := fmt.Sprint(i), fmt.Sprint(i+1)
		for _, name := range []string{"first", "second"} {
			all = append(all, graphNode{name: name + to, kind: to, wakes: []edge{{from, to, name + to, from}}})
		}
	}
	if err := checkCycles(all); err != nil {
		t.Error(err)
	}
}
