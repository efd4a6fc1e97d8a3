package reconcile_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// promise Q1
// Whichever way keys come in, a queue that is full when they do loses none of them: they
// run when there is room, and not before. A caller is told.
// Negative control: with an ErrFull that waitForRoom drops each way lost all keys.
func TestKeysThatFindTheQueueFullComeInLater(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	always := func(cache.Change[spec, status]) bool { return true }
	never := func(cache.Change[spec, status]) bool { return false }
	type source = reconcile.Source[store.Key]
	type options = reconcile.FromOptions[spec, status]
	// A way makes a source. Its keys come when come is called, or with the start.
	for name, way := range map[string]func(t *testing.T, s *things, c *cache.Cache[spec, status]) (src source, come func()){
		"Chan": func(_ *testing.T, _ *things, _ *cache.Cache[spec, status]) (source, func()) {
			ch := make(chan store.Key)
			return reconcile.Chan("chan", ch), func() {
				go func() {
					for _, n := range names {
						ch <- key(n)
					}
				}()
			}
		},
		"Every": func(*testing.T, *things, *cache.Cache[spec, status]) (source, func()) {
			var now list[string]
			return reconcile.Every("every", time.Minute, func(context.Context) (map[store.Key]int, error) {
					all := make(map[store.Key]int)
					for _, n := range now.get() {
						all[key(n)] = 1
					}
					return all, nil
				}), func() {
					for _, n := range names {
						now.add(n)
					}
				}
		},
		"a source of the program": func(*testing.T, *things, *cache.Cache[spec, status]) (source, func()) {
			come := make(chan struct{})
			return source{Name: "own", Run: func(ctx context.Context, to reconcile.Sink[store.Key]) error {
				to.Synced()
				<-come
				for _, n := range names {
					if err := reconcile.AddWaiting(ctx, to, key(n), queue.AddOptions{}); err != nil {
						return err
					}
				}
				<-ctx.Done()
				return nil
			}}, func() { close(come) }
		},
		"From, urgent": func(t *testing.T, s *things, c *cache.Cache[spec, status]) (source, func()) {
			return reconcile.From(c), func() { createAll(t, s, names) }
		},
		"From, not urgent": func(t *testing.T, s *things, c *cache.Cache[spec, status]) (source, func()) {
			return reconcile.FromWith(c, &options{When: always, Urgent: never}), func() { createAll(t, s, names) }
		},
		"From, by others": func(t *testing.T, s *things, c *cache.Cache[spec, status]) (source, func()) {
			return reconcile.FromWith(c, &options{When: never, ByOthers: always}), func() { createAll(t, s, names) }
		},
		"Map": func(t *testing.T, s *things, c *cache.Cache[spec, status]) (source, func()) {
			return reconcile.Same(c), func() { createAll(t, s, names) }
		},
		"Map, at the start": func(t *testing.T, s *things, c *cache.Cache[spec, status]) (source, func()) {
			createAll(t, s, names)
			return reconcile.Same(c), func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore(t, newBackend(t), "thing")
				cached := newCache(t, s)
				r := record[store.Key](nil)
				c := newController(t, r, &reconcile.Options[store.Key]{Queue: queue.Options[store.Key]{MaxKeys: 2}})
				src, come := way(t, s, cached)
				if err := c.Watch(src); err != nil {
					t.Fatal(err)
				}
				fillers := []store.Key{key("filler 1"), key("filler 2")}
				for _, k := range fillers {
					if err := c.Queue().AddAfter(k, time.Hour); err != nil {
						t.Fatal(err)
					}
				}
				var m reconcile.Manager
				for _, r := range []reconcile.Runner{c, cached} {
					if err := m.Register(r); err != nil {
						t.Fatal(err)
					}
				}
				start(t, &m)
				pass(time.Second)
				come()
				pass(5 * time.Minute)
				expectList(t, "runs while the queue is full", r.keys())
				if err := c.Add(key("caller")); !errors.Is(err, queue.ErrFull) {
					t.Errorf("Add to a full queue: %v, want %v", err, queue.ErrFull)
				}
				c.Queue().Remove(fillers[0]) // one place is enough
				pass(10 * time.Second)
				ran := make(map[string]bool)
				for _, k := range r.keys() {
					ran[k.Name] = true
				}
				expectList(t, "keys that ran when there was room", slices.Sorted(maps.Keys(ran)), names...)
			})
		})
	}
}

func createAll(t *testing.T, s *things, names []string) {
	t.Helper()
	for _, n := range names {
		create(t, s, n)
	}
}
