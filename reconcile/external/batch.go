package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/store"
)

// BatchObserver is a [Client] that can look at many resources by one call; see [Gather].
type BatchObserver[S, T any] interface {
	// ObserveBatch is Observe for each object, with an outcome for each, in order.
	ObserveBatch(ctx context.Context, objects []*store.Object[S, T]) []Outcome[Observation]
}

// BatchDeleter is a [Client] that can delete many resources by one call; see [Gather].
type BatchDeleter[S, T any] interface {
	// DeleteBatch is Delete for each object, with an error or nil for each, in order.
	DeleteBatch(ctx context.Context, objects []*store.Object[S, T]) []error
}

// Outcome is how a call of the func that [NewBatch] returns ended for one item.
type Outcome[R any] struct {
	Value R
	Err   error
}

// BatchOptions bounds what [NewBatch] gathers. Zero fields mean the stated default.
type BatchOptions struct {
	// Wait is how long the first item of a batch waits for others; zero: 50 ms.
	Wait time.Duration
	// Most is how many items a batch has at most; a full one does not wait. Zero: 100.
	Most int
	// timeout bounds the call of a batch, which outlives the runs that wait for it;
	// zero: 1 minute.
	timeout time.Duration
}

// batch gathers the calls of [NewBatch].
type batch[I, R any] struct {
	call func(ctx context.Context, items []I) []Outcome[R]
	o    BatchOptions
	// hide, if it is not nil, takes out of the outcomes what the runs of the items must not tell.
	hide func(items []I, all []Outcome[R])

	mu      sync.Mutex // guards what follows
	pending *gathering[I, R]
}

// gathering is one batch before its call.
type gathering[I, R any] struct {
	items    []I
	callers  []context.Context // of the items
	full     chan struct{}     // closed when there are Most
	done     chan struct{}     // closed when outcomes are there
	outcomes []Outcome[R]
}

// NewBatch gathers calls of many goroutines for one item each into calls for many items.
//
//	one(a) ──┐
//	one(b) ──┼─ Wait, or Most ──▶ call([a b c]) ──▶ an outcome for each
//	one(c) ──┘
//
// The func that it returns, one, puts an item into the next batch and waits for its outcome. An
// error is that of the item, or the cause of ctx if it ends first: then the call may be under
// way, but is not made for the item any more if it was not. It is for the DeleteFunc of a
// client or the Get and Detail of an [Inventory] where the cloud takes many ids at once. The
// worker of a run waits in it, so that a batch has no more items than the controller has
// workers. It is safe for concurrent use.
//
// call returns an outcome for each item, in order. Its context carries nothing of the runs that
// wait: a [quota.Quota] in it is paid once for a batch. Options may be nil. An error says what
// is missing or negative.
//
// An error of the call reaches the items as it is. If it quotes what was sent of several objects
// whose kind has secrets, the call has to leave those out: a run knows its own object's only.
// [Gather] does so.
func NewBatch[I, R any](call func(ctx context.Context, items []I) []Outcome[R], o *BatchOptions) (one func(ctx context.Context, item I) (R, error), err error) {
	b, err := newBatch(call, o)
	if err != nil {
		return nil, err
	}
	return b.one, nil
}

func newBatch[I, R any](call func(ctx context.Context, items []I) []Outcome[R], o *BatchOptions) (*batch[I, R], error) {
	if call == nil {
		return nil, errors.New("external: NewBatch: no call")
	}
	b := &batch[I, R]{call: call}
	if o != nil {
		b.o = *o
	}
	if b.o.Wait < 0 || b.o.Most < 0 || b.o.timeout < 0 {
		return nil, fmt.Errorf("external: BatchOptions is %+v, want zero or more", b.o)
	}
	b.o.Wait, b.o.Most = cmp.Or(b.o.Wait, 50*time.Millisecond), cmp.Or(b.o.Most, 100)
	b.o.timeout = cmp.Or(b.o.timeout, defaultTimeout)
	return b, nil
}

