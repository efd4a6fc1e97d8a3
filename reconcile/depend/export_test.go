package depend

import (
	"context"
	"slices"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// Classes is for tests of the running controller.
var Classes = classes

// AppendMemory adds what the tracker remembers of an object, as a user and as a needed one of
// its first needs, to b. What it does with the object later depends on nothing else, but for
// the clock: when attempts last started from 0.
func AppendMemory[S, T any](b []byte, t *Tracker[S, T], key store.Key) []byte {
	bits := func(all ...bool) {
		n := byte(0)
		for i, is := range all {
			if is {
				n |= 1 << i
			}
		}
		b = append(b, n)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	g := target{0, key}
	n, u := t.index.nodes[g], t.index.users[key]
	_, dirty := t.dirty[key]
	_, changed := t.changed[g]
	bits(n != nil, u != nil, dirty, changed, t.held[t.ref(g)] > 0, slices.Contains(t.released, t.ref(g)))
	if n != nil {
		bits(n.known, n.now.exists, n.now.deleting, n.now.kept, n.now.met, *n.asked == n.now.asked)
	}
	if u != nil {
		f := u.flags &^ renewed
		b = append(b, byte(f), byte(f>>8), byte(u.unmet))
		for _, e := range u.edges {
			bits(e.seen != nil, e.differs())
		}
	}
	return b
}

const ReasonMet = reasonMet

func (o *Options) SetBurst(v int) *Options {
	o.burst = v
	return o
}

func (o *Options) SetPerSecond(v int) *Options {
	o.perSecond = v
	return o
}

func (o *Options) SetFresh(v time.Duration) *Options {
	o.fresh = v
	return o
}

// Permit is the first part of Admit.
func (t *Tracker[S, T]) Permit(ctx context.Context, o *store.Object[S, T], write func(context.Context, func(*store.Object[S, T]) error) error) (*permit[S, T], error) {
	return t.admit(ctx, o, write)
}

func (p *permit[S, T]) Open() bool { return p.open() }

func (p *permit[S, T]) Keep() { p.keep = true }

func (p *permit[S, T]) End(ctx context.Context, o *store.Object[S, T], res reconcile.Result, err error, record func(context.Context, func(*store.Object[S, T]) error) error) error {
	return p.end(ctx, o, res, err, record)
}
