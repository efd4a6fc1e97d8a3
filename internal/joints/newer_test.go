package joints_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// The field "value" of version 1 is "content" in version 2.
type (
	recordV1 struct {
		Value string `json:"value"`
	}
	recordV2 struct {
		Content string `json:"content"`
	}
)

func rename(o map[string]any) error {
	spec := o["spec"].(map[string]any)
	spec["content"] = spec["value"]
	delete(spec, "value")
	return nil
}

// A records is a cloud of records. No record that was ever declared is empty: an empty write
// is one that was made from a half-read spec.
type records struct {
	mu    sync.Mutex
	text  map[string]string
	empty []string // writes made from a half-read spec
}

func (c *records) put(who, name, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text == "" {
		c.empty = append(c.empty, who+" "+name)
	}
	c.text[name] = text
}

func (c *records) delete(who, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.empty = append(c.empty, who+" deleted "+name)
	delete(c.text, name)
}

func (c *records) check(t *testing.T, when string, want map[string]string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.empty) > 0 {
		t.Errorf("%s: writes made from half-read specs: %v", when, c.empty)
	}
	if !maps.Equal(c.text, want) {
		t.Errorf("%s: the cloud has %v, want %v", when, c.text, want)
	}
}

func (c *records) all() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.text)
}

// client is the external client of one version.
func client[S any](c *records, who string, text func(S) string) external.Client[S, status] {
	return external.ClientFuncs[S, status]{
		ObserveFunc: func(_ context.Context, o *store.Object[S, status]) (external.Observation, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			now, exists := c.text[o.Name]
			return external.Observation{Exists: exists, UpToDate: now == text(o.Spec)}, nil
		},
		CreateFunc: func(_ context.Context, o *store.Object[S, status]) error {
			c.put(who, o.Name, text(o.Spec))
			return nil
		},
		UpdateFunc: func(_ context.Context, o *store.Object[S, status]) error {
			c.put(who, o.Name, text(o.Spec))
			return nil
		},
		DeleteFunc: func(_ context.Context, o *store.Object[S, status]) error { c.delete(who, o.Name); return nil },
	}
}

// server is one version of the program, on one server: the kind by external, handlers and For.
type server[S any] struct {
	store *store.Store[S, status]
	stop  func()
	newer func() int // runs that stood off
}

func begin[S any](t *testing.T, b store.Backend, c *records, who string, o *store.Options[S, status], text func(S) string) *server[S] {
	s := must(store.New(b, "record", o))
	var mu sync.Mutex
	newer := 0
	options := reconcile.Options[reconcile.Request]{Hooks: reconcile.Hooks[reconcile.Request]{OnDone: func(_ reconcile.Request, o reconcile.Outcome, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(o.Err, store.ErrNewer) {
			newer++
		}
	}}}
	cached := must(cache.New(s, nil))
	r := must(external.New(s, external.Always(client(c, who, text)), &external.Options[S, status]{Naming: external.ByUs, Poll: 10 * time.Second}))
	ext := must(r.Controller("external", cached, &options))
	lookAt := func(by string, o *store.Object[S, status]) (reconcile.Result, error) {
		if text(o.Spec) == "" {
			c.put(who+" "+by, o.Name, "")
		}
		return reconcile.Result{}, nil
	}
	plain := must(reconcile.For(s, func(_ context.Context, o *store.Object[S, status]) (reconcile.Result, error) {
		return lookAt("For", o)
	}, nil))
	add := func(_ context.Context, o *store.Object[S, status]) (reconcile.Result, error) {
		return lookAt("handler", o)
	}
	l := must(lifecycle.New(s, []lifecycle.Handler[S, status]{{
		Name: "handler", Simple: true, Add: add, Resync: add,
		Update: func(ctx context.Context, _, o *store.Object[S, status]) (reconcile.Result, error) { return add(ctx, o) },
	}}, nil))
	handled := must(l.Controller("handlers", cached, nil, nil))
	m := &reconcile.Manager{}
	if err := m.Register(cached, ext, plain, handled); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return &server[S]{store: s, newer: func() int { mu.Lock(); defer mu.Unlock(); return newer }, stop: func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}}
}

func old(t *testing.T, b store.Backend, c *records) *server[recordV1] {
	return begin(t, b, c, "old", nil, func(s recordV1) string { return s.Value })
}

func next(t *testing.T, b store.Backend, c *records) *server[recordV2] {
	o := &store.Options[recordV2, status]{Version: 2, Convert: []store.Conversion{rename}}
	return begin(t, b, c, "new", o, func(s recordV2) string { return s.Content })
}

// settle lets the servers work for a while, in the bubble's time.
func settle() {
	time.Sleep(3 * time.Minute)
	synctest.Wait()
}