func (b *batch[I, R]) one(ctx context.Context, item I) (R, error) {
	if batched, ok := ctx.Value(deleteKey{}).(*atomic.Bool); ok {
		batched.Store(true)
	}
	b.mu.Lock()
	g := b.pending
	first := g == nil
	if first {
		g = &gathering[I, R]{full: make(chan struct{}), done: make(chan struct{})}
		b.pending = g
	}
	at := len(g.items)
	g.callers = append(g.callers, ctx)
	if g.items = append(g.items, item); len(g.items) == b.o.Most {
		b.pending = nil
		close(g.full)
	}
	b.mu.Unlock()
	if first {
		go b.run(g) // it ends after Wait and Timeout; all of g wait for it
	}
	select {
	case <-g.done:
		return g.outcomes[at].Value, g.outcomes[at].Err
	case <-ctx.Done():
		var none R
		return none, context.Cause(ctx)
	}
}

// run waits until the batch is full or its time is over, and makes the call.
func (b *batch[I, R]) run(g *gathering[I, R]) {
	wait := time.NewTimer(b.o.Wait)
	defer wait.Stop()
	select {
	case <-g.full:
	case <-wait.C:
		b.mu.Lock()
		if b.pending == g {
			b.pending = nil
		}
		b.mu.Unlock()
	}
	g.outcomes = make([]Outcome[R], len(g.items))
	defer close(g.done) // also if the call ends this goroutine
	var items []I
	var places []int // of the items in g.items
	for i, caller := range g.callers {
		if caller.Err() != nil { // its key may be another server's by now
			g.outcomes[i].Err = context.Cause(caller)
			continue
		}
		items, places = append(items, g.items[i]), append(places, i)
		g.outcomes[i].Err = errBatchExited // until there is another outcome
	}
	if len(items) > 0 {
		for n, outcome := range b.outcomes(items) {
			g.outcomes[places[n]] = outcome
		}
		if b.hide != nil {
			b.hide(g.items, g.outcomes)
		}
	}
}

// errBatchExited is the outcome of a batch whose call gave none.
var errBatchExited = errors.New("external: the call of a batch ended its goroutine (runtime.Goexit)")

// outcomes makes the call. An error of the whole call is that of each item.
func (b *batch[I, R]) outcomes(items []I) (all []Outcome[R]) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), b.o.timeout, errTimeout)
	defer cancel()
	err := contain.Call(func() error {
		if all = b.call(ctx, items); len(all) != len(items) {
			return fmt.Errorf("external: a batch of %d items has %d outcomes", len(items), len(all))
		}
		return nil
	})
	if err != nil {
		all = make([]Outcome[R], len(items))
		for i := range all {
			all[i].Err = err
		}
	}
	return all
}

// Gather makes a client that calls ObserveBatch and DeleteBatch of c, where c is a
// [BatchObserver] or a [BatchDeleter], for what several runs ask within a bound of time.
// Its other methods are those of c, and so are all of them for a client that is neither.
// Share one among all runs of an account: give it to [Always]. A client that is a
// [Closer] has to stay open as long as it is in use; Close is not called.
func Gather[S, T any](c Client[S, T], o *BatchOptions) (Client[S, T], error) {
	if c == nil {
		return nil, errors.New("external: Gather: a nil client")
	}
	g := &gathered[S, T]{Client: c}
	var err error
	if many, ok := c.(BatchObserver[S, T]); ok {
		g.observes, err = newBatch(func(ctx context.Context, items []batched[S, T]) []Outcome[Observation] {
			return many.ObserveBatch(ctx, objectsOf(items))
		}, o)
		if err != nil {
			return nil, err
		}
		g.observes.hide = hideSecrets[S, T, Observation]
	}
	if many, ok := c.(BatchDeleter[S, T]); ok {
		g.deletes, err = newBatch(func(ctx context.Context, items []batched[S, T]) []Outcome[struct{}] {
			errs := many.DeleteBatch(ctx, objectsOf(items))
			outcomes := make([]Outcome[struct{}], len(errs))
			for i, err := range errs {
				outcomes[i].Err = err
			}
			return outcomes
		}, o)
		if err != nil {
			return nil, err
		}
		g.deletes.hide = hideSecrets[S, T, struct{}]
	}
	if g.observes == nil && g.deletes == nil {
		return c, nil
	}
	return g, nil
}

