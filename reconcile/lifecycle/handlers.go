package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/internal/object"
)

// errHandlerExists is returned when a handler's name or finalizer is taken by
// another handler of the same kind.
var errHandlerExists = errors.New("lifecycle: handler exists already")

// Handlers is the ordered list of one kind's handlers. It may be edited at any
// time, from any goroutine, also while handlers run: a run goes by the list as
// it found it, except that it never starts a call of a handler that has been
// removed.
type Handlers[S, T any] struct {
	kind string
	news news // the list was edited, every object has to run

	list atomic.Pointer[[]*entry[S, T]] // replaced, never edited: runs read it without a lock

	mu      sync.Mutex // guards the edits of list, and what follows
	retired []string   // finalizers of handlers that are no more
	forget  func(*entry[S, T])
}

// entry is one handler in the list. Its identity is the pointer: the place in
// the list changes when another goes.
type entry[S, T any] struct {
	Handler[S, T]
	pending string      // the finalizer before Add succeeded
	removed atomic.Bool // asked before every call
}

func newHandlers[S, T any](kind string, retired []string, forget func(*entry[S, T])) *Handlers[S, T] {
	h := &Handlers[S, T]{kind: kind, retired: slices.Clone(retired), forget: forget}
	h.list.Store(new([]*entry[S, T]))
	return h
}

// Add puts a handler at the end of the list and returns its name. Every object
// that exists is shown to it soon, in the low band; it is not shown again to
// the handlers that were there before. It returns an error if the
// name or the finalizer is taken or illegal.
func (h *Handlers[S, T]) Add(handler Handler[S, T]) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.entryLocked(handler)
	if err != nil {
		return "", err
	}
	next := append(slices.Clone(*h.list.Load()), e)
	h.retired = slices.DeleteFunc(slices.Clone(h.retired), func(f string) bool { return f == e.Finalizer || f == e.pending })
	h.list.Store(&next)
	h.news.tell()
	return e.Name, nil
}

// Remove takes a handler off the list and says whether it was there. A call of
// it that is running ends as it would have; none begins after Remove returned,
// and its retries are gone. The others keep their order, their retries and
// attempts.
//
// Its finalizer stays on living objects, so that the handler can come back; an
// object in deletion is let go without it. After a restart the name is not known
// any more: a version that has dropped a handler lists its finalizer in
// [Options.Retired].
func (h *Handlers[S, T]) Remove(name string) bool {
	return h.remove(func(e *entry[S, T]) bool { return e.Name == name }) > 0
}

// RemoveAll removes every handler, as Remove does.
func (h *Handlers[S, T]) RemoveAll() {
	h.remove(func(*entry[S, T]) bool { return true })
}

// Names lists the handlers in the order in which they are called.
func (h *Handlers[S, T]) Names() []string {
	var names []string
	for _, e := range *h.list.Load() {
		names = append(names, e.Name)
	}
	return names
}

func (h *Handlers[S, T]) remove(match func(*entry[S, T]) bool) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	var next, gone []*entry[S, T]
	for _, e := range *h.list.Load() {
		if match(e) {
			gone = append(gone, e)
		} else {
			next = append(next, e)
		}
	}
	h.list.Store(&next)
	for _, e := range gone {
		e.removed.Store(true)
		if !e.Simple {
			h.retired = append(h.retired, e.Finalizer, e.pending)
		}
		h.forget(e)
	}
	if len(gone) > 0 {
		h.news.tell() // objects in deletion may have waited for it
	}
	return len(gone)
}

// retiredFinalizers are those that no object in deletion has to wait for.
func (h *Handlers[S, T]) retiredFinalizers() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.retired
}

// entryLocked checks a handler and fills in what it left out. mu is held.
func (h *Handlers[S, T]) entryLocked(handler Handler[S, T]) (*entry[S, T], error) {
	e := &entry[S, T]{Handler: handler}
	if e.Name == "" {
		e.Name = h.freeNameLocked()
	}
	derived, err := FinalizerName(h.kind, e.Name)
	if err != nil {
		return nil, err
	}
	switch {
	case e.Simple && e.Finalizer != "":
		return nil, fmt.Errorf("lifecycle: handler %q is simple, and so has no use for the finalizer %q", e.Name, e.Finalizer)
	case e.Finalizer == "":
		e.Finalizer = derived
	}
	if err := object.CheckFinalizer(e.Finalizer); err != nil {
		return nil, fmt.Errorf("handler %q: %w", e.Name, err)
	}
	e.pending = object.PendingName(e.Finalizer)
	if e.Retry == nil {
		e.Retry = queue.Backoff{}.Policy()
	}
	if e.Supersede == nil {
		e.Supersede = DefaultSupersede[S, T]
	}
	for _, o := range *h.list.Load() {
		if o.Name == e.Name || o.Finalizer == e.Finalizer {
			return nil, fmt.Errorf("%w: kind %q, name %q, finalizer %q", errHandlerExists, h.kind, e.Name, e.Finalizer)
		}
	}
	return e, nil
}

func (h *Handlers[S, T]) freeNameLocked() string {
	taken := h.Names()
	for n := 1; ; n++ {
		name := "handler"
		if n > 1 {
			name = fmt.Sprintf("handler-%d", n)
		}
		if !slices.Contains(taken, name) {
			return name
		}
	}
}
