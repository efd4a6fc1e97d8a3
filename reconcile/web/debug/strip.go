package debug

import (
	"fmt"
	"math"
	"slices"

	"github.com/tendhq/tend/internal/introspect"
)

// A bar is one run in the strip of a key's last runs: the higher the longer, and its
// colour says how it ended.
type bar struct {
	Title, Look         string
	X, Y, Width, Height int
}

const (
	barWidth, barGap = 12, 4
	stripHeight      = 48
)

var runLooks = map[string]string{
	introspect.RunSucceeded: "s-ready", introspect.RunFailed: "s-failing", introspect.RunParked: "s-undecodable",
	introspect.RunThrottled: "s-waiting", introspect.RunCanceled: "s-paused",
}

// strip shows the last runs of a key as bars, and as a table.
func (p *printer) strip(runs []introspect.Ended) {
	if len(runs) == 0 {
		return
	}
	s := section{Title: "Last runs", Columns: []string{"ended", "took", "how"}}
	failed := 0
	for i, r := range slices.Backward(runs) { // the oldest is on the left
		height := 6 + int(7*math.Log10(1+float64(r.Took.Microseconds())/100)) // 100 µs: 8, 1 s: 34, 1 min: 46
		height = min(height, stripHeight)
		s.Strip = append(s.Strip, bar{
			Title: fmt.Sprintf("%s: %s, took %s", moment(r.Ended, p.now).Text, r.Result, r.Took), Look: runLooks[r.Result],
			X: (len(runs) - 1 - i) * (barWidth + barGap), Y: stripHeight - height, Width: barWidth, Height: height,
		})
	}
	for _, r := range runs {
		how := looks("good", r.Result)
		if r.Result != introspect.RunSucceeded {
			how.Look = "bad"
			failed++
		}
		s.Rows = append(s.Rows, []cell{moment(r.Ended, p.now), plain(r.Took.String()), how})
	}
	s.Note = fmt.Sprintf("%d of the last %d did not succeed; the newest is on the right, and higher is longer", failed, len(runs))
	p.add(s)
}
