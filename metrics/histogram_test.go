package metrics_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/tendhq/tend/metrics"
)

func bounds(h *dto.Histogram) string {
	var s []string
	for _, b := range h.GetBucket() {
		s = append(s, fmt.Sprint(b.GetUpperBound()))
	}
	return strings.Join(s, " ")
}

// The bounds, as the peers print them: a dashboard may ask for one by
// its label.
func TestBucketsAreThePeers(t *testing.T) {
	c, stop := running(t)
	defer stop()
	families := scrape(t, c)
	const (
		workqueue = "1e-08 1e-07 1e-06 9.999999999999999e-06 9.999999999999999e-05 0.001 0.01 0.1 1 10 100 1000"
		reconcile = "0.005 0.01 0.025 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.4 0.45 0.5 0.6 0.7 0.8 0.9 1 " +
			"1.25 1.5 1.75 2 2.5 3 3.5 4 4.5 5 6 7 8 9 10 15 20 25 30 40 50 60"
	)
	for name, want := range map[string]string{
		"workqueue_queue_duration_seconds":          workqueue,
		"workqueue_work_duration_seconds":           workqueue,
		"controller_runtime_reconcile_time_seconds": reconcile,
	} {
		for _, m := range families[name].GetMetric() {
			if got := bounds(m.GetHistogram()); got != want {
				t.Errorf("%s has buckets\n%s, want\n%s", name, got, want)
			}
		}
	}
}

// Runs of 3 and 30 ms and 3 s, in both forms.
func TestHistogramsAreClassicAndNative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, "q")
		c := metrics.New(nil)
		if err := c.AddQueue(q); err != nil {
			t.Fatal(err)
		}
		empty := scrape(t, c)["workqueue_work_duration_seconds"].GetMetric()[0].GetHistogram()
		if empty.GetSampleCount() != 0 || len(empty.GetPositiveSpan()) != 0 {
			t.Errorf("nothing ran, and there is %v", empty)
		}
		for _, d := range []time.Duration{3 * time.Millisecond, 30 * time.Millisecond, 3 * time.Second} {
			if err := q.Add("a"); err != nil {
				t.Fatal(err)
			}
			it, err := q.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(d)
			it.Done()
		}
		h := scrape(t, c)["workqueue_work_duration_seconds"].GetMetric()[0].GetHistogram()
		upTo := map[float64]uint64{}
		for _, b := range h.GetBucket() {
			upTo[b.GetUpperBound()] = b.GetCumulativeCount()
		}
		if upTo[0.001] != 0 || upTo[0.01] != 1 || upTo[0.1] != 2 || upTo[1] != 2 || upTo[10] != 3 || h.GetSampleCount() != 3 {
			t.Errorf("classic buckets %v", upTo)
		}
		if h.GetSchema() != 3 {
			t.Errorf("schema %d, want 3: buckets that grow by less than 1.1", h.GetSchema())
		}
		at, deltas := int32(0), h.GetPositiveDelta()
		var got []float64 // upper bounds of the native buckets that hold something
		count, total := int64(0), int64(0)
		for _, span := range h.GetPositiveSpan() {
			at += span.GetOffset()
			for range span.GetLength() {
				count += deltas[0]
				deltas = deltas[1:]
				if total += count; count > 0 {
					got = append(got, math.Exp2(float64(at)/8))
				}
				at++
			}
		}
		if total != 3 || len(got) != 3 {
			t.Fatalf("%d runs in native buckets up to %v, want 3 in 3", total, got)
		}
		for k, d := range []float64{0.003, 0.030, 3} {
			// The queue measures what is longer than 8 ms to a tick of 4 ms.
			if d > got[k]+0.005 || d < got[k]/1.1-0.005 {
				t.Errorf("a run of %v s is in the native bucket up to %v", d, got[k])
			}
		}
		q.Close()
	})
}
