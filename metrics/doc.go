// Package metrics shows controllers, queues, caches and buckets to Prometheus.
//
//	m := new(reconcile.Manager)
//	…
//	registry.MustRegister(metrics.New(m))
//
// There is no global registry and nothing is registered behind your back: a
// Collector is one prometheus.Collector, registered where you say. It reads at
// scrape time what queues and controllers count anyway, so metrics cost a
// reconcile nothing.
//
// # Names
//
// Dashboards and alerts made for controller-runtime and client-go work: the
// names and labels of workqueue_* and controller_runtime_* are theirs. With
// these differences in what they say:
//
//   - workqueue_retries_total counts runs that failed and are to run again, not
//     every add with a delay.
//   - The histograms' bounds are powers of two of a nanosecond, which are finer
//     than theirs; quantiles are computed from them as usual. Of runs and waits
//     shorter than some milliseconds a sample is measured and stands for the
//     rest; longer ones are all counted.
//   - controller_runtime_reconcile_time_seconds is how long a key was on loan,
//     the same as workqueue_work_duration_seconds.
//   - controller_runtime_reconcile_total has two results more: throttled (a
//     bucket was paused, which is no failure) and canceled (by a lost lease or
//     the stop).
//   - workqueue_depth tells at most 25 priorities apart, as controller-runtime
//     does.
//
// What has no counterpart there is called tend_*.
//
// # Cardinality
//
// Label values are names of controllers, sources, caches and buckets, states,
// results and priorities: things that a program has few of. Keys and error texts
// are never label values.
//
// # Design notes
//
// Counters that are written as things happen were rejected: one labelled
// increment costs as much as a whole cycle of the queue, and the histograms
// twice that; the peers' queues take three times as long with metrics on.
//
// A scrape walks the entries of each queue for the age of running keys: some
// milliseconds at a million keys, under a shard's lock for microseconds at a
// time.
package metrics
