package main

import (
	"fmt"
	"math"
	"strings"
)

const columnWidth, rowHeight = 250.0, 78.0

func (c *canvas) graphLine(s string) error {
	what, rest, _ := strings.Cut(s, " ")
	switch what {
	case "node":
		return c.node(rest)
	case "edge":
		return c.edge(rest)
	}
	return fmt.Errorf("%q is neither a node nor an edge", s)
}

func (c *canvas) node(s string) error {
	var id string
	var column, row float64
	words := strings.SplitN(s, " ", 4)
	if _, err := fmt.Sscanf(s, "%s %g %g", &id, &column, &row); err != nil || len(words) != 4 {
		return fmt.Errorf("node %q: want an id, a column, a row and a label", s)
	}
	if c.nodes == nil {
		c.nodes = map[string]box{}
	}
	b := box{point{margin + 70 + column*columnWidth, head + boxHeight/2 + row*rowHeight}, float64(len(words[3]))*charWidth + 32}
	c.nodes[id] = b
	c.box(b, words[3])
	return nil
}

func (c *canvas) edge(s string) error {
	words := strings.Fields(s)
	if len(words) < 2 {
		return fmt.Errorf("edge %q: want two ids", s)
	}
	from, known := c.nodes[words[0]]
	to, knownToo := c.nodes[words[1]]
	if !known || !knownToo || words[0] == words[1] {
		return fmt.Errorf("edge %q: want the ids of two nodes above", s)
	}
	words = words[2:]
	bend, at := 0.0, 0.5
	for len(words) > 2 {
		into := map[string]*float64{"bend": &bend, "at": &at}[words[0]]
		if into == nil {
			break
		}
		if _, err := fmt.Sscan(words[1], into); err != nil {
			return fmt.Errorf("edge %q: %w", s, err)
		}
		words = words[2:]
	}
	dx, dy := to.center.x-from.center.x, to.center.y-from.center.y
	length := math.Hypot(dx, dy)
	by := point{(from.center.x+to.center.x)/2 - dy/length*bend, (from.center.y+to.center.y)/2 + dx/length*bend}
	begin, end := edgeOf(from, by), edgeOf(to, by)
	c.arrow(begin, by, end)
	mid := func(a, b, d float64) float64 { return (1-at)*(1-at)*a + 2*at*(1-at)*b + at*at*d }
	c.text(point{mid(begin.x, by.x, end.x), mid(begin.y, by.y, end.y)}, "middle", "label", strings.Join(words, " "))
	return nil
}
