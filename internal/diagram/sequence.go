package main

import (
	"fmt"
	"slices"
	"strings"
)

const lineHeight = 32.0

type actor struct {
	id string
	x  float64
}

func (c *canvas) sequenceLine(s string) error {
	if ids, ok := strings.CutPrefix(s, "actors "); ok && c.actors == nil {
		names := strings.Fields(ids)
		width := max(150, 750/float64(len(names)))
		for i, id := range names {
			a := actor{strings.ReplaceAll(id, "_", " "), margin + width*(float64(i)+0.5)}
			c.actors = append(c.actors, a)
			c.box(box{point{a.x, head + boxHeight/2}, 124}, a.id)
		}
		c.y = head + boxHeight
		return nil
	}
	if len(c.actors) == 0 {
		return fmt.Errorf("%q comes before the actors", s)
	}
	before := c.y
	c.y += lineHeight
	defer func() { // the lives of the actors go on
		for _, a := range c.actors {
			c.rule("life", point{a.x, before}, point{a.x, c.y})
		}
		c.grow(0, c.y)
	}()
	if text, ok := strings.CutPrefix(s, "phase "); ok {
		c.rule("life", point{margin, c.y - 10}, point{c.actors[len(c.actors)-1].x + 75, c.y - 10})
		c.text(point{margin, c.y + 2}, "start", "label phase", text)
		c.y += 10
		return nil
	}
	who, text, ok := strings.Cut(s, ": ")
	from, to, isMessage := strings.Cut(who, " -> ")
	if !ok {
		return fmt.Errorf("%q is no message, no action and no phase", s)
	}
	begin, known := c.actor(from)
	end, knownToo := c.actor(to)
	switch {
	case !known || isMessage && (!knownToo || from == to):
		return fmt.Errorf("%q: want actors of the line above", s)
	case isMessage:
		c.arrow(point{begin, c.y}, point{(begin + end) / 2, c.y}, point{end, c.y})
		c.text(point{(begin + end) / 2, c.y - 10}, "middle", "label", text)
	default:
		fmt.Fprintf(&c.boxes, `<rect class="box" x="%.0f" y="%.0f" width="8" height="18"/>`+"\n", begin-4, c.y-9)
		c.text(point{begin + 10, c.y}, "start", "label", text)
	}
	return nil
}

func (c *canvas) actor(id string) (x float64, known bool) {
	i := slices.IndexFunc(c.actors, func(a actor) bool { return a.id == strings.ReplaceAll(id, "_", " ") })
	if i < 0 {
		return 0, false
	}
	return c.actors[i].x, true
}
