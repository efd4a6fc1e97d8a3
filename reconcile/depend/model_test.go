package depend

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/store"
)

// world is a state of the model: objects that are declared or not, ready or not, queued or
// not, with the index that is tested beside them. Of the index it knows nothing but its
// answers. It is copied before each event, so that every order of events is tried.
type world struct {
	*trial
	x       index
	objects []modelled
	uids    int
	last    *step // the way to this state
	number  int   // of this state
	room    *room
}

// room is the memory of a world, which is used again for another one: most events lead to a
// state that is known.
type room struct {
	objects [5]modelled
	users   [5]user
	nodes   [5]node
	edges   [5][5]edge
	back    [5][5]backEdge
	code    []byte
}

// modelled is one object of the model.
type modelled struct {
	declared, ready bool
	uid             int
	queued          bool // it is to be run
	waits           bool // its last run found something unmet
	woken           bool // the index has woken it since its last run
	seen            int  // by its last run: the sum of the uids of what it needs
	run             *run // under way; nil: none
	late            bool // the index has not heard of its last change
	dirty           bool // the tracker has noted it as a user to be looked at
	noted           bool // and as a needed object to be looked at
	missed          bool // its last run failed before it asked, and it is parked
}

// run is a run under way.
type run struct {
	user *user // nil: the object needs nothing
	uid  int   // of the object that it runs with
}

type step struct {
	before *step
	event  event
	i      int
}

type event int

const (
	declare event = iota
	remove
	flip // becomes unready, or ready, by another hand
	fail // the run under way fails
	miss // the next run fails before it has asked, and is not made again
	// The kernel does what follows by itself.
	begin
	end  // the run under way succeeds, and makes its object ready
	hear // the index hears of the object's last change
	look // the index looks again at an object that was told to wait
	events
)

var eventNames = [events]string{"declare", "remove", "flip", "fail", "miss", "begin", "end", "hear", "look"}

// trial tries every order of events on one graph.
type trial struct {
	t     testing.TB
	needs [][]int
	grain grain
	once  bool // each object is declared once and removed once, and that is all
	// coarse takes as one the states that differ only in which of its needs an object has not
	// seen as they are, where there is one such need: the object has to run again anyway.
	coarse bool
}

// grain says what comes between events.
type grain int

const (
	whole  grain = iota // all runs that an event causes follow it
	fine                // other events come between runs, and runs fail before they ask
	finest              // and during them; runs fail, and the index hears of changes late
)

func keyOf(i int) store.Key { return store.Key{Name: strconv.Itoa(i)} }

// explore visits every state that events can lead to, in any order and any number, and says
// how many there are. It reaches each state once, whatever the number of the ways to it: what
// follows does not depend on the way. Of the states and events that the kernel goes through
// by itself none comes again, or the kernel would never end.
func (r *trial) explore() (states int) {
	first := newWorld(r)
	number := map[string]int{string(first.code()): 0}
	next := [][]int{nil} // by the number of a state: where the kernel goes from it by itself
	var free []*world
	to := newWorld(r)
	for left := []*world{first}; len(left) > 0; {
		w := left[len(left)-1]
		left = left[:len(left)-1]
		still := true
		for e := range events {
			for i := range w.objects {
				if !w.can(e, i) {
					continue
				}
				to.become(w)
				to.do(e, i)
				if r.grain == whole {
					to.settle()
				}
				code := to.code()
				n, known := number[string(code)]
				if e >= begin {
					still = false
				}
				if !known {
					n = len(next)
					number[string(code)] = n
					next = append(next, nil)
					to.number, left = n, append(left, to)
					if last := len(free) - 1; last >= 0 {
						to, free = free[last], free[:last]
					} else {
						to = newWorld(r)
					}
				}
				if e >= begin {
					next[w.number] = append(next[w.number], n)
				}
			}
		}
		if still {
			w.checkStill()
		}
		free = append(free, w)
	}
	if spins(next) {
		to.last = nil
		to.fatalf("the kernel goes on for ever by itself")
	}
	return len(number)
}

