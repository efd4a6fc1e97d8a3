package depend_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
)

// plan is a state of the reference for a running controller: what of the objects of a graph
// is there, may run, and must wait, when nothing happens any more. It is comparable.
type plan [5]planned

type planned struct {
	declared, deleting bool
	due                bool // a run of it is to come when what it needs is ready
	there, ready       bool // in the cloud; and it says so
	broken             bool // what is in the cloud does not work
}

// act is what a user or the cloud does to an object. Met says that the object may run: what
// breaks while it may not is not seen, and whether its users run before that is seen is
// left to chance.
type act struct {
	name string
	can  func(o planned, met bool) bool
	do   func(o *planned)
}

var acts = []act{
	{"declare", func(o planned, _ bool) bool { return !o.declared }, func(o *planned) { *o = planned{declared: true, due: true} }},
	{"delete", func(o planned, _ bool) bool { return o.declared && !o.deleting }, func(o *planned) { o.deleting, o.due = true, false }},
	{"break", func(o planned, met bool) bool { return o.declared && !o.deleting && !o.broken && met }, func(o *planned) { o.broken, o.due = true, true }},
	{"mend", func(o planned, _ bool) bool { return o.declared && !o.deleting && o.broken }, func(o *planned) { o.broken, o.due = false, true }},
	{"ask for a run of", func(o planned, met bool) bool { return o.declared && !o.deleting && !o.due && !met }, func(o *planned) { o.due = true }},
}

// met is the rule for what may run: all that it needs is there, ready, and not in deletion.
func (p *plan) met(needs [][]int, i int) bool {
	return !slices.ContainsFunc(needs[i], func(n int) bool {
		return !p[n].declared || p[n].deleting || !p[n].ready
	})
}

// used is the rule for what may be deleted: no object that is in the cloud needs it.
func (p *plan) used(needs [][]int, i int) bool {
	for u := range needs {
		if p[u].there && slices.Contains(needs[u], i) {
			return true
		}
	}
	return false
}

// settle does what may be done until there is nothing left, and says which objects may
// have run.
func (p *plan) settle(needs [][]int) (ran [5]bool) {
	for again := true; again; {
		again = false
		for i := range needs {
			switch o := &p[i]; {
			case o.due && p.met(needs, i):
				o.due, o.there, o.ready, again = false, true, !o.broken, true
			case o.deleting && !p.used(needs, i):
				*o, again, ran[i] = planned{}, true, true
			}
			ran[i] = ran[i] || p[i].declared && !p[i].deleting && p.met(needs, i)
		}
	}
	return ran
}

// inCircle reports whether an object waits for itself by way of others that wait.
func (p *plan) inCircle(needs [][]int, i int) bool {
	seen := make([]bool, len(needs))
	var from func(at int) bool
	from = func(at int) bool {
		return slices.ContainsFunc(needs[at], func(n int) bool {
			if !p[n].declared || p[n].ready && !p[n].deleting || seen[n] {
				return false
			}
			if n == i {
				return true
			}
			seen[n] = true
			return from(n)
		})
	}
	return from(i)
}

// move is an act on one object.
type move struct{ act, object int }

// next is what a move leads to.
func (p plan) next(needs [][]int, m move) (plan, [5]bool, bool) {
	if !acts[m.act].can(p[m.object], p.met(needs, m.object)) {
		return p, [5]bool{}, false
	}
	acts[m.act].do(&p[m.object])
	ran := p.settle(needs)
	return p, ran, true
}

func moves(n int) (all []move) {
	for a := range acts {
		for i := range n {
			all = append(all, move{a, i})
		}
	}
	return all
}

// tour is a way through every state that moves lead to, by every move in each of them: from
// where it stands it makes a move that was not made there, or else goes to the nearest state
// with one.
func tour(needs [][]int, f func(m move)) (states, made int) {
	open := map[plan][]move{} // not made yet
	visit := func(p plan) {
		if _, known := open[p]; known {
			return
		}
		var can []move
		for _, m := range moves(len(needs)) {
			if _, _, ok := p.next(needs, m); ok {
				can = append(can, m)
			}
		}
		open[p] = can
	}
	for at := (plan{}); ; {
		visit(at)
		way := nearest(needs, at, func(p plan) bool { left, known := open[p]; return !known || len(left) > 0 })
		if way == nil {
			return len(open), made
		}
		for _, m := range way[:len(way)-1] {
			f(m)
			at, _, _ = at.next(needs, m)
			made++
		}
		visit(at)
		m := open[at][0]
		open[at] = open[at][1:]
		f(m)
		at, _, _ = at.next(needs, m)
		made++
	}
}

// nearest is the shortest way to a state that is wanted, and a move that was not made in it,
// for which it has the zero move; nil: there is none.
func nearest(needs [][]int, at plan, wanted func(plan) bool) []move {
	type place struct {
		p   plan
		way []move
	}
	seen := map[plan]bool{at: true}
	for left := []place{{p: at}}; len(left) > 0; left = left[1:] {
		here := left[0]
		if wanted(here.p) {
			return append(here.way, move{})
		}
		for _, m := range moves(len(needs)) {
			if to, _, ok := here.p.next(needs, m); ok && !seen[to] {
				seen[to] = true
				left = append(left, place{to, append(slices.Clone(here.way), m)})
			}
		}
	}
	return nil
}

