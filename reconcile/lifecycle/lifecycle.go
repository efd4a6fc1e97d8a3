package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/store"
)

// Options of New and NewProvider. Nil and zero fields mean what is said beside
// the field. They are copied.
type Options struct {
	// Finalizer is the provider's finalizer. Empty: from the kind, so that two
	// providers of one kind need one each. Handlers have their own, in
	// [Handler.Finalizer].
	Finalizer string

	// Retired lists finalizers of handlers or providers that earlier versions
	// had. An object in deletion is let go without them: no code is left that
	// would remove them.
	Retired []string

	// pace is the time from one object to the next when every object is run
	// again, because the config changed or a handler was added. Zero: 5 ms,
	// so that 10,000 objects take 50 s. They run in the low band: what changes
	// meanwhile is served first.
	pace time.Duration
}

const defaultPace = 5 * time.Millisecond

// Lifecycle reconciles the objects of one kind. It is a
// reconcile.Reconciler[reconcile.Request], to be run by a controller; see
// [Lifecycle.Controller].
type Lifecycle[S, T any] struct {
	store   *store.Store[S, T]
	options Options
	depends *depend.Tracker[S, T] // nil: the objects need nothing
	work    work[S, T]
}

// work is what differs between handlers and a provider.
type work[S, T any] interface {
	// step does what is to be done about an object that is there and not
	// paused.
	step(ctx context.Context, run *object.Run[S, T]) (reconcile.Result, error)
	// gone is called when a key has no object.
	gone(ctx context.Context, key store.Key) (reconcile.Result, error)
	// urgent says whether a change is to jump a backoff; decided is false if
	// that is left to the controller's own rule.
	urgent(o *store.Object[S, T]) (jump, decided bool)
	// forget drops what is remembered of keys that other servers run now.
	forget(left func(store.Key) bool)
	// note hears of every key that something it depends on asked to be run.
	note(key store.Key)
	// cured hears of every key for which something that it depends on may have mended
	// what failed; fromZero says that the attempts start from 0.
	cured(key store.Key, fromZero bool)
	// news are of what concerns every object of which concerned says so.
	news() *news
	concerned(o *store.Object[S, T]) bool
	// sources keep what runs go by up to date, for one controller.
	sources(name string) []reconcile.Source[reconcile.Request]
	// finalizers are those that may be put on objects.
	finalizers() []string
	// mindsLabels says whether a change of labels alone matters.
	mindsLabels() bool
}

// New makes a lifecycle of handlers, which are called in the order given. The
// list may be edited while it runs, see [Lifecycle.Handlers]; it may be empty.
func New[S, T any](s *store.Store[S, T], handlers []Handler[S, T], o *Options) (*Lifecycle[S, T], error) {
	l, err := newLifecycle(s, o)
	if err != nil {
		return nil, err
	}
	if l.options.Finalizer != "" {
		return nil, fmt.Errorf("lifecycle: kind %q: Options.Finalizer is for a provider; handlers have their own", s.Kind())
	}
	w := newHandlerWork(s, l.options.Retired)
	for _, h := range handlers {
		if _, err := w.list.Add(h); err != nil {
			return nil, err
		}
	}
	l.work = w
	return l, nil
}

// NewProvider makes a lifecycle of a provider. Access may be nil, for none: the
// provider is then given the zero A.
func NewProvider[S, T, C, A any](s *store.Store[S, T], p Provider[S, T, C, A], config Config[C], access Access[S, T, C, A], o *Options) (*Lifecycle[S, T], error) {
	l, err := newLifecycle(s, o)
	if err != nil {
		return nil, err
	}
	switch {
	case p == nil:
		return nil, fmt.Errorf("lifecycle: kind %q: there is no provider", s.Kind())
	case config == nil:
		return nil, fmt.Errorf("lifecycle: kind %q: there is no config; StaticConfig(struct{}{}) is one that says nothing", s.Kind())
	}
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("lifecycle: kind %q: config: %w", s.Kind(), err)
	}
	if l.options.Finalizer == "" {
		if l.options.Finalizer, err = FinalizerName(s.Kind(), "provider"); err != nil {
			return nil, err
		}
	}
	l.work = &providerWork[S, T, C, A]{
		provider: p, config: config, access: access, retired: l.options.Retired,
		finalizer: l.options.Finalizer, releasing: releasingPrefix + l.options.Finalizer,
	}
	return l, nil
}