func newWorld(r *trial) *world {
	w := &world{trial: r, x: newIndex(time.Minute), room: new(room)}
	w.objects = w.room.objects[:len(r.needs)]
	return w
}

// spins reports whether a state can be reached from itself.
func spins(next [][]int) bool {
	into := make([]int, len(next))
	for _, all := range next {
		for _, n := range all {
			into[n]++
		}
	}
	var free []int
	for n, k := range into {
		if k == 0 {
			free = append(free, n)
		}
	}
	for len(free) > 0 {
		at := free[len(free)-1]
		free = free[:len(free)-1]
		for _, n := range next[at] {
			if into[n]--; into[n] == 0 {
				free = append(free, n)
			}
		}
	}
	return slices.Max(into) > 0
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	var way []string
	for s := w.last; s != nil; s = s.before {
		way = append(way, fmt.Sprint(eventNames[s.event], " ", s.i))
	}
	slices.Reverse(way)
	w.t.Fatalf("%s\nneeds %v\n%s", fmt.Sprintf(format, args...), w.needs, strings.Join(way, ", "))
}

// can reports whether an event can happen to an object.
func (w *world) can(e event, i int) bool {
	o := &w.objects[i]
	switch e {
	case declare:
		return !o.declared && !(w.once && o.uid > 0)
	case remove:
		return o.declared
	case flip:
		return o.declared && !w.once
	case miss:
		return o.queued && o.declared && w.grain == fine
	case begin:
		return o.queued && o.run == nil
	case fail, end:
		return o.run != nil
	case hear:
		return o.late || o.noted
	case look:
		return o.dirty
	}
	return false
}

// settle runs what is queued until nothing is.
func (w *world) settle() {
	for i, runs := 0, 0; i < len(w.objects); i++ {
		if w.can(begin, i) {
			if runs++; runs > 100 {
				w.fatalf("it spins")
			}
			w.do(begin, i)
			i = -1
		}
	}
}

func (w *world) do(e event, i int) {
	w.last = &step{w.last, e, i}
	o := &w.objects[i]
	switch e {
	case declare:
		w.uids++
		*o = modelled{declared: true, uid: w.uids, queued: true, run: o.run, late: o.late, noted: o.noted}
		w.changed(i)
		w.refer(i)
	case remove:
		*o = modelled{uid: o.uid, queued: o.queued, run: o.run, late: o.late, noted: o.noted}
		w.refer(i)
		w.changed(i)
	case flip:
		o.ready = !o.ready
		w.changed(i)
	case miss:
		o.queued, o.missed = false, true
	case begin:
		w.begin(i)
	case end, fail:
		w.end(i, e == fail)
	case hear:
		w.hear(i)
	case look:
		o.dirty = false
		w.look(w.x.users[keyOf(i)])
	}
}

// met is the whole of the rule: what an object needs is declared and ready.
func (w *world) met(i int) bool {
	return !slices.ContainsFunc(w.needs[i], func(n int) bool { return !w.objects[n].declared || !w.objects[n].ready })
}

// state is an object as the caches show it.
func (w *world) state(i int) state {
	o := &w.objects[i]
	if !o.declared {
		return state{}
	}
	return state{exists: true, met: o.ready, asked: asked{uid: strconv.Itoa(o.uid)}}
}

// sees is what a run sees that begins now.
func (w *world) sees(i int) (sum int) {
	for _, n := range w.needs[i] {
		sum += w.objects[n].uid
	}
	return sum
}

// refer tells the index what an object needs.
func (w *world) refer(i int) *user {
	var targets []target
	if w.objects[i].declared {
		for _, n := range w.needs[i] {
			targets = append(targets, target{0, keyOf(n)})
		}
	}
	u, created := w.x.refer(keyOf(i), targets, 1)
	for _, n := range created {
		w.changed(number(n.key))
	}
	return u
}

