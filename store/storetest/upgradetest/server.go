package upgradetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

const kind = "record"

// The field "value" of version 1 is "content" in version 2.
type (
	specV1 struct {
		Value string `json:"value"`
	}
	specV2 struct {
		Content string `json:"content"`
	}
	none struct{}
)

// A version is one version of the program.
type version[S any] struct {
	number  int
	options *store.Options[S, none]
	text    func(*S) *string
}

var (
	first  = version[specV1]{1, nil, func(s *specV1) *string { return &s.Value }}
	second = version[specV2]{2, &store.Options[specV2, none]{Version: 2, Convert: []store.Conversion{rename}}, func(s *specV2) *string { return &s.Content }}
)

func rename(o map[string]any) error {
	spec := o["spec"].(map[string]any)
	spec["content"] = spec["value"]
	delete(spec, "value")
	return nil
}

// controllers are the controllers that each server has, one for each kind of reconciler;
// cleaning are those whose resource is removed with the object.
var (
	controllers = []string{"external", "provider", "handler", "for"}
	cleaning    = controllers[:2]
)

// A server runs one version of the program on a store of its own.
type server[S any] struct {
	version[S]
	store *store.Store[S, none]
	stop  func() // and wait until it has stopped
}

// start starts a server, whose controllers share the shards with those of other servers.
func (v version[S]) start(t *testing.T, w *world, b store.Backend, name string) *server[S] {
	t.Helper()
	s := must(store.New(b, kind, v.options))(t)
	quiet := slog.New(slog.DiscardHandler)
	placement := must(lease.NewSharded(b, "records", 8, &lease.Options{Server: name, Logger: quiet}))(t)
	options := func(controller string) *reconcile.Options[reconcile.Request] {
		return &reconcile.Options[reconcile.Request]{
			Placement: placement, Hooks: w.hooks(v.number, controller), Logger: quiet,
			Backoff: queue.Backoff{Base: 20 * time.Millisecond, Max: time.Second},
		}
	}
	cached := must(cache.New(s, nil))(t)
	resources := must(external.New(s, external.Always(v.client(w)), &external.Options[S, none]{Naming: external.ByUs, Poll: time.Second, CreationGrace: time.Millisecond}))(t)
	provided := must(lifecycle.NewProvider(s, provider[S]{v, w}, lifecycle.StaticConfig(none{}), nil, nil))(t)
	handled := must(lifecycle.New(s, []lifecycle.Handler[S, none]{v.handler(w)}, nil))(t)
	plain := must(reconcile.For(s, v.putFor(w, "for"), &reconcile.ForOptions[S, none]{Options: *options("for")}))(t)
	m := &reconcile.Manager{Logger: quiet}
	if err := m.Register(
		must(resources.Controller("external", cached, options("external")))(t),
		must(provided.Controller("provider", cached, nil, options("provider")))(t),
		must(handled.Controller("handler", cached, nil, options("handler")))(t),
		plain,
	); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { // ended and awaited by stop
		defer close(ended)
		if err := m.Run(ctx); err != nil || ctx.Err() == nil {
			t.Errorf("%s ended: %v", name, err)
		}
	}()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return &server[S]{v, s, stop}
}

func (v version[S]) putFor(w *world, controller string) func(context.Context, *store.Object[S, none]) (reconcile.Result, error) {
	return func(_ context.Context, o *store.Object[S, none]) (reconcile.Result, error) {
		w.put(v.number, resource{controller, o.Name}, *v.text(&o.Spec))
		return reconcile.Result{}, nil
	}
}

func (v version[S]) client(w *world) external.Client[S, none] {
	of := func(o *store.Object[S, none]) resource { return resource{"external", o.Name} }
	put := func(_ context.Context, o *store.Object[S, none]) error {
		w.put(v.number, of(o), *v.text(&o.Spec))
		return nil
	}
	return external.ClientFuncs[S, none]{
		ObserveFunc: func(_ context.Context, o *store.Object[S, none]) (external.Observation, error) {
			text, exists := w.exists(of(o))
			return external.Observation{Exists: exists, UpToDate: text == *v.text(&o.Spec)}, nil
		},
		CreateFunc: put,
		UpdateFunc: put,
		DeleteFunc: func(_ context.Context, o *store.Object[S, none]) error { w.remove(v.number, of(o)); return nil },
	}
}

func (v version[S]) handler(w *world) lifecycle.Handler[S, none] {
	put := v.putFor(w, "handler")
	return lifecycle.Handler[S, none]{
		Name: "handler", Simple: true, Add: put, Resync: put,
		Update: func(ctx context.Context, _, o *store.Object[S, none]) (reconcile.Result, error) { return put(ctx, o) },
	}
}

type provider[S any] struct {
	version[S]
	w *world
}

func (p provider[S]) CreateOrUpdate(ctx context.Context, o *store.Object[S, none], _, _ none) (reconcile.Result, error) {
	return p.putFor(p.w, "provider")(ctx, o)
}

func (p provider[S]) Delete(_ context.Context, o *store.Object[S, none], _, _ none) (reconcile.Result, error) {
	p.w.remove(p.number, resource{"provider", o.Name})
	return reconcile.Result{}, nil
}

// An operator declares through one version of the program.
type operator[S any] struct {
	version[S]
	w     *world
	store *store.Store[S, none]
}

func (v version[S]) operate(t *testing.T, w *world, b store.Backend) operator[S] {
	t.Helper()
	return operator[S]{v, w, must(store.New(b, kind, v.options))(t)}
}

// names are n names that begin with a letter.
func names(letter string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(letter, i))
	}
	return all
}

func (o operator[S]) create(t *testing.T, text string, names []string) {
	t.Helper()
	for _, name := range names {
		o.w.declare(name, text+" "+name)
		made := &store.Object[S, none]{Meta: store.Meta{Name: name}}
		*o.text(&made.Spec) = text + " " + name
		must(o.store.Create(t.Context(), made))(t)
	}
}

func (o operator[S]) edit(t *testing.T, text string, names []string) {
	t.Helper()
	for _, name := range names {
		o.w.declare(name, text+" "+name)
		must(o.store.Mutate(t.Context(), store.Key{Name: name}, func(now *store.Object[S, none]) error {
			*o.text(&now.Spec) = text + " " + name
			return nil
		}))(t)
	}
}

func (o operator[S]) delete(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		o.w.mu.Lock()
		o.w.deleted[name] = o.number == 2
		o.w.mu.Unlock()
		for {
			now, err := o.store.Get(t.Context(), store.Key{Name: name})
			if err == nil {
				err = o.store.Delete(t.Context(), now)
			}
			if errors.Is(err, store.ErrConflict) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
}

func must[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
