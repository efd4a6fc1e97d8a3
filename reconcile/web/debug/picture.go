package debug

import (
	"fmt"

	"github.com/tendhq/tend/internal/introspect"
)

// A picture is a drawing of boxes in columns, with arrows between them, as the page
// writes it in SVG.
type picture struct {
	Title         string
	Width, Height int
	Boxes         []box
	Arrows        []arrow
}

type box struct {
	Name, Text, Link    string // Text is Name, cut to the box's width
	X, Y, Width, Height int
	Round               int // the radius of the corners
	TextX, TextY        int
}

type arrow struct {
	Path        string
	Dashed, Bad bool
}

const (
	boxWidth, boxHeight = 170, 30
	columnGap, rowGap   = 70, 14
	boxRunes            = 22  // of a name that fit into a box
	maxBoxes            = 200 // a picture of more is of no use
)

func (p *printer) graph(g introspect.Graph) {
	s := section{Title: "What wakes what", Empty: "nothing is registered", Columns: []string{"from", "to", "how"}}
	for _, e := range g.Edges {
		from, to := g.Nodes[e.From], g.Nodes[e.To]
		how := "a change of the kind wakes the controller"
		switch {
		case e.Writes:
			how = "the controller writes the kind"
		case e.Mapped:
			how = "a change of the kind wakes other keys of the controller"
		}
		s.Rows = append(s.Rows, []cell{nodeCell(from), nodeCell(to), plain(how)})
	}
	if n := len(g.Nodes); n > 0 && n <= maxBoxes {
		d := drawing{title: "Which kinds wake which controllers; the same as a table follows"}
		for _, n := range g.Nodes {
			one := drawnNode{name: n.Name, square: n.Controller}
			if n.Controller {
				one.link = link("c", n.Name)
			}
			d.nodes = append(d.nodes, one)
		}
		for _, e := range g.Edges {
			d.edges = append(d.edges, drawnEdge{from: e.From, to: e.To, dashed: e.Writes})
		}
		s.Picture = d.draw()
	}
	p.add(s)
}

func nodeCell(n introspect.Node) cell {
	if n.Controller {
		return linked(n.Name, link("c", n.Name))
	}
	return looks("name", n.Name)
}

// A drawing is what a picture is made of: nodes, and edges that lead from left to right.
type drawing struct {
	title string
	nodes []drawnNode
	edges []drawnEdge
}

type drawnNode struct {
	name, link string
	square     bool
}

type drawnEdge struct {
	from, to    int
	dashed, bad bool
}

// draw places each node in the column after the last of those that lead to it.
// Arrows that close a circle go back.
func (g drawing) draw() *picture {
	columns := g.ranks()
	p := &picture{Title: g.title}
	used := make(map[int]int) // boxes in each column
	for i, n := range g.nodes {
		b := box{Name: clean(n.name), Text: boxText(n.name), Link: n.link, Width: boxWidth, Height: boxHeight, Round: boxHeight / 2}
		if n.square {
			b.Round = 3
		}
		column := columns[i]
		b.X, b.Y = 1+column*(boxWidth+columnGap), 1+used[column]*(boxHeight+rowGap)
		b.TextX, b.TextY = b.X+boxWidth/2, b.Y+boxHeight/2+5
		used[column]++
		p.Boxes = append(p.Boxes, b)
		p.Width, p.Height = max(p.Width, b.X+boxWidth+1), max(p.Height, b.Y+boxHeight+1)
	}
	for _, e := range g.edges {
		p.Arrows = append(p.Arrows, arrow{p.path(p.Boxes[e.from], p.Boxes[e.to]), e.dashed, e.bad})
	}
	return p
}

// path leads from the right side of a box to the left side of one further right, and
// otherwise from the lower side to the lower side of the other.
func (p *picture) path(from, to box) string {
	y1, y2 := from.Y+boxHeight/2, to.Y+boxHeight/2
	if to.X > from.X {
		x1, x2 := from.X+boxWidth, to.X
		middle := (x1 + x2) / 2
		return fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x1, y1, middle, y1, middle, y2, x2, y2)
	}
	x1, x2 := from.X+boxWidth/2, to.X+boxWidth/2
	low := max(from.Y, to.Y) + boxHeight + 2*rowGap
	p.Height = max(p.Height, low+rowGap)
	return fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x1, from.Y+boxHeight, x1, low, x2, low, x2, to.Y+boxHeight)
}

// ranks gives the column of each node: 0 for those that nothing leads to, and for
// the others one more than the highest of those that lead to them. An edge that
// closes a circle, in a search from the first node on, does not count.
func (g drawing) ranks() []int {
	next := make([][]int, len(g.nodes))
	into := make([]int, len(g.nodes)) // wakes that lead to a node
	for _, e := range g.edges {
		next[e.from] = append(next[e.from], e.to)
		into[e.to]++
	}
	column := make([]int, len(g.nodes))
	onPath := make([]bool, len(g.nodes))
	budget := 100_000 // of steps: a dense graph has exponentially many paths
	var visit func(i int)
	visit = func(i int) {
		onPath[i] = true
		for _, j := range next[i] {
			if budget--; budget > 0 && !onPath[j] && column[j] <= column[i] {
				column[j] = column[i] + 1
				visit(j)
			}
		}
		onPath[i] = false
	}
	for _, roots := range []bool{true, false} { // those in circles come last
		for i := range g.nodes {
			if (into[i] == 0) == roots && column[i] == 0 {
				visit(i)
			}
		}
	}
	return column
}

// boxText cuts a name to the width of a box.
func boxText(name string) string {
	runes := []rune(clean(name))
	if len(runes) <= boxRunes {
		return string(runes)
	}
	return string(runes[:boxRunes-1]) + "…"
}
