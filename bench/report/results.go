package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// results are the samples of every benchmark by unit.
type results struct {
	machines, commands []string
	order              []string
	samples            map[string]map[string][]float64
}

// tooForeign is the share of a core, in percent, above which a sample says more
// about others than about us.
const tooForeign = 20

// wide is the spread, in percent of the median, above which a figure is marked.
const wide = 15

// few is the number of samples below which a time is marked: it is not known how far
// it would spread.
const few = 3

// parse reads the output of any number of passes.
func parse(from io.Reader) (*results, error) {
	r := &results{samples: map[string]map[string][]float64{}}
	s := bufio.NewScanner(from)
	for s.Scan() {
		if text, ok := strings.CutPrefix(s.Text(), onMachine); ok && !slices.Contains(r.machines, text) {
			r.machines = append(r.machines, text)
		}
		if text, ok := strings.CutPrefix(s.Text(), byCommand); ok && !slices.Contains(r.commands, text) {
			r.commands = append(r.commands, text)
		}
		f := strings.Fields(s.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > strings.LastIndexByte(name, '=') {
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i] // the number of processors, left out by go test if it is 1
			}
		}
		units := r.samples[name]
		if units == nil {
			units = map[string][]float64{}
			r.samples[name] = units
			r.order = append(r.order, name)
		}
		for i := 2; i+1 < len(f); i += 2 {
			if x, err := strconv.ParseFloat(f[i], 64); err == nil {
				units[f[i+1]] = append(units[f[i+1]], x)
				if n := objects(name); n > 0 && f[i+1] == "allocs/op" {
					units["allocs/object"] = append(units["allocs/object"], x/n)
				}
			}
		}
	}
	return r, s.Err()
}

// objects is how many of them one operation is about: n of objects=n; 0: the name
// does not say.
func objects(name string) float64 {
	_, rest, _ := strings.Cut(name, "/objects=")
	text, _, _ := strings.Cut(rest, "/")
	unit := 1.0
	if k, ok := strings.CutSuffix(text, "k"); ok {
		text, unit = k, 1e3
	} else if m, ok := strings.CutSuffix(text, "M"); ok {
		text, unit = m, 1e6
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return n * unit
}

// figure is the median of the samples that may be believed.
type figure struct {
	median float64
	spread float64 // highest minus lowest, in percent of the median
	n      int
	dirty  bool // no sample was without too much foreign load: all were taken
	few    bool // too few samples of a benchmark that is timed
}

func (r *results) figure(name, unit string) (figure, bool) {
	all, foreign := r.samples[name][unit], r.samples[name]["foreign-%"]
	if len(all) == 0 {
		return figure{}, false
	}
	var xs []float64
	for i, x := range all {
		if i < len(foreign) && foreign[i] <= tooForeign {
			xs = append(xs, x)
		}
	}
	f := figure{dirty: len(xs) == 0}
	if f.dirty {
		xs = slices.Clone(all)
	}
	slices.Sort(xs)
	f.n = len(xs)
	f.few = f.n < few && r.samples[name]["ns/op"] != nil // sizes are counted, once
	f.median = (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
	if f.median != 0 {
		f.spread = 100 * (xs[len(xs)-1] - xs[0]) / f.median
	}
	return f, true
}

func (f figure) String() string {
	s := strconv.FormatFloat(f.median, 'f', digits(f.median), 64)
	if f.dirty && f.n > 0 {
		s += "†"
	}
	if f.few {
		s += "‡"
	}
	if f.spread > wide {
		s += "~"
	}
	return s
}

func digits(x float64) int {
	switch {
	case x >= 100 || x == 0:
		return 0
	case x >= 10:
		return 1
	}
	return 2
}

func (r *results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results\n\n%s\n\n    %s\n\n", strings.Join(r.machines, "  \n"), strings.Join(r.commands, "\n    "))
	b.WriteString("Medians of interleaved passes; ratios within this run are what counts, times are not. " +
		"A sample while other processes took more than 20 % of a core is dropped. " +
		"† says that none was left and all were used: then goals are judged by cpu-ns/op where there is one, the CPU time of all goroutines together, which minds others least. " +
		"~ says that highest and lowest are more than 15 % of the median apart, ‡ that fewer than three samples were left, so that it is not known how far they would be. " +
		"A goal missed says what a queue without any promise (for converging: no kernel at all) reaches beside the same peer, called least: beyond that the goal is past what the machine does.\n\n")
	r.writeGoals(&b)
	r.writeFigures(&b)
	return b.String()
}

var shown = []string{
	"ns/op", "cpu-ns/op", "ns/object", "B/op", "allocs/op", "allocs/object", "B/key", "B/object", "peak-MB", "cpu-ms", "MB", "linked", "modules", "ns/add", "cpu-ns/key", "p50-ms", "p99-ms", "max-ms", "early",
	"p50-ns/add", "p99-ns/add", "tend/s", "raw/s", "x-raw", "cpu-x-raw", "median-ns", "s/converge", "s-until-first", "objects/s", "foreign-%",
}

// measured says whether any benchmark of the family has figures of the unit.
func (r *results) measured(family, unit string) bool {
	return slices.ContainsFunc(r.order, func(name string) bool {
		return strings.HasPrefix(name, family+"/") && r.samples[name][unit] != nil
	})
}

// writeFigures writes one table for each family.
func (r *results) writeFigures(b *strings.Builder) {
	var done []string
	for _, name := range r.order {
		family, _, _ := strings.Cut(name, "/")
		if slices.Contains(done, family) {
			continue
		}
		done = append(done, family)
		var units []string
		for _, u := range shown {
			if r.measured(family, u) && !(u == "ns/op" && r.measured(family, "B/key")) {
				units = append(units, u)
			}
		}
		fmt.Fprintf(b, "\n## %s\n\n| | %s |\n|---|%s\n", family, strings.Join(units, " | "), strings.Repeat("---:|", len(units)))
		for _, row := range r.order {
			rest, ok := strings.CutPrefix(row, family+"/")
			if !ok {
				continue
			}
			fmt.Fprintf(b, "| %s |", rest)
			for _, u := range units {
				f, ok := r.figure(row, u)
				if ok {
					fmt.Fprintf(b, " %v |", f)
				} else {
					b.WriteString(" |")
				}
			}
			b.WriteString("\n")
		}
	}
}
