package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// ErrInjected is the error of a fault where the backend's own would stand.
var ErrInjected = errors.New("storetest: injected fault")

// Fault is what happens to one call.
type Fault struct {
	// Delay passes first; the end of the context ends it.
	Delay time.Duration
	// Break is what then breaks.
	Break Break
}

// Break says where a call breaks.
type Break uint8

const (
	// Nothing breaks.
	Nothing Break = iota
	// Refused fails the call before it reaches the backend, for certain: the
	// error matches [ErrInjected]. In a watch it ends the stream.
	Refused
	// RequestLost keeps a Commit from the backend, and the caller cannot tell:
	// [store.ErrUnknownOutcome]. Other methods break as Refused.
	RequestLost
	// ReplyLost lets a Commit happen, and the caller cannot tell:
	// [store.ErrUnknownOutcome]. Other methods are called and then break as
	// Refused.
	ReplyLost
)

// Call describes a call to the function that decides about it. A watch asks once when
// it begins and then before each batch.
type Call struct {
	// N counts the calls to this wrapper, from 1.
	N int
	// Method is "Get", "List", "Commit", "Watch", "Grant", "Renew" or "Revoke".
	Method string
	// Kind is that of the record asked for, of a Commit's first write, or empty.
	Kind string
}

// Faulty returns a backend that does what b does, except for the faults that
// decide asks for. It offers leases if b does. decide is called from any number
// of goroutines at once.
func Faulty(b store.Backend, decide func(Call) Fault) store.Backend {
	f := &faulty{inner: b, decide: decide}
	if l, ok := b.(store.Leaser); ok {
		return &faultyLeaser{faulty: f, leaser: l}
	}
	return f
}

// Rates are the chances, from 0 to 1, that a call meets a fault.
type Rates struct {
	Refused, RequestLost, ReplyLost, Delayed float64
	// Delay is the longest delay; zero means 10 ms.
	Delay time.Duration
}

// Random returns a decision for [Faulty] that draws faults from a source seeded
// with seed: print the seed when a test fails.
func Random(seed uint64, r Rates) func(Call) Fault {
	if r.Delay <= 0 {
		r.Delay = 10 * time.Millisecond
	}
	var mu sync.Mutex // guards source
	source := rand.New(rand.NewPCG(seed, seed))
	return func(Call) Fault {
		mu.Lock()
		defer mu.Unlock()
		var f Fault
		if source.Float64() < r.Delayed {
			f.Delay = time.Duration(source.Int64N(int64(r.Delay)))
		}
		switch x := source.Float64(); {
		case x < r.Refused:
			f.Break = Refused
		case x < r.Refused+r.RequestLost:
			f.Break = RequestLost
		case x < r.Refused+r.RequestLost+r.ReplyLost:
			f.Break = ReplyLost
		}
		return f
	}
}

type faulty struct {
	inner  store.Backend
	decide func(Call) Fault

	mu sync.Mutex // guards n
	n  int
}

