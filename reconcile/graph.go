package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tendhq/tend/internal/introspect"
)

// Graph returns the same graph every time, as long as nothing is registered and no
// source added.
func (m *Manager) Graph() introspect.Graph {
	all := graphOf(m.present())
	slices.SortFunc(all, func(a, b graphNode) int { return strings.Compare(a.name, b.name) })
	var g introspect.Graph
	for _, n := range all {
		kind := func(name string) int { return place(&g, introspect.Node{Name: name}) }
		c := place(&g, introspect.Node{Name: n.name, Controller: true})
		g.Edges = append(g.Edges, introspect.Edge{From: kind(n.kind), To: c})
		for _, r := range n.wokenBy() {
			g.Edges = append(g.Edges, introspect.Edge{From: kind(r.Kind), To: c, Mapped: true, As: r.As})
		}
		for _, to := range slices.Sorted(slices.Values(n.writes)) {
			g.Edges = append(g.Edges, introspect.Edge{From: c, To: kind(to), Writes: true})
		}
	}
	return g
}

// place finds a node, or adds it.
func place(g *introspect.Graph, n introspect.Node) int {
	i := slices.Index(g.Nodes, n)
	if i < 0 {
		i = len(g.Nodes)
		g.Nodes = append(g.Nodes, n)
	}
	return i
}

// wokenBy are the kinds whose changes wake keys of another object than the changed one,
// in order, each once for each role.
func (n graphNode) wokenBy() []introspect.Relation {
	all := slices.Clone(n.relations)
	for _, e := range n.wakes {
		if !slices.ContainsFunc(all, func(r introspect.Relation) bool { return r.Kind == e.from }) {
			all = append(all, introspect.Relation{Kind: e.from})
		}
	}
	slices.SortFunc(all, func(a, b introspect.Relation) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), cmp.Compare(a.As, b.As))
	})
	return slices.Compact(all)
}

// Mermaid draws Graph as a Mermaid flow chart, the same text every time. Dotted
// arrows are writes. An arrow from a kind to a controller that runs other keys than that
// of the changed object says what the object is to those: needed, watched, owner, owned
// or, where no source says so, mapped.
func (m *Manager) Mermaid() string {
	g := m.Graph()
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, n := range g.Nodes {
		shape := `(["%s"])`
		if n.Controller {
			shape = `["%s"]`
		}
		fmt.Fprintf(&b, "  n%d"+shape+"\n", i, strings.ReplaceAll(n.Name, `"`, "#quot;"))
	}
	for _, e := range g.Edges {
		arrow := "-->"
		switch {
		case e.Writes:
			arrow = "-.->"
		case e.Mapped:
			arrow = "-->|" + string(cmp.Or(e.As, "mapped")) + "|"
		}
		fmt.Fprintf(&b, "  n%d %s n%d\n", e.From, arrow, e.To)
	}
	return b.String()
}
