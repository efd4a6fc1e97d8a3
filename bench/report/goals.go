package main

import (
	"fmt"
	"slices"
	"strings"
)

// goal compares one figure of ours with one of a peer, or with a number.
type goal struct {
	id, what   string
	ours, peer string // benchmark names; no peer: compare with most
	unit       string
	least      float64 // peer / ours
	most       float64 // ours, if there is no peer
	floor      float64 // ours at least, if there is neither a peer nor most
	minus      string  // the name of what ours is without, if there is no peer
}

func cycleGoals() []goal {
	const cycle = "Cycle/key=string/keys=1k/impl="
	const object = "Cycle/key=struct/keys=1k/impl="
	return []goal{
		{id: "G1", what: "cycle", ours: cycle + "tend", peer: cycle + "client-go", unit: "ns/op", least: 4.3},
		{id: "G1", what: "cycle, struct keys", ours: object + "tend", peer: object + "client-go", unit: "ns/op", least: 3.2},
		{id: "G1", what: "cycle, adapter", ours: cycle + "tend-workqueue", peer: cycle + "client-go", unit: "ns/op", least: 3.2},
		{id: "G1", what: "cycle, allocations", ours: cycle + "tend", unit: "allocs/op"},
		{id: "G2", what: "cycle with Prometheus", ours: cycle + "tend+prom", peer: cycle + "client-go+prom", unit: "ns/op", least: 6.5},
		{id: "G2", what: "cycle with Prometheus", ours: cycle + "tend+prom", peer: cycle + "controller-runtime+prom", unit: "ns/op", least: 35},
	}
}

func pipelineGoals() []goal {
	at := func(pc, impl string) string { return "Pipeline/pc=" + pc + "/impl=" + impl }
	dup := func(mode, impl string) string { return "DuplicateAdd/mode=" + mode + "/impl=" + impl }
	return []goal{
		{id: "G3", what: "pipeline 8x8", ours: at("8x8", "tend"), peer: at("8x8", "client-go"), unit: "ns/op", least: 6},
		{id: "G3", what: "pipeline 8x8 with Prometheus", ours: at("8x8", "tend+prom"), peer: at("8x8", "client-go+prom"), unit: "ns/op", least: 8.5},
		{id: "G3", what: "pipeline 64x64", ours: at("64x64", "tend"), peer: at("64x64", "client-go"), unit: "ns/op", least: 5.8},
		{id: "G3", what: "64x64 at most 1.3 times its own 1x1", ours: at("64x64", "tend"), peer: at("1x1", "tend"), unit: "ns/op", least: 1 / 1.3},
		{id: "G3", what: "duplicate add", ours: dup("serial", "tend"), peer: dup("serial", "client-go"), unit: "ns/op", least: 1.3},
		{id: "G3", what: "duplicate add, parallel", ours: dup("parallel", "tend"), peer: dup("parallel", "client-go"), unit: "ns/op", least: 2},
	}
}

// controllerGoals are about runs that do what reconcilers do. The run that does
// nothing has rows of its own, and no goal.
func controllerGoals() []goal {
	at := func(work, impl string) string { return "Controller/workers=8/work=" + work + "/impl=" + impl }
	beside := func(work, peer, unit string, least float64) goal {
		return goal{id: "G4", what: "a run with its " + work, ours: at(work, "tend+prom"), peer: at(work, peer), unit: unit, least: least}
	}
	const loop, careful, runtime = "client-go+prom", "client-go-careful+prom", "controller-runtime+prom"
	return []goal{
		beside("context", runtime, "ns/op", 10),
		beside("context", loop, "ns/op", 3),
		beside("context", careful, "ns/op", 4),
		beside("context", runtime, "cpu-ns/op", 7),
		beside("context", loop, "cpu-ns/op", 2),
		{id: "G4", what: "a run with its context, allocations", ours: at("context", "tend+prom"), unit: "allocs/op", most: 3},
		beside("cache", loop, "ns/op", 1.2),
		beside("status", loop, "ns/op", 1.2),
		beside("http", loop, "ns/op", 0.98),
	}
}

