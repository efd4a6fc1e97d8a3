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
	from   []string // kinds whose changes are mapped to it
	writes []string // kinds that it writes besides, by its own account
}

func (c *Controller[K]) node() graphNode {
	n := graphNode{name: c.name, kind: c.kindOf(), writes: c.o.Writes}
	if n.kind == "" {
		n.kind = c.name // it is about something that is no kind of a store
	}
	for _, f := range c.sources() {
		if f.mapped && f.kind != "" && f.kind != n.kind && !slices.Contains(n.from, f.kind) {
			n.from = append(n.from, f.kind)
		}
	}
	return n
}

// graph has the kinds as nodes and "a change of a wakes the controller of b" as
// edges a → b, through mapped sources. Kinds written besides are shown, but
// do not count for cycles: a parent that writes its children and watches them is
// no mistake.
type graph []graphNode

func graphOf(members []*member) (g graph) {
	for _, mb := range members {
		if c, ok := mb.Runner.(controller); ok {
			g = append(g, c.node())
		}
	}
	return g
}

// cycle gives the kinds of one cycle, the first one again at the end; nil: there
// is none.
func (g graph) cycle() []string {
	edges := make(map[string][]string)
	for _, n := range g {
		for _, from := range n.from {
			edges[from] = append(edges[from], n.kind)
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

func findCycle(edges map[string][]string, done map[string]bool, path []string, at string) []string {
	if i := slices.Index(path, at); i >= 0 {
		return append(slices.Clone(path[i:]), at)
	}
	if done[at] {
		return nil
	}
	path = append(path, at)
	for _, to := range edges[at] {
		if cycle := findCycle(edges, done, path, to); cycle != nil {
			return cycle
		}
	}
	done[at] = true
	return nil
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
		for _, from := range slices.Sorted(slices.Values(n.from)) {
			fmt.Fprintf(&b, "  %s -->|mapped| %s\n", node(from, kind), c)
		}
		for _, to := range slices.Sorted(slices.Values(n.writes)) {
			fmt.Fprintf(&b, "  %s -.-> %s\n", c, node(to, kind))
		}
	}
	return b.String()
}
