package check

import (
	"context"
	"fmt"
	"go/ast"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/workqueue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/reconcile/webhook"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// ofOneCall are options of a single call on a hot path, or of an interface that users
// implement. They are values: a pointer would escape.
var ofOneCall = []string{"AddOptions", "ListOptions"}

// Whatever takes options takes a pointer to them, as its last parameter, so that nil is
// the default everywhere.
func TestOptionsAreAPointerAndTheLastParameter(t *testing.T) {
	found := 0
	for _, s := range files(t, func(s source) bool {
		return s.isGo() && !s.isTest() && !s.within("bench", "internal", "examples") && !strings.Contains(s.name, "/internal/")
	}) {
		for _, decl := range s.syntax(t).Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.IsExported() {
				params := fn.Type.Params.List
				for i, p := range params {
					options, pointer := optionsIn(p.Type)
					if options == "" || slices.Contains(ofOneCall, options) {
						continue
					}
					found++
					if !pointer || i != len(params)-1 {
						t.Errorf("%s: %s: its parameter of type %s is not a pointer, or not the last", s.name, fn.Name.Name, options)
					}
				}
			}
		}
	}
	if found < 25 {
		t.Errorf("the test found %d functions with options, want 25 or more: does it look at the right places?", found)
	}
}

// optionsIn is the name of the options type that e is, or points to; "": it is another.
func optionsIn(e ast.Expr) (name string, pointer bool) {
	if star, ok := e.(*ast.StarExpr); ok {
		e, pointer = star.X, true
	}
	switch x := e.(type) {
	case *ast.IndexExpr:
		e = x.X
	case *ast.IndexListExpr:
		e = x.X
	}
	if sel, ok := e.(*ast.SelectorExpr); ok {
		e = sel.Sel
	}
	if id, ok := e.(*ast.Ident); ok && strings.HasSuffix(id.Name, "Options") {
		return id.Name, pointer
	}
	return "", false
}

