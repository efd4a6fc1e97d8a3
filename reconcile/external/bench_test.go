package external_test

import (
	"testing"
	"time"
)

// BenchmarkInterval is one poll interval over 100,000 resources that are in
// order: every object is reconciled once. calls/interval is what the cloud is
// asked for.
func BenchmarkInterval(b *testing.B) {
	const n = 100_000
	for _, by := range []string{"inventory", "observe"} {
		b.Run("by="+by, func(b *testing.B) {
			w := newWorld(b)
			keys := w.populate(n)
			if by == "inventory" {
				v := w.inventory(func(o *invOpts) { o.Fresh = 24 * time.Hour })
				w.reconcileBy(v)
				defer func() { b.ReportMetric(float64(v.Snapshot().Lists), "lists") }()
			}
			for _, k := range keys { // finalizers and first status
				must(w.rec.Reconcile(b.Context(), k))
			}
			calls, i := w.cloud.TotalCalls(), 0
			if by == "inventory" {
				calls = 0 // the list that served the interval was made on the way
			}
			b.ReportAllocs()
			for b.Loop() {
				must(w.rec.Reconcile(b.Context(), keys[i%n]))
				i++
			}
			made := float64(w.cloud.TotalCalls() - calls)
			if by == "observe" {
				made *= float64(n) / float64(i) // for an interval, whatever b.Loop ran
			}
			b.ReportMetric(made, "calls/interval")
		})
	}
}
