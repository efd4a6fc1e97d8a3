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
}

// beside is a goal of at most so many times what a peer takes.
func beside(id, what, ours, peer, unit string, times float64) goal {
	return goal{id: id, what: what, ours: ours + "tend", peer: ours + peer, unit: unit, least: 1 / times}
}

func cycleGoals() []goal {
	const cycle = "Cycle/key=string/keys=1k/impl="
	return []goal{
		beside("G1", "cycle", cycle, "least-entry", "ns/op", 1.25),
		beside("G1", "cycle, struct keys", "Cycle/key=struct/keys=1k/impl=", "least-entry", "ns/op", 1.25),
		{id: "G1", what: "cycle, adapter", ours: cycle + "tend-workqueue", peer: cycle + "least-entry", unit: "ns/op", least: 1 / 1.5},
		{id: "G1", what: "cycle, allocations", ours: cycle + "tend", unit: "allocs/op"},
		{id: "G2", what: "cycle with Prometheus", ours: cycle + "tend+prom", peer: cycle + "client-go+prom", unit: "ns/op", least: 6.5},
		{id: "G2", what: "cycle with Prometheus", ours: cycle + "tend+prom", peer: cycle + "controller-runtime+prom", unit: "ns/op", least: 30},
	}
}

func pipelineGoals() []goal {
	at := func(pc string) string { return "Pipeline/pc=" + pc + "/impl=" }
	return []goal{
		beside("G3", "pipeline 1x1", at("1x1"), "least-entry", "ns/op", 1.25),
		beside("G3", "pipeline 8x8", at("8x8"), "least-entry", "ns/op", 1.25),
		beside("G3", "pipeline 64x64", at("64x64"), "least-entry", "ns/op", 1.25),
		beside("G3", "pipeline 8x8", at("8x8"), "client-go", "ns/op", 1/5.5),
		{id: "G3", what: "pipeline 8x8 with Prometheus", ours: at("8x8") + "tend+prom", peer: at("8x8") + "client-go+prom", unit: "ns/op", least: 12},
	}
}

// controllerGoals are about runs that do what reconcilers do. The run that does
// nothing has rows of its own, and no goal.
func controllerGoals() []goal {
	at := func(work, impl string) string { return "Controller/workers=8/work=" + work + "/impl=" + impl }
	run := func(work, peer, unit string, least float64) goal {
		return goal{id: "G4", what: "a run with its " + work, ours: at(work, "tend+prom"), peer: at(work, peer), unit: unit, least: least}
	}
	const loop, careful, runtime = "client-go+prom", "client-go-careful+prom", "controller-runtime+prom"
	return []goal{
		run("context", runtime, "ns/op", 10),
		run("context", loop, "ns/op", 3),
		run("context", careful, "ns/op", 4),
		run("context", runtime, "cpu-ns/op", 7),
		run("context", loop, "cpu-ns/op", 2),
		{id: "G4", what: "a run with its context, allocations", ours: at("context", "tend+prom"), unit: "allocs/op", most: 3},
		run("cache", loop, "ns/op", 1.2),
		run("status", loop, "ns/op", 1.2),
		run("http", loop, "ns/op", 0.98),
	}
}

