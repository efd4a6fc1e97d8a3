package depend

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
)

// graphs calls f for every graph over n objects: of all pairs, or of those without cycles
// only those in which objects need others of a lower number.
func graphs(n int, cycles bool, f func(needs [][]int)) {
	pairs := pairsOf(n, cycles)
	for bits := range 1 << len(pairs) {
		f(needsOf(n, pairs, bits))
	}
}

func pairsOf(n int, cycles bool) (pairs [][2]int) {
	for i := range n {
		for j := range n {
			if j < i || cycles && i != j {
				pairs = append(pairs, [2]int{i, j})
			}
		}
	}
	return pairs
}

// needsOf is the graph of those of the pairs whose bits are set.
func needsOf(n int, pairs [][2]int, bits int) [][]int {
	needs := make([][]int, n)
	for b, p := range pairs {
		if bits>>b&1 == 1 {
			needs[p[0]] = append(needs[p[0]], p[1])
		}
	}
	return needs
}

func permutations(n int) (all [][]int) {
	var extend func(p []int)
	extend = func(p []int) {
		if len(p) == n {
			all = append(all, slices.Clone(p))
		}
		for i := range n {
			if !slices.Contains(p, i) {
				extend(append(p, i))
			}
		}
	}
	extend(nil)
	return all
}

func TestAttemptsStartAnewOnlyForSomethingElse(t *testing.T) {
	x := newIndex(time.Minute)
	u, created := x.refer(keyOf(1), []target{{0, keyOf(0)}}, 1)
	n := created[0]
	ready := func(value string) state { return state{exists: true, met: true, asked: asked{"u", value}} }
	run := func() {
		t.Helper()
		if open, _ := x.begin(u, []state{n.now}); !open {
			t.Fatal("it may not go on")
		}
		x.end(u, true, 0)
	}
	want := func(what string, got []wake, woken, keep bool) {
		t.Helper()
		if len(got) > 1 || len(got) == 1 != woken || woken && got[0].keep != keep {
			t.Errorf("%s: %+v, want woken %v, attempts kept %v", what, got, woken, keep)
		}
	}
	x.set(n, ready("a"), 0)
	run()
	want("a needed object that is not ready", x.set(n, state{exists: true, asked: asked{"u", "a"}}, 0), false, false)
	want("ready again, as it was, after a failure", x.set(n, ready("a"), 0), true, true)
	again := x.set(n, ready("b"), 0)
	want("another value before the woken one has run", again, true, false)
	if len(again) > 0 && !again[0].again {
		t.Error("a repeated wake is taken for a first one")
	}
	run()
	want("another value at once", x.set(n, ready("c"), 0), true, true)
	run()
	want("another value within Fresh", x.set(n, ready("d"), time.Minute-1), true, true)
	run()
	want("another value after Fresh", x.set(n, ready("e"), time.Minute), true, false)
	run()
	want("another value within Fresh of the second start", x.set(n, ready("f"), 2*time.Minute-1), true, true)
	run()
	x.set(n, state{exists: true, asked: asked{"u", "g"}}, 2*time.Minute)
	x.begin(u, []state{n.now})
	want("back to what the last run saw", x.set(n, ready("f"), time.Hour), true, true)
}

// A run that began, and then read of a needed object what its cache does not show yet, waits: it is woken
// when the object is usable, and not before the cache had time.
func TestRunThatFoundMoreThanItsCacheIsWoken(t *testing.T) {
	x := newIndex(time.Minute)
	u, created := x.refer(keyOf(1), []target{{0, keyOf(0)}}, 1)
	n, ready := created[0], state{exists: true, met: true, asked: asked{"u", "a"}}
	x.set(n, ready, 0)
	if open, _ := x.begin(u, []state{n.now}); !open {
		t.Fatal("it may not go on")
	}
	x.wait(u)
	if got := x.set(n, state{exists: true, asked: asked{"u", "a"}}, 0); len(got) > 0 {
		t.Errorf("%+v is woken by what its run has read", got)
	}
	if got, want := x.set(n, ready, 0), (wake{key: u.key, keep: true, after: behindPause}); len(got) != 1 || got[0] != want {
		t.Errorf("ready again: %+v, want %+v", got, want)
	}
}

