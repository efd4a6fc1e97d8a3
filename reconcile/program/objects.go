package program

import (
	"context"
	"fmt"
	"strings"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/objects"
)

// ObjectsOptions tune the objects of a kind in a Program. Nil and zero fields mean the stated
// default.
type ObjectsOptions[S, T any] struct {
	Store *store.Options[S, T] // of the kind's store; default: store's
	// Cache are the options of the kind's cache, which is made of the store without its
	// RequireGuard. Default: the whole kind.
	Cache *cache.Options[S, T]
	// Progress says when an object is as declared. Default: see KindOptions.
	Progress *KindOptions[S, T]
	// NoReconciler says that nothing in the Program reconciles the kind: it has a store and a
	// cache, for sources, indexes and the page, and does not count as progress. Default: Run
	// fails with the kind's name where that was forgotten.
	NoReconciler bool
}

// Objects are the objects of one kind in a Program: their store, their cache, what reconciles
// them, and their progress. Made by AddKind.
type Objects[S, T any] struct {
	*store.Store[S, T]

	program    *Program
	cache      *cache.Cache[S, T]
	progress   *Kind[S, T]
	controller *reconcile.Controller[reconcile.Request]
	by         any // what made the controller; nil: a function
	sources    []string
	none       bool // NoReconciler
	placed     bool // the controller has a Placement: other servers may run keys of the kind
}

// AddKind adds a kind to a Program: a store and a cache of its objects, which package web
// counts, shows and serves. What reconciles them is for [Objects.Reconcile] or
// [Objects.ReconcileBy]. It never returns nil: after an error, which Run returns, the store
// fails each call with it.
func AddKind[S, T any](p *Program, name string, o *ObjectsOptions[S, T]) *Objects[S, T] {
	var opts ObjectsOptions[S, T]
	if o != nil {
		opts = *o
	}
	p.note(p.checkKind(name))
	s, err := store.New(p.backend, name, opts.Store)
	if err != nil {
		p.note(err)
		s = must(store.New[S, T](failed{err}, "invalid", nil))
	}
	c, err := cache.New(s.Unguarded(), opts.Cache)
	if err != nil {
		p.note(err)
		c = must(cache.New[S, T](s, nil))
	}
	k := &Objects[S, T]{Store: s, program: p, cache: c, progress: must(Of(c, opts.Progress)), none: opts.NoReconciler}
	p.kinds = append(p.kinds, k)
	return k
}

// must is for what cannot fail here.
func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func (p *Program) checkKind(name string) error {
	for _, k := range p.kinds {
		if k.name() == name {
			return fmt.Errorf("program: AddKind: the kind %q was added before", name)
		}
	}
	return nil
}

// Cache is the cache, which the Program runs: to read, for sources of other controllers, and
// to add an index before Run.
func (k *Objects[S, T]) Cache() *cache.Cache[S, T] { return k.cache }

// Controller is the controller; nil before Reconcile and ReconcileBy, and without them.
func (k *Objects[S, T]) Controller() *reconcile.Controller[reconcile.Request] { return k.controller }

// Reconcile has f called for each object, by the controller that [reconcile.ForCache] makes. O
// may be nil; its Cache must be. Objects that o.Only leaves to others are not waited for.
func (k *Objects[S, T]) Reconcile(f func(context.Context, *store.Object[S, T]) (reconcile.Result, error), o *reconcile.ForOptions[S, T]) {
	var opts reconcile.ForOptions[S, T]
	if o != nil {
		opts = *o
	}
	opts.Options = *k.progress.noting(&opts.Options)
	c, err := reconcile.ForCache(k.cache, f, &opts)
	if err != nil {
		k.program.note(err)
		return
	}
	k.progress.only = opts.Only
	k.take(c.Controller, nil, opts.Placement != nil)
}