// No function changes the options it is given: one value may serve several calls. The
// options here leave everything to defaults that may be left to them, and have spare
// room in their slices, which an append would write to.
func TestNoFunctionChangesItsOptions(t *testing.T) {
	type spec struct{ N int }
	type object = store.Object[spec, spec]
	backend := must(memory.New(nil))(t)
	things := must(store.New[spec, spec](backend, "thing", nil))(t)
	objects := must(cache.New(things, nil))(t)
	keys := func(*object) []store.Key { return nil }
	nothing := reconcile.Func[store.Key](func(context.Context, store.Key) (reconcile.Result, error) { return reconcile.Result{}, nil })

	unchanged := func(name string, options any, call func() error) {
		t.Helper()
		before := render(reflect.ValueOf(options), 0)
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := render(reflect.ValueOf(options), 0); after != before {
			t.Errorf("%s changed its options\nfrom %s\nto   %s", name, before, after)
		}
	}
	controller := func() *reconcile.Options[store.Key] {
		return &reconcile.Options[store.Key]{
			Adapt: &reconcile.Adapt{}, Reads: append(make([]reconcile.Cached, 0, 4), objects), Writes: make([]string, 0, 4),
			Middleware: make([]func(reconcile.Reconciler[store.Key]) reconcile.Reconciler[store.Key], 0, 4),
			Queue:      queue.Options[store.Key]{Hooks: &queue.Hooks[store.Key]{}},
		}
	}
	o := controller()
	unchanged("reconcile.New", o, func() error { _, err := reconcile.New("a", nothing, o); return err })
	of := &reconcile.ForOptions[spec, spec]{Options: *o, Cache: &cache.Options[spec, spec]{Finalizers: make([]string, 0, 4)}}
	unchanged("reconcile.For", of, func() error {
		_, err := reconcile.For(things, func(context.Context, *object) (reconcile.Result, error) { return reconcile.Result{}, nil }, of)
		return err
	})
	unchanged("reconcile.Each", o, func() error {
		_, err := reconcile.Each("a", time.Second, func(context.Context) (map[store.Key]int, error) { return nil, nil },
			func(context.Context, store.Key, *int) (reconcile.Result, error) { return reconcile.Result{}, nil }, o)
		return err
	})
	unchanged("quota.Limit", o, func() error {
		_, err := quota.Limit(func(store.Key) (*quota.Quota, error) { return nil, nil }, o)
		return err
	})
	life := must(lifecycle.New[spec, spec](things, nil, nil))(t)
	unchanged("Lifecycle.Controller", o, func() error { _, err := life.Controller("", objects, nil, o); return err })
	from := &reconcile.FromOptions[spec, spec]{}
	unchanged("reconcile.FromWith", from, func() error { reconcile.FromWith(objects, from); return nil })
	mapped := &reconcile.MapOptions[spec, spec]{}
	unchanged("reconcile.MapWith", mapped, func() error {
		reconcile.MapWith(objects, func(context.Context, *object, *object) ([]store.Key, error) { return nil, nil }, mapped)
		return nil
	})
	hook := &webhook.Options[string]{
		Auth: func(*http.Request, []byte) error { return nil }, Keys: func(*http.Request, []byte) ([]string, error) { return nil, nil },
	}
	unchanged("webhook.New", hook, func() error { _, err := webhook.New("a", hook); return err })
	pages := &debug.Options{Hosts: make([]string, 0, 4)}
	unchanged("debug.New", pages, func() error { _, err := debug.New(&reconcile.Manager{}, pages); return err })
	needs := &depend.Options{}
	unchanged("depend.New", needs, func() error { _, err := depend.New(objects, depend.On(objects, keys, nil), needs); return err })
	rec := &external.Options[spec, spec]{Naming: external.ByUs}
	client := external.ConnectorFunc[spec, spec](func(context.Context, *object) (external.Client[spec, spec], error) { return nil, nil })
	unchanged("external.New", rec, func() error { _, err := external.New(things, client, rec); return err })
	batch := &external.BatchOptions{}
	unchanged("external.NewBatch", batch, func() error {
		_, err := external.NewBatch(func(context.Context, []int) []external.Outcome[int] { return nil }, batch)
		return err
	})
	elect := &lease.Options{}
	unchanged("lease.NewSingleton", elect, func() error { _, err := lease.NewSingleton(backend, "a", elect); return err })
	unchanged("lease.NewSharded", elect, func() error { _, err := lease.NewSharded(backend, "b", 4, elect); return err })
	unchanged("lease.NewMembers", elect, func() error { _, err := lease.NewMembers(backend, "c", elect); return err })
	handlers := &lifecycle.Options{Retired: append(make([]string, 0, 4), "old")}
	unchanged("lifecycle.New", handlers, func() error { _, err := lifecycle.New[spec, spec](things, nil, handlers); return err })
	grants := &quota.Options{Limits: func(quota.Name) (quota.Limits, error) { return quota.Limits{}, nil }}
	unchanged("quota.NewSet", grants, func() error { _, err := quota.NewSet(grants); return err })
	q := &queue.Options[store.Key]{Hooks: &queue.Hooks[store.Key]{}}
	unchanged("queue.New", q, func() error { _, err := queue.New(q); return err })
	adapter := &workqueue.Options[store.Key]{}
	unchanged("workqueue.New", adapter, func() error { _, err := workqueue.New(adapter); return err })
	page := &queue.PageOptions{}
	unchanged("Queue.Page", page, func() error { _, err := must(queue.New(q))(t).Page(t.Context(), nil, page); return err })
	c := &cache.Options[spec, spec]{Finalizers: make([]string, 0, 4)}
	unchanged("cache.New", c, func() error { _, err := cache.New(things, c); return err })
	s := &store.Options[spec, spec]{}
	unchanged("store.New", s, func() error { _, err := store.New(backend, "other", s); return err })
	m := &memory.Options{}
	unchanged("memory.New", m, func() error { _, err := memory.New(m); return err })
}

// render describes a value and what it refers to, functions by their address, slices with
// the elements behind their length.
func render(v reflect.Value, depth int) string {
	if depth > 6 {
		return "…"
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || depth > 0 && v.Elem().Type().PkgPath() != "" && v.Elem().NumField() > 0 && !v.Elem().Type().Field(0).IsExported() {
			return fmt.Sprint(v.Pointer()) // a value with state of its own, such as a cache
		}
		return "&" + render(v.Elem(), depth+1)
	case reflect.Struct:
		var b strings.Builder
		for i := range v.NumField() {
			fmt.Fprintf(&b, "%s:%s ", v.Type().Field(i).Name, render(v.Field(i), depth+1))
		}
		return "{" + b.String() + "}"
	case reflect.Slice:
		var b strings.Builder
		whole := v.Slice(0, v.Cap())
		for i := range whole.Len() {
			fmt.Fprintf(&b, "%s ", render(whole.Index(i), depth+1))
		}
		return fmt.Sprintf("%d of [%s]", v.Len(), b.String())
	case reflect.Map:
		var lines []string
		for _, k := range v.MapKeys() {
			lines = append(lines, render(k, depth+1)+":"+render(v.MapIndex(k), depth+1))
		}
		slices.Sort(lines)
		return fmt.Sprint(lines)
	case reflect.Func, reflect.Chan:
		return fmt.Sprint(v.Pointer())
	case reflect.Interface:
		if v.IsNil() {
			return "nil"
		}
		return v.Elem().Type().String()
	}
	return fmt.Sprintf("%#v", v)
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
