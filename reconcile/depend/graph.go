package depend

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/store"
)

// ErrCycle says that objects need each other in a circle.
var ErrCycle = errors.New("depend: dependency cycle")

// Graph joins the trackers of several kinds of one process, so that cycles over kinds are
// found, and the order of kinds and objects is known. The zero value has no trackers. Its
// methods are safe for concurrent use.
type Graph struct {
	mu       sync.Mutex // guards trackers; no tracker's lock is taken under it
	trackers map[string]linked

	cycles atomic.Bool // objects may say that they are in a cycle
}

// linked is a tracker as the graph sees it.
type linked interface {
	refs(key store.Key, unmet bool) []Ref
	tellCycle(key store.Key)
	inCycles() []store.Key
	tellNoCycle(key store.Key)
	kinds() []string
	edges(key store.Key) []link
	usersOf(ref Ref, most int) (some []store.Key, all int)
	families() (own family, needed []family)
}

// NewGraph makes a graph without trackers; [Options.Graph] adds them.
func NewGraph() *Graph { return new(Graph) }

func (g *Graph) add(kind string, t linked) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, twice := g.trackers[kind]; twice {
		return fmt.Errorf("depend: the graph has a tracker of kind %q already", kind)
	}
	if g.trackers == nil {
		g.trackers = make(map[string]linked)
	}
	g.trackers[kind] = t
	return nil
}

func (g *Graph) tracker(kind string) linked {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.trackers[kind]
}

// needs are the objects that one needs, as far as a tracker of its kind knows.
func (g *Graph) needs(r Ref, unmet bool) []Ref {
	if t := g.tracker(r.Kind); t != nil {
		return t.refs(r.Key, unmet)
	}
	return nil
}

// unmetCycle is a cycle of objects that wait for each other, from r back to r; nil: r is
// in none.
func (g *Graph) unmetCycle(r Ref) []Ref {
	return cycleFrom(r, g.needs(r, true), func(r Ref) []Ref { return g.needs(r, true) })
}

// cycleFrom is a way from start back to start over the first step; nil: there is none.
func cycleFrom(start Ref, first []Ref, needs func(Ref) []Ref) []Ref {
	type visit struct {
		ref  Ref
		left []Ref
	}
	seen := make(map[Ref]struct{})
	way := []visit{{start, first}}
	for len(way) > 0 {
		at := &way[len(way)-1]
		if len(at.left) == 0 {
			way = way[:len(way)-1]
			continue
		}
		next := at.left[0]
		at.left = at.left[1:]
		if next == start {
			cycle := make([]Ref, 0, len(way)+1)
			for _, v := range way {
				cycle = append(cycle, v.ref)
			}
			return append(cycle, start)
		}
		if _, twice := seen[next]; twice {
			continue
		}
		seen[next] = struct{}{}
		way = append(way, visit{next, needs(next)})
	}
	return nil
}

// path writes a cycle.
func path(cycle []Ref) string {
	texts := make([]string, 0, len(cycle))
	for _, r := range cycle {
		texts = append(texts, r.String())
	}
	return strings.Join(texts, " → ")
}

// tell has every object that is in a cycle with r say so. One object may be in several
// cycles; what is in any of them waits for what is in the others.
func (g *Graph) tell(r Ref) {
	users := map[Ref][]Ref{r: nil} // of all that r waits for, among themselves
	for left := []Ref{r}; len(left) > 0; left = left[1:] {
		for _, n := range g.needs(left[0], true) {
			if _, known := users[n]; !known {
				left = append(left, n)
			}
			users[n] = append(users[n], left[0])
		}
	}
	told := map[Ref]bool{r: true}
	for left := []Ref{r}; len(left) > 0; left = left[1:] {
		if t := g.tracker(left[0].Kind); t != nil {
			t.tellCycle(left[0].Key)
		}
		for _, u := range users[left[0]] {
			if !told[u] {
				told[u], left = true, append(left, u)
			}
		}
	}
}

