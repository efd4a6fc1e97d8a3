package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// charts are bar charts, of which the README shows one; a chart without figures is
// left out.
func (r *results) charts() map[string]string {
	charts := map[string]string{}
	withMetrics := []string{"tend+prom", "client-go+prom", "controller-runtime+prom"}
	without := []string{"tend", "client-go", "controller-runtime"}
	add := func(file string, c chart) {
		if slices.ContainsFunc(c.groups, func(g group) bool { return len(g.bars) > 1 }) {
			charts[file] = c.draw()
		}
	}
	one := func(unit, work string, impls ...string) []group { return []group{r.group("", unit, work, impls)} }
	add("cycle", chart{"Add, get and settle a key, metrics on: CPU time", "cpu-ns/op", one("cpu-ns/op", "Cycle/key=string/keys=1k", withMetrics...)})
	depths := chart{title: "The same with so many keys in the queue, metrics off: CPU time", unit: "cpu-ns/op"}
	for _, n := range []string{"1k", "10k", "100k", "1M", "10M"} {
		depths.groups = append(depths.groups, r.group(n+" keys", depths.unit, "Depth/depth="+n, without))
	}
	add("depth", depths)
	workers := chart{title: "Runs a second, 8 workers, metrics on", unit: "M/s"}
	for _, work := range []string{"context", "cache", "status", "http"} {
		g := r.group("work="+work, "ns/op", "Controller/workers=8/work="+work, withMetrics)
		for i := range g.bars {
			g.bars[i].x = 1e3 / g.bars[i].x // millions a second
		}
		workers.groups = append(workers.groups, g)
	}
	add("controller", workers)
	add("memory", chart{"Memory of a queued key, a million of them", "B/key", one("B/key", "Memory/keys=1M/state=queued", without...)})
	add("lateness", chart{"How late the last percent of a million delayed keys is", "p99-ms", one("p99-ms", "Delayed/keys=1M/over=10s", without...)})
	add("converge", chart{"An object among 100,000, from its creation to its status", "ns/object", one("ns/object", "Converge/objects=100k", "tend", "client-go", "parts")})
	return charts
}

// group is the figures of some implementations, as far as there are any.
func (r *results) group(name, unit, work string, impls []string) group {
	g := group{name: name}
	for _, impl := range impls {
		if f, ok := r.figure(work+"/impl="+impl, unit); ok && f.median > 0 {
			g.bars = append(g.bars, bar{impl, f.median})
		}
	}
	return g
}

type (
	chart struct {
		title, unit string
		groups      []group
	}
	group struct {
		name string // empty: the only one
		bars []bar
	}
	bar struct {
		name string
		x    float64
	}
)

func (c chart) draw() string {
	const width, left, head = 640, 200, 26
	top, row := 0.0, 34
	if len(c.groups) > 1 {
		row = 24
	}
	var s strings.Builder
	y := 44
	for _, g := range c.groups {
		for _, b := range g.bars {
			top = max(top, b.x)
		}
	}
	for _, g := range c.groups {
		if g.name != "" && len(g.bars) > 0 {
			fmt.Fprintf(&s, `<text x="10" y="%d" font-style="italic">%s</text>`+"\n", y+15, html.EscapeString(g.name))
			y += head
		}
		for _, b := range g.bars {
			fill := "#9aa5b1"
			if strings.HasPrefix(b.name, "tend") {
				fill = "#2a7de1"
			}
			w := max(2, b.x/top*(width-left-120))
			fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%d" y="%d" width="%.1f" height="20" rx="3" fill="%s"/><text x="%.1f" y="%d">%.*f %s</text>`+"\n",
				left-10, y+15, html.EscapeString(b.name), left, y, w, fill, left+w+8, y+15, digits(b.x), b.x, c.unit)
			y += row
		}
	}
	title := html.EscapeString(c.title)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="14" role="img">`+"\n"+
		`<title>%s</title><style>text{fill:#222}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>`+"\n"+
		`<text x="10" y="24" font-weight="bold">%[3]s</text>`+"\n%s</svg>\n", width, y+6, title, s.String())
}
