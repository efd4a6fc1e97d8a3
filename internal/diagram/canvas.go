package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

const (
	charWidth = 7.0 // of the text's font, about
	margin    = 16.0
	head      = 44.0 // the title's height
	boxHeight = 34.0
)

// canvas collects shapes. Lines lie under boxes, and boxes under texts.
type canvas struct {
	title               string
	lines, boxes, texts strings.Builder
	width, height       float64
	nodes               map[string]box // of a graph
	actors              []actor        // of a sequence
	y                   float64        // of a sequence's last line
	plot                *plot          // of a chart; nil before its axes
}

type (
	point struct{ x, y float64 }
	box   struct {
		center point
		width  float64
	}
)

func (c *canvas) grow(x, y float64) {
	c.width, c.height = max(c.width, x+margin), max(c.height, y+margin)
}

func (c *canvas) box(b box, label string) {
	fmt.Fprintf(&c.boxes, `<rect class="box" x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="6"/>`+"\n",
		b.center.x-b.width/2, b.center.y-boxHeight/2, b.width, boxHeight)
	c.text(b.center, "middle", "name", label)
	c.grow(b.center.x+b.width/2, b.center.y+boxHeight/2)
}

// text writes at a point, which is the middle of the text's height.
func (c *canvas) text(at point, anchor, class, s string) {
	fmt.Fprintf(&c.texts, `<text class="%s" x="%.0f" y="%.0f" text-anchor="%s">%s</text>`+"\n", class, at.x, at.y+4, anchor, html.EscapeString(s))
	switch w := float64(len([]rune(s))) * charWidth; anchor {
	case "middle":
		c.grow(at.x+w/2, at.y)
	case "start":
		c.grow(at.x+w, at.y)
	}
}

// arrow goes from one point to another, by way of a third that bends it.
func (c *canvas) arrow(from, by, to point) {
	fmt.Fprintf(&c.lines, `<path class="line" d="M%.0f %.0fQ%.0f %.0f %.0f %.0f" marker-end="url(#tip)"/>`+"\n", from.x, from.y, by.x, by.y, to.x, to.y)
}

func (c *canvas) rule(class string, from, to point) {
	fmt.Fprintf(&c.lines, `<path class="%s" d="M%.0f %.0fL%.0f %.0f"/>`+"\n", class, from.x, from.y, to.x, to.y)
}

const style = `.page{fill:#fff}.box{fill:#eef4fb;stroke:#2a7de1}.line{fill:none;stroke:#555}.life{stroke:#bbb;stroke-dasharray:3 4}` +
	`text{fill:#222}.label{font-size:12px;paint-order:stroke;stroke:#fff;stroke-width:4px}.phase{font-style:italic}.tip{fill:#555}` +
	`@media(prefers-color-scheme:dark){.page{fill:#0d1117}.box{fill:#15233a}.line{stroke:#aaa}.life{stroke:#444}` +
	`text{fill:#ddd}.label{stroke:#0d1117}.tip{fill:#aaa}}`

func (c *canvas) svg() string {
	c.grow(float64(len(c.title))*charWidth*1.1+margin, 0)
	title := html.EscapeString(c.title)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" font-family="sans-serif" font-size="13" role="img">`+"\n"+
		`<title>%s</title><style>%s</style>`+"\n"+
		`<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>`+"\n"+
		`<rect class="page" width="100%%" height="100%%" rx="6"/>`+"\n"+
		`<text x="%.0f" y="28" font-size="15" font-weight="bold">%s</text>`+"\n%s%s%s</svg>\n",
		c.width, c.height, c.width, title, style, margin, title, c.lines.String(), c.boxes.String(), c.texts.String())
}

// edgeOf is where the line from the box's center to a point leaves the box.
func edgeOf(b box, to point) point {
	dx, dy := to.x-b.center.x, to.y-b.center.y
	t := min((b.width/2+2)/math.Abs(dx), (boxHeight/2+2)/math.Abs(dy)) // of 0 it is infinite, and not the less
	return point{b.center.x + t*dx, b.center.y + t*dy}
}
