package main

import (
	"fmt"
	"strconv"
	"strings"
)

const plotWidth, plotHeight, plotLeft = 560.0, 260.0, margin + 64

// plot is the area of a chart.
type plot struct{ x, y float64 } // the greatest values

func (c *canvas) chartLine(s string) error {
	what, rest, _ := strings.Cut(s, " ")
	switch {
	case what == "axes" && c.plot == nil:
		return c.axes(rest)
	case c.plot != nil && (what == "line" || what == "bound"):
		return c.curve(what, rest)
	}
	return fmt.Errorf("%q is not axes, and then a line or a bound", s)
}

// at is the place of two values.
func (c *canvas) at(x, y float64) point {
	return point{plotLeft + x/c.plot.x*plotWidth, head + plotHeight*(1-y/c.plot.y)}
}

func (c *canvas) axes(s string) error {
	c.plot = &plot{}
	words := strings.SplitN(s, " ", 3)
	if _, err := fmt.Sscan(s, &c.plot.x, &c.plot.y); err != nil || c.plot.x <= 0 || c.plot.y <= 0 || len(words) != 3 {
		return fmt.Errorf("axes %q: want the greatest x, the greatest y and the name of x", s)
	}
	for i := range 4 {
		x, y := c.plot.x*float64(i)/3, c.plot.y*float64(i)/3
		c.rule("life", c.at(0, y), c.at(c.plot.x, y))
		c.text(point{plotLeft - 8, c.at(0, y).y}, "end", "label", strconv.FormatFloat(y, 'f', -1, 64))
		c.text(point{c.at(x, 0).x, head + plotHeight + 16}, "middle", "label", strconv.FormatFloat(x, 'f', -1, 64))
	}
	c.text(point{plotLeft + plotWidth/2, head + plotHeight + 36}, "middle", "label", words[2])
	c.grow(plotLeft+plotWidth+190, head+plotHeight+44)
	return nil
}

// curve draws values of x = 0, 1, 2 and so on, with their name beside the last.
func (c *canvas) curve(what, s string) error {
	name, values, _ := strings.Cut(s, ":")
	path, last := "", point{}
	for i, word := range strings.Fields(values) {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil || v < 0 || v > c.plot.y || float64(i) > c.plot.x {
			return fmt.Errorf("%s %q: value %d is %q, want a number within the axes", what, name, i, word)
		}
		last = c.at(float64(i), v)
		path += fmt.Sprintf("L%.1f %.1f", last.x, last.y)
	}
	if path == "" {
		return fmt.Errorf("%s %q has no values", what, name)
	}
	class := map[string]string{"line": "line", "bound": "life"}[what]
	fmt.Fprintf(&c.lines, `<path class="%s" fill="none" stroke-width="2" d="M%s"/>`+"\n", class, path[1:])
	c.text(point{last.x + 8, last.y}, "start", "label", name)
	return nil
}
