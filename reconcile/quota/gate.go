package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
)

// Limit returns a copy of o, which may be nil, with which a controller is under quotas:
// of says which one the calls of a key's runs count against, nil for none. An error of
// of parks the key. The copy has further Queue.Buckets and Middleware; give it to one
// controller only. Batches are not limited. Limit fails without of.
//
// A run costs nothing before it makes a call through [Quota.Do]. The first call
// that finds the budget used up is refused; the run ends, and the key waits in
// the queue, in order of priority and age, without a worker. When its turn has
// come the call is paid and the key runs again.
func Limit[K comparable](of func(key K) (*Quota, error), o *reconcile.Options[K]) (*reconcile.Options[K], error) {
	if of == nil {
		return nil, errors.New("quota: Limit: no function that tells a key's quota")
	}
	var mine reconcile.Options[K]
	if o != nil {
		mine = *o
	}
	g := &gate[K]{of: of, owed: map[K]debt{}}
	before := mine.Queue.Buckets
	mine.Queue.Buckets = func(key K, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
		if before != nil {
			dst = before(key, dst)
		}
		return g.buckets(key, dst)
	}
	mine.Middleware = append(slices.Clip(mine.Middleware), func(next reconcile.Reconciler[K]) reconcile.Reconciler[K] {
		return limited[K]{next, g}
	})
	return &mine, nil
}

// limited is a reconciler whose runs are under quotas.
type limited[K comparable] struct {
	next reconcile.Reconciler[K]
	gate *gate[K]
}

func (l limited[K]) Reconcile(ctx context.Context, key K) (reconcile.Result, error) {
	t, err := l.gate.begin(key)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	if t != nil {
		ctx = context.WithValue(ctx, ticketKey{}, t)
		defer t.refund()
	}
	return l.next.Reconcile(ctx, key)
}

// Forget implements reconcile.Forgetter: keys that other servers run now pay there. Left
// in the count, they would have this server wait for them, and say that it does.
func (l limited[K]) Forget(left func(key K) bool) {
	l.gate.mu.Lock()
	defer l.gate.mu.Unlock()
	for key, d := range l.gate.owed {
		if left(key) {
			l.gate.forgetLocked(key, d)
		}
	}
}

// Sweep is called by the kernel, which finds it by its form: a key that was removed from the queue does not come
// back for what it owes. One that waits does, however long the line is: were it forgotten,
// it would be refused when its turn comes, and go to the end of the line.
func (l limited[K]) Sweep(queued func(key K) bool) {
	l.Forget(func(key K) bool { return !queued(key) })
}

// gate knows which keys of one controller wait for a budget:
//
//	run ─ first call ─ no token ─▶ owed[key] ─ run ends, throttled
//	                                  │
//	queue ─ Buckets(key) ─ owed: the bucket ─ waits there ─ pays ─▶ run ─ its call is paid
type gate[K comparable] struct {
	of func(K) (*Quota, error)

	mu   sync.Mutex // guards what follows
	owed map[K]debt
}

// debt is what a key has to pay before it runs again.
type debt struct {
	quota *Quota
	ops   [2]bool // by Op
}

func (g *gate[K]) buckets(key K, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.owed[key]
	for op, owed := range d.ops {
		if owed {
			dst = append(dst, d.quota.budgets[op].bucket)
		}
	}
	return dst
}

// begin makes the ticket of a run, with what was paid for it.
func (g *gate[K]) begin(key K) (*ticket, error) {
	q, err := g.of(key)
	if err != nil {
		return nil, fmt.Errorf("quota: of key %v: %w", key, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.owed[key]
	g.forgetLocked(key, d)
	if q == nil {
		return nil, nil
	}
	q.use()
	t := &ticket{quota: q, owe: func(ops [2]bool) { g.owe(key, q, ops) }}
	if d.quota == q {
		t.held = d.ops
	}
	return t, nil
}

func (g *gate[K]) owe(key K, q *Quota, ops [2]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgetLocked(key, g.owed[key])
	g.owed[key] = debt{q, ops}
	for op, owed := range ops {
		if owed {
			q.budgets[op].owe(1)
		}
	}
}

// forgetLocked takes back what a key owes; the zero debt is that of one that owes nothing.
func (g *gate[K]) forgetLocked(key K, d debt) {
	delete(g.owed, key)
	for op, owed := range d.ops {
		if owed {
			d.quota.budgets[op].owe(-1)
		}
	}
}

type ticketKey struct{}

// ticket is one run's account with its quota.
type ticket struct {
	quota *Quota
	owe   func(ops [2]bool)

	mu    sync.Mutex // guards what follows; a run may have goroutines
	held  [2]bool    // by Op: a token was taken, and no call made with it yet
	begun [2]bool    // by Op: a call was made
}

func ticketOf(ctx context.Context) *ticket {
	t, _ := ctx.Value(ticketKey{}).(*ticket)
	return t
}

// purse is the Op under which a call is paid: where reads and writes share one
// budget, they share the run's first call too.
func (t *ticket) purse(op Op) Op {
	if t.quota.budgets[Read] == t.quota.budgets[Write] {
		return Read
	}
	return op
}

// admit makes sure of the first call's token.
func (t *ticket) admit(op Op) error {
	op = t.purse(op)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.admitLocked(op)
}

func (t *ticket) admitLocked(op Op) error {
	if t.held[op] || t.begun[op] {
		return nil
	}
	if err := t.quota.budgets[op].take(); err != nil {
		// The run will be made again from its start, so what it has paid so far
		// it needs again: with the missing one alone, a key that needs both would
		// take turns in lacking one and the other.
		ops := [2]bool{t.held[Read] || t.begun[Read], t.held[Write] || t.begun[Write]}
		ops[op] = true
		t.owe(ops)
		return err
	}
	t.held[op] = true
	return nil
}

// refund gives back what the run has paid for and not used: its look was served without a
// call, or another budget was used up.
func (t *ticket) refund() {
	t.mu.Lock()
	held := t.held
	t.held = [2]bool{}
	t.mu.Unlock()
	for op, unused := range held {
		if unused {
			t.quota.budgets[op].bucket.Refund(1)
		}
	}
}

// spend pays for a call, if it is the run's first of its kind.
func (t *ticket) spend(op Op) (first bool, err error) {
	op = t.purse(op)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.admitLocked(op); err != nil || !t.held[op] {
		return false, err
	}
	t.held[op], t.begun[op] = false, true
	return true, nil
}
