package depend

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
)

// world is the reference: objects that are declared or not, and ready or not, and the
// queue of those that are to run. It knows of the index nothing but its answers.
type world struct {
	t     testing.TB
	x     index
	needs [][]int // by object
	queue []int   // keys to be run, none twice

	declared, ready, waits []bool
	uid, seen              []int // seen: sum of the uids that the last run saw
	woken                  []int // since it last ran
	log                    []string
}

func newWorld(t testing.TB, needs [][]int) *world {
	n := len(needs)
	return &world{
		t: t, x: newIndex(time.Minute), needs: needs,
		declared: make([]bool, n), ready: make([]bool, n), waits: make([]bool, n),
		uid: make([]int, n), seen: make([]int, n), woken: make([]int, n),
	}
}

func keyOf(i int) store.Key { return store.Key{Name: strconv.Itoa(i)} }

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nneeds %v\n%v", fmt.Sprintf(format, args...), w.needs, w.log)
}

// met is the whole of the rule.
func (w *world) met(i int) bool {
	return !slices.ContainsFunc(w.needs[i], func(n int) bool { return !w.declared[n] || !w.ready[n] })
}

func (w *world) state(i int) state {
	if !w.declared[i] {
		return state{}
	}
	return state{exists: true, met: w.ready[i], asked: asked{uid: strconv.Itoa(w.uid[i])}}
}

func (w *world) add(i int) {
	if !slices.Contains(w.queue, i) {
		w.queue = append(w.queue, i)
	}
}

func (w *world) refer(i int) *user {
	var targets []target
	if w.declared[i] {
		for _, n := range w.needs[i] {
			targets = append(targets, target{0, keyOf(n)})
		}
	}
	u, created := w.x.refer(keyOf(i), targets, 1)
	for _, n := range created {
		w.set(n)
	}
	return u
}

func (w *world) set(n *node) {
	i, _ := strconv.Atoi(n.key.Name)
	for _, k := range w.x.set(n, w.state(i), 0) {
		u, _ := strconv.Atoi(k.key.Name)
		w.wake(u)
	}
}

// wake checks that a user is woken only when it may go on, for a reason, and once.
func (w *world) wake(u int) {
	w.log = append(w.log, fmt.Sprint("wake ", u))
	switch w.woken[u]++; {
	case !w.declared[u]:
		w.fail("%d is woken, and is not declared", u)
	case !w.met(u):
		w.fail("%d is woken, and may not go on", u)
	case w.woken[u] > 1:
		w.fail("%d is woken twice, and has not run between", u)
	case !w.waits[u] && w.seen[u] == w.sees(u):
		w.fail("%d is woken without a cause", u)
	}
	w.add(u)
}

func (w *world) sees(u int) (sum int) {
	for _, n := range w.needs[u] {
		sum += w.uid[n]
	}
	return sum
}

// changed tells the index that an object is not as it was.
func (w *world) changed(i int) {
	if n := w.x.nodes[target{0, keyOf(i)}]; n != nil {
		w.set(n)
	}
}

var uids int

func (w *world) declare(i int) {
	if w.declared[i] {
		return
	}
	uids++
	w.log = append(w.log, fmt.Sprint("declare ", i))
	w.declared[i], w.uid[i], w.seen[i], w.waits[i], w.woken[i] = true, uids, 0, false, 0
	w.changed(i)
	w.refer(i)
	w.add(i) // its own controller's source
}

func (w *world) remove(i int) {
	if !w.declared[i] {
		return
	}
	w.log = append(w.log, fmt.Sprint("remove ", i))
	w.declared[i], w.ready[i], w.waits[i] = false, false, false
	w.refer(i)
	w.changed(i)
}

// flip makes an object unready, or ready by another hand.
func (w *world) flip(i int) {
	if !w.declared[i] {
		return
	}
	w.log = append(w.log, fmt.Sprint("flip ", i))
	w.ready[i] = !w.ready[i]
	w.changed(i)
}

// drain runs what is queued. A run that may go on makes its object ready.
func (w *world) drain() {
	for runs := 0; len(w.queue) > 0; runs++ {
		if runs > 100 {
			w.fail("it spins")
		}
		i := w.queue[0]
		w.queue = w.queue[1:]
		if !w.declared[i] {
			continue
		}
		w.run(i)
	}
	for i := range w.needs {
		if w.declared[i] && w.waits[i] && w.met(i) {
			w.fail("%d may go on, and was not woken", i)
		}
	}
}

func (w *world) run(i int) {
	u := w.refer(i)
	w.woken[i] = 0
	var looked []state
	for _, n := range w.needs[i] {
		looked = append(looked, w.state(n))
	}
	open := u == nil || w.x.begin(u, looked)
	if open != w.met(i) {
		w.fail("%d runs: %v, want %v", i, open, w.met(i))
	}
	w.log = append(w.log, fmt.Sprint("run ", i, " ", open))
	if w.waits[i] = !open; !open {
		return
	}
	w.seen[i], w.ready[i] = w.sees(i), true
	w.changed(i)
	if u != nil {
		if _, again := w.x.end(u, false, 0); again {
			w.fail("%d is woken by its own success", i)
		}
	}
}

// empty checks that nothing is kept of objects that are gone.
func (w *world) empty() {
	if len(w.x.users) > 0 || len(w.x.nodes) > 0 {
		w.fail("kept: %d users, %d nodes", len(w.x.users), len(w.x.nodes))
	}
}

