package reconcile_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store/cache"
)

// A function that a source asks about an object, and that panics or ends its goroutine, does not
// restart the source: the log names key and function, the object runs, or its run fails, and the
// others go on.
//
// promise R6. Before, each panic ended the source, which listed all objects again after a pause
// and panicked at the next change; where the first list met it, no key ran at all.
func TestFunctionsOfASourceThatPanicLeaveItsObject(t *testing.T) {
	type change = cache.Change[spec, status]
	type when = reconcile.Predicate[spec, status]
	wrong := map[string]func(){"panic": func() { panic("nil map") }, "Goexit": func() { runtime.Goexit() }}
	for how, fail := range wrong {
		bad := func(name string) bool {
			if name == "bad" {
				fail()
			}
			return true
		}
		p := func(c change) bool { return bad(c.Key.Name) }
		mapper := func(_ context.Context, _, now *thing) ([]string, error) { return []string{now.Name}, nil }
		for function, runner := range map[string]func(t *testing.T, s *things, rec *recorder[string], o reconcile.Options[reconcile.Request]) reconcile.Runner{
			"When": func(t *testing.T, s *things, rec *recorder[string], o reconcile.Options[reconcile.Request]) reconcile.Runner {
				return forThings(t, s, rec, &reconcile.ForOptions[spec, status]{When: p, Options: o})
			},
			"Only": func(t *testing.T, s *things, rec *recorder[string], o reconcile.Options[reconcile.Request]) reconcile.Runner {
				return forThings(t, s, rec, &reconcile.ForOptions[spec, status]{Only: func(o *thing) bool { return bad(o.Name) }, Options: o})
			},
			"Urgent": func(t *testing.T, s *things, rec *recorder[string], o reconcile.Options[reconcile.Request]) reconcile.Runner {
				return fromThings(t, s, rec, reconcile.FromOptions[spec, status]{Urgent: p}, o)
			},
			"ByOthers": func(t *testing.T, s *things, rec *recorder[string], o reconcile.Options[reconcile.Request]) reconcile.Runner {
				never := func(change) bool { return false }
				return fromThings(t, s, rec, reconcile.FromOptions[spec, status]{When: never, ByOthers: p}, o)
			},
			"when": func(t *testing.T, s *things, rec *recorder[string], o reconcile.Options[reconcile.Request]) reconcile.Runner {
				c := newController(t, reconcile.Reconciler[string](rec), &reconcile.Options[string]{Logger: o.Logger})
				if err := c.Watch(reconcile.Map(newCache(t, s), mapper, when(p))); err != nil {
					t.Fatal(err)
				}
				return c
			},
		} {
			t.Run(how+" in "+function, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := newStore(t, newBackend(t), "thing")
					create(t, s, "bad")
					create(t, s, "good")
					rec := record[string](nil)
					logger, log := quiet()
					c := runner(t, s, rec, reconcile.Options[reconcile.Request]{Logger: logger, Resync: time.Hour})
					run := startManaged(t, c)
					pass(10 * time.Second)
					before := rec.count()
					for _, name := range []string{"bad", "good"} {
						mutate(t, s, name, func(o *thing) { o.Spec.Size++ })
					}
					pass(2 * time.Second)
					ran := fmt.Sprint(rec.keys()[before:])
					if !strings.Contains(ran, "good") || function != "Only" && !strings.Contains(ran, "bad") {
						t.Errorf("runs of %s after both have changed", ran)
					}
					if function == "Only" && !strings.Contains(log.String(), "reconcile: run failed") {
						t.Error("the run of the object whose owner is not known did not fail")
					}
					if !strings.Contains(log.String(), "key=bad function="+function) {
						t.Errorf("no line names the key and %s:\n%s", function, log)
					}
					for _, src := range inspected(t, c).Snapshot().Sources {
						if src.Restarts != 0 {
							t.Errorf("source %s was restarted %d times", src.Name, src.Restarts)
						}
					}
					if err := run.end(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// forThings is a controller of For whose runs are recorded by their names.
func forThings(t *testing.T, s *things, rec *recorder[string], o *reconcile.ForOptions[spec, status]) reconcile.Runner {
	t.Helper()
	return must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(s, func(ctx context.Context, o *thing) (reconcile.Result, error) {
		return rec.Reconcile(ctx, o.Name)
	}, o))
}

// fromThings is forThings with the options of From.
func fromThings(t *testing.T, s *things, rec *recorder[string], from reconcile.FromOptions[spec, status], o reconcile.Options[reconcile.Request]) reconcile.Runner {
	t.Helper()
	c := newController(t, reconcile.Reconciler[reconcile.Request](reconcile.Func[reconcile.Request](func(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
		return rec.Reconcile(ctx, key.Name)
	})), &o)
	if err := c.Watch(reconcile.FromWith(newCache(t, s), &from)); err != nil {
		t.Fatal(err)
	}
	return c
}
