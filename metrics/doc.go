// Package metrics shows controllers, queues, caches and buckets to Prometheus.
//
//	m := new(reconcile.Manager)
//	…
//	registry.MustRegister(metrics.New(m))
//
// A Collector is one prometheus.Collector, registered where you say. It reads at scrape
// time what queues and controllers count anyway, so metrics cost a reconcile nothing.
//
// # Names
//
// Dashboards and alerts made for controller-runtime and client-go work: the
// names and labels of workqueue_* and controller_runtime_* are theirs. They differ in
// what some of them count:
//   - workqueue_adds_total counts the adds that were taken, also those of keys that
//     were there already, and not what comes back by itself after a delay or a
//     failure. In client-go it is the other way round.
//   - workqueue_retries_total counts runs that failed, also for good, or returned
//     Requeue, not every add with a delay.
//   - The histograms have their bounds, and are native histograms too for scrapers
//     that ask for them. Each run and each wait is measured, to a microsecond.
//   - controller_runtime_reconcile_time_seconds is how long a key was running,
//     the same as workqueue_work_duration_seconds.
//   - controller_runtime_reconcile_total has two results more: throttled (a bucket was
//     paused, which is no failure) and canceled (by a lost lease or the stop).
//   - workqueue_depth tells at most 25 priorities apart, as controller-runtime does.
//   - leader_election_slowpath_total is missing: there is no slow path.
//
// What has no counterpart there is called tend_*. From the Manager come queues
// (keys by state, oldest ready age), controllers (stuck runs, shards, hand-overs,
// lost leases, adapting workers), sources and caches (restarts and lag of their
// watches), and the causes of trouble that the debug page shows (tend_trouble). The rest
// is added by the program: quotas with their buckets by AddQuotas,
// other buckets by AddBucket, reconcilers of external resources (their calls, and
// drift) by AddExternal, inventories (what is missing, different, orphaned) by
// AddInventory. Each name of a quota is a series of its own: where objects name the accounts,
// let the program decide which there are, or the writers of objects choose how many. Measure
// wraps a backend before stores, caches and leases are made of it.
//
// # Exemplars
//
// A bucket of a histogram of runs or of store calls can name a trace that fell into it,
// from which a dashboard leads to the trace:
//
//	collector.Exemplars(tracing.Exemplar)
//	options = metrics.With(collector, tracing.With(tracer, options))
//
// # Dashboard and alerts
//
// dashboard.json is for Grafana, alerts.yaml for Prometheus, inhibit.yaml, which leaves one page
// of a fault, for Alertmanager. RUNBOOK.md says what to do.
//
// # Cardinality
//
// Label values are names of controllers, sources, caches, kinds, buckets, budgets
// and backends, states, results and priorities: things that a program has few of. Keys
// and error texts are never label values.
package metrics

// Design notes.
//
// Counters that are written as things happen were rejected: one labelled
// increment costs as much as a whole cycle of the queue, and the histograms
// twice that; the peers' queues take three times as long with metrics on.
//
// A scrape walks the entries of each queue for the age of running keys: some
// milliseconds at a million keys, under a shard's lock for microseconds at a
// time.
