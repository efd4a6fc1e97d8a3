package main

import (
	"fmt"
	"strings"
)

// A goal is one row of the page: our figure beside a peer's, or beside a bound.
type goal struct {
	id, what   string
	ours, peer string // benchmark names; no peer: compare with most, or with floor
	beside     string // what floor is beside
	unit       string
	least      float64 // peer / ours
	most       float64 // ours, if there is no peer
	floor      float64 // x-raw of ours at least, if there is neither a peer nor most
}

// ahead is a goal of tend (or tend+prom, beside what has metrics too) in the work, which
// ends in "impl=", beside a peer.
func ahead(id, what, work, peer string, times float64) goal {
	ours := "tend"
	if strings.HasSuffix(peer, "+prom") {
		ours += "+prom"
	}
	return goal{id: id, what: what, ours: work + ours, peer: work + peer, unit: "ns/op", least: times}
}

// of is the goal in another unit than time.
func (g goal) of(unit string) goal {
	g.unit = unit
	return g
}

func queueGoals() (gs []goal) {
	cycle := func(key, keys string) string { return "Cycle/key=" + key + "/keys=" + keys + "/impl=" }
	for _, key := range []string{"string", "struct"} {
		for _, keys := range []string{"1k", "1M"} {
			gs = append(gs, ahead("G1", "cycle, "+key+" keys, "+keys, cycle(key, keys), "client-go", 1))
		}
	}
	gs = append(gs,
		goal{id: "G1", what: "cycle, allocations", ours: cycle("string", "1k") + "tend", unit: "allocs/op"},
		ahead("G2", "cycle with Prometheus", cycle("string", "1k"), "client-go+prom", 4),
		ahead("G2", "cycle with Prometheus", cycle("string", "1k"), "controller-runtime+prom", 20),
		ahead("G3", "duplicate add", "DuplicateAdd/mode=serial/impl=", "client-go", 1),
		ahead("G3", "duplicate add, parallel", "DuplicateAdd/mode=parallel/impl=", "client-go", 1),
		ahead("G3", "readd while running", "ReaddWhileRunning/impl=", "client-go", 1))
	for _, pc := range []string{"1x1", "2x2", "8x8", "64x64"} {
		work := "Pipeline/pc=" + pc + "/impl="
		gs = append(gs, ahead("G3", "pipeline "+pc, work, "client-go", 1),
			ahead("G3", "pipeline "+pc+" with Prometheus", work, "client-go+prom", 3),
			ahead("G3", "pipeline "+pc+" with Prometheus", work, "controller-runtime+prom", 8))
	}
	const delayed = "Delayed/keys=1M/over=10s/impl="
	gs = append(gs,
		ahead("G5", "1M delayed, CPU per key", delayed, "client-go", 2).of("cpu-ns/key"),
		ahead("G5", "1M delayed, AddAfter", delayed, "client-go", 2).of("ns/add"),
		ahead("G5", "1M delayed, p99 late", delayed, "client-go", 30).of("p99-ms"),
		goal{id: "G5", what: "1M delayed, early", ours: delayed + "tend", unit: "early"})
	for _, m := range []struct {
		what, state string
		most        float64
	}{{"queued", "queued", 74}, {"delayed", "delayed", 66}, {"backing off", "failed", 66}, {"after success", "succeeded", 2}} {
		gs = append(gs, goal{id: "G6", what: "B/key " + m.what, ours: "Memory/keys=1M/state=" + m.state + "/impl=tend", unit: "B/key", most: m.most})
	}
	for _, keys := range []string{"1k", "100k", "1M", "10M"} {
		gs = append(gs, ahead("G7", keys+" resident keys", "Depth/depth="+keys+"/impl=", "client-go", 1.3))
	}
	return append(gs,
		ahead("G8", "retry", "Retry/keys=100k/impl=", "client-go", 2),
		goal{id: "G9", what: "contended Add, p99, ns", ours: "Contention/impl=tend", unit: "p99-ns/add", most: 1e5})
}

func controllerGoals() (gs []goal) {
	for _, workers := range []string{"8", "1"} {
		for _, w := range []struct {
			work    string
			runtime float64 // times controller-runtime's
		}{{"context", 5}, {"cache", 2.5}, {"status", 2.5}} {
			at := "Controller/workers=" + workers + "/work=" + w.work + "/impl="
			what := "a run with its " + w.work + ", " + workers + " workers"
			gs = append(gs, ahead("G4", what, at, "client-go+prom", 1), ahead("G4", what, at, "client-go-careful+prom", 1.5),
				ahead("G4", what, at, "controller-runtime+prom", w.runtime))
		}
	}
	const at = "Controller/workers=8/work="
	return append(gs, ahead("G4", "a run with its http, 8 workers", at+"http/impl=", "client-go+prom", 0.98),
		goal{id: "G4", what: "a run with its context, allocations", ours: at + "context/impl=tend+prom", unit: "allocs/op", most: 1})
}

