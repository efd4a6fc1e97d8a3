package depend

import (
	"slices"
	"time"

	"github.com/tendhq/tend/store"
)

// index knows what the objects of this server refer to, in both directions:
//
//	users ──▶ user ── edges ──▶ node ◀── nodes     a node for each needed object that
//	            ▲                 │                 some user refers to, and no other
//	            └──── users ◀─────┘
//
// It decides which users may run and which are woken. It knows no store, no clock and no goroutine;
// the Tracker's lock guards it.
type index struct {
	users map[store.Key]*user
	nodes map[target]*node
	fresh time.Duration // the least time from one new start of a user's attempts to the next
	broke bool          // what users wait for has changed: a cycle of them may be one no more
}

// target names a needed object: which of the tracker's Needs, and the key.
type target struct {
	needs int
	key   store.Key
}

// user is one object that needs others. An object that needs none has no user.
type user struct {
	key      store.Key
	edges    []edge
	revision store.Revision // of the object that the edges were read from
	unmet    int            // edges whose nodes are not met
	freshAt  time.Duration  // when its attempts last started from 0, on the tracker's clock
	due      time.Duration  // when its last wake is handed to the queue
	flags    userFlags
}

type userFlags uint16

const (
	waiting userFlags = 1 << iota // its last run found something unmet
	woken                         // it was handed to the queue, and no run has asked since
	ran                           // a run began with everything met
	running                       // one does now
	failed                        // the last one failed
	moved                         // a needed object changed during the run
	touched                       // and became usable
	cyclic                        // its last run found it in a cycle
	renewed                       // its attempts have started from 0 once: freshAt counts
	unkept                        // since its last run began, a needed object lost the finalizer, or it lost a hold
	behind                        // its last run read from a store what the cache does not show yet
)

func (u *user) is(f userFlags) bool { return u.flags&f != 0 }

// edge is one reference of a user.
type edge struct {
	node  *node
	place int32 // of this edge in node.users
	seen  *asked
}

// node is a needed object.
type node struct {
	target
	now   state
	known bool   // now is what a look has found
	asked *asked // now.asked, shared by the edges that have seen it
	users []backEdge
}

type backEdge struct {
	user *user
	edge int32 // in user.edges
}

// wake hands a user to the queue.
type wake struct {
	key store.Key
	// keep says that the attempts are to stay as they are.
	keep bool
	// after is how long it waits at least.
	after time.Duration
	// again says that it was handed over before and has not asked since: it comes when it
	// was to come then.
	again bool
}

// behindPause is the pace of the runs that read again what a late cache shows otherwise.
const behindPause = 500 * time.Millisecond

func newIndex(fresh time.Duration) index {
	return index{users: make(map[store.Key]*user), nodes: make(map[target]*node), fresh: fresh}
}

// refer makes the targets those of the user, and gives the user, nil if there are none,
// and the nodes that are new.
func (x *index) refer(key store.Key, targets []target, revision store.Revision) (u *user, created []*node) {
	u = x.users[key]
	if len(targets) == 0 {
		if u != nil {
			x.broke = true
			x.cut(u)
			delete(x.users, key)
		}
		return nil, nil
	}
	if u == nil {
		u = &user{key: key}
		x.users[key] = u
	}
	u.revision = revision
	if slices.EqualFunc(u.edges, targets, func(e edge, t target) bool { return e.node.target == t }) {
		return u, nil
	}
	x.broke = true
	before := slices.Clone(u.edges)
	edges := make([]edge, 0, len(targets))
	for _, t := range targets {
		n := x.nodes[t]
		if n == nil {
			n = &node{target: t, asked: new(asked)}
			x.nodes[t] = n
			created = append(created, n)
		}
		e := edge{node: n}
		if i := slices.IndexFunc(before, func(b edge) bool { return b.node == n }); i >= 0 {
			e.seen = before[i].seen
		}
		edges = append(edges, e)
	}
	x.cut(u)
	u.edges, u.unmet = edges, 0
	for i := range u.edges {
		n := u.edges[i].node
		if !n.now.met {
			u.unmet++
		}
		x.nodes[n.target] = n // cut may have dropped it
		u.edges[i].place = int32(len(n.users))
		n.users = append(n.users, backEdge{u, int32(i)})
	}
	return u, created
}

// cut takes the user's edges away, and the nodes that nothing refers to any more.
func (x *index) cut(u *user) {
	for i := range u.edges {
		e := &u.edges[i]
		n, last := e.node, len(e.node.users)-1
		moved := n.users[last]
		n.users[e.place] = moved
		moved.user.edges[moved.edge].place = e.place
		n.users[last] = backEdge{}
		if n.users = n.users[:last]; last == 0 {
			delete(x.nodes, n.target)
		}
	}
	u.edges, u.unmet = nil, 0
}

