package lifecycle

import (
	"context"
	"slices"
	"time"

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

// follow shows a handler that was added every object that it has not met. When
// one was removed, objects in deletion may have waited for it.
func (w *handlerWork[S, T]) follow(ctx context.Context, _ *follower, round func(func(*store.Object[S, T]) bool) error) error {
	for {
		select {
		case <-w.list.changed:
		case <-ctx.Done():
			return nil
		}
		if err := round(func(o *store.Object[S, T]) bool { return o.Deleting() || !w.met(o) }); err != nil {
			w.list.notify() // the next life of this source makes the round again
			return err
		}
	}
}

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