// kernel is the running controller beside the reference.
type kernel struct {
	*system
	needs  [][]int
	now    plan
	mu     sync.Mutex
	broken [5]bool
	way    []string
}

func name(i int) string { return fmt.Sprint("o", i) }

// runTour makes every move in every state of the graph, and compares after each.
func runTour(t *testing.T, needs [][]int) (states, made int) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{needs: needs}
		k.system = newSystem(t, setting{broken: func(o *Thing) bool {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.broken[o.Name[1]-'0']
		}})
		defer k.start()()
		synctest.Wait()
		states, made = tour(needs, k.move)
	})
	return states, made
}

func (k *kernel) move(m move) {
	if k.t.Failed() {
		return
	}
	i := m.object
	k.way = append(k.way, acts[m.act].name+" "+name(i))
	before, runs := k.now, make([]int, len(k.needs))
	for n := range k.needs {
		runs[n] = k.ran(name(n))
	}
	var ran [5]bool
	k.now, ran, _ = k.now.next(k.needs, m)
	k.mu.Lock()
	for n, o := range k.now {
		k.broken[n] = o.broken
	}
	k.mu.Unlock()
	switch acts[m.act].name {
	case "declare":
		var needs []string
		for _, n := range k.needs[i] {
			needs = append(needs, name(n))
		}
		k.declare(name(i), needs...)
	case "delete":
		k.remove(name(i))
	default:
		check(k.t, k.ctrl.Add(store.Key{Name: name(i)}))
	}
	settle()
	for n := range k.needs {
		k.compare(n, before[n], k.ran(name(n))-runs[n], ran[n])
	}
	k.wantNothingRefused()
	k.way = k.way[max(0, len(k.way)-20):]
	if k.t.Failed() {
		k.t.Fatalf("needs %v, want %+v after ... %s", k.needs, k.now[:len(k.needs)], strings.Join(k.way, ", "))
	}
}

// compare says whether an object is as the reference has it.
func (k *kernel) compare(i int, before planned, runs int, ran bool) {
	want, got := k.now[i], planned{due: k.now[i].due}
	k.cloud.mu.Lock()
	_, got.there = k.cloud.there[name(i)]
	k.cloud.mu.Unlock()
	o := k.get(name(i))
	if o != nil {
		got.declared, got.deleting = true, o.Deleting()
		got.ready = o.Ready() || o.Deleting() && want.ready // it says that it is terminating
	}
	got.broken = want.broken
	if got != want {
		k.t.Errorf("%s is %+v, want %+v", name(i), got, want)
	}
	if runs > 6 || runs > 0 && !ran {
		k.t.Errorf("%s ran %d times; it may run: %v", name(i), runs, ran)
	}
	if o == nil || o.Deleting() {
		return
	}
	c, said := o.Condition(depend.ConditionDependencies)
	switch waits := said && c.Status == store.False; {
	case want.due && !waits || waits && !want.due && !want.there: // what is there runs for a first user's finalizer too
		k.t.Errorf("%s waits: %v, want %v; %+v", name(i), waits, want.due, c)
	case waits && (c.Reason == depend.ReasonCycle) != k.now.inCircle(k.needs, i):
		k.t.Errorf("%s says %s %q", name(i), c.Reason, c.Message)
	}
}

// Every graph of up to three objects, with all cycles, under a running controller over a
// store: in every state that declaring, deleting, breaking, mending and asking for runs can
// lead to, each of these is done. After each the objects, their conditions and the cloud are
// as the rule says; no call came in the wrong order; what must wait did not run; a circle is
// shown by each object of one, and by no other.
//
// A campaign adds every graph of four objects, and then graphs of five for its length: all
// of these would take days. The index by itself is tried on all of them, see
// TestEveryOrderOfEventsOnUpToFiveObjects.
//
// Controls: the mutants "created before its need, in every order", "deleted under its user, in
// every order", "never woken, in every order", "woken and spinning, in every order" and, which
// only graphs with cycles catch, "of several cycles one is told" and "an object in a cycle
// forgets it when something else that it needs comes".
//
// promise R4, promise E2
func TestRunningControllerAgreesInEveryOrderOfEvents(t *testing.T) {
	largest := 3
	if campaign.Length() > 0 {
		largest = 4
	}
	for n := 1; n <= largest; n++ {
		count := 0
		depend.Classes(n, true, func(needs [][]int) {
			if count++; n < 3 || count%(stride/4) == 0 {
				_, made := runTour(t, needs)
				t.Logf("campaign: %d operations", made)
			}
		})
	}
	if campaign.Length() > 0 {
		var five [][][]int
		depend.Classes(5, true, func(needs [][]int) { five = append(five, needs) })
		for seed := range campaign.Seeds(t, 0, campaign.Length()) {
			_, made := runTour(t, five[seed%uint64(len(five))])
			t.Logf("campaign: %d operations", made)
		}
	}
}
