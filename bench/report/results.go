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
			}
		}
	}
	return r, s.Err()
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

// markdown is the page: each goal, met or missed.
func (r *results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results\n\n%s\n\n    %s\n\n", strings.Join(r.machines, "  \n"), strings.Join(r.commands, "\n    "))
	b.WriteString("Medians of interleaved passes. Only ratios count: above 1, tend is ahead. " +
		"A goal is judged by the CPU time of all goroutines where it is known, which depends least on other processes. " +
		"A sample while others took more than 20 % of a core is dropped; †: none was left and all were used. " +
		"~: highest and lowest are more than 15 % of the median apart. ‡: fewer than three samples. " +
		"`go test -bench` prints every figure.\n\n")
	r.writeGoals(&b)
	return b.String()
}