// graphs calls f for every graph over n objects: of all pairs, or of those without cycles
// only those in which objects need others of a lower number.
func graphs(n int, cycles bool, f func(needs [][]int)) {
	var pairs [][2]int
	for i := range n {
		for j := range n {
			if j < i || cycles && i != j {
				pairs = append(pairs, [2]int{i, j})
			}
		}
	}
	for bits := range 1 << len(pairs) {
		needs := make([][]int, n)
		for b, p := range pairs {
			if bits>>b&1 == 1 {
				needs[p[0]] = append(needs[p[0]], p[1])
			}
		}
		f(needs)
	}
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

// Every graph without cycles over five objects, declared in every order: each object runs
// when what it needs is ready, is woken then and only then, and all end up ready. They are
// removed in an order that changes from case to case, and nothing is kept.
//
// Controls: the mutants "an object runs before what it needs is ready", "an object that
// waits is not woken", "an object is woken before it may go on" and "an object is woken
// again and again".
func TestEveryOrderOfDeclarationsOfFiveObjects(t *testing.T) {
	orders := permutations(5)
	n := 0
	graphs(5, false, func(needs [][]int) {
		for _, order := range orders {
			if n++; n%stride != 0 {
				continue
			}
			w := newWorld(t, needs)
			for _, i := range order {
				w.declare(i)
				w.drain()
			}
			if i := slices.Index(w.ready, false); i >= 0 {
				w.fail("%d is not ready", i)
			}
			for _, i := range orders[n/stride%len(orders)] {
				w.remove(i)
			}
			w.empty()
		}
	})
}

// Every sequence of four events (declared, removed, becoming unready or ready again) on
// every graph over three objects, with all cycles: what may run runs, nothing else does,
// nothing is woken without a cause or twice; with runs after each event, and at the end.
func TestEverySequenceOfEventsOnThreeObjects(t *testing.T) {
	const length = 4
	graphs(3, true, func(needs [][]int) {
		for code0 := range 2 * 9 * 9 * 9 * 9 {
			if code0%stride != 0 {
				continue
			}
			w := newWorld(t, needs)
			for code := range steps(code0/2, length) {
				i := code / 3
				switch code % 3 {
				case 0:
					w.declare(i)
				case 1:
					w.remove(i)
				case 2:
					w.flip(i)
				}
				if between := code0&1 == 0; between {
					w.drain()
				}
			}
			w.drain()
			for i := range 3 {
				w.remove(i)
			}
			w.empty()
		}
	})
}

// steps are the digits of a number to the base 9.
func steps(code, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for range n {
			if !yield(code % 9) {
				return
			}
			code /= 9
		}
	}
}

func TestAttemptsStartAnewOnlyForSomethingElse(t *testing.T) {
	x := newIndex(time.Minute)
	u, created := x.refer(keyOf(1), []target{{0, keyOf(0)}}, 1)
	n := created[0]
	ready := func(value string) state { return state{exists: true, met: true, asked: asked{"u", value}} }
	run := func() {
		t.Helper()
		if !x.begin(u, []state{n.now}) {
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
	want("a change before the woken one has run", x.set(n, ready("b"), 0), false, false)
	run()
	want("another value", x.set(n, ready("c"), 0), true, false)
	run()
	want("another value within Fresh", x.set(n, ready("d"), time.Minute-1), true, true)
	run()
	want("another value after Fresh", x.set(n, ready("e"), time.Minute), true, false)
	run()
	x.set(n, state{exists: true, asked: asked{"u", "f"}}, time.Minute)
	x.begin(u, []state{n.now})
	want("back to what the last run saw", x.set(n, ready("e"), time.Hour), true, true)
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
	if !x.begin(u, []state{at("old")}) {
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
	orders := permutations(n)
	seen := make(map[int]struct{})
	graphs(n, cycles, func(needs [][]int) {
		for p, order := range orders {
			code := 0
			for i := range needs {
				for _, to := range needs[i] {
					code |= 1 << (order[i]*n + order[to])
				}
			}
			if _, twice := seen[code]; twice && p == 0 {
				return
			}
			seen[code] = struct{}{}
		}
		count++
		f(needs)
	})
	return count
}

// Every sequence of events on objects that all stand: two of them on every graph over four
// objects with all cycles, and two on every one over five without, with runs after each
// event, and at the end. An event is one that changes something: an object that is there is
// removed or flips, one that is not is declared.
//
// Of graphs that differ only in the numbers of their objects one is taken, because every
// event happens to every object: 218 graphs over four objects in place of 4096, and 302 over
// five in place of 29,281 (of which 1024 have their needs among lower numbers). Graphs over
// five with cycles, of which there are 9608, and longer sequences are left to the
// simulation.
func TestEveryPairOfEventsOnUpToFiveObjects(t *testing.T) {
	for _, c := range []struct {
		n      int
		cycles bool
		graphs int
	}{{4, true, 218}, {5, false, 302}} {
		sequences := 0
		found := classes(c.n, c.cycles, func(needs [][]int) {
			for code := range 2 * (2 * c.n) * (2 * c.n) {
				if sequences++; sequences%stride != 0 {
					continue
				}
				w := newWorld(t, needs)
				for i := range c.n {
					w.declare(i)
				}
				w.drain()
				for events, n := code/2, 0; n < 2; n++ {
					event := events % (2 * c.n)
					events /= 2 * c.n
					i := event / 2
					switch {
					case !w.declared[i]:
						w.declare(i)
					case event%2 == 0:
						w.remove(i)
					default:
						w.flip(i)
					}
					if code%2 == 0 {
						w.drain()
					}
				}
				w.drain()
				for i := range c.n {
					w.remove(i)
				}
				w.empty()
			}
		})
		if found != c.graphs || sequences != c.graphs*8*c.n*c.n {
			t.Errorf("%d graphs over %d objects with %d sequences, want %d with %d", found, c.n, sequences, c.graphs, c.graphs*8*c.n*c.n)
		}
	}
}