func newLifecycle[S, T any](s *store.Store[S, T], o *Options) (*Lifecycle[S, T], error) {
	if s == nil {
		return nil, errors.New("lifecycle: there is no store")
	}
	l := &Lifecycle[S, T]{store: s}
	if o != nil {
		l.options = *o
		l.options.Retired = nil
		for _, name := range o.Retired { // a handler may have crashed in its Add
			l.options.Retired = append(l.options.Retired, name, object.PendingName(name))
		}
	}
	switch {
	case l.options.pace < 0:
		return nil, fmt.Errorf("lifecycle: kind %q: Pace is %v, want 0 or more", s.Kind(), l.options.pace)
	case l.options.pace == 0:
		l.options.pace = defaultPace
	}
	return l, l.checkFinalizers(o)
}

func (l *Lifecycle[S, T]) checkFinalizers(o *Options) error {
	if o == nil {
		return nil
	}
	names := slices.Clone(o.Retired)
	if o.Finalizer != "" {
		names = append(names, o.Finalizer)
	}
	for _, name := range names {
		if err := object.CheckFinalizer(name); err != nil {
			return fmt.Errorf("lifecycle: kind %q: %w", l.store.Kind(), err)
		}
	}
	return nil
}

// DependOn makes the objects wait for what they need: an object is shown to the handlers or
// the provider when its needs are met, says in its conditions what it waits for until then,
// and is run again when they change. It is called before [Lifecycle.Controller], once.
// Whatever is called, an object in deletion that others use waits until they have gone.
func (l *Lifecycle[S, T]) DependOn(t *depend.Tracker[S, T]) error {
	switch {
	case t == nil:
		return fmt.Errorf("lifecycle: kind %q: DependOn without a tracker", l.store.Kind())
	case t.Kind() != l.store.Kind():
		return fmt.Errorf("lifecycle: kind %q: DependOn with a tracker of kind %q", l.store.Kind(), t.Kind())
	case l.depends != nil:
		return fmt.Errorf("lifecycle: kind %q: DependOn was called before", l.store.Kind())
	}
	l.depends = t
	return nil
}

// Handlers is the list of handlers, and nil for a provider.
func (l *Lifecycle[S, T]) Handlers() *Handlers[S, T] {
	if w, ok := l.work.(*handlerWork[S, T]); ok {
		return w.list
	}
	return nil
}

// Reconcile shows the object of a key to the handlers or the provider, and
// writes its status on every way out, a panic included. An object that is not
// there, or carries the ignore annotation, is left alone; of a paused one only
// the status is written.
func (l *Lifecycle[S, T]) Reconcile(ctx context.Context, key store.Key) (res reconcile.Result, err error) {
	run, err := object.Begin(ctx, l.store, key)
	if err != nil {
		return res, err
	}
	if run == nil {
		return l.work.gone(ctx, key)
	}
	if run.Ignored() {
		return res, nil
	}
	ended := false
	defer func() {
		if !ended { // a panic, or Goexit, goes its way
			run.Object.SetProgressing(reasonFailed, "the run panicked")
			_ = run.End(ctx, nil)
		}
	}()
	defer l.store.RedactPanic(run.First(), run.Object)
	res, err = l.step(ctx, run)
	err = run.Redacted(err)
	ended = true
	if err = run.End(ctx, err); err != nil {
		res = reconcile.Result{}
	}
	return res, err
}

// Forget implements reconcile.Forgetter: what was remembered of an object is of no use
// after another server has handled it. When its key comes back, the handlers are called
// as after a restart.
func (l *Lifecycle[S, T]) Forget(left func(key store.Key) bool) { l.work.forget(left) }

func (l *Lifecycle[S, T]) step(ctx context.Context, run *object.Run[S, T]) (reconcile.Result, error) {
	if run.Paused() {
		return reconcile.Result{}, nil
	}
	if err := run.TakeRequest(ctx); err != nil {
		return object.Again(err)
	}
	if why := depend.InUse(run.Stored().Finalizers); run.Deleting() && why != "" {
		run.Object.SetTerminating(depend.ReasonInUse, why)
		return reconcile.Result{}, nil // the finalizer that goes wakes it
	}
	if l.depends == nil || run.Deleting() {
		return l.work.step(ctx, run)
	}
	return l.permitted(ctx, run)
}

// permitted is the part of a run that waits for what its object needs.
func (l *Lifecycle[S, T]) permitted(ctx context.Context, run *object.Run[S, T]) (reconcile.Result, error) {
	ran := false
	res, err, own := l.depends.Admit(ctx, run.Object, run.Write, run.Record, func() (reconcile.Result, bool, error) {
		ran = true
		res, err := l.work.step(ctx, run)
		return res, false, err
	})
	switch {
	case own == nil:
		return res, err
	case ran:
		return reconcile.Result{}, errors.Join(err, own)
	}
	return object.Again(own)
}