// set takes what a needed object has become, and gives the users to be woken.
func (x *index) set(n *node, s state, now time.Duration) (wakes []wake) {
	was, readied := n.now, n.known && !n.now.met
	lost := was.kept && !s.kept // by a restore of its store, or by hand
	if was == s && n.known {
		return nil
	}
	n.known = true
	if n.now = s; s.asked != *n.asked {
		n.asked = &asked{s.asked.uid, s.asked.value}
	}
	for _, b := range n.users {
		if lost {
			b.user.loseHold()
		}
		switch {
		case was.met && !s.met:
			b.user.unmet++
		case !was.met && s.met:
			b.user.unmet--
			x.broke = true
		}
	}
	if !s.met || was.met && was.asked == s.asked && !lost {
		return nil
	}
	for _, b := range n.users {
		if w, ok := x.consider(b.user, &b.user.edges[b.edge], readied, now); ok {
			wakes = append(wakes, w)
		}
	}
	return wakes
}

// loseHold notes that what a run of the user has used is not kept any more. Its next run takes
// the hold again, and comes as soon as everything is met.
func (u *user) loseHold() {
	if u.is(ran) {
		u.flags |= unkept
	}
}

// consider decides whether a user is woken, because of the object of one of its edges
// (nil: of none). Readied says that the object has just become usable: others may have
// changed before, when the user could not have run.
func (x *index) consider(u *user, e *edge, readied bool, now time.Duration) (wake, bool) {
	if u.is(running) {
		if u.flags |= moved; readied {
			u.flags |= touched
		}
		return wake{}, false // end asks again, when the run has said what became of it
	}
	if u.unmet > 0 || u.is(woken) && e == nil {
		return wake{}, false
	}
	differs := u.is(ran) && (e != nil && e.differs() || (e == nil || readied || u.is(waiting)) && u.differs())
	// One that was woken is woken again by the next change: perhaps its run failed before it
	// asked, and it backs off or is parked. If not, the queue has it already.
	if !u.is(woken) && !u.is(unkept) && !u.is(waiting) && !differs && !(u.is(failed) && readied) {
		return wake{}, false
	}
	return x.wake(u, differs, now), true
}

// wake hands a user to the queue. Its attempts start from 0 if it is about something else
// than its last run, and that was not so a moment ago.
func (x *index) wake(u *user, differs bool, now time.Duration) wake {
	w := wake{key: u.key, keep: true, again: u.is(woken)}
	u.flags |= woken
	if u.is(behind) {
		w.after = behindPause
	}
	if differs && (!u.is(renewed) || now-u.freshAt >= x.fresh) {
		w.keep, u.freshAt = false, now
		u.flags |= renewed
	}
	return w
}

// differs reports whether something is not as the user's last run saw it.
func (u *user) differs() bool { return slices.ContainsFunc(u.edges, edge.differs) }

func (e edge) differs() bool {
	return e.seen == nil || e.seen != e.node.asked && *e.seen != *e.node.asked
}

// begin notes that a run of the user has looked at the needed objects: at those of the
// edges, in order. It reports whether the run may go on, and which of the needed objects
// are not known as the run sees them: they have to be looked at before the user is woken
// again, or it would be woken for the same difference until the news of it come.
func (x *index) begin(u *user, looked []state) (open bool, stale []*node) {
	u.flags &^= woken | moved | touched | unkept | waiting | running | behind
	for _, s := range looked {
		if !s.met {
			u.flags |= waiting
			return false, nil
		}
	}
	for i, s := range looked {
		e := &u.edges[i]
		if e.seen = e.node.asked; *e.seen != s.asked { // the node is older or newer than the look
			e.seen = &asked{s.asked.uid, s.asked.value}
			if stale = append(stale, e.node); e.node.known {
				u.flags |= moved // a newer one changed before the run was noted: end asks again
			}
		}
	}
	u.flags = u.flags&^cyclic | ran | running
	return true, stale
}

// wait notes that a run that had begun found something unmet after all.
func (x *index) wait(u *user) { u.flags = u.flags&^running | waiting | behind }

// end notes how a run ended, and gives the wake of a user that has not seen what it needs
// as it is, or that failed while it became usable.
func (x *index) end(u *user, bad bool, now time.Duration) (wake, bool) {
	differs := u.is(moved) && u.differs()
	again := (differs || bad && u.is(touched) || u.is(unkept)) && !u.is(woken) && u.unmet == 0
	u.flags &^= running | moved | touched | failed
	if bad {
		u.flags |= failed
	}
	if !again || x.users[u.key] != u {
		return wake{}, false
	}
	return x.wake(u, differs, now), true
}