func number(key store.Key) int {
	i, _ := strconv.Atoi(key.Name)
	return i
}

// changed tells the index that an object is not as it was.
func (w *world) changed(i int) {
	switch n := w.x.nodes[target{0, keyOf(i)}]; {
	case n == nil:
		w.objects[i].late = false
	case w.grain == finest:
		w.objects[i].late = true
	default:
		w.set(n)
	}
}

func (w *world) hear(i int) {
	w.objects[i].late, w.objects[i].noted = false, false
	w.set(w.x.nodes[target{0, keyOf(i)}])
}

func (w *world) set(n *node) {
	if n != nil {
		before := *n
		for _, k := range w.x.set(n, w.state(number(n.key)), 0) {
			w.wake(k, true)
		}
		if before.known && n.now.met && (!before.now.met || before.now.asked != n.now.asked) {
			w.checkParked(n)
		}
	}
}

// checkParked checks that a change of what objects need has ended their parks, if they have
// not asked since they were woken.
func (w *world) checkParked(n *node) {
	for _, b := range n.users {
		if o := &w.objects[number(b.user.key)]; o.missed && o.woken && b.user.unmet == 0 {
			w.fatalf("%s stays parked", b.user.key)
		}
	}
}

// look is what the tracker does with a user that it has noted.
func (w *world) look(u *user) {
	if u == nil {
		return
	}
	for _, e := range u.edges {
		if u.is(waiting) || !e.node.known {
			w.hear(number(e.node.key))
		}
	}
	if u.is(waiting) {
		if k, ok := w.x.consider(u, nil, false, 0); ok {
			w.wake(k, false)
		}
	}
}

// wake checks that a user is woken only when it may go on, for a reason, and once, or once
// for each change that is heard of until it asks.
func (w *world) wake(k wake, heard bool) {
	i := number(k.key)
	o, u := &w.objects[i], w.x.users[k.key]
	switch {
	case !o.declared || u == nil:
		w.fatalf("%d is woken, and is not declared", i)
	case o.woken != k.again:
		w.fatalf("%d is woken again: %v, want %v", i, k.again, o.woken)
	case o.woken && !heard:
		w.fatalf("%d is woken twice, and has not run between", i)
	case slices.ContainsFunc(u.edges, func(e edge) bool { return !e.node.now.met }):
		w.fatalf("%d is woken, and what it needs is not there as far as the index knows", i)
	case w.grain != finest && !w.met(i):
		w.fatalf("%d is woken, and may not go on", i)
	case w.grain != finest && !o.waits && !o.woken && o.seen == w.sees(i):
		w.fatalf("%d is woken without a cause", i)
	}
	o.woken, o.queued, o.missed = true, true, false
}

func (w *world) begin(i int) {
	o := &w.objects[i]
	o.queued, o.woken, o.missed = false, false, false
	if !o.declared {
		return
	}
	u := w.refer(i)
	var looked []state
	for _, n := range w.needs[i] {
		looked = append(looked, w.state(n))
	}
	open := true
	if u != nil {
		var stale []*node
		open, stale = w.x.begin(u, looked)
		for _, n := range stale {
			w.objects[number(n.key)].noted = true
		}
	}
	if open != w.met(i) {
		w.fatalf("%d runs: %v, want %v", i, open, w.met(i))
	}
	if o.waits = !open; !open {
		o.dirty = w.grain == finest // the index may know better already
		return
	}
	o.seen, o.run = w.sees(i), &run{u, o.uid}
	if w.grain != finest {
		w.end(i, false)
	}
}

