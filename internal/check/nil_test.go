package check

import (
	"context"
	"testing"
	"time"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/children"
	"github.com/tendhq/tend/reconcile/declare"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/reconcile/webhook"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// What a function cannot do without is an error when it is nil, not a panic now or at
// the first use.
func TestNilArgumentsAreErrors(t *testing.T) {
	type key = reconcile.Request
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := store.New[int, int](b, "Number", nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lifecycle.New(s, []lifecycle.Handler[int, int]{{Name: "h"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := new(reconcile.Manager)
	measures := metrics.New(m)
	run := func(context.Context, key) (reconcile.Result, error) { return reconcile.Result{}, nil }
	watch := func(src reconcile.Source[key]) error {
		c, err := reconcile.New("x", reconcile.Func[key](run), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Watch(src)
	}
	mapper := func(context.Context, *store.Object[int, int], *store.Object[int, int]) ([]key, error) {
		return nil, nil
	}
	ctx := t.Context()
	for what, call := range map[string]func() error{
		"reconcile.New":       func() error { _, err := reconcile.New[key]("x", nil, nil); return err },
		"reconcile.New, Func": func() error { _, err := reconcile.New("x", reconcile.Func[key](nil), nil); return err },
		"reconcile.NewBatch":  func() error { _, err := reconcile.NewBatch[key]("x", nil, nil); return err },
		"reconcile.Each, list": func() error {
			_, err := reconcile.Each("x", time.Second, nil, func(context.Context, string, *int) (reconcile.Result, error) { return reconcile.Result{}, nil }, nil)
			return err
		},
		"reconcile.Each, f": func() error {
			_, err := reconcile.Each[string, int]("x", time.Second, func(context.Context) (map[string]int, error) { return nil, nil }, nil, nil)
			return err
		},
		"reconcile.For, store":           func() error { _, err := reconcile.For[int, int](nil, nil, nil); return err },
		"reconcile.For, func":            func() error { _, err := reconcile.For(s, nil, nil); return err },
		"webhook.New":                    func() error { _, err := webhook.New[key]("x", nil); return err },
		"Watch":                          func() error { return watch(reconcile.Source[key]{Name: "x"}) },
		"reconcile.From":                 func() error { return watch(reconcile.From[int, int](nil)) },
		"reconcile.From, when":           func() error { return watch(reconcile.From(c, nil)) },
		"reconcile.Owns":                 func() error { return watch(reconcile.Owns[int, int](nil)) },
		"reconcile.Map, cache":           func() error { return watch(reconcile.Map[key, int, int](nil, mapper)) },
		"reconcile.Map, mapper":          func() error { return watch(reconcile.Map[key](c, nil)) },
		"reconcile.MapWith":              func() error { return watch(reconcile.MapWith[key](c, nil, nil)) },
		"reconcile.Chan":                 func() error { return watch(reconcile.Chan[key]("x", nil)) },
		"reconcile.Every":                func() error { return watch(reconcile.Every[key, int]("x", time.Second, nil)) },
		"Register":                       func() error { return m.Register(nil) },
		"Start":                          func() error { _, err := m.Start(nil); return err },
		"debug.New":                      func() error { _, err := debug.New(nil, nil); return err },
		"web.New":                        func() error { _, err := web.New(nil, nil); return err },
		"web.Listen":                     func() error { _, err := web.Listen("127.0.0.1:0", nil, nil); return err },
		"api.New":                        func() error { _, err := api.New([]objects.Kind{nil}, nil); return err },
		"declare.New, store":             func() error { _, err := declare.New(nil, c, "f", nil); return err },
		"declare.New, cache":             func() error { _, err := declare.New(s, nil, "f", nil); return err },
		"depend.New, cache":              func() error { _, err := depend.New(nil, depend.Needs[int, int]{}, nil); return err },
		"depend.New, needs":              func() error { _, err := depend.New(c, depend.Needs[int, int]{}, nil); return err },
		"children.New":                   func() error { _, err := children.New[int, int](nil, nil); return err },
		"children.Add":                   func() error { _, err := children.Add[int, int, int, int](nil, c); return err },
		"external.New, store":            func() error { _, err := external.New[int, int](nil, nil, nil); return err },
		"external.New, connector":        func() error { _, err := external.New(s, nil, nil); return err },
		"external.New, connector func":   func() error { _, err := external.New(s, external.ConnectorFunc[int, int](nil), nil); return err },
		"external.NewBatch":              func() error { _, err := external.NewBatch[int, int](nil, nil); return err },
		"external.Gather":                func() error { _, err := external.Gather[int, int](nil, nil); return err },
		"external.NewInventory":          func() error { _, err := external.NewInventory[int, int, int](nil); return err },
		"external.PruneKinds":            func() error { _, err := external.PruneKinds(ctx, nil, external.Cap{}); return err },
		"external.PruneKinds, inventory": func() error { _, err := external.PruneKinds(ctx, depend.NewGraph(), external.Cap{}, nil); return err },
		"lease.NewMembers":               func() error { _, err := lease.NewMembers(nil, "x", nil); return err },
		"lease.NewSharded":               func() error { _, err := lease.NewSharded(nil, "x", 1, nil); return err },
		"lease.NewSingleton":             func() error { _, err := lease.NewSingleton(nil, "x", nil); return err },
		"lease.NewSingletons":            func() error { _, err := lease.NewSingletons(nil, "x", []string{"y"}, nil); return err },
		"lifecycle.New":                  func() error { _, err := lifecycle.New[int, int](nil, nil, nil); return err },
		"lifecycle.NewCascade":           func() error { _, err := lifecycle.NewCascade[int, int]("x", nil, nil, nil); return err },
		"lifecycle.WatchedConfig":        func() error { _, err := lifecycle.WatchedConfig[int, int](nil, key{Name: "x"}, nil); return err },
		"lifecycle.NewProvider, store": func() error {
			_, err := lifecycle.NewProvider[int, int, int, int](nil, nil, nil, nil, nil)
			return err
		},
		"lifecycle.NewProvider, provider": func() error {
			_, err := lifecycle.NewProvider[int, int, int, int](s, nil, nil, nil, nil)
			return err
		},
		"DependOn":           func() error { return l.DependOn(nil) },
		"lifecycle.WatchRef": func() error { return watch(lifecycle.WatchRef[int, int, int](nil, nil, nil)) },
		"program.Of":         func() error { _, err := program.Of[int, int](nil, nil); return err },
		"program.Wait":       func() error { return program.Wait(ctx, nil) },
		"program.WaitFor":    func() error { return program.WaitFor(ctx, nil) },
		"program.Run":        func() error { return program.Run(ctx, nil, nil) },
		"quota.Limit":        func() error { _, err := quota.Limit[key](nil, nil); return err },
		"cache.New":          func() error { _, err := cache.New[int, int](nil, nil); return err },
		"AddIndex":           func() error { _, err := c.AddIndex("x", nil); return err },
		"store.New":          func() error { _, err := store.New[int, int](nil, "x", nil); return err },
		"store.Rewrite":      func() error { _, err := store.Rewrite[int, int](ctx, nil); return err },
		"store.Copy":         func() error { _, err := store.Copy[int, int](ctx, nil, nil); return err },
		"store.Copy, from":   func() error { _, err := store.Copy(ctx, s, nil); return err },
		"store.CopyRecords":  func() error { _, err := store.CopyRecords(ctx, nil, b, "Number"); return err },
		"store.Installation": func() error { _, err := store.Installation(ctx, nil); return err },
		"Declaration":        func() error { _, err := s.Declaration(nil); return err },
		"Filled":             func() error { _, err := s.Filled(nil); return err },
		"Show":               func() error { _, err := s.Show(nil); return err },
		"objects.Bare":       func() error { _, err := objects.Bare(nil, "x", false); return err },
		"objects.List":       func() error { _, _, err := objects.List(ctx, nil, objects.Query{}); return err },
		"Measure":            func() error { _, err := measures.Measure("x", nil); return err },
		"AddQueue":           func() error { return measures.AddQueue(nil) },
		"AddBucket":          func() error { return measures.AddBucket(nil) },
		"AddQuotas":          func() error { return measures.AddQuotas(nil) },
		"AddExternal":        func() error { return measures.AddExternal(nil) },
		"AddInventory":       func() error { return measures.AddInventory(nil) },
		"AddObjects":         func() error { return measures.AddObjects(nil) },
	} {
		func() {
			defer func() {
				if v := recover(); v != nil {
					t.Errorf("%s panics with %v, want an error", what, v)
				}
			}()
			if err := call(); err == nil {
				t.Errorf("%s takes nil", what)
			}
		}()
	}
}
