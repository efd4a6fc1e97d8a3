// Package bench compares tend with its peers, on the same work, in one run.
//
//	go test -C bench -run '^$' -bench . -benchmem        everything
//	go test -C bench -run '^$' -bench '^BenchmarkCycle$' one family
//	go run ./bench/report                                several interleaved passes, RESULTS.md and charts
//
// It is a module of its own, so that no peer ever enters the go.mod of a
// program that only uses tend. Its tests need -tags peers, benchmarks set it.
//
// A sub-benchmark is named dimension=value/…/impl=NAME, NAME being one of
//
//	tend                 queue.Queue, each item settled through its handle
//	tend-batch           the same with GetBatch
//	tend-workqueue       queue/workqueue, the adapter shaped like client-go's queue
//	client-go            k8s.io/client-go/util/workqueue
//	controller-runtime   its priority queue; in BenchmarkController its controller
//	bbolt, clientv3, pgx in BenchmarkStore: what the file, etcd and PostgreSQL backends lie on, used raw
//	go-memdb             in BenchmarkStore and BenchmarkStoreMemory: the database in memory of Consul and Nomad
//	go-memdb-latest      its watchers, which see the latest and not all that was written
//	parts                in BenchmarkConverge: what converging is made of, one part at a time
//	limit                a bare loop: locks and a map, a channel, a hand-written copy
//	least                a queue, in BenchmarkConverge a kernel, without promises: what the work costs on this machine
//	least-entry          the same with an entry for each key
//	ticker               in BenchmarkController: a loop over all keys at each tick
//	tend-queue           there: workers around queue.Queue and nothing else
//	client-go-careful    there: the loop with a deadline, a recover and a logger with the key for each run
//	tend-chan            there: fed through a channel, as controller-runtime is
//	controller-runtime-classic   there: with client-go's queue, not its default
//	controller-runtime-direct    there: fed past its channel source
//	NAME+prom            the same with Prometheus metrics on and scraped
//
// # Fairness
//
// Every hot loop is written inside the adapter of its implementation, against
// the API that its users call, so that no common interface adds its cost to
// the fast ones or hides that of the slow ones. Each adapter says beside its
// constructor why its configuration is the best that the peer documents.
// Metrics of peers are those that controller-runtime installs for both of them,
// in its registry; a scrape a second, more often than anybody does it, is part
// of every +prom figure, ours included. Our registry holds what that one holds
// besides: the metrics of the process and of the Go runtime.
//
// Every benchmark reports foreign-%, the share of one core that other processes took while it
// ran; report drops samples above 20 and compares medians of passes with turns.
//
// # Finding your own settings
//
// Your own reconciler: reconciletest.NewBenchmark, which says what to change first. The families here
// take flags, after -args. -work says what a run does: none, context, cache, status, http, or its wait:
//
//	go test -C bench -run '^$' -bench 'Controller/.*/.*/impl=tend' -benchtime 1000x \
//		-args -workers 8,64 -batch 1,16 -work 100us,10ms -keys 100k
//
// Change the workers first: with -work 10ms, ns/op is 10 ms divided by the workers, until the
// cloud's quota is the limit. With -work none it is the kernel's own cost, and more workers than
// cores only add hand-offs. Then -batch, if one call can serve many keys. Leave -shards at the
// default, unless a profile shows workers waiting for the locks of the queue.
package bench

// What is not here.
//
// github.com/cosi-project/runtime belongs beside the memory store, and its controllers into
// BenchmarkConverge: the module was not to be had through the module proxy when this was
// written (November 2026). github.com/cilium/statedb is of go-memdb's kind.
//
// Of queues only client-go's and controller-runtime's are here. Looked for was one
// that keeps an entry for each key, runs no key twice at once and runs it again if it
// was added meanwhile, delays and retries, and is neither client-go's nor modelled on
// it. What was found has not got all of it, so that its figures would be those of
// other work:
//
//	Consul, agent/consul/controller/queue     client-go's, written again, and says so
//	Knative, pkg/controller                   two of client-go's queues behind one face
//	Crossplane, Agones                        use controller-runtime's and client-go's
//	COSI                                      in an internal package
//	Grafana Alloy, runtime/internal/worker    deduplicates by key; internal, and neither delays nor retries
//	chainguard.dev/driftlessaf/workqueue      keys and delays, in a bucket; what it has in memory is for tests, it says
//	andrewortman/workqueue                    keys, delays, priorities; forgets a key when it is taken, so that two workers can have it
//	shengyanli1982/workqueue/v2               refuses a key that runs, so that a change during a run is lost
//	Istio, pkg/queue                          retries functions; no keys
//	Temporal, common/tasks                    schedulers of tasks, one of them in turn for each key; none deduplicates
//	Nomad, lib/delayheap                      a heap of delays by key, not a queue; refuses a key that is there
//	Juju, worker                              runs and restarts workers; no queue
//	River, asynq                              jobs in Postgres and Redis