// Two versions side by side, and a rollback. Seen to fail: without CheckNewer in
// lifecycle.Begin the old server emptied each record that the new one had written.
//
// promise S5
func TestRollingUpgradeMakesNoWriteFromAHalfReadSpec(t *testing.T) {
	for name, encode := range map[string]bool{"bytes": true, "values": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rollOver(t, must(memory.New(&memory.Options{Encode: encode}))) })
		})
	}
}

func rollOver(t *testing.T, b store.Backend) {
	defer b.Close()
	c := &records{text: map[string]string{}}
	want := map[string]string{}
	one := old(t, b, c)
	for i := range 8 {
		o := &store.Object[recordV1, status]{Meta: meta(fmt.Sprint("r", i)), Spec: recordV1{fmt.Sprint("text ", i)}}
		must(one.store.Create(t.Context(), o))
		want[o.Name] = o.Spec.Value
	}
	settle()
	c.check(t, "version 1 alone", want)

	two := next(t, b, c)
	settle()
	c.check(t, "version 2 beside it", want)
	for i := range 4 {
		name := fmt.Sprint("r", i)
		must(two.store.Mutate(t.Context(), key(name), func(o *store.Object[recordV2, status]) error {
			o.Spec.Content = "edited"
			return nil
		}))
		want[name] = "edited"
	}
	settle()
	c.check(t, "after edits through version 2", want)
	if one.newer() == 0 {
		t.Error("the old server does not say that it leaves objects alone")
	}
	aside(t, one.store, c)

	two.stop() // and the rollback is complete: version 1 alone
	one.stop()
	one = old(t, b, c)
	settle()
	c.check(t, "after a rollback", want)
	if o := must(one.store.Get(t.Context(), key("r0"))); !o.Newer || o.Ready() {
		t.Errorf("after a rollback an object of version 2 is Newer %v, Ready %v", o.Newer, o.Ready())
	}
	one.stop()

	two = next(t, b, c) // forwards again
	must(store.Rewrite(t.Context(), two.store))
	settle()
	c.check(t, "version 2 alone", want)
	if o := must(two.store.Get(t.Context(), key("r0"))); o.Newer || !o.Ready() {
		t.Errorf("with version 2 alone the object is Newer %v, Ready %v", o.Newer, o.Ready())
	}
	two.stop()
}

// aside checks what an old server does beside its runs: prune, plan, apply a file's set.
func aside(t *testing.T, s *store.Store[recordV1, status], c *records) {
	t.Helper()
	v := must(external.NewInventory(&external.InventoryOptions[recordV1, status, string]{
		Store: s, Installation: "acme",
		List: func(context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for _, name := range append(slices.Sorted(maps.Keys(c.all())), "orphan") {
					if !yield(name, nil) {
						return
					}
				}
			}
		},
		Get:  func(_ context.Context, id string) (string, bool, error) { return id, true, nil },
		ID:   func(id string) string { return id },
		IDOf: func(o *store.Object[recordV1, status]) string { return o.Name },
		Owner: func(id string) (external.Mark, bool) {
			return external.Mark{Installation: "acme", Kind: "record", Key: key(id)}, true
		},
		Compare: func(o *store.Object[recordV1, status], id string) external.Observation {
			if o.Spec.Value == "" {
				c.put("old compare", id, "")
			}
			return external.Observation{Exists: true, UpToDate: true}
		},
		Delete: func(_ context.Context, id string) error { c.delete("old prune", id); return nil },
	}))
	if _, err := v.Prune(t.Context(), external.Cap{Count: 100, Percent: 100}); !errors.Is(err, store.ErrNewer) {
		t.Errorf("a prune beside objects of a newer version: %v", err)
	}
	for what, set := range map[string][]*store.Object[recordV1, status]{
		"a set without it":  nil,
		"a set of its spec": {{Meta: meta("s"), Spec: recordV1{"other"}}},
	} {
		two := must(store.New(s.Backend(), "declared", &store.Options[recordV2, status]{Version: 2, Convert: []store.Conversion{rename}}))
		must(two.Apply(t.Context(), []*store.Object[recordV2, status]{{Meta: meta("s"), Spec: recordV2{"text"}}}, "file", 10))
		one := must(store.New[recordV1, status](s.Backend(), "declared", nil))
		if _, err := one.Apply(t.Context(), set, "file", 10); !errors.Is(err, store.ErrNewer) {
			t.Errorf("Apply of %s over an object of a newer version: %v", what, err)
		}
		if o := must(two.Get(t.Context(), key("s"))); o.Spec.Content != "text" {
			t.Errorf("after Apply of %s the object is %+v", what, o.Spec)
		}
	}
}
