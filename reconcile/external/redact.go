package external

import (
	"context"
	"errors"

	"github.com/tendhq/tend/internal/endless"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// redacted is a client from which no secret of the object gets out: everything that
// is logged, recorded or shown of a run is made of what its client answered. It is
// put around the clients of kinds that have secrets; see [store.Store.Redact].
type redacted[S, T any] struct {
	inner Client[S, T]
	store *store.Store[S, T]
}

// errNoClient is a bug of the connector.
var errNoClient = reconcile.Terminal(errors.New("the connector returned no client and no error"))

// connect is Connector.Connect without the object's secrets in what it says.
func (r *Reconciler[S, T]) connect(ctx context.Context, o *store.Object[S, T]) (Client[S, T], error) {
	before := o
	if r.store.HasSecrets() {
		before = r.store.Clone(o)
		defer r.store.RedactPanic(before, o)
	}
	client, err := r.connector.Connect(ctx, o)
	switch {
	case err != nil:
		return nil, r.store.RedactError(endless.Cut(err), before, o)
	case client == nil:
		return nil, errNoClient
	case r.store.HasSecrets() || r.o.Publisher != nil:
		return redacted[S, T]{client, r.store}, nil
	}
	return client, nil
}

// policyOf is Options.Policy without the object's secrets in what it says.
func (r *Reconciler[S, T]) policyOf(o *store.Object[S, T]) (Policy, error) {
	defer r.store.RedactPanic(o)
	p, err := r.o.Policy(o)
	return p, r.store.RedactError(endless.Cut(err), o)
}

// locationOf is Options.Location without the object's secrets in a panic; empty: not known.
func (r *Reconciler[S, T]) locationOf(o *store.Object[S, T]) string {
	if r.o.Location == nil {
		return ""
	}
	defer r.store.RedactPanic(o)
	return r.o.Location(o)
}

func (r redacted[S, T]) call(ctx context.Context, o *store.Object[S, T], f func(context.Context, *store.Object[S, T]) error) error {
	before := r.store.Clone(o) // the client may edit it
	defer r.store.RedactPanic(before, o)
	return r.store.RedactError(f(ctx, o), before, o)
}

func (r redacted[S, T]) Observe(ctx context.Context, o *store.Object[S, T]) (seen Observation, err error) {
	before := r.store.Clone(o)
	err = r.call(ctx, o, func(ctx context.Context, o *store.Object[S, T]) (err error) {
		seen, err = r.inner.Observe(ctx, o)
		return err
	})
	seen.Diff = r.store.Redact(seen.Diff, before, o)
	return seen, err
}

func (r redacted[S, T]) Create(ctx context.Context, o *store.Object[S, T]) error {
	return r.call(ctx, o, r.inner.Create)
}

func (r redacted[S, T]) Update(ctx context.Context, o *store.Object[S, T]) error {
	return r.call(ctx, o, r.inner.Update)
}

func (r redacted[S, T]) Delete(ctx context.Context, o *store.Object[S, T]) error {
	return r.call(ctx, o, r.inner.Delete)
}

func (r redacted[S, T]) lacks(a action) error {
	if l, ok := r.inner.(lacking); ok {
		return l.lacks(a)
	}
	return nil
}

// closerOf is a client as a Closer, whatever is around it.
func closerOf[S, T any](c Client[S, T]) (Closer, bool) {
	if r, ok := c.(redacted[S, T]); ok {
		c = r.inner
	}
	closer, ok := c.(Closer)
	return closer, ok
}