// recheckCycles runs the objects that say that they are in a cycle and are not any more,
// once each, so that they say what they wait for. It looks at all users, but only while
// there may be such objects.
func (g *Graph) recheckCycles() {
	if !g.cycles.Swap(false) {
		return
	}
	for kind, t := range g.all() {
		for _, key := range t.inCycles() {
			if g.unmetCycle(Ref{kind, key}) != nil {
				g.cycles.Store(true)
				continue
			}
			t.tellNoCycle(key)
		}
	}
}

// Kinds are the kinds of all trackers and of what they need, each after those that it
// needs: the order to create in, and the reverse of the order to delete in. The error is
// [ErrCycle] if kinds need each other in a circle; a kind may need itself.
func (g *Graph) Kinds() ([]string, error) {
	g.mu.Lock()
	trackers := g.trackers
	var all []Ref
	needs := make(map[Ref][]Ref, len(trackers))
	for kind, t := range trackers {
		from := Ref{Kind: kind}
		all = append(all, from)
		for _, k := range t.kinds() {
			to := Ref{Kind: k}
			all = append(all, to)
			if to != from {
				needs[from] = append(needs[from], to)
			}
		}
	}
	g.mu.Unlock()
	slices.SortFunc(all, compareRefs)
	order, cycle := Order(slices.Compact(all), func(r Ref) []Ref { return needs[r] })
	kinds := make([]string, 0, len(order))
	for _, r := range order {
		kinds = append(kinds, r.Kind)
	}
	if cycle != nil {
		kinds = kinds[:0]
		for _, r := range cycle {
			kinds = append(kinds, r.Kind)
		}
		return nil, fmt.Errorf("%w: %s", ErrCycle, strings.Join(kinds, " → "))
	}
	return kinds, nil
}

// Needs reports whether objects of a kind need objects of another one, themselves or by way
// of other kinds, as the trackers declare it.
func (g *Graph) Needs(kind, other string) bool {
	trackers, seen := g.all(), make(map[string]bool)
	for next := []string{kind}; len(next) > 0; next = next[1:] {
		t := trackers[next[0]]
		if t == nil || seen[next[0]] {
			continue
		}
		seen[next[0]] = true
		if slices.Contains(t.kinds(), other) {
			return true
		}
		next = append(next, t.kinds()...)
	}
	return false
}

func compareRefs(a, b Ref) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.Name, b.Key.Name))
}

// Order puts refs in an order in which each comes after those that it needs, and leaves
// the given order where that says nothing. Needs that are not among refs do not count. The
// members of a cycle come in the given order; cycle is one of them, from a member back to
// itself, or nil.
func Order(refs []Ref, needs func(Ref) []Ref) (order, cycle []Ref) {
	type progress struct{ open, done bool }
	at := make(map[Ref]*progress, len(refs))
	for _, r := range refs {
		at[r] = new(progress)
	}
	type visit struct {
		ref  Ref
		left []Ref
	}
	order = make([]Ref, 0, len(refs))
	var way []visit
	enter := func(r Ref) {
		p := at[r]
		switch {
		case p == nil || p.done:
		case p.open && cycle == nil:
			from := slices.IndexFunc(way, func(v visit) bool { return v.ref == r })
			for _, v := range way[from:] {
				cycle = append(cycle, v.ref)
			}
			cycle = append(cycle, r)
		case !p.open:
			p.open = true
			way = append(way, visit{r, needs(r)})
		}
	}
	for _, r := range refs {
		enter(r)
		for len(way) > 0 {
			v := &way[len(way)-1]
			if len(v.left) == 0 {
				at[v.ref].done = true
				order = append(order, v.ref)
				way = way[:len(way)-1]
				continue
			}
			next := v.left[0]
			v.left = v.left[1:]
			enter(next)
		}
	}
	return order, cycle
}

// Check refuses, with [ErrCycle], an object that would close a cycle with those that the
// process knows. It is for store.Options.Validate, and finds what is declared one after
// the other on one server; what two servers declare at one moment shows as the condition
// [ReasonCycle].
func (t *Tracker[S, T]) Check(o *store.Object[S, T]) error {
	start := Ref{t.kind, o.Key()}
	cycle := cycleFrom(start, t.waitsFor(o), func(r Ref) []Ref { return t.o.Graph.needs(r, false) })
	if cycle == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrCycle, path(cycle))
}