func (w *world) end(i int, failed bool) {
	o := &w.objects[i]
	r := o.run
	o.run = nil
	if o.declared && o.uid == r.uid {
		if failed {
			o.queued = true // after its backoff
		} else if !o.ready {
			o.ready = true
			w.changed(i)
		}
	}
	if r.user == nil {
		return
	}
	if k, again := w.x.end(r.user, failed, 0); again {
		if w.grain != finest {
			w.fatalf("%d is woken by its own success", i)
		}
		w.wake(k, false)
		for n := range w.objects { // what is noted is looked at before the wake is sent
			if w.objects[n].noted {
				w.hear(n)
			}
		}
	}
}

// checkStill checks a state in which the kernel has nothing left to do.
func (w *world) checkStill() {
	users, nodes := 0, make(map[int]struct{})
	for i, o := range w.objects {
		switch {
		case !o.declared:
			continue
		case o.missed: // for another reason than what it needs
		case o.waits && w.met(i):
			w.fatalf("%d may go on, and was not woken", i)
		case !o.waits && w.met(i) && o.seen != w.sees(i):
			w.fatalf("%d has not seen what it needs as it is", i)
		}
		if len(w.needs[i]) > 0 {
			users++
		}
		for _, n := range w.needs[i] {
			nodes[n] = struct{}{}
		}
	}
	if len(w.x.users) != users || len(w.x.nodes) != len(nodes) {
		w.fatalf("%d users and %d nodes are kept, want %d and %d", len(w.x.users), len(w.x.nodes), users, len(nodes))
	}
}

// code tells states apart that can go on differently. Of uids it has only which are the same.
func (w *world) code() []byte {
	code := w.room.code[:0]
	bits := func(all ...bool) {
		b := byte(0)
		for i, is := range all {
			if is {
				b |= 1 << i
			}
		}
		code = append(code, b)
	}
	var users [5]*user
	for key, u := range w.x.users {
		users[number(key)] = u
	}
	var nodes [5]*node
	for t, n := range w.x.nodes {
		nodes[number(t.key)] = n
	}
	for i := range w.objects {
		o, u, n := &w.objects[i], users[i], nodes[i]
		// What is declared later has another uid than a run has seen.
		current := o.seen == w.sees(i) && !slices.ContainsFunc(w.needs[i], func(n int) bool { return !w.objects[n].declared })
		bits(o.declared, o.ready, o.queued, o.waits, o.woken, current, o.late, o.dirty)
		if w.once || w.grain == fine {
			bits(o.uid > 0 && w.once, o.missed)
		}
		if w.grain == finest {
			bits(o.run != nil, o.run != nil && o.run.user == u, o.run != nil && o.run.uid == o.uid, o.noted)
			if n != nil {
				bits(n.known, n.now.exists, n.now.met, n.now.asked == w.state(i).asked, *n.asked == n.now.asked)
			}
		}
		if u == nil {
			continue
		}
		f := u.flags &^ renewed
		code = append(code, byte(f), byte(f>>8))
		if !current && w.coarse {
			continue
		}
		for _, e := range u.edges {
			now := w.state(number(e.node.key)).asked
			bits(e.seen != nil, e.differs(), e.seen != nil && *e.seen == now)
		}
	}
	w.room.code = code
	return code
}

// become makes w equal to the other world, with an index of its own.
func (w *world) become(other *world) {
	w.uids, w.last, w.x.broke = other.uids, other.last, other.x.broke
	copy(w.objects, other.objects)
	clear(w.x.users)
	clear(w.x.nodes)
	for t, n := range other.x.nodes {
		i := number(t.key)
		m := &w.room.nodes[i]
		*m = *n
		m.users = append(w.room.back[i][:0], n.users...)
		for b := range m.users {
			m.users[b].user = &w.room.users[number(m.users[b].user.key)]
		}
		w.x.nodes[t] = m
	}
	for key, u := range other.x.users {
		i := number(key)
		v := &w.room.users[i]
		*v = *u
		v.edges = append(w.room.edges[i][:0], u.edges...)
		for e := range v.edges {
			v.edges[e].node = &w.room.nodes[number(v.edges[e].node.key)]
		}
		w.x.users[key] = v
	}
	for i := range w.objects {
		r := w.objects[i].run
		switch {
		case r == nil:
		case r.user == nil:
			w.objects[i].run = &run{nil, r.uid}
		case other.x.users[r.user.key] == r.user:
			w.objects[i].run = &run{&w.room.users[i], r.uid}
		default: // the object has been deleted since, or needs nothing now
			u := *r.user
			w.objects[i].run = &run{&u, r.uid}
		}
	}
}

