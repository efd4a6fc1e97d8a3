package lifecycle

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/tendhq/tend/internal/endless"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/store"
)

// Provider is the domain logic of a service, in two idempotent funcs that are
// given the object, a copy of the config that is theirs to change, and the
// access of this run.
//
// Of their edits to the object, Status and Conditions are written at the end
// of the run, every other is dropped. Success makes the object Ready, unless
// the func itself said otherwise (SetProgressing, SetTerminating). A Result
// with a delay wins over the config's poll interval; Requeue says that it is
// not over, and is retried with backoff without being a failure. For Delete a
// delay, too, says that it is not over, and the finalizer stays.
//
// Delete is called for an object in deletion until it succeeds. It does not
// wait for a config: see [ConfigLoaded]. Both are called for many objects at
// once.
type Provider[S, T, C, A any] interface {
	CreateOrUpdate(ctx context.Context, o *store.Object[S, T], config C, access A) (reconcile.Result, error)
	Delete(ctx context.Context, o *store.Object[S, T], config C, access A) (reconcile.Result, error)
}

// providerWork is what a Lifecycle made by NewProvider does with an object.
type providerWork[S, T, C, A any] struct {
	provider  Provider[S, T, C, A]
	config    Config[C]
	access    Access[S, T, C, A] // nil: none
	finalizer string
	releasing string // annotation that says that Delete has succeeded
	retired   []string
}

func (w *providerWork[S, T, C, A]) step(ctx context.Context, run *object.Run[S, T]) (reconcile.Result, error) {
	c, loaded, err := w.config.current(ctx)
	ctx = context.WithValue(ctx, loadedKey{}, loaded)
	switch {
	case run.Deleting():
		return w.delete(ctx, run, c)
	case err != nil:
		run.Object.SetProgressing(reasonConfigUnavailable, run.Message(err))
		return reconcile.Result{}, err
	case !loaded:
		run.Object.SetProgressing(reasonConfigMissing, "there is no config yet")
		return reconcile.Result{}, nil // its appearance wakes every object
	}
	if err := run.Ensure(ctx, w.finalizer); err != nil {
		return object.Again(err)
	}
	return w.createOrUpdate(ctx, run, c)
}

func (w *providerWork[S, T, C, A]) createOrUpdate(ctx context.Context, run *object.Run[S, T], c C) (reconcile.Result, error) {
	if err := object.Over(ctx); err != nil {
		return reconcile.Result{}, err
	}
	a, res, err := ensure(ctx, w.access, run.Object, c)
	switch {
	case err != nil:
		run.Object.SetProgressing(reasonAccessFailed, run.Message(err))
		return reconcile.Result{}, err
	case waits(res):
		run.Object.SetProgressing(reasonAccessPending, "waiting for access")
		return res, nil
	}
	if err := object.Over(ctx); err != nil {
		return reconcile.Result{}, err
	}
	said := run.Listen()
	res, err = w.provider.CreateOrUpdate(ctx, run.Object, c, a)
	err = endless.Cut(err)
	switch {
	case run.SaidSo(said, err):
	case err != nil:
		run.Object.SetProgressing(reasonFailed, run.Message(err))
	case res.Requeue:
		run.Object.SetProgressing(reasonRequeued, "not over yet")
	default:
		run.Object.SetReady()
	}
	if err == nil && !waits(res) {
		res.RequeueAfter = poll(c)
	}
	return res, err
}

// poll is how long to wait before an object is looked at again, 0 for never.
func poll(config any) time.Duration {
	p, ok := config.(poller)
	if !ok || p.PollInterval() <= 0 {
		return 0
	}
	d := p.PollInterval()
	return d + rand.N(d/10+1)
}