// Needed objects that an object names in another order are those that its last run saw: their
// readiness is no news.
//
// Negative control: the mutant "what a run saw is forgotten when an object names more".
func TestWhatARunSawIsKnownWhenAnObjectNamesItOtherwise(t *testing.T) {
	x := newIndex(time.Minute)
	a, b := target{0, keyOf(0)}, target{0, keyOf(2)}
	u, created := x.refer(keyOf(1), []target{a, b}, 1)
	ready := state{exists: true, met: true, asked: asked{uid: "u"}}
	for _, n := range created {
		x.set(n, ready, 0)
	}
	x.begin(u, []state{ready, ready})
	x.end(u, false, 0)
	x.refer(keyOf(1), []target{b, a}, 2)
	for _, n := range created {
		x.set(n, state{exists: true, asked: ready.asked}, 0)
		if w := x.set(n, ready, 0); len(w) > 0 {
			t.Errorf("woken for what the last run saw: %+v", w)
		}
	}
}

// A needed object that loses the finalizer during a run of its user has it taken again by
// another run.
//
// promise E2. Negative control: the mutant "a finalizer that is lost during a run is not taken again".
func TestFinalizerThatIsLostDuringARunIsTakenByAnother(t *testing.T) {
	x := newIndex(time.Minute)
	u, created := x.refer(keyOf(1), []target{{0, keyOf(0)}}, 1)
	n, held := created[0], state{exists: true, met: true, kept: true}
	x.set(n, held, 0)
	x.begin(u, []state{held})
	if w := x.set(n, state{exists: true, met: true}, 0); len(w) > 0 {
		t.Errorf("woken during the run: %+v", w)
	}
	if w, ok := x.end(u, false, 0); !ok || !w.keep {
		t.Errorf("after the run: %+v %v, want a wake that keeps the attempts", w, ok)
	}
}

// A finalizer that is lost while a run cannot begin, because the object itself or another one
// is not ready, is taken again by a run as soon as one can.
//
// promise E2. Negative control: the mutant "a finalizer that is lost while its user waits is not taken again".
func TestFinalizerThatIsLostWhileItsUserWaitsIsTakenLater(t *testing.T) {
	for _, other := range []bool{false, true} {
		for _, during := range []bool{false, true} {
			x := newIndex(time.Minute)
			u, created := x.refer(keyOf(1), []target{{0, keyOf(0)}, {0, keyOf(2)}}, 1)
			n, beside := created[0], created[1]
			held := state{exists: true, met: true, kept: true}
			x.set(n, held, 0)
			x.set(beside, held, 0)
			x.begin(u, []state{held, held})
			if !during {
				x.end(u, false, 0)
			}
			x.set(beside, state{exists: true, kept: true, met: !other}, 0)
			early := x.set(n, state{exists: true, met: other}, 0)
			if during {
				if w, ok := x.end(u, false, 0); ok {
					early = append(early, w)
				}
			}
			var woken []wake
			for _, c := range created {
				woken = append(woken, x.set(c, state{exists: true, met: true, kept: c == beside}, 0)...)
			}
			if len(early) > 0 || len(woken) != 1 || !woken[0].keep {
				t.Errorf("another one is not ready %v, lost during a run %v: woken %+v, and then %+v, want once, when all is ready, with the attempts kept", other, during, early, woken)
			}
		}
	}
}