// strike asks for a decision and waits out its delay.
func (f *faulty) strike(ctx context.Context, method, kind string) (Break, error) {
	f.mu.Lock()
	f.n++
	n := f.n
	f.mu.Unlock()
	fault := f.decide(Call{N: n, Method: method, Kind: kind})
	if fault.Delay > 0 && !sleep.For(ctx, fault.Delay) {
		return Refused, fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
	return fault.Break, nil
}

// around makes a call that returns nothing whose outcome matters.
func (f *faulty) around(ctx context.Context, method, kind string, call func() error) error {
	b, err := f.strike(ctx, method, kind)
	if err != nil {
		return err
	}
	if b == Refused || b == RequestLost {
		return fmt.Errorf("%w: %s", ErrInjected, method)
	}
	if err := call(); err != nil || b == Nothing {
		return err
	}
	return fmt.Errorf("%w: reply to %s lost", ErrInjected, method)
}

func (f *faulty) Get(ctx context.Context, kind string, key store.Key) (r store.Record, err error) {
	err = f.around(ctx, "Get", kind, func() error {
		r, err = f.inner.Get(ctx, kind, key)
		return err
	})
	if err != nil {
		return store.Record{}, err
	}
	return r, nil
}

func (f *faulty) List(ctx context.Context, kind string, o store.ListOptions) (p store.Page, err error) {
	err = f.around(ctx, "List", kind, func() error {
		p, err = f.inner.List(ctx, kind, o)
		return err
	})
	if err != nil {
		return store.Page{}, err
	}
	return p, nil
}

func (f *faulty) ListSlots(ctx context.Context, kind string, slots store.SlotSet, o store.ListOptions) (p store.Page, err error) {
	err = f.around(ctx, "List", kind, func() error {
		p, err = store.ListSlots(ctx, f.inner, kind, slots, o)
		return err
	})
	if err != nil {
		return store.Page{}, err
	}
	return p, nil
}

func (f *faulty) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	kind := ""
	if len(t.Ops) > 0 {
		kind = t.Ops[0].Kind
	}
	b, err := f.strike(ctx, "Commit", kind)
	switch {
	case err != nil:
		return 0, err
	case b == Refused:
		return 0, fmt.Errorf("%w: Commit", ErrInjected)
	case b == RequestLost:
		return 0, fmt.Errorf("%w: request lost: %w", store.ErrUnknownOutcome, ErrInjected)
	}
	r, err := f.inner.Commit(ctx, t)
	if b == ReplyLost {
		return 0, fmt.Errorf("%w: reply lost: %w", store.ErrUnknownOutcome, ErrInjected)
	}
	return r, err
}

func (f *faulty) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return f.watch(ctx, kind, f.inner.Watch(ctx, kind, after))
}

func (f *faulty) WatchSlots(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return f.watch(ctx, kind, store.WatchSlots(ctx, f.inner, kind, slots, after))
}

// watch passes on the batches of a watch of the inner backend.
func (f *faulty) watch(ctx context.Context, kind string, inner iter.Seq2[store.Batch, error]) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		b, err := f.strike(ctx, "Watch", kind)
		if err == nil && b != Nothing {
			err = fmt.Errorf("%w: Watch", ErrInjected)
		}
		if err != nil {
			yield(store.Batch{}, err)
			return
		}
		for batch, err := range inner {
			if err == nil {
				batch, err = f.carry(ctx, kind, batch)
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// carry passes a batch on or breaks the stream in its place.
func (f *faulty) carry(ctx context.Context, kind string, batch store.Batch) (store.Batch, error) {
	b, err := f.strike(ctx, "Watch", kind)
	if err == nil && b != Nothing {
		err = fmt.Errorf("%w: watch broken", ErrInjected)
	}
	if err != nil {
		return store.Batch{}, err
	}
	return batch, nil
}

func (f *faulty) Close() error { return f.inner.Close() }

func (f *faulty) Health() error { return store.Health(f.inner) }

type faultyLeaser struct {
	*faulty
	leaser store.Leaser
}

func (f *faultyLeaser) Shared() bool { return f.leaser.Shared() }

func (f *faultyLeaser) Grant(ctx context.Context, ttl time.Duration) (id store.LeaseID, err error) {
	err = f.around(ctx, "Grant", "", func() error {
		id, err = f.leaser.Grant(ctx, ttl)
		return err
	})
	if err != nil {
		return 0, err
	}
	return id, nil
}

func (f *faultyLeaser) Renew(ctx context.Context, id store.LeaseID) error {
	return f.around(ctx, "Renew", "", func() error { return f.leaser.Renew(ctx, id) })
}

func (f *faultyLeaser) Revoke(ctx context.Context, id store.LeaseID) error {
	return f.around(ctx, "Revoke", "", func() error { return f.leaser.Revoke(ctx, id) })
}
