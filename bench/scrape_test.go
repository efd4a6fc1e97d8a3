//go:build peers

package bench

import (
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
)

// registry holds what controller-runtime's holds besides its own metrics, so that
// a scrape of ours is as much work: the process's and all of the Go runtime's.
func registry(ours prometheus.Collector) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	r.MustRegister(ours, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)))
	return r
}

// scrape gathers and writes out everything in the registry once a second until
// the benchmark ends: what a figure with metrics on must include, because an
// implementation that does its work at scrape time would else get it free.
func scrape(b *testing.B, from prometheus.Gatherer) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	b.Cleanup(func() { close(stop); <-stopped })
	go func() {
		defer close(stopped)
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for {
			select {
			case <-stop:
				return
			case <-every.C:
				write(b, from)
			}
		}
	}()
}

func write(b *testing.B, from prometheus.Gatherer) {
	families, err := from.Gather()
	if err != nil {
		b.Errorf("gather: %v", err)
	}
	out := expfmt.NewEncoder(io.Discard, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := out.Encode(f); err != nil {
			b.Errorf("encode %s: %v", f.GetName(), err)
		}
	}
}