func storeGoals() (gs []goal) {
	at := func(backend, op string) string { return "Store/backend=" + backend + "/op=" + op + "/impl=" }
	gs = append(gs, ahead("G10", "cache read", at("memory", "cached-get"), "limit", 1/1.2),
		ahead("G10", "update until 100 watchers have it", at("memory", "watch/watchers=100"), "limit", 1))
	for _, g := range []struct {
		writers string
		least   float64
	}{{"1", 0.85}, {"16", 0.95}, {"128", 0.95}} {
		gs = append(gs, ahead("G11", "file, "+g.writers+" writers", at("file", "put/writers="+g.writers), "bbolt", g.least))
	}
	gs = append(gs,
		ahead("G12", "etcd CAS, 1 writer", at("etcd", "cas/clients=1"), "clientv3", 0.95),
		ahead("G12", "etcd CAS, 64 writers", at("etcd", "cas/clients=64"), "clientv3", 2.5),
		ahead("G12", "etcd CAS, 256 writers", at("etcd", "cas/clients=256"), "clientv3", 3),
		ahead("G12", "etcd, 100 watchers", at("etcd", "watch/watchers=100"), "clientv3", 10),
		ahead("G13", "converge 100k objects", "Converge/objects=100k/impl=", "client-go", 0.7),
		ahead("G13", "converge 2k objects on file", "ConvergeStores/backend=file/impl=", "client-go", 1).of("cpu-ns/object"),
		ahead("G13", "converge 2k objects on etcd", "ConvergeStores/backend=etcd/impl=", "client-go", 1).of("cpu-ns/object"),
		ahead("G13", "converge 2k objects on PostgreSQL", "ConvergeStores/backend=postgres/impl=", "client-go", 1).of("cpu-ns/object"),
		goal{id: "G13", what: "an object among 1M beside one among 10k", ours: "Converge/objects=1M/impl=tend", peer: "Converge/objects=10k/impl=tend", unit: "ns/object", least: 1 / 1.5},
		goal{id: "G14", what: "binary of one controller, MB", ours: "Size/impl=tend", unit: "MB", most: 5.2},
		ahead("G14", "the same, beside", "Size/impl=", "controller-runtime", 1).of("MB"),
		ahead("G14", "modules in the graph", "Size/impl=", "controller-runtime", 1).of("modules"),
		goal{id: "G15", what: "100k delayed keys, CPU ms in 5 s", ours: "Idle/keys=100k/impl=tend", unit: "cpu-ms", most: 1})
	turns := func(op string) string { return "Store/backend=postgres/op=" + op + "/turns" }
	gs = append(gs, goal{id: "G18", what: "PostgreSQL CAS, 1 writer", beside: "raw UPDATE", ours: turns("cas/objects=100k/clients=1"), unit: "x-raw", floor: 0.65})
	for _, g := range []struct {
		writers string
		floor   float64
	}{{"16", 1.5}, {"64", 2.5}, {"256", 4}} {
		for _, pool := range []string{"8", "32", "64"} {
			gs = append(gs, goal{
				id: "G18", what: "PostgreSQL CAS, " + g.writers + " writers, pool of " + pool, beside: "raw UPDATE",
				ours: turns("cas/objects=100k/clients="+g.writers) + "/pool=" + pool, unit: "x-raw", floor: g.floor,
			})
		}
	}
	return append(gs, goal{id: "G18", what: "PostgreSQL, a change is with a watcher, idle", beside: "raw LISTEN, read", ours: turns("deliver/writers=0"), unit: "x-raw", floor: 0.6})
}

func goals() []goal {
	return append(append(queueGoals(), controllerGoals()...), storeGoals()...)
}

func (r *results) writeGoals(b *strings.Builder) {
	b.WriteString("| | work | beside | ours | theirs | ratio | in CPU time | goal | |\n|---|---|---|---:|---:|---:|---:|---|---|\n")
	for _, g := range goals() {
		b.WriteString(r.goal(g))
	}
	b.WriteString("\n" + asserted)
}

// asserted is what CI's tests count, and what other commands measure.
const asserted = "Counted by tests in CI: no allocation of any way of a key through the queue (queue, TestNothingIsAllocated), " +
	"an eighth of one of a run and one more where it asks for Done (reconcile, TestRunAllocatesTheChannelOfDoneAlone); the bytes of a key in every state " +
	"(queue, TestKeysCostLittleMemory); that what one operation rebuilds at most does not grow with the number of keys " +
	"(queue, TestWorkPerKeyDoesNotGrowWithTheirNumber). Beside another commit, such as e961243: `bench/compare.sh`. A cloud (G16): docs/COST.md.\n"

func (r *results) goal(g goal) string {
	ours, ok := r.figure(g.ours, g.unit)
	if !ok {
		return fmt.Sprintf("| %s | %s | | | | | | | not measured |\n", g.id, g.what)
	}
	if g.floor > 0 {
		judged, cpu := ours, ""
		if f, ok := r.figure(g.ours, "cpu-"+g.unit); ok {
			judged, cpu = f, f.String()
		}
		return fmt.Sprintf("| %s | %s | %s | | | %v | %s | ≥ %.2f | %s |\n", g.id, g.what, g.beside, ours, cpu, g.floor, verdict(judged.median >= g.floor))
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
			judged = other.median / mine.median
		}
	}
	peer := g.peer[strings.LastIndexByte(g.peer, '=')+1:]
	return fmt.Sprintf("| %s | %s | %s | %v | %v | %.*f | %s | ≥ %.*f | %s |\n",
		g.id, g.what, peer, ours, theirs, places(g.least), ratio, cpu, places(g.least), g.least, verdict(judged >= g.least))
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