func otherGoals() []goal {
	big := func(impl string) string { return "Delayed/keys=1M/over=10s/impl=" + impl }
	calm := func(impl string) string { return "Delayed/keys=10k/over=2s/impl=" + impl }
	mem := func(state string) string { return "Memory/keys=1M/state=" + state + "/impl=tend" }
	deep := func(depth, impl string) string { return "Depth/depth=" + depth + "/impl=" + impl }
	retry := func(impl string) string { return "Retry/keys=100k/impl=" + impl }
	return []goal{
		{id: "G5", what: "1M delayed, p99 late, ms", ours: big("tend"), unit: "p99-ms", most: 1.6},
		{id: "G5", what: "1M delayed, p99 late", ours: big("tend"), peer: big("client-go"), unit: "p99-ms", least: 30},
		{id: "G5", what: "1M delayed, CPU per key", ours: big("tend"), peer: big("client-go"), unit: "cpu-ns/key", least: 4},
		{id: "G5", what: "1M delayed, AddAfter", ours: big("tend"), peer: big("client-go"), unit: "ns/add", least: 6},
		{id: "G5", what: "1M delayed, early", ours: big("tend"), unit: "early"},
		{id: "G5", what: "10k delayed, p99 late", ours: calm("tend"), peer: calm("client-go"), unit: "p99-ms", least: 1},
		{id: "G6", what: "B/key queued", ours: mem("queued"), unit: "B/key", most: 62},
		{id: "G6", what: "B/key delayed", ours: mem("delayed"), unit: "B/key", most: 62},
		{id: "G6", what: "B/key backing off", ours: mem("failed"), unit: "B/key", most: 62},
		{id: "G6", what: "B/key after success", ours: mem("succeeded"), unit: "B/key", most: 2},
		{id: "G7", what: "1M resident keys", ours: deep("1M", "tend"), peer: deep("1M", "client-go"), unit: "ns/op", least: 2.7},
		{id: "G7", what: "what 1M resident keys add to 1k, ns", ours: deep("1M", "tend"), minus: deep("1k", "tend"), unit: "ns/op", most: 220},
		{id: "G7", what: "10M resident keys", ours: deep("10M", "tend"), peer: deep("10M", "client-go"), unit: "ns/op", least: 2.2},
		{id: "G8", what: "retry", ours: retry("tend"), peer: retry("client-go"), unit: "ns/op", least: 7},
		{id: "G8", what: "retry", ours: retry("tend"), peer: retry("controller-runtime"), unit: "ns/op", least: 2.6},
		{id: "G9", what: "contended Add, p99, ns", ours: "Contention/impl=tend", unit: "p99-ns/add", most: 1e5},
		{id: "G9", what: "contended Add, p99", ours: "Contention/impl=tend", peer: "Contention/impl=controller-runtime", unit: "p99-ns/add", least: 20},
	}
}

func storeGoals() []goal {
	mem := func(op, impl string) string { return "Store/backend=memory/op=" + op + "/impl=" + impl }
	file := func(writers, impl string) string {
		return "Store/backend=file/op=put/writers=" + writers + "/impl=" + impl
	}
	cluster := func(op, impl string) string { return "Store/backend=etcd/op=" + op + "/impl=" + impl }
	gs := []goal{
		{id: "G10", what: "cache read", ours: mem("cached-get", "tend"), peer: mem("cached-get", "limit"), unit: "ns/op", least: 1 / 1.7},
		{id: "G10", what: "Get", ours: mem("get", "tend"), peer: mem("get", "limit"), unit: "ns/op", least: 1 / 1.4},
		{id: "G10", what: "update CAS", ours: mem("update", "tend"), peer: mem("update", "limit"), unit: "ns/op", least: 1 / 1.6},
		{id: "G10", what: "list of 10k through the cache", ours: mem("cached-list-10k", "tend"), peer: mem("cached-list-10k", "limit"), unit: "ns/op", least: 1 / 1.6},
		{id: "G10", what: "update until 100 watchers have it", ours: mem("watch/watchers=100", "tend"), peer: mem("watch/watchers=100", "limit"), unit: "ns/op", least: 1 / 2.5},
		{id: "G10", what: "B/object", ours: "StoreMemory/objects=100k/impl=tend", peer: "StoreMemory/objects=100k/impl=limit", unit: "B/object", least: 1 / 1.4},
	}
	for _, writers := range []string{"1", "16", "128"} {
		gs = append(gs, goal{id: "G11", what: "file, " + writers + " writers", ours: file(writers, "tend"), peer: file(writers, "bbolt"), unit: "ns/op", least: 0.9})
	}
	return append(gs,
		goal{id: "G12", what: "etcd CAS, 1 writer", ours: cluster("cas/clients=1", "tend"), peer: cluster("cas/clients=1", "clientv3"), unit: "ns/op", least: 1 / 1.08},
		goal{id: "G12", what: "etcd CAS, 64 writers", ours: cluster("cas/clients=64", "tend"), peer: cluster("cas/clients=64", "clientv3"), unit: "ns/op", least: 2.2},
		goal{id: "G12", what: "etcd CAS, 256 writers", ours: cluster("cas/clients=256", "tend"), peer: cluster("cas/clients=256", "clientv3"), unit: "ns/op", least: 2.8},
		goal{id: "G12", what: "etcd, 100 watchers", ours: cluster("watch/watchers=100", "tend"), peer: cluster("watch/watchers=100", "clientv3"), unit: "ns/op", least: 4})
}