// orders are the graphs and events of [TestEveryOrderOfEventsOnUpToFiveObjects].
type orders struct {
	objects int
	cycles  bool
	graphs  int // so many are there
	each    int // one in so many is taken, and all of them in a campaign
	grain   grain
	once    bool
}

// Every order of events, with any number of them, on every graph of up to three objects with
// all cycles and of four without: what may run runs, and nothing else does; what waits is
// woken when it may go on, not before, once, and for a reason; the kernel comes to an end;
// and nothing is kept of what is gone. The same on some of the graphs of five objects with
// cycles, where states are told apart less finely (trial.coarse). Of five objects, on graphs
// with and without cycles, every order in which they are declared and removed. On small graphs
// events also come between runs and during them, runs fail, and the index hears of changes
// late. Of graphs that differ only in the numbers of their objects one is taken.
//
// A campaign takes all graphs of these, and adds every graph of four objects with cycles and
// events between the runs of three. For its length it goes on with any number of events on
// the 9608 graphs of five objects with cycles, one after the other, and says when it has done
// them all, which takes some ten minutes of one core.
//
// Controls: the mutants "an object runs before what it needs is ready", "an object that
// waits is not woken", "an object is woken before it may go on", "an object is woken again
// and again" and "a run is made again and again until the news come".
//
// promise R4
func TestEveryOrderOfEventsOnUpToFiveObjects(t *testing.T) {
	all := []orders{
		{1, true, 1, 1, finest, false},
		{2, false, 2, 1, finest, false},
		{2, true, 3, 1, fine, false},
		{3, true, 16, 1, whole, false},
		{4, false, 31, campaign.Sized(1, 17), whole, false},
		{5, false, 302, campaign.Sized(1, 17), whole, true},
		{5, true, 9608, campaign.Sized(50, 850), whole, true},
	}
	if campaign.Length() > 0 {
		all = append(all, orders{3, true, 16, 1, fine, false}, orders{4, true, 218, 1, whole, false},
			orders{2, true, 3, 1, finest, false})
	}
	for _, o := range all {
		n, done, states := 0, 0, 0
		found := classes(o.objects, o.cycles, func(needs [][]int) {
			if n++; n%o.each == 0 || campaign.Length() > 0 {
				done++
				states += (&trial{t: t, needs: needs, grain: o.grain, once: o.once}).explore()
			}
		})
		if found != o.graphs {
			t.Errorf("%d graphs over %d objects, want %d", found, o.objects, o.graphs)
		}
		t.Logf("%d of %d graphs of %d objects", done, found, o.objects)
		t.Logf("campaign: %d operations", states)
	}
	var five [][][]int
	classes(5, true, func(needs [][]int) { five = append(five, needs) })
	if campaign.Length() == 0 {
		for i := 97; i < len(five); i += campaign.Sized(1900, 32_300) {
			(&trial{t: t, needs: five[i], coarse: true}).explore()
		}
		return
	}
	done := 0
	for seed := range campaign.Seeds(t, 0, campaign.Length()) {
		if done == len(five) {
			break
		}
		t.Logf("campaign: %d operations", (&trial{t: t, needs: five[seed%uint64(len(five))], coarse: true}).explore())
		done++
	}
	t.Logf("any number of events: %d of %d graphs of five objects are done", done, len(five))
}
