package lifecycle

import (
	"context"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/store"
)

// stale says whether what is remembered under a key is of an earlier object of
// that name.
func (w *handlerWork[S, T]) stale(o *store.Object[S, T]) bool {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	ks := w.led.keys[o.Key()]
	return ks != nil && ks.uid != o.UID
}

// gone ends what is remembered of an object that is no more. The simple
// handlers that knew it get their Delete, with what they last saw of it.
func (w *handlerWork[S, T]) gone(ctx context.Context, key store.Key) (reconcile.Result, error) {
	last := w.lastSeen(key)
	if last == nil {
		w.led.forget(key)
		return reconcile.Result{}, nil
	}
	run := ghost(w.store, last)
	// Its secrets are not those of the object of this run, if there is one.
	defer w.store.RedactPanic(last, run.Object)
	res, err := w.show(ctx, run)
	return res, w.store.RedactError(err, last, run.Object)
}

func (w *handlerWork[S, T]) lastSeen(key store.Key) *store.Object[S, T] {
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	if ks := w.led.keys[key]; ks != nil {
		for _, c := range ks.calls {
			if c.handler.Simple && c.known {
				return c.old
			}
		}
	}
	return nil
}

// ghost is a run about an object that is no more, as it was last seen. It
// writes nothing.
func ghost[S, T any](s *store.Store[S, T], last *store.Object[S, T]) *object.Run[S, T] {
	o := s.Clone(last)
	o.Finalizers = nil
	if !o.Deleting() {
		o.Deleted = time.Now()
	}
	return object.Ghost(s, o, last)
}