// What becomes ready while its user runs, and fails, is no cure that is lost.
func TestReadinessDuringAFailingRunEndsItsBackoff(t *testing.T) {
	x := newIndex(time.Minute)
	u, created := x.refer(keyOf(1), []target{{0, keyOf(0)}}, 1)
	n, ready := created[0], state{exists: true, met: true}
	x.set(n, ready, 0)
	x.begin(u, []state{n.now})
	x.set(n, state{exists: true}, 0)
	if w := x.set(n, ready, 0); len(w) > 0 {
		t.Errorf("woken during the run: %+v", w)
	}
	if w, ok := x.end(u, true, 0); !ok || !w.keep {
		t.Errorf("after the run: %+v %v, want a wake that keeps the attempts", w, ok)
	}
	x.begin(u, []state{n.now})
	x.set(n, state{exists: true}, 0)
	x.set(n, ready, 0)
	if w, ok := x.end(u, false, 0); ok {
		t.Errorf("after a success: %+v", w)
	}
}

// A needed object changes between the look of an object's first run and the note that the
// run has begun: the run saw the old value, so it is made again. One that the index has not
// heard of yet is told as always, and wakes nothing twice.
func TestChangeBetweenTheLookAndTheRunIsSeenByAnotherRun(t *testing.T) {
	x := newIndex(time.Minute)
	at := func(value string) state {
		return state{exists: true, met: true, asked: asked{uid: "1", value: value}}
	}
	one := []target{{0, keyOf(0)}}
	u, created := x.refer(keyOf(1), one, 1)
	x.set(created[0], at("old"), 0)
	x.set(created[0], at("new"), 0) // after the look
	if open, _ := x.begin(u, []state{at("old")}); !open {
		t.Fatal("the run may not go on")
	}
	if _, again := x.end(u, false, 0); !again {
		t.Error("the run saw the old value, and no other follows")
	}
	u, created = x.refer(keyOf(2), []target{{0, keyOf(3)}}, 1)
	x.begin(u, []state{at("old")})
	if _, again := x.end(u, false, 0); again {
		t.Error("a run whose needed object the index does not know yet is made again")
	}
	if wakes := x.set(created[0], at("old"), 0); len(wakes) > 0 {
		t.Errorf("%v are woken for what they saw", wakes)
	}
}

// Negative control: mutant "a burst without an end is a pace".
func TestPaceLetsABurstThroughAndThenOneAfterTheOther(t *testing.T) {
	p := newPacer(1000, 3)
	for n, want := range []time.Duration{0, 0, 0, time.Millisecond, 2 * time.Millisecond} {
		if got := p.delay(0); got != want {
			t.Errorf("wake %d waits %v, want %v", n, got, want)
		}
	}
	if got := p.delay(time.Second); got != 0 {
		t.Errorf("a second later one waits %v, want none", got)
	}
	for _, endless := range []pacer{newPacer(1, math.MaxInt), newPacer(1000, math.MaxInt/1_500_000), newPacer(math.MaxInt, math.MaxInt)} {
		for n := range 3 {
			if got := endless.delay(time.Hour); got != 0 {
				t.Errorf("of %d at once wake %d waits %v, want none", endless.burst, n, got)
			}
		}
	}
	p = pacer{gap: time.Millisecond, burst: 1000, next: time.Hour}
	if got := p.delay(0); got != time.Hour {
		t.Errorf("behind an hour of others one waits %v", got)
	}
}

func TestHoldsAreReadAsTheyWereWritten(t *testing.T) {
	h := holds{{Ref{"subnet", store.Key{Namespace: "prod", Name: "a/b c"}}, true}, {Ref{"vpc", store.Key{Name: `"/=?`}}, false}}
	var m store.Meta
	h.write(&m)
	got, err := readHolds(&m)
	if err != nil || !slices.Equal(got, h) {
		t.Errorf("%v, %v: want %v; written: %s", got, err, h, m.Annotations[HoldsAnnotation])
	}
	if h := got.settled(); len(h) != 1 || !h[0].firm {
		t.Errorf("settled: %v", h)
	}
	var many holds
	for i := range 20 {
		many = append(many, hold{Ref{"vpc", keyOf(i)}, i == 0})
	}
	for i, x := range many.add([]Ref{{"vpc", keyOf(7)}, {"vpc", keyOf(30)}}, true) {
		if want := i == 0 || i == 7 || i == 20; x.firm != want {
			t.Errorf("of 20 holds of which one becomes firm, and one is new, number %d is firm: %v", i, x.firm)
		}
	}
	h.only(nil).write(&m)
	if _, there := m.Annotations[HoldsAnnotation]; there {
		t.Error("an empty record is kept")
	}
	for _, bad := range []string{"x", `["vpc/a"]`, `["=vpc"]`, `["=/a"]`, `[""]`} {
		m.Annotations[HoldsAnnotation] = bad
		if h, err := readHolds(&m); err == nil && bad != `["=/a"]` {
			t.Errorf("%s is read as %v", bad, h)
		}
	}
}