// gathered is what Gather makes.
type gathered[S, T any] struct {
	Client[S, T]
	observes *batch[batched[S, T], Observation]
	deletes  *batch[batched[S, T], struct{}]
}

// batched is an object in a batch.
type batched[S, T any] struct {
	object *store.Object[S, T] // the batch's own
	before *store.Object[S, T] // a copy, of a kind with secrets: the client may edit the object
	store  *store.Store[S, T]  // of the run; nil: the call is none of a run
}

func objectsOf[S, T any](items []batched[S, T]) []*store.Object[S, T] {
	all := make([]*store.Object[S, T], len(items))
	for i, item := range items {
		all[i] = item.object
	}
	return all
}

// hideSecrets takes the secrets of all objects of a batch out of its errors. An error of the
// whole call may quote any of them, and the run that gets it knows those of its own object only.
func hideSecrets[S, T, R any](items []batched[S, T], all []Outcome[R]) {
	var s *store.Store[S, T]
	var objects []*store.Object[S, T]
	for _, item := range items {
		s = cmp.Or(s, item.store)
		if objects = append(objects, item.object); item.before != nil {
			objects = append(objects, item.before)
		}
	}
	if s == nil {
		return
	}
	clean := make(map[error]error) // mostly all items have one error
	for i, o := range all {
		if o.Err == nil || !reflect.ValueOf(o.Err).Comparable() {
			all[i].Err = s.RedactError(o.Err, objects...)
			continue
		}
		if clean[o.Err] == nil {
			clean[o.Err] = s.RedactError(o.Err, objects...)
		}
		all[i].Err = clean[o.Err]
	}
}

// Observe gives the batch an object of its own, as Delete does: a run that is over before its
// batch must not have its object edited.
func (g *gathered[S, T]) Observe(ctx context.Context, o *store.Object[S, T]) (Observation, error) {
	if g.observes == nil {
		return g.Client.Observe(ctx, o)
	}
	item := batchItem(ctx, o)
	seen, err := g.observes.one(ctx, item)
	if ctx.Err() != nil { // also if the answer came: without the status it is none
		return Observation{}, context.Cause(ctx)
	}
	*o = *item.object
	return seen, err
}

func (g *gathered[S, T]) Delete(ctx context.Context, o *store.Object[S, T]) error {
	if g.deletes == nil {
		return g.Client.Delete(ctx, o)
	}
	item := batchItem(ctx, o)
	_, err := g.deletes.one(ctx, item)
	if ctx.Err() == nil {
		*o = *item.object
	}
	return err
}

// deleteKey is the key under which the context of a run's delete has Reconciler.batched.
type deleteKey struct{}

// storeKey is the key under which the context of a call has the store of its run.
type storeKey struct{}

// batchItem is the item of a call's object: a copy, which shares nothing with it where the call is
// one of a run.
func batchItem[S, T any](ctx context.Context, o *store.Object[S, T]) (item batched[S, T]) {
	s, ok := ctx.Value(storeKey{}).(*store.Store[S, T])
	if !ok {
		mine := *o
		return batched[S, T]{object: &mine}
	}
	item = batched[S, T]{object: s.Clone(o), store: s}
	if s.HasSecrets() || o.Intent.Outputs != (store.Outputs{}) {
		item.before = s.Clone(o)
	}
	return item
}

func (g *gathered[S, T]) lacks(a action) error {
	if l, ok := g.Client.(lacking); ok {
		return l.lacks(a)
	}
	return nil
}
