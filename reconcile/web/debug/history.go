package debug

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
)

// history is what the controllers and the buckets did in the last hour. The Manager
// fills it while it runs, see [reconcile.Manager.Sample]. A controller's part has
// historyLength samples of 16 bytes, 5.8 KB in all.
type history struct {
	mu          sync.Mutex // guards what follows
	controllers map[string]*ring
	buckets     map[string]*ring
	last        time.Time
}

const historyLength = int(time.Hour / introspect.SampleEvery)

// sample is what happened in introspect.SampleEvery: of a bucket, first are its calls and
// second its limit.
type sample struct{ first, second, ready, oldest uint32 }

// ring has the newest samples; at counts all.
type ring struct {
	samples        [historyLength]sample
	at             int
	counts         [2]uint64 // when the last was taken
	good           uint64    // runs that did not fail, by then
	seen           time.Time // when there were more of them than before; zero: never
	begun, current bool      // current: of the last sample, what is gone is dropped
}

func (r *ring) add(counts [2]uint64, s sample) {
	if r.current { // two of one name: the first counts
		return
	}
	r.current = true
	if !r.begun || counts[0] < r.counts[0] || counts[1] < r.counts[1] { // the first sample, or another of the same name: what was before is not this one's
		r.begun, r.counts = true, counts
		return
	}
	s.first += uint32(counts[0] - r.counts[0])
	s.second += uint32(counts[1] - r.counts[1])
	r.counts = counts
	r.samples[r.at%historyLength] = s
	r.at++
}

// values are those of a field of each sample, the oldest first.
func (r *ring) values(of func(sample) uint32) []float64 {
	n := min(r.at, historyLength)
	values := make([]float64, n)
	for i := range n {
		values[i] = float64(of(r.samples[(r.at-n+i)%historyLength]))
	}
	return values
}

// keep takes a sample of all controllers and buckets, and has controllers keep the runs of
// their keys.
func (h *handler) keep() {
	now := time.Now()
	h.history.mu.Lock()
	defer h.history.mu.Unlock()
	s := &h.history
	if s.controllers == nil {
		s.controllers, s.buckets = map[string]*ring{}, map[string]*ring{}
	}
	if !s.last.IsZero() && now.Sub(s.last) < introspect.SampleEvery/2 {
		return // New and the Manager's begin
	}
	s.last = now
	for _, c := range h.controllers() {
		c.KeepRuns()
		n, q := c.Counts(), c.QueueStats()
		one := sample{ready: uint32(q.Of(queue.StateReady).Keys)}
		if !q.Of(queue.StateReady).Oldest.IsZero() {
			one.oldest = uint32(max(now.Sub(q.Of(queue.StateReady).Oldest), 0) / time.Second)
		}
		r := ringOf(s.controllers, c.Name())
		r.saw(goodRuns(n), now)
		r.add([2]uint64{n.Runs(), n.Error + n.Terminal}, one)
	}
	for _, b := range h.buckets() {
		st := b.Stats()
		r := ringOf(s.buckets, st.Name)
		r.counts[0] = min(r.counts[0], st.Taken) // it falls when more tokens came back than were taken
		r.add([2]uint64{st.Taken, 0}, sample{second: uint32(min(float64(st.PerSecond)*introspect.SampleEvery.Seconds(), 1<<31))})
	}
	for _, rings := range []map[string]*ring{s.controllers, s.buckets} {
		for name, r := range rings {
			if !r.current {
				delete(rings, name)
			}
			r.current = false
		}
	}
}

// goodRuns is how many runs have seen what they are about, and did not fail.
func goodRuns(n introspect.Counts) uint64 { return n.Success + n.Requeue + n.RequeueAfter }

func (r *ring) saw(good uint64, now time.Time) {
	if good > r.good {
		r.seen = now
	}
	r.good = good
}

// lastSeen is when a run of each kind last succeeded, up to introspect.SampleEvery later. Kinds of
// which none did are left out.
func (h *handler) lastSeen(now time.Time) map[string]time.Time {
	all := map[string]time.Time{}
	h.history.mu.Lock()
	defer h.history.mu.Unlock()
	for _, c := range h.controllers() {
		r := h.history.controllers[c.Name()]
		if r == nil {
			continue
		}
		seen := r.seen
		if goodRuns(c.Counts()) > r.good {
			seen = now
		}
		if kind := c.Snapshot().Kind; kind != "" && seen.After(all[kind]) {
			all[kind] = seen
		}
	}
	return all
}

func ringOf(rings map[string]*ring, name string) *ring {
	if rings[name] == nil {
		rings[name] = &ring{}
	}
	return rings[name]
}

