package reconcile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tendhq/tend/internal/introspect"
)

// graphNode is a controller in the dependency graph.
type graphNode struct {
	name      string
	kind      string // that it is about
	wakes     []edge // its sources of other kinds, one of each kind
	relations []introspect.Relation
	writes    []string // kinds that it writes besides, by its own account
	ends      bool     // its runs only delete, so that no cycle goes on through it
}

// edge is one source of one controller: a change of an object of the kind from wakes
// objects of the kind to.
type edge struct{ from, to, controller, source string }

func (m *machine[K]) node() graphNode {
	n := graphNode{name: m.k.name, kind: m.k.kindOf(), writes: m.k.o.Writes, ends: m.k.o.OnlyDeletes}
	if n.kind == "" {
		n.kind = m.k.name // it is about something that is no kind of a store
	}
	for _, f := range m.sources.allFeeds() {
		n.relations = append(n.relations, f.Relations...)
		if f.mapped && f.kind != "" && f.kind != n.kind && !slices.ContainsFunc(n.wakes, func(e edge) bool { return e.from == f.kind }) {
			n.wakes = append(n.wakes, edge{f.kind, n.kind, n.name, f.Name})
		}
	}
	return n
}

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
