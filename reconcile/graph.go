package reconcile

import (
	"fmt"
	"slices"
	"strings"
)

// graphNode is a controller in the dependency graph.
type graphNode struct {
	name   string
	kind   string   // that it is about
	from   []mapped // kinds whose changes are mapped to it
	writes []string // kinds that it writes besides, by its own account
	ends   bool     // its runs only delete, so that no cycle goes on through it
}

// mapped is a source whose objects are of another kind than the keys it adds.
type mapped struct{ kind, source string }

func (c *Controller[K]) node() graphNode {
	n := graphNode{name: c.name, kind: c.kindOf(), writes: c.o.Writes, ends: c.o.OnlyDeletes}
	if n.kind == "" {
		n.kind = c.name // it is about something that is no kind of a store
	}
	for _, f := range c.sources() {
		if f.mapped && f.kind != "" && f.kind != n.kind &&
			!slices.ContainsFunc(n.from, func(m mapped) bool { return m.kind == f.kind }) {
			n.from = append(n.from, mapped{f.kind, f.Name})
		}
	}
	return n
}

// graph has the kinds as nodes and "a change of a wakes the controller of b" as
// edges a → b, through mapped sources. Kinds written besides are shown, but
// do not count for cycles: a parent that writes its children and watches them is
// no mistake. Nor does a controller that only deletes: each object goes once.
type graph []graphNode

func graphOf(members []*member) (g graph) {
	for _, mb := range members {
		if c, ok := mb.Runner.(controller); ok {
			g = append(g, c.node())
		}
	}
	return g
}

// edge is one source of one controller.
type edge struct{ from, to, controller, source string }

func (e edge) String() string {
	return fmt.Sprintf("%s wakes controller %q by its source %q", e.from, e.controller, e.source)
}

// cycle gives the edges of one cycle; nil: there is none.
func (g graph) cycle() []edge {
	edges := make(map[string][]edge)
	for _, n := range g {
		if n.ends {
			continue
		}
		for _, m := range n.from {
			edges[m.kind] = append(edges[m.kind], edge{m.kind, n.kind, n.name, m.source})
		}
	}
	done := make(map[string]bool)
	for _, n := range g {
		if path := findCycle(edges, done, nil, n.kind); path != nil {
			return path
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

// describeCycle writes a cycle's kinds, and which controller and source each arrow is.
func describeCycle(cycle []edge) string {
	kinds, arrows := cycle[0].from, make([]string, len(cycle))
	for i, e := range cycle {
		kinds += " → " + e.to
		arrows[i] = e.String()
	}
	return kinds + " (" + strings.Join(arrows, "; ") + ")"
}

// Mermaid draws which kind's changes wake which controller, as a Mermaid flow
// chart, the same text every time. Dotted arrows are writes that a controller
// says it makes (Options.Writes).
func (m *Manager) Mermaid() string {
	m.mu.Lock()
	g := graphOf(m.members)
	m.mu.Unlock()
	slices.SortFunc(g, func(a, b graphNode) int { return strings.Compare(a.name, b.name) })
	ids := make(map[string]string) // names may hold what Mermaid cannot read
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	node := func(name, shape string) string {
		key := shape + name
		if ids[key] == "" {
			ids[key] = fmt.Sprintf("n%d", len(ids))
			fmt.Fprintf(&b, "  %s"+shape+"\n", ids[key], strings.ReplaceAll(name, `"`, "#quot;"))
		}
		return ids[key]
	}
	const kind, ctl = `(["%s"])`, `["%s"]`
	for _, n := range g {
		c := node(n.name, ctl)
		fmt.Fprintf(&b, "  %s --> %s\n", node(n.kind, kind), c)
		for _, m := range slices.SortedFunc(slices.Values(n.from), func(a, b mapped) int { return strings.Compare(a.kind, b.kind) }) {
			fmt.Fprintf(&b, "  %s -->|mapped| %s\n", node(m.kind, kind), c)
		}
		for _, to := range slices.Sorted(slices.Values(n.writes)) {
			fmt.Fprintf(&b, "  %s -.-> %s\n", c, node(to, kind))
		}
	}
	return b.String()
}
