package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type widgetSpec struct{ Size int }

type widgetStatus struct{ Note string }

type widget = store.Object[widgetSpec, widgetStatus]

var errBoom = errors.New("boom")

func newWidgets(t *testing.T) *store.Store[widgetSpec, widgetStatus] {
	t.Helper()
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	s, err := store.New[widgetSpec, widgetStatus](b, "widget", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func key(name string) store.Key { return store.Key{Name: name} }

func create(t *testing.T, s *store.Store[widgetSpec, widgetStatus], name string) *widget {
	t.Helper()
	o, err := s.Create(t.Context(), &widget{Meta: store.Meta{Name: name}, Spec: widgetSpec{Size: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func get(t *testing.T, s *store.Store[widgetSpec, widgetStatus], name string) *widget {
	t.Helper()
	o, err := s.Get(t.Context(), key(name))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// edit changes an object as a user would.
func edit(t *testing.T, s *store.Store[widgetSpec, widgetStatus], name string, f func(*widget)) *widget {
	t.Helper()
	o := get(t, s, name)
	f(o)
	o, err := s.Update(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func resize(size int) func(*widget) { return func(o *widget) { o.Spec.Size = size } }

// diary notes what handlers were called for, and with what.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// take returns the notes and begins an empty list.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.lines = nil }()
	return d.lines
}

func (d *diary) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := d.take(); !slices.Equal(got, want) {
		t.Errorf("calls:\n got %q\nwant %q", got, want)
	}
}

// handler makes one that notes "name Action size" and then does as fail says;
// nil is success.
func (d *diary) handler(name string, fail func(ctx context.Context, o *widget) error) Handler[widgetSpec, widgetStatus] {
	act := func(a Action) Func[widgetSpec, widgetStatus] {
		return func(ctx context.Context, o *widget) (reconcile.Result, error) {
			d.note("%s %v %d", name, a, o.Spec.Size)
			if fail == nil {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{}, fail(ctx, o)
		}
	}
	return Handler[widgetSpec, widgetStatus]{
		Name: name, Add: act(Added), Resync: act(Resynced), Delete: act(Deleted),
		Update: func(ctx context.Context, old, now *widget) (reconcile.Result, error) {
			d.note("%s Updated %d->%d", name, old.Spec.Size, now.Spec.Size)
			if fail == nil {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{}, fail(ctx, now)
		},
	}
}

func mustNew(t *testing.T, s *store.Store[widgetSpec, widgetStatus], hs ...Handler[widgetSpec, widgetStatus]) *Lifecycle[widgetSpec, widgetStatus] {
	t.Helper()
	l, err := New(s, hs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run makes one run of a key and expects it to succeed.
func run(t *testing.T, l *Lifecycle[widgetSpec, widgetStatus], name string) reconcile.Result {
	t.Helper()
	res, err := l.Reconcile(t.Context(), key(name))
	if err != nil {
		t.Fatalf("Reconcile(%s) = %v", name, err)
	}
	return res
}

// runFails makes one run of a key and expects it to fail with want.
func runFails(t *testing.T, l *Lifecycle[widgetSpec, widgetStatus], name string, want error) error {
	t.Helper()
	_, err := l.Reconcile(t.Context(), key(name))
	if !errors.Is(err, want) {
		t.Fatalf("Reconcile(%s) = %v, want %v", name, err, want)
	}
	return err
}

func remove(t *testing.T, s *store.Store[widgetSpec, widgetStatus], name string) {
	t.Helper()
	if err := s.Delete(t.Context(), get(t, s, name)); err != nil {
		t.Fatal(err)
	}
}

func expectGone(t *testing.T, s *store.Store[widgetSpec, widgetStatus], name string) {
	t.Helper()
	if o, err := s.Get(t.Context(), key(name)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%s is still there (%+v, %v), want it gone", name, o, err)
	}
}

func expectForgotten(t *testing.T, l *Lifecycle[widgetSpec, widgetStatus]) {
	t.Helper()
	if keys := l.work.(*handlerWork[widgetSpec, widgetStatus]).led.keys; len(keys) != 0 {
		t.Errorf("%d keys are remembered, want none", len(keys))
	}
}