type (
	// historyView is an hour of samples, each of Every seconds, the oldest first.
	historyView struct {
		Every       float64             `json:"every"`
		Controllers []controllerHistory `json:"controllers"`
		Buckets     []bucketHistory     `json:"buckets,omitempty"`
	}

	controllerHistory struct {
		Name     string    `json:"name"`
		Runs     []float64 `json:"runs"`
		Failures []float64 `json:"failures"`
		Ready    []float64 `json:"ready"`
		Oldest   []float64 `json:"oldestReadySeconds"`
	}

	bucketHistory struct {
		Name  string    `json:"name"`
		Calls []float64 `json:"calls"`
		Limit []float64 `json:"limit"`
	}
)

func (s *history) view() *historyView {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &historyView{Every: introspect.SampleEvery.Seconds(), Controllers: []controllerHistory{}}
	for name, r := range s.controllers {
		v.Controllers = append(v.Controllers, controllerHistory{
			Name: name, Runs: r.values(func(s sample) uint32 { return s.first }), Failures: r.values(func(s sample) uint32 { return s.second }),
			Ready: r.values(func(s sample) uint32 { return s.ready }), Oldest: r.values(func(s sample) uint32 { return s.oldest }),
		})
	}
	for name, r := range s.buckets {
		v.Buckets = append(v.Buckets, bucketHistory{
			Name: name, Calls: r.values(func(s sample) uint32 { return s.first }), Limit: r.values(func(s sample) uint32 { return s.second }),
		})
	}
	slices.SortFunc(v.Controllers, func(a, b controllerHistory) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(v.Buckets, func(a, b bucketHistory) int { return cmp.Compare(a.Name, b.Name) })
	return v
}

// one is the history of one controller.
func (v *historyView) one(name string) *historyView {
	keep := func(c controllerHistory) bool { return c.Name != name }
	return &historyView{Every: v.Every, Controllers: slices.DeleteFunc(v.Controllers, keep)}
}

// A chart is a line over the last hour.
type chart struct {
	Title, Says   string
	Line, Limit   string // points of polylines; an empty Limit is not drawn
	Bad           bool
	Width, Height int
}

const chartWidth, chartHeight = 240, 48

// newChart draws values; a step is the time from one to the next.
func newChart(title, unit string, values, limit []float64) chart {
	c := chart{Title: title, Width: chartWidth, Height: chartHeight}
	highest := slices.Max(append(slices.Concat(values, limit), 1))
	c.Line, c.Limit = points(values, highest), points(limit, highest)
	number := func(x float64) string { return grouped(strconv.FormatFloat(x, 'f', 0, 64)) + unit }
	if len(values) == 0 {
		c.Says = "no sample yet"
		return c
	}
	c.Says = fmt.Sprintf("now %s, most %s", number(values[len(values)-1]), number(slices.Max(values)))
	if len(limit) > 0 {
		c.Says += fmt.Sprintf(", limit %s", number(limit[len(limit)-1]))
	}
	return c
}

// points places the newest value at the right edge; the left one is an hour ago.
func points(values []float64, highest float64) string {
	var b strings.Builder
	for i, v := range values {
		x := float64(chartWidth) * float64(historyLength-len(values)+i+1) / float64(historyLength)
		fmt.Fprintf(&b, "%.1f,%.1f ", x, chartHeight-1-v/highest*(chartHeight-2))
	}
	return strings.TrimSuffix(b.String(), " ")
}

// maxCharted is how many controllers and how many buckets the overview has charts of.
const maxCharted = 12

func (p *printer) historyCharts(v *historyView) {
	if v == nil || len(v.Controllers)+len(v.Buckets) == 0 {
		return
	}
	every := "in " + short(time.Duration(v.Every*float64(time.Second)))
	s := section{Title: "The last hour"}
	for _, c := range v.Controllers[:min(len(v.Controllers), maxCharted)] {
		failures := newChart("failures "+every, "", c.Failures, nil)
		failures.Bad = true
		s.Charts = append(s.Charts, charts{
			linked(c.Name, link("c", c.Name)),
			[]chart{newChart("runs "+every, "", c.Runs, nil), failures, newChart("ready", "", c.Ready, nil), newChart("oldest ready", " s", c.Oldest, nil)},
		})
	}
	for _, b := range v.Buckets[:min(len(v.Buckets), maxCharted)] {
		s.Charts = append(s.Charts, charts{cell{Text: clean("bucket " + b.Name)}, []chart{newChart("calls "+every, "", b.Calls, b.Limit)}})
	}
	if n := len(v.Controllers) - maxCharted; n > 0 {
		s.Note = fmt.Sprintf("%d more controllers have theirs on their own pages", n)
	}
	p.add(s)
}

// charts are those about one thing.
type charts struct {
	Of  cell
	All []chart
}
