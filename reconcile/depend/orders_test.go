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

// moves are the first acts on each object.
func moves(acts, objects int) (all []move) {
	for a := range acts {
		for i := range objects {
			all = append(all, move{a, i})
		}
	}
	return all
}

// place is a state of the reference and of the kernel beside it.
type place struct {
	left []move          // not made here yet
	to   map[move]*place // where the others led to, the last time
}

// tour makes every move in every state that moves lead to. From where it stands it makes a
// move that was not made there, or else goes to the nearest state with one.
func (k *kernel) tour() (states, made int) {
	places := make(map[string]*place)
	visit := func() *place {
		code := string(k.code())
		p := places[code]
		if p == nil {
			p = &place{to: make(map[move]*place)}
			for _, m := range moves(k.acts, len(k.needs)) {
				if _, _, ok := k.now.next(k.needs, m); ok {
					p.left = append(p.left, m)
				}
			}
			places[code] = p
		}
		return p
	}
	do := func(at *place, m move) *place {
		made++
		k.move(m)
		to := visit()
		at.to[m] = to
		return to
	}
	for at := visit(); ; {
		if n := len(at.left); n > 0 {
			m := at.left[n-1]
			at.left = at.left[:n-1]
			at = do(at, m)
			continue
		}
		way := nearest(at)
		if way == nil {
			break
		}
		for _, m := range way {
			want := at.to[m]
			if at = do(at, m); at != want {
				break // the same move led elsewhere: from there it goes on
			}
		}
	}
	for _, p := range places {
		if len(p.left) > 0 {
			k.t.Errorf("%d moves of a state were not made: no way leads back to it", len(p.left))
		}
	}
	return len(places), made
}

// nearest is the shortest way to a place where a move was not made; nil: there is none.
func nearest(from *place) (way []move) {
	type reached struct {
		*place
		before int // in all
		by     move
	}
	all, seen := []reached{{from, -1, move{}}}, map[*place]bool{from: true}
	for i := 0; i < len(all); i++ {
		if len(all[i].left) > 0 {
			for at := all[i]; at.before >= 0; at = all[at.before] {
				way = append(way, at.by)
			}
			slices.Reverse(way)
			return way
		}
		for m, to := range all[i].to {
			if !seen[to] {
				seen[to] = true
				all = append(all, reached{to, i, m})
			}
		}
	}
	return nil
}

// kernel is the running controller beside the reference.
type kernel struct {
	*system
	needs  [][]int
	acts   int  // so many of the acts are done
	deep   bool // states are also told apart by what the store, the cloud, the queue and the tracker have
	now    plan
	mu     sync.Mutex
	broken [5]bool
	way    []string
}

func name(i int) string { return fmt.Sprint("o", i) }

// runTour makes every move in every state of the graph, and compares after each.
func runTour(t *testing.T, needs [][]int, acts int, deep bool) (states, made int) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{needs: needs, acts: acts, deep: deep}
		k.system = newSystem(t, setting{broken: func(o *Thing) bool {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.broken[o.Name[1]-'0']
		}})
		defer k.start()()
		synctest.Wait()
		states, made = k.tour()
	})
	return states, made
}

// code tells states apart: by the reference, in which they can go on differently; deep, also by
// what is stored, and by what the tracker and the queue remember.
func (k *kernel) code() []byte {
	b := make([]byte, 0, 64)
	for i := range k.needs {
		p, key := k.now[i], store.Key{Name: name(i)}
		b = fmt.Append(b, p)
		if !k.deep {
			continue
		}
		b = depend.AppendMemory(b, k.tracker, key)
		if e, ok := k.ctrl.Queue().Lookup(key); ok {
			b = fmt.Append(b, e.State, e.Attempts)
		}
		if o := k.get(name(i)); o != nil {
			said := []string{o.Annotations[depend.HoldsAnnotation], fmt.Sprint(o.Phase, o.Generation == o.ObservedGeneration)}
			said = append(said, o.Finalizers...)
			for _, c := range o.Conditions {
				said = append(said, fmt.Sprint(c.Type, c.Status, c.Reason))
			}
			slices.Sort(said) // their order means nothing
			b = fmt.Append(b, said)
		}
	}
	return b
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

// Graphs under a running controller over a store, in every order of acts, with any number of
// them: an act is to declare an object, to delete it, to break or mend what is in the cloud, or
// to ask for a run. After each the objects, their conditions and the cloud are as the rule says;
// no call came in the wrong order; what must wait did not run; a circle is shown by each object
// of one, and by no other. Of graphs that differ only in the numbers of their objects one is
// taken. Of orders that lead to the same state one goes on, by every act: a state is that of the
// rule and, where it says deep, all that the store, the queue and the tracker have too.
//
//   - Up to three objects, all 20 graphs with cycles: every act, deep.
//   - Five objects: declaring and deleting them, on some of the 302 graphs without cycles.
//
// A campaign does, whatever its length: the second on all of the 302; and declaring and deleting
// on all 218 graphs of four objects with cycles, deep. For its length it goes on with five
// objects, deep; with every act on four; and with declaring and deleting on the 9608 graphs of
// five objects with cycles. It says when it has done them all.
//
// Controls: the mutants "created before its need, in every order", "deleted under its user, in
// every order", "never woken, in every order", "woken and spinning, in every order" and, which
// only graphs with cycles catch, "of several cycles one is told" and "an object in a cycle
// forgets it when something else that it needs comes".
//
// promise R4, promise E2
func TestRunningControllerAgreesInEveryOrderOfEvents(t *testing.T) {
	const declareAndDelete = 2
	every := func(objects int, cycles bool, acts int, deep bool, stride, want int) {
		n, states := 0, 0
		found := depend.Classes(objects, cycles, func(needs [][]int) {
			if n++; n%stride == 0 && !t.Failed() {
				seen, made := runTour(t, needs, acts, deep)
				states += seen
				t.Logf("campaign: %d operations", made)
			}
		})
		if found != want {
			t.Errorf("%d graphs of %d objects, want %d", found, objects, want)
		}
		t.Logf("graphs of %d objects: %d of %d, %d acts, deep: %v, %d states", objects, found/stride, found, acts, deep, states)
	}
	every(1, true, len(acts), true, 1, 1)
	every(2, true, len(acts), true, 1, 3)
	if campaign.Length() == 0 {
		every(3, true, len(acts), true, campaign.Sized(1, 6), 16)
		every(5, false, declareAndDelete, false, campaign.Sized(8, 48), 302)
		return
	}
	every(5, false, declareAndDelete, false, 1, 302)
	every(3, true, len(acts), true, 1, 16)
	every(4, true, declareAndDelete, true, 1, 218)
	type left struct {
		needs [][]int
		acts  int
		deep  bool
	}
	var rest []left
	add := func(objects int, cycles bool, acts int, deep bool) {
		depend.Classes(objects, cycles, func(needs [][]int) { rest = append(rest, left{needs, acts, deep}) })
	}
	add(5, false, declareAndDelete, true)
	add(4, true, len(acts), false)
	add(5, true, declareAndDelete, false)
	done := 0
	for seed := range campaign.Seeds(t, 0, campaign.Length()) {
		if done == len(rest) || t.Failed() {
			break
		}
		next := rest[seed%uint64(len(rest))]
		_, made := runTour(t, next.needs, next.acts, next.deep)
		t.Logf("campaign: %d operations", made)
		done++
	}
	t.Logf("of the other graphs %d of %d are done; all: %v", done, len(rest), done == len(rest))
}
