package metrics_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue"
)

func Example() {
	q, err := queue.New(&queue.Options[string]{Name: "disks"})
	if err != nil {
		panic(err)
	}
	c := metrics.New(nil) // or of a Manager: then all its controllers are in
	if err := c.AddQueue(q); err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)

	_ = q.Add("a")
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == "workqueue_depth" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: workqueue_depth 1
}
