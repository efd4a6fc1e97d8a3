package lifecycle

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

func (w *handlerWork[S, T]) forget(left func(store.Key) bool) { w.led.forgetAll(left) }

// note remembers that a run was asked for, where it might be taken for nothing
// but a retry.
func (w *handlerWork[S, T]) note(key store.Key) {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	ks := w.led.keys[key]
	if ks != nil && slices.ContainsFunc(ks.calls, func(c *callState[S, T]) bool { return c.retry != nil }) {
		ks.noted = true
	}
}

// cured makes the retries of a key due. One that has given up begins again.
func (w *handlerWork[S, T]) cured(key store.Key, fromZero bool) {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	ks := w.led.keys[key]
	if ks == nil {
		return
	}
	for _, c := range ks.calls {
		if c.retry == nil {
			continue
		}
		c.retry.due = time.Now()
		if fromZero {
			c.retry.attempt = 0
		}
	}
}

// news counts what concerns every object, and wakes all that follow it.
type news struct {
	mu    sync.Mutex // guards what follows
	count uint64
	more  chan struct{} // closed with the next; nil: none waits
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.count++; n.more != nil {
		close(n.more)
		n.more = nil
	}
}

// now is how much has been told, and what is closed when there is more.
func (n *news) now() (count uint64, more <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.more == nil {
		n.more = make(chan struct{})
	}
	return n.count, n.more
}

// follow makes a round for what it has not been told yet, and again for what is told until
// ctx ends.
func (n *news) follow(ctx context.Context, told *uint64, round func() error) error {
	for {
		count, more := n.now()
		if *told != count {
			if err := round(); err != nil {
				return err // the next life of the source makes the round again
			}
			*told = count
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *handlerWork[S, T]) news() *news { return &w.list.news }

func (w *handlerWork[S, T]) sources(string) []reconcile.Source[reconcile.Request] { return nil }

// concerned: a handler that was added is shown every object that it has not met. When
// one was removed, objects in deletion may have waited for it.
func (w *handlerWork[S, T]) concerned(o *store.Object[S, T]) bool { return o.Deleting() || !w.met(o) }

// met says whether every handler has been called for the object.
func (w *handlerWork[S, T]) met(o *store.Object[S, T]) bool {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	ks := w.led.keys[o.Key()]
	for _, e := range *w.list.list.Load() {
		if ks == nil || !slices.ContainsFunc(ks.calls, func(c *callState[S, T]) bool { return c.handler == e }) {
			return false
		}
	}
	return true
}

func (w *handlerWork[S, T]) finalizers() []string {
	names := slices.Clone(w.list.retiredFinalizers())
	for _, e := range *w.list.list.Load() {
		if !e.Simple {
			names = append(names, e.Finalizer, e.pending)
		}
	}
	return names
}

func (w *handlerWork[S, T]) mindsLabels() bool {
	return slices.ContainsFunc(*w.list.list.Load(), func(e *entry[S, T]) bool { return e.LabelsChanged })
}
