package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tendhq/tend/queue"
)

// The bounds that the peers' histograms have. Both are among those of
// queue.Histogram, so the counts are exact.
var (
	// client-go's work queue, as registered by Kubernetes and controller-runtime.
	workqueueBuckets = prometheus.ExponentialBuckets(10e-9, 10, 12)
	// controller-runtime's reconcile time.
	reconcileBuckets = []float64{
		0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
		1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
	}
)

// What the peers ask of native histograms: a growth factor of 1.1 from bucket to
// bucket, which is schema 3, and at most 100 buckets.
const (
	nativeSchema  = 3
	nativeBuckets = 100
)

// histogram sends h with the given bounds, and as a native histogram to
// scrapers that ask for one, with exemplars if there are some.
func (s sink) histogram(d *prometheus.Desc, h *queue.Histogram, bounds []float64, exemplars []prometheus.Exemplar, labels ...string) {
	labels = validAll(labels)
	total, upTo := h.UpTo(math.MaxInt64), make(map[float64]uint64, len(bounds))
	for _, bound := range bounds {
		upTo[bound] = h.UpTo(time.Duration(math.Round(bound * 1e9)))
	}
	m := prometheus.Metric(both{
		Metric: prometheus.MustNewConstHistogram(d, total, h.Sum, upTo, labels...),
		native: native(d, h, total, labels),
	})
	if len(exemplars) > 0 {
		if with, err := prometheus.NewMetricWithExemplars(m, exemplars...); err == nil { // else a label's name is not Prometheus's
			m = with
		}
	}
	s.to <- m
}

// native merges neighbouring bins until there are few enough. As counters only
// grow, the resolution never comes back; Prometheus takes that for what it is and
// not for a reset.
func native(d *prometheus.Desc, h *queue.Histogram, total uint64, labels []string) prometheus.Metric {
	schema, bins, zero := int32(nativeSchema), make(map[int]int64), uint64(0)
	for edge, n := range h.All() {
		if edge == 0 {
			zero = n
		} else {
			bins[binOf(edge)] += int64(n)
		}
	}
	for len(bins) > nativeBuckets {
		coarse := make(map[int]int64, len(bins))
		for k, n := range bins {
			coarse[(k+1)>>1] += n // bin k ends at 2^(k/8): the even ones end a coarse one
		}
		schema, bins = schema-1, coarse
	}
	return prometheus.MustNewConstNativeHistogram(d, total, h.Sum, bins, nil, zero, schema,
		prometheus.DefNativeHistogramZeroThreshold, time.Time{}, labels...)
}

// binOf is the bucket of a native histogram for durations up to an edge of a queue's: the k of
// the first 2^(k/8) seconds that is not less. What is longer than twelve days counts as that
// long.
func binOf(edge time.Duration) int {
	const longest = 20 * 8
	return min(int(math.Ceil(math.Log2(edge.Seconds())*8)), longest)
}

// both is a histogram with bounds of its own that is a native one too, as those
// of the peers are. client_golang makes such only where it observes by itself, and
// takes no two metrics of one name and labels; and an implementation of Metric has to
// name client_model's type, which is why that is in our go.mod.
type both struct {
	prometheus.Metric
	native prometheus.Metric
}

func (b both) Write(to *dto.Metric) error {
	if err := b.Metric.Write(to); err != nil {
		return err
	}
	buckets := to.Histogram.Bucket
	if err := b.native.Write(to); err != nil {
		return err
	}
	to.Histogram.Bucket, to.Histogram.CreatedTimestamp = buckets, nil
	return nil
}