// delete goes from one stage to the next as far as it gets in this run:
//
//	finalizer ─ Ensure, Delete ─▶ finalizer and annotation ─ Release ─▶ neither
//
// The stage is stored, so a restart does not go back. It is an annotation and
// not another finalizer, because none can be added to an object in deletion. Its
// value is the uid: an object that is declared again from the text of one in
// deletion carries the annotation, too.
func (w *providerWork[S, T, C, A]) delete(ctx context.Context, run *object.Run[S, T], c C) (reconcile.Result, error) {
	if !run.Has(w.finalizer) {
		return reconcile.Result{}, run.Remove(ctx, w.retired...)
	}
	if run.Stored().Annotations[w.releasing] != run.Stored().UID {
		if res, err := w.tearDown(ctx, run, c); err != nil || waits(res) {
			return res, err
		}
	}
	if w.access != nil {
		if err := object.Over(ctx); err != nil {
			return reconcile.Result{}, err
		}
		run.Object.SetTerminating(reasonReleasePending, "giving the access back")
		res, err := release(ctx, w.access, run.Object, c)
		if err != nil {
			run.Object.SetTerminating(reasonReleaseFailed, run.Message(err))
		}
		if err != nil || waits(res) {
			return res, err
		}
	}
	return reconcile.Result{}, run.Remove(ctx, append([]string{w.finalizer}, w.retired...)...)
}

// tearDown is the provider's own part of a deletion, up to and including the
// record that it is over.
func (w *providerWork[S, T, C, A]) tearDown(ctx context.Context, run *object.Run[S, T], c C) (reconcile.Result, error) {
	run.Object.SetTerminating(reasonDeleting, "")
	if err := object.Over(ctx); err != nil {
		return reconcile.Result{}, err
	}
	a, res, err := ensure(ctx, w.access, run.Object, c)
	switch {
	case errors.Is(err, ErrNoAccess):
		a = *new(A)
	case err != nil:
		run.Object.SetTerminating(reasonAccessFailed, run.Message(err))
		return reconcile.Result{}, err
	case waits(res):
		run.Object.SetTerminating(reasonAccessPending, "waiting for access")
		return res, nil
	}
	if err := object.Over(ctx); err != nil {
		return reconcile.Result{}, err
	}
	said := run.Listen()
	res, err = w.provider.Delete(ctx, run.Object, c, a)
	err = endless.Cut(err)
	switch {
	case run.SaidSo(said, err):
	case err != nil:
		run.Object.SetTerminating(reasonDeleteFailed, run.Message(err))
	default:
		run.Object.SetTerminating(reasonDeleting, "")
	}
	if err != nil || waits(res) || w.access == nil {
		return res, err
	}
	return res, run.Record(ctx, func(o *store.Object[S, T]) error {
		o.Annotations = maps.Clone(o.Annotations)
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[w.releasing] = o.UID
		return nil
	})
}

// gone: nothing is remembered of an object.
func (w *providerWork[S, T, C, A]) gone(context.Context, store.Key) (reconcile.Result, error) {
	return reconcile.Result{}, nil
}

func (w *providerWork[S, T, C, A]) forget(func(store.Key) bool) {}

// urgent leaves it to the controller's rule.
func (w *providerWork[S, T, C, A]) urgent(*store.Object[S, T]) (jump, decided bool) {
	return false, false
}

func (w *providerWork[S, T, C, A]) note(store.Key) {}

func (w *providerWork[S, T, C, A]) cured(store.Key, bool) {} // its retries are the queue's

func (w *providerWork[S, T, C, A]) news() *news { return w.config.news() }

// concerned: every object runs again after a change of the config.
func (w *providerWork[S, T, C, A]) concerned(*store.Object[S, T]) bool { return true }

func (w *providerWork[S, T, C, A]) sources(name string) []reconcile.Source[reconcile.Request] {
	keeps := false
	return []reconcile.Source[reconcile.Request]{{
		Name: name + " config",
		Run: func(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
			to.Synced() // it adds nothing
			return w.config.follow(ctx, &keeps)
		},
	}}
}

func (w *providerWork[S, T, C, A]) finalizers() []string {
	return append([]string{w.finalizer}, w.retired...)
}

func (w *providerWork[S, T, C, A]) mindsLabels() bool { return false }
