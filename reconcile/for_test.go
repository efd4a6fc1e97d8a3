package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

type objectController = reconcile.ObjectController[spec, status]

// For is enough for a program with children: a predicate and a selector limit what is run,
// the cache is there to index and to read, and a child runs its owner.
func TestForWithPredicateIndexAndChildren(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		parents, children := newStore(t, b, "parent"), newStore(t, b, "child")
		childCache := newCache(t, children)
		byOwner := must[*cache.Index[spec, status]](t)(childCache.AddIndex("owner", func(o *thing) []string {
			var uids []string
			for _, owner := range o.Owners {
				uids = append(uids, owner.UID)
			}
			return uids
		}))
		var ran list[string]
		c := must[*objectController](t)(reconcile.For(parents, func(_ context.Context, o *thing) (result, error) {
			n := 0
			for range byOwner.Get(o.UID) {
				n++
			}
			ran.add(o.Name + strings.Repeat("+", n))
			return result{}, nil
		}, &reconcile.ForOptions[spec, status]{
			Options: reconcile.Options[store.Key]{Workers: 1},
			When:    reconcile.LabelsChanged[spec, status],
			Cache:   &cache.Options[spec, status]{Selector: store.Selector{Labels: []store.Requirement{{Key: "run"}}}},
		}))
		bySize := must[*cache.Index[spec, status]](t)(c.Cache().AddIndex("size", func(o *thing) []string {
			return []string{strings.Repeat("x", o.Spec.Size)}
		}))
		if err := c.Watch(reconcile.Owns(childCache)); err != nil {
			t.Fatal(err)
		}
		labelled := func(o *thing) { o.Labels = map[string]string{"run": "yes"}; o.Spec.Size = 2 }
		a := create(t, parents, "a", labelled)
		create(t, parents, "unlabelled")
		startManaged(t, c)
		expectList(t, "at the start", ran.get(), "a")
		mutate(t, parents, "a", func(o *thing) { o.Spec.Size = 3 })
		synctest.Wait()
		expectList(t, "after a change that the predicate drops", ran.get(), "a")
		create(t, children, "c", func(o *thing) {
			o.Owners = []store.Owner{parents.OwnerOf(a), {Kind: "other", Key: key("x"), UID: "u"}}
		})
		synctest.Wait()
		expectList(t, "after a child came", ran.get(), "a", "a+")
		found := 0
		for range bySize.Get("xxx") {
			found++
		}
		expect(t, "objects by size", found, 1)
		for _, s := range c.Snapshot().Sources {
			if s.Name == "child owned" {
				expect(t, "owners of another kind", s.Skipped, 1)
			}
		}
	})
}

// Owns needs to know the controller's kind, and says so at once.
func TestOwnsOfAControllerWithoutAKindIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		c := newController(t, record[store.Key](nil), nil)
		if err := c.Watch(reconcile.Owns(newCache(t, newStore(t, b, "child")))); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := c.Run(ctx); err == nil || !strings.Contains(err.Error(), `"child owned"`) || ctx.Err() != nil {
			t.Errorf("Run = %v, want an error that names the source, at once", err)
		}
		if err := c.Watch(reconcile.Owns[spec, status](nil)); err == nil {
			t.Error("Owns without a cache gave no error")
		}
	})
}

// Neither an error nor a panic of a function of an object tells the object's secrets, also those that
// it has edited.
//
// Negative control: the mutant "a panic in a function of an object tells its secrets".
func TestFailureOfAFunctionOfAnObjectTellsNoSecrets(t *testing.T) {
	type login struct {
		Token string `tend:"secret"`
	}
	for how, fail := range map[string]func(text string) error{
		"error": errors.New,
		"panic": func(text string) error { panic(text) },
	} {
		bubble(t, func(t *testing.T) {
			var told failures[store.Key]
			s := must[*store.Store[login, status]](t)(store.New[login, status](newBackend(t), "login", nil))
			c := must[*reconcile.ObjectController[login, status]](t)(reconcile.For(s, func(_ context.Context, o *store.Object[login, status]) (result, error) {
				was := o.Spec.Token
				o.Spec.Token = "second-token"
				return result{}, fail(fmt.Sprint("refused: ", was, " ", o.Spec.Token))
			}, &reconcile.ForOptions[login, status]{Options: reconcile.Options[store.Key]{Hooks: reconcile.Hooks[store.Key]{OnError: told.hear}}}))
			start(t, c)
			must[*store.Object[login, status]](t)(s.Create(t.Context(), &store.Object[login, status]{Meta: store.Meta{Name: "a"}, Spec: login{"first-token"}}))
			synctest.Wait()
			fs := told.list()
			if len(fs) == 0 {
				t.Fatalf("%s: OnError heard nothing", how)
			}
			if text := fmt.Sprintf("%v %+v", fs[0].Err, fs[0].Err); !strings.Contains(text, "refused") || strings.Contains(text, "token") {
				t.Errorf("%s: OnError heard %s", how, text)
			}
		})
	}
}