// postgresGoals are against raw pgx at its best pool, so each pool has to be reached.
func postgresGoals() []goal {
	at := func(work string) string { return "Store/backend=postgres/" + work }
	gs := []goal{{id: "G18", what: "PostgreSQL CAS, 1 writer, times raw", ours: at("op=cas/objects=100k/clients=1/turns"), unit: "x-raw", floor: 0.85}}
	for _, g := range []struct {
		objects, writers string
		floor            float64
	}{{"100k", "16", 1.5}, {"100k", "64", 2.5}, {"100k", "256", 4}, {"1M", "256", 3}} {
		for _, pool := range []string{"8", "32", "64"} {
			gs = append(gs, goal{
				id: "G18", what: "PostgreSQL CAS, " + g.writers + " writers, " + g.objects + " objects, times raw with a pool of " + pool,
				ours: at("op=cas/objects=" + g.objects + "/clients=" + g.writers + "/turns/pool=" + pool), unit: "x-raw", floor: g.floor,
			})
		}
	}
	return append(gs,
		goal{id: "G18", what: "PostgreSQL, 100 watchers", ours: at("op=watch/watchers=100/impl=tend"), peer: at("op=watch/watchers=100/impl=pgx"), unit: "ns/op", least: 4},
		goal{id: "G18", what: "PostgreSQL, a change is with a watcher, idle, times raw", ours: at("op=deliver/writers=0/turns"), unit: "x-raw", floor: 1 / 1.2},
		goal{id: "G18", what: "PostgreSQL, a change is with a watcher, 64 writers", ours: at("op=deliver/writers=64/impl=tend"), peer: at("op=deliver/writers=64/impl=pgx"), unit: "median-ns", least: 1 / 0.3})
}

func convergeGoals() []goal {
	at := func(objects, impl string) string { return "Converge/objects=" + objects + "/impl=" + impl }
	return []goal{
		{id: "G13", what: "converge 100k objects", ours: at("100k", "tend"), peer: at("100k", "client-go"), unit: "ns/op", least: 1.5},
		{id: "G13", what: "100k objects at most 1.25 times their parts, CPU", ours: at("100k", "tend"), peer: at("100k", "parts"), unit: "cpu-ns/op", least: 1 / 1.25},
		{id: "G13", what: "an object among 1M at most 2.5 times one among 10k", ours: at("1M", "tend"), peer: at("10k", "tend"), unit: "ns/object", least: 1 / 2.5},
		{id: "G13", what: "allocations of one among 1M at most 1.05 times those of one among 10k", ours: at("1M", "tend"), peer: at("10k", "tend"), unit: "allocs/object", least: 1 / 1.05},
		{id: "G14", what: "binary, MB", ours: "Size/impl=tend", peer: "Size/impl=controller-runtime", unit: "MB", least: 1},
		{id: "G14", what: "modules in the graph", ours: "Size/impl=tend", peer: "Size/impl=controller-runtime", unit: "modules", least: 1},
		{id: "G14", what: "modules linked", ours: "Size/impl=tend", peer: "Size/impl=controller-runtime", unit: "linked", least: 1},
		{id: "G15", what: "100k delayed keys, CPU ms in 5 s", ours: "Idle/keys=100k/impl=tend", unit: "cpu-ms", most: 10},
	}
}

func goals() []goal {
	gs := append(cycleGoals(), pipelineGoals()...)
	gs = append(append(gs, controllerGoals()...), otherGoals()...)
	return slices.Concat(gs, storeGoals(), postgresGoals(), convergeGoals())
}

