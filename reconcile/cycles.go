package reconcile

import (
	"fmt"
	"slices"
	"strings"
)

// checkCycles gives ErrCycle if controllers wake each other in a circle. The graph has the
// kinds as nodes and "a change of a wakes the controller of b" as edges a → b, through mapped
// sources. Kinds written besides are shown, but do not count for cycles: a parent that writes
// its children and watches them is no mistake. Nor does a controller that only deletes: each
// object goes once.
func checkCycles(all []graphNode) error {
	edges := make(map[string][]edge) // by from
	for _, n := range all {
		for _, e := range n.wakes {
			if !n.ends {
				edges[e.from] = append(edges[e.from], e)
			}
		}
	}
	done := make(map[string]bool)
	for _, n := range all {
		if cycle := findCycle(edges, done, nil, n.kind); cycle != nil {
			kinds, arrows := cycle[0].from, make([]string, len(cycle))
			for i, e := range cycle {
				kinds += " → " + e.to
				arrows[i] = fmt.Sprintf("%s wakes controller %q by its source %q", e.from, e.controller, e.source)
			}
			return fmt.Errorf("%w: %s (%s)", ErrCycle, kinds, strings.Join(arrows, "; "))
		}
	}
	return nil
}

// findCycle searches from the kind at, to which path leads.
func findCycle(edges map[string][]edge, done map[string]bool, path []edge, at string) []edge {
	if i := slices.IndexFunc(path, func(e edge) bool { return e.from == at }); i >= 0 {
		return slices.Clone(path[i:])
	}
	if done[at] {
		return nil
	}
	for _, e := range edges[at] {
		if cycle := findCycle(edges, done, append(path, e), e.to); cycle != nil {
			return cycle
		}
	}
	done[at] = true
	return nil
}