func otherGoals() []goal {
	big := func(impl string) string { return "Delayed/keys=1M/over=10s/impl=" + impl }
	mem := func(state string) string { return "Memory/keys=1M/state=" + state + "/impl=tend" }
	deep := func(depth string) string { return "Depth/depth=" + depth + "/impl=" }
	return []goal{
		beside("G5", "1M delayed, p99 late", big(""), "least-entry", "p99-ms", 1.1),
		beside("G5", "1M delayed, p99 late", big(""), "client-go", "p99-ms", 1./30),
		beside("G5", "1M delayed, CPU per key", big(""), "least-entry", "cpu-ns/key", 1.3),
		beside("G5", "1M delayed, AddAfter", big(""), "least-entry", "ns/add", 1.3),
		{id: "G5", what: "1M delayed, early", ours: big("tend"), unit: "early"},
		{id: "G6", what: "B/key queued", ours: mem("queued"), unit: "B/key", most: 74},
		{id: "G6", what: "B/key delayed", ours: mem("delayed"), unit: "B/key", most: 66},
		{id: "G6", what: "B/key backing off", ours: mem("failed"), unit: "B/key", most: 66},
		{id: "G6", what: "B/key after success", ours: mem("succeeded"), unit: "B/key", most: 2},
		beside("G7", "1M resident keys", deep("1M"), "least-entry", "ns/op", 1.1),
		beside("G7", "1M resident keys", deep("1M"), "client-go", "ns/op", 1./2),
		beside("G7", "10M resident keys", deep("10M"), "client-go", "ns/op", 1./2),
		beside("G8", "retry", "Retry/keys=100k/impl=", "least-entry", "ns/op", 1.4),
		{id: "G9", what: "contended Add, p99, ns", ours: "Contention/impl=tend", unit: "p99-ns/add", most: 1e5},
	}
}

func storeGoals() []goal {
	mem := func(op string) string { return "Store/backend=memory/op=" + op + "/impl=" }
	file := func(writers string) string { return "Store/backend=file/op=put/writers=" + writers + "/impl=" }
	cluster := func(op string) string { return "Store/backend=etcd/op=" + op + "/impl=" }
	gs := []goal{
		beside("G10", "cache read", mem("cached-get"), "limit", "ns/op", 1.2),
		beside("G10", "Get", mem("get"), "limit", "ns/op", 1.1),
		beside("G10", "update CAS", mem("update"), "limit", "ns/op", 1.2),
		beside("G10", "update until 100 watchers have it", mem("watch/watchers=100"), "limit", "ns/op", 1),
		beside("G10", "B/object", "StoreMemory/objects=100k/impl=", "limit", "B/object", 1.1),
	}
	for _, writers := range []string{"1", "16", "128"} {
		gs = append(gs, beside("G11", "file, "+writers+" writers", file(writers), "bbolt", "ns/op", 1/0.95))
	}
	return append(gs,
		beside("G12", "etcd CAS, 1 writer", cluster("cas/clients=1"), "clientv3", "ns/op", 1/0.95),
		beside("G12", "etcd CAS, 64 writers", cluster("cas/clients=64"), "clientv3", "ns/op", 1/2.5),
		beside("G12", "etcd CAS, 256 writers", cluster("cas/clients=256"), "clientv3", "ns/op", 1/3.2),
		beside("G12", "etcd, 100 watchers", cluster("watch/watchers=100"), "clientv3", "ns/op", 1./10))
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
		{id: "G13", what: "converge 100k objects", ours: at("100k", "tend"), peer: at("100k", "client-go"), unit: "ns/op", least: 1},
		{id: "G13", what: "an object among 1M at most 1.5 times one among 10k", ours: at("1M", "tend"), peer: at("10k", "tend"), unit: "ns/object", least: 1 / 1.5},
		{id: "G13", what: "allocations of one among 1M at most 1.05 times those of one among 10k", ours: at("1M", "tend"), peer: at("10k", "tend"), unit: "allocs/object", least: 1 / 1.05},
		{id: "G14", what: "binary, MB", ours: "Size/impl=tend", peer: "Size/impl=controller-runtime", unit: "MB", least: 1},
		{id: "G14", what: "modules in the graph", ours: "Size/impl=tend", peer: "Size/impl=controller-runtime", unit: "modules", least: 1},
		{id: "G14", what: "modules linked", ours: "Size/impl=tend", peer: "Size/impl=controller-runtime", unit: "linked", least: 1},
		{id: "G15", what: "100k delayed keys, CPU ms in 5 s", ours: "Idle/keys=100k/impl=tend", unit: "cpu-ms", most: 1},
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
