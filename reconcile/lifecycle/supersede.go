package lifecycle

import (
	"slices"

	"github.com/tendhq/tend/store"
)

// Pending is a change that meets a retry which is waiting for its time.
type Pending[S, T any] struct {
	Retry       Action              // what failed
	RetryObject *store.Object[S, T] // with which object
	Err         error               // and why

	Change       Action              // what the change asks for now
	ChangeObject *store.Object[S, T] // the object as it is now
}

// DefaultSupersede drops the retry when deletion was asked for, and when
// the spec changed and asks for what failed: what failed for one spec says
// little about another. It keeps it when the change asks for something else,
// or is none of the spec.
//
// Updated and Resynced are one to it: both bring a known object to its spec.
func DefaultSupersede[S, T any](p Pending[S, T]) bool {
	switch {
	case p.Change == Deleted && p.Retry != Deleted:
		return true
	case known(p.Change) != known(p.Retry):
		return false
	}
	return p.ChangeObject.Generation != p.RetryObject.Generation
}

func known(a Action) bool { return a == Updated || a == Resynced }

// urgent leaves a key where nothing waits to the controller's own rule.
func (w *handlerWork[S, T]) urgent(o *store.Object[S, T]) (jump, decided bool) {
	w.led.mu.Lock()
	ks := w.led.keys[o.Key()]
	retrying := ks != nil && slices.ContainsFunc(ks.calls, func(c *callState[S, T]) bool { return c.retry != nil })
	w.led.mu.Unlock()
	return retrying && w.judge(o, true), retrying
}

// judge holds a change of an object against the retries that wait for it, and
// says whether one of them gave way: then the key has to run at once. Each
// retry is asked once about each change. A run judges what it reads, since it
// may be ahead of the source that tells of changes; that is not a change by
// itself (told is false), so what does not matter to the handler is passed by.
func (w *handlerWork[S, T]) judge(o *store.Object[S, T], told bool) (superseded bool) {
	for _, c := range w.meet(o, told) {
		gaveWay := c.retry.exhausted || c.handler.Supersede(c.pending)
		if gaveWay && w.withdraw(o, c) {
			superseded = true
		}
	}
	return superseded
}

// encounter is a retry that a change has met.
type encounter[S, T any] struct {
	handler *entry[S, T]
	retry   *retry[S, T]
	pending Pending[S, T]
}

func (w *handlerWork[S, T]) meet(o *store.Object[S, T], told bool) []encounter[S, T] {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	ks := w.led.keys[o.Key()]
	if ks == nil || ks.uid != o.UID {
		return nil
	}
	var out []encounter[S, T]
	for _, c := range ks.calls {
		r := c.retry
		if r != nil && r.judged < o.Revision && (told || c.matters(o)) {
			r.judged = o.Revision
			out = append(out, encounter[S, T]{c.handler, r, c.meeting(o)})
		}
	}
	return out
}

// matters says whether the object changed, since the call that failed, in what
// the handler minds.
func (c *callState[S, T]) matters(o *store.Object[S, T]) bool {
	before := c.retry.object
	return c.handler.sight(o) != c.handler.sight(before) || o.Deleting() != before.Deleting()
}

// meeting describes it. What the change asks for is what the handler would be
// called for now if there were no retry.
func (c *callState[S, T]) meeting(o *store.Object[S, T]) Pending[S, T] {
	asks := c.retry.action
	switch {
	case o.Deleting():
		asks = Deleted
	case c.known && c.seen != c.handler.sight(o):
		asks = Updated
	}
	return Pending[S, T]{Retry: c.retry.action, RetryObject: c.retry.object, Err: c.retry.err, Change: asks, ChangeObject: o}
}

// withdraw drops the retry, unless it has been replaced meanwhile.
func (w *handlerWork[S, T]) withdraw(o *store.Object[S, T], m encounter[S, T]) bool {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	ks := w.led.keys[o.Key()]
	if ks == nil || ks.uid != o.UID {
		return false
	}
	c := ks.of(m.handler)
	if c.retry != m.retry {
		return false
	}
	c.retry = nil
	return true
}

// withdrawAll drops every retry of a key, for a fresh start that was asked for.
func (w *handlerWork[S, T]) withdrawAll(key store.Key) {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	if ks := w.led.keys[key]; ks != nil {
		for _, c := range ks.calls {
			c.retry = nil
		}
	}
}