// A cache that nothing runs has no object, and says nothing of what exists: the run fails
// until the cache has been filled. What a cache that has synced lacks is gone.
func TestAsReconcilerFailsWhileItsCacheHasNotBeenFilled(t *testing.T) {
	for name, o := range map[string]*cache.Options[spec, status]{"whole": nil, "sharded": {Shards: 4}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				things := newStore(t, newBackend(t), "thing")
				create(t, things, "a")
				c := must[*cache.Cache[spec, status]](t)(cache.New(things, o))
				var ran list[string]
				logger, lines := quiet()
				ctrl := newController(t, reconcile.AsReconciler(c, func(_ context.Context, o *thing) (result, error) {
					ran.add(o.Name)
					return result{}, nil
				}), &reconcile.Options[store.Key]{Backoff: exactly(time.Minute), Logger: logger})
				add(t, ctrl, key("a"), key("gone"))
				start(t, ctrl)
				expectList(t, "ran while the cache was empty", ran.get())
				expect(t, "errors", ctrl.Counts().Error, 2)
				if !strings.Contains(lines.String(), "has not been filled") || !strings.Contains(lines.String(), "Options.Reads") {
					t.Errorf("logged %q, want what to do about it", lines)
				}
				for i := range c.Shards() {
					_, release := c.HoldShard(i)
					defer release()
				}
				start(t, c)
				pass(time.Minute)
				expectList(t, "ran when the cache was filled", ran.get(), "a")
				expect(t, "runs without error", ctrl.Counts().Success, 2)
			})
		})
	}
}

// A predicate of changes is not asked about what is there at the start: an operator that tells
// its own objects by one would act on those of others after each restart.
//
// Negative control: without is in FromWith's check of initial objects, or without For's own
// check before the run, the object of another class is run.
func TestOnlyItsOwnObjectsAreRunWhateverAsksForIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		mine := func(o *thing) bool { return o.Labels["class"] == "mine" }
		label := func(class string) func(*thing) {
			return func(o *thing) { o.Labels = map[string]string{"class": class} }
		}
		create(t, s, "mine", label("mine"))
		create(t, s, "before", label("other"))
		var ran list[string]
		runs := func(name string) (n int) {
			for _, other := range ran.get() {
				if other == name {
					n++
				}
			}
			return n
		}
		c := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(s, func(_ context.Context, o *thing) (result, error) {
			ran.add(o.Name)
			return result{}, nil
		}, &reconcile.ForOptions[spec, status]{Options: reconcile.Options[reconcile.Request]{Resync: time.Hour}, Only: mine}))
		start(t, c)
		create(t, s, "later", label("other"))
		mutate(t, s, "later", func(o *thing) { o.Spec.Size++ })
		pass(3 * time.Hour)
		if err := c.Kick(key("before")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if runs("before")+runs("later") > 0 || runs("mine") < 3 {
			t.Errorf("runs: %v, want none of other classes", ran.get())
		}
		mutate(t, s, "later", label("mine"))
		synctest.Wait()
		expect(t, "runs of an object that has become its own", runs("later"), 1)
		mutate(t, s, "mine", label("other"))
		before := runs("mine")
		pass(3 * time.Hour)
		expect(t, "runs of an object that is not its own any more", runs("mine"), before)
	})
}
