// Package bench compares tend with its peers, on the same work, in one run.
//
//	go test -C bench -run '^$' -bench . -benchmem        everything
//	go test -C bench -run '^$' -bench '^BenchmarkCycle$' one family
//	go run ./bench/report                                several interleaved passes, RESULTS.md and charts
//
// It is a module of its own, so that no peer ever enters the go.mod of those
// who only use tend.
//
// A sub-benchmark is named dimension=value/…/impl=NAME, NAME being one of
//
//	tend                 queue.Queue, each item settled through its handle
//	tend-batch           the same with GetBatch
//	tend-workqueue       queue/workqueue, the adapter shaped like client-go's queue
//	client-go            k8s.io/client-go/util/workqueue
//	controller-runtime   its priority queue; in BenchmarkController its controller
//	bbolt, clientv3      in BenchmarkStore: what the file and etcd backends lie on, used raw
//	parts                in BenchmarkConverge: what converging is made of, one part at a time
//	limit                a bare loop: locks and a map, a channel, a hand-written copy
//	least                a queue without promises: what the work costs on this machine
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
// of every +prom figure, ours included.
//
// Times on a shared machine mean nothing from one run to the next. Every
// benchmark reports foreign-%, the share of one core that other processes took
// while it ran; report drops samples above 20 and compares medians of passes
// in which the implementations took turns.
//
// # Finding your own settings
//
// The families take flags, after -args because go test has a -work of its own:
//
//	go test -C bench -run '^$' -bench 'Controller/.*/.*/impl=tend' -benchtime 1000x \
//		-args -workers 8,64 -batch 1,16 -work 100us,10ms -keys 100k
//
// Say a reconcile waits 10 ms for a cloud, and there are 100,000 keys:
//
//	Controller/workers=8/work=10ms/impl=tend     1326175 ns/op   14477 cpu-ns/op
//	Controller/workers=64/work=10ms/impl=tend     170672 ns/op    4865 cpu-ns/op
//	Controller/workers=8/work=100µs/impl=tend     178676 ns/op    6054 cpu-ns/op
//	Controller/workers=64/work=100µs/impl=tend     16164 ns/op    1577 cpu-ns/op
//
// ns/op is 10 ms divided by the workers: with 8 of them a round over all keys takes
// 133 s, with 64 it takes 17 s, and the CPU does next to nothing. So the pool
// is the limit, and more workers help until the cloud's quota does not. (A wait of
// 100 µs costs more than that, because Go's timers round up to a millisecond.)
// Without -work the figure is the kernel's own cost, some hundred nanoseconds, and
// more workers than cores only add hand-offs. -batch is worth it when one call to
// the cloud can serve many keys; for its own sake it is not: the worker goes
// through its batch one key after the other.
package bench