// writeGoals writes every goal, met, missed or not measured in this run.
func (r *results) writeGoals(b *strings.Builder) {
	b.WriteString("## Goals\n\n| | work | peer | ours | theirs | ratio | in CPU time | goal | |\n|---|---|---|---:|---:|---:|---:|---|---|\n")
	for _, g := range goals() {
		b.WriteString(r.goal(g))
	}
	b.WriteString("\n" + asserted)
}

// asserted is what the goals ask for besides, and is not measured but counted, by
// tests that CI runs.
const asserted = "Counted by tests in CI, and not in the table: no allocation of any way of a key through the queue (queue, TestNothingIsAllocated), " +
	"an eighth of one of a run and one more where the run asks for Done (reconcile, TestRunAllocatesTheChannelOfDoneAlone); the bytes of a key in every state, 32 more with its error " +
	"(queue, TestKeysCostLittleMemory); that what one operation rebuilds at most, a segment, does not grow with the number of keys " +
	"(queue, TestWorkPerKeyDoesNotGrowWithTheirNumber).\n"

func (r *results) goal(g goal) string {
	ours, ok := r.figure(g.ours, g.unit)
	if !ok {
		return fmt.Sprintf("| %s | %s | | | | | | | not measured |\n", g.id, g.what)
	}
	if g.minus != "" {
		without, ok := r.figure(g.minus, g.unit)
		if !ok {
			return fmt.Sprintf("| %s | %s | | | | | | | not measured |\n", g.id, g.what)
		}
		ours.median -= without.median
		ours.spread = 0 // of a difference it says nothing
	}
	if g.peer == "" && g.floor > 0 {
		return fmt.Sprintf("| %s | %s | | %v | | | | ≥ %v | %s |\n", g.id, g.what, ours, g.floor, verdict(ours.median >= g.floor))
	}
	if g.peer == "" {
		return fmt.Sprintf("| %s | %s | | %v | | | | ≤ %v | %s |\n", g.id, g.what, ours, g.most, verdict(ours.median <= g.most))
	}
	theirs, ok := r.figure(g.peer, g.unit)
	if !ok || ours.median == 0 {
		return fmt.Sprintf("| %s | %s | | %v | | | | | not measured |\n", g.id, g.what, ours)
	}
	ratio := theirs.median / ours.median
	cpu, judged := "", ratio
	if g.unit == "ns/op" {
		mine, ok1 := r.figure(g.ours, "cpu-ns/op")
		other, ok2 := r.figure(g.peer, "cpu-ns/op")
		if ok1 && ok2 && mine.median > 0 {
			cpu = fmt.Sprintf("%.*f", places(g.least), other.median/mine.median)
			if ours.dirty || theirs.dirty {
				judged = other.median / mine.median
			}
		}
	}
	missed := verdict(judged >= g.least)
	if ratio, ok := r.bare(g); ok && judged < g.least {
		missed += fmt.Sprintf("; least: %.*f", places(g.least), ratio)
	}
	peer := g.peer[strings.LastIndexByte(g.peer, '=')+1:]
	return fmt.Sprintf("| %s | %s | %s | %v | %v | %.*f | %s | ≥ %.*f | %s |\n",
		g.id, g.what, peer, ours, theirs, places(g.least), ratio, cpu, places(g.least), g.least, missed)
}

// bare is the ratio that a queue without any promise reaches beside the same peer;
// where that is tend itself, beside itself.
func (r *results) bare(g goal) (ratio float64, ok bool) {
	for _, impl := range []string{"least", "least-entry"} {
		as := func(name string) string {
			work, _, _ := strings.Cut(name, "impl=")
			return work + "impl=" + impl
		}
		peer := g.peer
		if strings.HasSuffix(peer, "impl=tend") {
			peer = as(peer)
		}
		ours, ok1 := r.figure(as(g.ours), g.unit)
		theirs, ok2 := r.figure(peer, g.unit)
		if ok1 && ok2 && ours.median > 0 {
			return theirs.median / ours.median, true
		}
	}
	return 0, false
}

// places is with how many decimals a ratio is shown: 0.9 is not the same as 0.93.
func places(least float64) int {
	if least < 1 {
		return 2
	}
	return 1
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "**missed**"
}