// ReconcileBy has the objects reconciled by the controller that r makes on the kind's cache,
// named for the kind: an *external.Reconciler, or one of the program's own. O may be nil. The
// controller watches an inventory that r names among its parts (Parts() []any). After an error
// of the Program's it does nothing: r may be what was not made.
func (k *Objects[S, T]) ReconcileBy(r interface {
	Controller(name string, c *cache.Cache[S, T], o *reconcile.Options[reconcile.Request]) (*reconcile.Controller[reconcile.Request], error)
}, o *reconcile.Options[reconcile.Request],
) {
	if k.program.note(nil); len(k.program.errs) > 0 {
		return
	}
	c, err := r.Controller(k.name(), k.cache, k.progress.noting(o))
	if err != nil {
		k.program.note(err)
		return
	}
	k.take(c, r, o != nil && o.Placement != nil)
	for _, part := range withParts(r)[1:] {
		if changes, ok := part.(interface {
			Changed(name string) reconcile.Source[reconcile.Request]
		}); ok {
			k.AddSources(changes.Changed("drift"))
		}
	}
}

func (k *Objects[S, T]) take(c *reconcile.Controller[reconcile.Request], by any, placed bool) {
	switch {
	case k.controller != nil:
		k.program.note(fmt.Errorf("program: the kind %q is reconciled twice", k.name()))
	case k.none:
		k.program.note(fmt.Errorf("program: the kind %q is reconciled, and ObjectsOptions.NoReconciler is set", k.name()))
	default:
		k.controller, k.by, k.placed = c, by, placed
		k.program.note(nil)
	}
}

// AddSources has the controller watch further sources, as of what the objects own or need. It comes
// after Reconcile or ReconcileBy.
func (k *Objects[S, T]) AddSources(sources ...reconcile.Source[reconcile.Request]) {
	switch {
	case k.controller != nil:
		k.program.note(k.controller.Watch(sources...))
		for _, s := range sources {
			k.sources = append(k.sources, s.Name)
		}
	case len(k.program.errs) == 0:
		k.program.note(fmt.Errorf("program: AddSources: nothing reconciles the kind %q yet", k.name()))
	}
}

// Progress is how far the objects are, a Part: with Run of the Program it counts by itself.
func (k *Objects[S, T]) Progress() *Kind[S, T] { return k.progress }

// ObjectKinds are the objects as package web takes them: from the cache, which costs the store
// nothing, and from the store.
func (k *Objects[S, T]) ObjectKinds() (cached, stored objects.Kind) {
	return objects.OfCache(k.cache), objects.Of(k.Store.Unguarded())
}

func (k *Objects[S, T]) name() string { return k.Store.Kind() }

// String is a line with the parts of the kind.
func (k *Objects[S, T]) String() string {
	by := "a function"
	switch {
	case k.none:
		by = ""
	case k.controller == nil:
		return fmt.Sprintf("kind %s: store, cache; nothing reconciles it", k.name())
	case k.by != nil:
		var names []string
		for _, part := range withParts(k.by) {
			names = append(names, typeOf(part))
		}
		by = strings.Join(names, " and ")
	}
	if by == "" {
		return fmt.Sprintf("kind %s: store, cache; NoReconciler", k.name())
	}
	also := ""
	if len(k.sources) > 0 {
		also = ", which watches also " + strings.Join(k.sources, ", ")
	}
	return fmt.Sprintf("kind %s: store, cache, progress, controller of %s%s", k.name(), by, also)
}

func (k *Objects[S, T]) parts() []any {
	if k.by == nil {
		return []any{k}
	}
	return append([]any{k}, withParts(k.by)...)
}

// mayRunElsewhere reports whether servers may share the keys of the kind: by a Placement of the
// controller or of the Manager, or by the lease that the Manager has for a store that others can open.
func (k *Objects[S, T]) mayRunElsewhere() bool {
	l, ok := k.program.backend.(store.Leaser)
	return k.placed || k.program.Manager.Placement != nil || ok && l.Shared()
}

func (k *Objects[S, T]) finish(o *Options) (reconcile.Runner, Part, error) {
	switch {
	case k.none:
		return k.cache, nil, nil
	case k.controller == nil:
		return nil, nil, fmt.Errorf("program: nothing reconciles the kind %q: call its Reconcile or ReconcileBy, or set ObjectsOptions.NoReconciler", k.name())
	}
	k.progress.mu.Lock()
	k.progress.tracked = o.Once || o.asksForProgress() && !k.mayRunElsewhere()
	k.progress.mu.Unlock()
	return k.controller, k.progress, nil
}
