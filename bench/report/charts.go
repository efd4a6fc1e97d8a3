package main

import (
	"fmt"
	"html"
	"strings"
)

// charts are bar charts of what the README shows; a chart without figures is
// left out.
func (r *results) charts() map[string]string {
	charts := map[string]string{}
	add := func(file, title, unit, prefix string, impls ...string) {
		var bars []bar
		for _, impl := range impls {
			if f, ok := r.figure(prefix+"/impl="+impl, unit); ok {
				bars = append(bars, bar{impl, f.median})
			}
		}
		if len(bars) > 1 {
			charts[file] = draw(title, unit, bars)
		}
	}
	add("cycle", "Add, get and settle a key, metrics on: CPU time", "cpu-ns/op", "Cycle/key=string/keys=1k",
		"tend+prom", "client-go+prom", "controller-runtime+prom")
	add("depth", "The same with a million keys in the queue: CPU time", "cpu-ns/op", "Depth/depth=1M",
		"tend+prom", "client-go+prom", "controller-runtime+prom")
	add("controller", "A reconcile, 8 workers, metrics on: CPU time", "cpu-ns/op", "Controller/workers=8",
		"tend+prom", "client-go+prom", "controller-runtime+prom")
	add("memory", "Memory of a queued key, a million of them", "B/key", "Memory/keys=1M/state=queued",
		"tend", "client-go", "controller-runtime")
	add("lateness", "How late the last percent of a million delayed keys is", "p99-ms", "Delayed/keys=1M/over=10s",
		"tend", "client-go", "controller-runtime")
	add("converge", "An object among 100,000, from its creation to its status", "ns/object", "Converge/objects=100k",
		"tend", "client-go", "parts")
	return charts
}

type bar struct {
	name string
	x    float64
}

func draw(title, unit string, bars []bar) string {
	const width, left, row = 640, 200, 34
	top := 0.0
	for _, b := range bars {
		top = max(top, b.x)
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="14" role="img">`+"\n",
		width, 50+row*len(bars))
	fmt.Fprintf(&s, `<title>%s</title><style>text{fill:#222}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>`+"\n", html.EscapeString(title))
	fmt.Fprintf(&s, `<text x="10" y="24" font-weight="bold">%s</text>`+"\n", html.EscapeString(title))
	for i, b := range bars {
		y, fill := 44+row*i, "#9aa5b1"
		if strings.HasPrefix(b.name, "tend") {
			fill = "#2a7de1"
		}
		w := max(2, b.x/top*(width-left-120))
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%d" y="%d" width="%.1f" height="20" rx="3" fill="%s"/><text x="%.1f" y="%d">%.*f %s</text>`+"\n",
			left-10, y+15, html.EscapeString(b.name), left, y, w, fill, left+w+8, y+15, digits(b.x), b.x, unit)
	}
	s.WriteString("</svg>\n")
	return s.String()
}