func TestOrderPutsEachAfterWhatItNeeds(t *testing.T) {
	ref := func(i int) Ref { return Ref{"thing", keyOf(i)} }
	graphs(4, true, func(needs [][]int) {
		all := []Ref{ref(0), ref(1), ref(2), ref(3)}
		order, cycle := Order(all, func(r Ref) (refs []Ref) {
			for _, n := range needs[slices.Index(all, r)] {
				refs = append(refs, ref(n))
			}
			return refs
		})
		if len(order) != 4 {
			t.Fatalf("%v: %v", needs, order)
		}
		right := true
		for i := range needs {
			for _, n := range needs[i] {
				right = right && slices.Index(order, ref(n)) < slices.Index(order, ref(i))
			}
		}
		if right != (cycle == nil) {
			t.Fatalf("%v: order %v, cycle %v", needs, order, cycle)
		}
		for i := range len(cycle) - 1 {
			if !slices.Contains(needs[slices.Index(all, cycle[i])], slices.Index(all, cycle[i+1])) {
				t.Fatalf("%v: %v is no cycle", needs, cycle)
			}
		}
	})
}

// The order of ten thousand objects with 30,000 references asks of each once what it needs,
// and so follows each reference once, also where all of them are one long way.
func TestOrderVisitsEachObjectOnce(t *testing.T) {
	const n = 10_000
	for name, needs := range map[string]func(i int) []int{
		"a long way":        func(i int) []int { return []int{i - 1, i - 2, i - 3} },
		"one that all need": func(i int) []int { return []int{0, i / 2, i / 3} },
		"a circle of all":   func(i int) []int { return []int{(i + 1) % n, i - 1, i - 2} },
	} {
		asked, followed := map[Ref]int{}, 0
		var all []Ref
		for i := range n {
			all = append(all, Ref{"thing", keyOf(n - 1 - i)})
		}
		order, _ := Order(all, func(r Ref) (refs []Ref) {
			asked[r]++
			i, _ := strconv.Atoi(r.Key.Name)
			for _, to := range needs(i) {
				if to >= 0 && to != i {
					refs = append(refs, Ref{"thing", keyOf(to)})
				}
			}
			followed += len(refs)
			return refs
		})
		visits := 0
		for _, times := range asked {
			visits += times
		}
		if len(order) != n || len(asked) != n || visits != n || followed > 3*n {
			t.Errorf("%s: %d in order, %d of them asked, %d times, %d references followed", name, len(order), len(asked), visits, followed)
		}
	}
}

// classes calls f for one graph of each class of graphs that differ only in the numbers of
// their objects, and says how many there are.
func classes(n int, cycles bool, f func(needs [][]int)) (count int) {
	orders, pairs := permutations(n), pairsOf(n, cycles)
	seen := make([]bool, 1<<(n*n))
	for bits := range 1 << len(pairs) {
		code := 0
		for b, p := range pairs {
			code |= bits >> b & 1 << (p[0]*n + p[1])
		}
		if seen[code] {
			continue
		}
		needs := needsOf(n, pairs, bits)
		for _, order := range orders {
			code := 0
			for i := range needs {
				for _, to := range needs[i] {
					code |= 1 << (order[i]*n + order[to])
				}
			}
			seen[code] = true
		}
		count++
		f(needs)
	}
	return count
}