func (t *Tracker[S, T]) waitsFor(o *store.Object[S, T]) (refs []Ref) {
	for _, g := range t.targets(o) {
		if t.needs[g.needs].waits {
			refs = append(refs, t.ref(g))
		}
	}
	return refs
}

// refs are the objects that one waits for; with unmet, those that it waits for now.
func (t *Tracker[S, T]) refs(key store.Key, unmet bool) (refs []Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.index.users[key]
	if u == nil {
		return nil
	}
	for _, e := range u.edges {
		if t.needs[e.node.needs].waits && !(unmet && e.node.now.met) {
			refs = append(refs, t.ref(e.node.target))
		}
	}
	return refs
}

// tellCycle runs an object that waits, once, so that it says that it is in a cycle.
func (t *Tracker[S, T]) tellCycle(key store.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.index.users[key]; u != nil && u.is(waiting) && !u.is(cyclic) && !u.is(woken) {
		t.wakes = append(t.wakes, t.index.wake(u, false, t.now()))
		t.poke()
	}
}

// inCycles are the objects that wait and say that they are in a cycle.
func (t *Tracker[S, T]) inCycles() (keys []store.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, u := range t.index.users {
		if u.is(cyclic) && u.is(waiting) {
			keys = append(keys, key)
		}
	}
	return keys
}

// tellNoCycle runs an object that said that it is in a cycle.
func (t *Tracker[S, T]) tellNoCycle(key store.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.index.users[key]
	if u == nil || !u.is(cyclic) || !u.is(waiting) {
		return
	}
	u.flags &^= cyclic
	if !u.is(woken) {
		t.wakes = append(t.wakes, t.index.wake(u, false, t.now()))
		t.poke()
	}
}

func (t *Tracker[S, T]) kinds() (kinds []string) {
	for _, n := range t.needs {
		if n.waits && !slices.Contains(kinds, n.kind) {
			kinds = append(kinds, n.kind)
		}
	}
	return kinds
}

// maxUsers is how many users of one kind View names.
const maxUsers = 100

// View shows what an object is to others and others to it: an edge for each that it needs or
// watches, for each of its owners, and from each object that refers to it; hidden is how many
// of these there are beside the first hundred of each kind. It copies, and costs what it shows.
func (g *Graph) View(r Ref) (edges []introspect.Link[Ref], hidden int) {
	if t := g.tracker(r.Kind); t != nil {
		edges = t.edges(r.Key)
	}
	for _, o := range g.ownersOf(r) {
		edges = append(edges, link{From: r, To: o, As: introspect.Owner})
	}
	var users []Ref
	trackers := g.all()
	for kind, t := range trackers {
		some, all := t.usersOf(r, maxUsers)
		for _, key := range some {
			users = append(users, Ref{kind, key})
		}
		hidden += all - len(some)
	}
	slices.SortFunc(users, compareRefs)
	for _, u := range slices.Compact(users) {
		for _, e := range trackers[u.Kind].edges(u.Key) {
			if e.To == r && u != r {
				edges = append(edges, e)
			}
		}
	}
	return edges, hidden
}

// edges are the needs of an object.
func (t *Tracker[S, T]) edges(key store.Key) (edges []link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.index.users[key]
	if u == nil {
		return nil
	}
	for _, to := range u.edges {
		e := link{From: Ref{t.kind, key}, To: t.ref(to.node.target), As: t.needs[to.node.needs].role()}
		if !to.node.now.met {
			e.Unmet = to.node.now.reason()
		}
		edges = append(edges, e)
	}
	return edges
}

func (t *Tracker[S, T]) families() (own family, needed []family) {
	for _, n := range t.needs {
		needed = append(needed, n.family)
	}
	return familyOf(t.users), needed
}

func (t *Tracker[S, T]) usersOf(r Ref, most int) (some []store.Key, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, k := range t.needs {
		n := t.index.nodes[target{i, r.Key}]
		if k.kind != r.Kind || n == nil {
			continue
		}
		all += len(n.users)
		for _, b := range n.users[:min(len(n.users), most-len(some))] {
			some = append(some, b.user.key)
		}
	}
	return some, all
}
