package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

func childCache(t *testing.T, s *widgets) *widgetCache {
	t.Helper()
	return newCache(t, s, nil)
}

func ownedBy(os ...*store.Object[struct{}, struct{}]) []store.Owner {
	var owners []store.Owner
	for _, o := range os {
		owners = append(owners, store.Owner{Kind: "parent", Key: o.Key(), UID: o.UID})
	}
	return owners
}

// A parent that watches its children, and a cascade that deletes them after it, run in
// one manager: they woke each other in a circle, and were refused.
func TestParentMayWatchChildrenThatACascadeDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, parents := newWidgets(t), newKind[struct{}, struct{}](t, "parent")
		children := childCache(t, s)
		owners, err := cache.New(parents, nil)
		if err != nil {
			t.Fatal(err)
		}
		runs := make(chan store.Key, 100)
		parent, err := reconcile.New("parents", reconcile.Func[store.Key](func(_ context.Context, k store.Key) (reconcile.Result, error) {
			runs <- k
			return reconcile.Result{}, nil
		}), nil)
		if err == nil {
			err = parent.Watch(reconcile.From(owners), reconcile.Owns(children))
		}
		if err != nil {
			t.Fatal(err)
		}
		gc, err := NewCascade("gc", children, []OwnerKind[widgetSpec, widgetStatus]{Owning[widgetSpec, widgetStatus](owners)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var m reconcile.Manager
		if err := m.Register(parent, gc); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		o, err := parents.Create(ctx, &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "p"}})
		if err != nil {
			t.Fatal(err)
		}
		restFor(time.Minute)
		for len(runs) > 0 {
			<-runs
		}
		if _, err := s.Create(ctx, &widget{Meta: store.Meta{Name: "c", Owners: []store.Owner{parents.OwnerOf(o)}}}); err != nil {
			t.Fatal(err)
		}
		restFor(time.Minute)
		if len(runs) == 0 {
			t.Error("the parent was not run when its child came")
		}
		if err := parents.Delete(ctx, o); err != nil {
			t.Fatal(err)
		}
		restFor(time.Minute)
		if _, err := s.Get(ctx, key("c")); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the child of an owner that went: got %v, want ErrNotFound", err)
		}
	})
}

func TestCascadeDeletesTheChildrenOfOwnersThatHaveGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, parents := newWidgets(t), newKind[struct{}, struct{}](t, "parent")
		parent := func(name string) *store.Object[struct{}, struct{}] {
			o, err := parents.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: name, Finalizers: []string{"theirs"}}})
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		drop := func(name string) {
			o, err := parents.Get(t.Context(), key(name))
			if err == nil {
				err = parents.Delete(t.Context(), o)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		release := func(name string) {
			if _, err := parents.RemoveFinalizer(t.Context(), key(name), "theirs"); err != nil {
				t.Fatal(err)
			}
			restFor(time.Minute)
		}
		child := func(name string, owners []store.Owner, finalizers ...string) {
			if _, err := s.Create(t.Context(), &widget{Meta: store.Meta{Name: name, Owners: owners, Finalizers: finalizers}}); err != nil {
				t.Fatal(err)
			}
		}
		left := func() (names []string) {
			for o, err := range s.All(t.Context(), store.Selector{}) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, o.Name)
			}
			slices.Sort(names)
			return names
		}
		expect := func(when string, want ...string) {
			t.Helper()
			if got := left(); !slices.Equal(got, want) {
				t.Errorf("%s: left %q, want %q", when, got, want)
			}
		}

		one, two := parent("one"), parent("two")
		stranger := []store.Owner{{Kind: "unheard-of", Key: key("x"), UID: "x"}}
		child("of-both", ownedBy(one, two))
		child("of-one", ownedBy(one))
		child("of-one-and-a-stranger", slices.Concat(ownedBy(one), stranger))
		child("of-none", nil)
		child("orphan", []store.Owner{{Kind: "parent", Key: one.Key(), UID: "an-earlier-one"}})
		owners, err := cache.New(parents, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewCascade("cascade", childCache(t, s), []OwnerKind[widgetSpec, widgetStatus]{Owning[widgetSpec, widgetStatus](owners)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		manage(t, c)
		restFor(time.Minute)
		expect("at the start, another object has the owner's name", "of-both", "of-none", "of-one", "of-one-and-a-stranger")

		drop("one")
		restFor(time.Minute)
		expect("the owner is in deletion", "of-both", "of-none", "of-one", "of-one-and-a-stranger")
		release("one")
		expect("the owner has gone", "of-both", "of-none", "of-one-and-a-stranger")

		child("late", ownedBy(one))
		child("guarded", ownedBy(one), "mine")
		restFor(time.Minute)
		expect("a child of one that has gone", "guarded", "of-both", "of-none", "of-one-and-a-stranger")
		if !get(t, s, "guarded").Deleting() {
			t.Error("a child with a finalizer is not marked")
		}
		drop("two")
		release("two")
		expect("the last owner has gone", "guarded", "of-none", "of-one-and-a-stranger")
		edit(t, s, "of-none", func(o *widget) { o.Owners = ownedBy(two) })
		restFor(time.Minute)
		expect("an owner that has gone is named later", "guarded", "of-one-and-a-stranger")
	})
}

// An owner that a cache does not hold (here: it is of another namespace than
// the cache) has not gone. Negative control: with the store not asked, the
// child was deleted.
func TestCascadeConcludesNothingFromACache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, parents := newWidgets(t), newKind[struct{}, struct{}](t, "parent")
		o, err := parents.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "one"}})
		if err != nil {
			t.Fatal(err)
		}
		owners, err := cache.New(parents, &cache.Options[struct{}, struct{}]{Selector: store.Selector{Namespace: "elsewhere"}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewCascade("cascade", childCache(t, s), []OwnerKind[widgetSpec, widgetStatus]{Owning[widgetSpec, widgetStatus](owners)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create(t.Context(), &widget{Meta: store.Meta{Name: "a", Owners: ownedBy(o)}}); err != nil {
			t.Fatal(err)
		}
		manage(t, c)
		restFor(time.Minute)
		get(t, s, "a")
	})
}

// A child may name an owner that is newer than what the cache of owners shows under its
// name: that owner has not gone.
//
// Negative control: mutant "an older owner of the name stands for the newer one".
func TestCascadeConcludesNothingFromAnOlderOwnerOfTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parents := newKind[struct{}, struct{}](t, "parent")
		declare := func() *store.Object[struct{}, struct{}] {
			o, err := parents.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "one"}})
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		older := declare()
		owners, err := cache.New(parents, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- owners.Run(ctx) }()
		synctest.Wait()
		stop() // it shows the older one from now on
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := parents.Delete(t.Context(), older); err != nil {
			t.Fatal(err)
		}
		if shown, ok := owners.Get(older.Key()); !ok || shown.UID != older.UID {
			t.Fatal("the cache does not show the older owner: this shows nothing")
		}
		gone := Owning[widgetSpec, widgetStatus](owners).gone
		for _, c := range []struct {
			owner store.Owner
			want  bool
		}{{ownedBy(declare())[0], false}, {store.Owner{Kind: "parent", Key: key("one"), UID: "another"}, true}} {
			if got, err := gone(t.Context(), c.owner); got != c.want || err != nil {
				t.Errorf("owner %v has gone: got %v, %v, want %v", c.owner, got, err, c.want)
			}
		}
	})
}

// An owner goes and another takes its name before its deletion was mapped, so that both are
// one change to the mapper: the children of the one that went are run all the same.
//
// promise Q1. Negative control: mutant "children of an owner that was made again are not run".
func TestCascadeRunsTheChildrenOfAnOwnerThatWasMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, parents := newWidgets(t), newKind[struct{}, struct{}](t, "parent")
		owners, err := cache.New(parents, nil)
		if err != nil {
			t.Fatal(err)
		}
		children := childCache(t, s)
		byOwner, err := children.AddIndex("owner uid", OwnerUIDs)
		if err != nil {
			t.Fatal(err)
		}
		held := make(map[string]*store.Object[struct{}, struct{}])
		for _, name := range []string{"first", "second"} {
			o, err := parents.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: name}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Create(t.Context(), &widget{Meta: store.Meta{Name: "child-of-" + name, Owners: ownedBy(o)}}); err != nil {
				t.Fatal(err)
			}
			held[name] = o
		}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		to := &slowSink{mayGo: make(chan struct{})}
		for _, run := range []func() error{
			func() error { return owners.Run(ctx) },
			func() error { return children.Run(ctx) },
			func() error { return Owning[widgetSpec, widgetStatus](owners).orphans(byOwner).Run(ctx, to) },
		} {
			all.Go(func() { // ended by stop
				if err := run(); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		for _, name := range []string{"first", "second"} { // the mapping of the first waits in Add
			if err := parents.Delete(ctx, held[name]); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if _, err := parents.Create(ctx, &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "second"}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		close(to.mayGo)
		synctest.Wait()
		if want := []store.Key{key("child-of-first"), key("child-of-second")}; !slices.Equal(to.keys, want) {
			t.Errorf("children run: %v, want %v", to.keys, want)
		}
	})
}

// slowSink takes a key when it may.
type slowSink struct {
	mayGo chan struct{}
	keys  []store.Key // read in a quiet bubble
}

func (s *slowSink) Add(key store.Key, _ queue.AddOptions) error {
	<-s.mayGo
	s.keys = append(s.keys, key)
	return nil
}

func (s *slowSink) Synced() {}

// case 96
func TestCascadeWithAPartMissingIsRefused(t *testing.T) {
	s := newWidgets(t)
	owners := Owning[widgetSpec, widgetStatus](newCache(t, s, nil))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	ran := newCache(t, s, nil)
	if err := ran.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"children": second(NewCascade("c", nil, []OwnerKind[widgetSpec, widgetStatus]{owners}, nil)),
		"owners":   second(NewCascade("c", childCache(t, s), []OwnerKind[widgetSpec, widgetStatus]{Owning[widgetSpec, widgetStatus, widgetSpec, widgetStatus](nil)}, nil)),
		"kind":     second(NewCascade("c", childCache(t, s), nil, nil)),
		"running":  second(NewCascade("c", ran, []OwnerKind[widgetSpec, widgetStatus]{owners}, nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q named", err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// promise R1. Negative control: the mutant "what came and went is mapped as nothing".
func TestCascadeDeletesTheChildOfAnOwnerThatCameAndWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, parents := newWidgets(t), newKind[struct{}, struct{}](t, "parent")
		children := childCache(t, s)
		owners, err := cache.New(parents, nil)
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		gc, err := NewCascade("gc", children, []OwnerKind[widgetSpec, widgetStatus]{Owning[widgetSpec, widgetStatus](owners)}, &reconcile.Options[reconcile.Request]{
			Hooks: reconcile.Hooks[reconcile.Request]{OnAdd: func(k reconcile.Request, o reconcile.Origin) {
				if k.Name == "slow" && o.Kind == "parent" {
					<-gate // stands for a full queue, or for the 100,000 owners that are mapped first
				}
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var m reconcile.Manager
		if err := m.Register(gc); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		parent := func(name string) *store.Object[struct{}, struct{}] {
			o, err := parents.Create(ctx, &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: name}})
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		child := func(name string, of *store.Object[struct{}, struct{}]) {
			if _, err := s.Create(ctx, &widget{Meta: store.Meta{Name: name, Owners: ownedBy(of)}}); err != nil {
				t.Fatal(err)
			}
		}
		restFor(time.Second)
		big := parent("big")
		child("slow", big)
		restFor(time.Second)
		if err := parents.Delete(ctx, big); err != nil {
			t.Fatal(err)
		}
		restFor(time.Second) // the mapper is busy
		p := parent("p")
		restFor(time.Second)
		child("c", p)
		restFor(time.Second) // the cascade has looked at it: its owner is there
		if err := parents.Delete(ctx, p); err != nil {
			t.Fatal(err)
		}
		restFor(time.Second)
		close(gate)
		restFor(time.Hour)
		expectGone(t, s, "slow")
		expectGone(t, s, "c")
	})
}

// Owners of one kind may lie in two stores: one has gone if neither has it.
//
// promise E2. Negative control: mutant "the first store of a kind of owners speaks for all".
func TestCascadeAsksEveryStoreOfAKindOfOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWidgets(t)
		var kinds []OwnerKind[widgetSpec, widgetStatus]
		var last *store.Store[struct{}, struct{}]
		for _, name := range []string{"here", "there"} {
			last = newKind[struct{}, struct{}](t, "parent")
			owners, err := cache.New(last, &cache.Options[struct{}, struct{}]{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, Owning[widgetSpec, widgetStatus](owners))
		}
		o, err := last.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "one"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create(t.Context(), &widget{Meta: store.Meta{Name: "a", Owners: ownedBy(o)}}); err != nil {
			t.Fatal(err)
		}
		c, err := NewCascade("cascade", childCache(t, s), kinds, nil)
		if err != nil {
			t.Fatal(err)
		}
		manage(t, c)
		restFor(time.Minute)
		get(t, s, "a")
		if err := last.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		restFor(time.Minute)
		expectGone(t, s, "a")
	})
}

// An owner that is named without a uid, as in a text written by hand, is not known to have
// gone.
//
// promise E2. Negative control: mutant "an owner without a uid has gone".
func TestCascadeLetsAChildOfAnOwnerWithoutUIDLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, parents := newWidgets(t), newKind[struct{}, struct{}](t, "parent")
		o, err := parents.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "one"}})
		if err != nil {
			t.Fatal(err)
		}
		owners, err := cache.New(parents, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewCascade("cascade", childCache(t, s), []OwnerKind[widgetSpec, widgetStatus]{Owning[widgetSpec, widgetStatus](owners)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		child := &widget{Meta: store.Meta{Name: "a", Owners: []store.Owner{{Kind: "parent", Key: o.Key()}}}}
		if _, err := s.Create(t.Context(), child); err != nil {
			t.Fatal(err)
		}
		manage(t, c)
		restFor(time.Minute)
		get(t, s, "a")
	})
}

// A child that a newer version of the program stored is not deleted with its owner by an older
// one, which reads it in part; its key says so, and when a newer server has the cascade, it goes.
//
// promise S5
func TestCascadeLeavesChildrenOfANewerVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, parents := newWidgets(t), newKind[struct{}, struct{}](t, "parent")
		newer, err := store.New[widgetSpec, widgetStatus](s.Backend(), s.Kind(), &store.Options[widgetSpec, widgetStatus]{Version: 2})
		if err != nil {
			t.Fatal(err)
		}
		p, err := parents.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "p"}})
		if err != nil {
			t.Fatal(err)
		}
		owners := []store.Owner{parents.OwnerOf(p)}
		for in, name := range map[*widgets]string{s: "old", newer: "new"} {
			if _, err := in.Create(t.Context(), &widget{Meta: store.Meta{Name: name, Owners: owners}}); err != nil {
				t.Fatal(err)
			}
		}
		// run runs the cascade of a version, and gives how its run of the newer child failed.
		run := func(in *widgets, during func()) error {
			children := childCache(t, in)
			ownerCache, err := cache.New(parents, nil)
			if err != nil {
				t.Fatal(err)
			}
			gc, err := NewCascade("gc", children, []OwnerKind[widgetSpec, widgetStatus]{Owning[widgetSpec, widgetStatus](ownerCache)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var m reconcile.Manager
			if err := m.Register(gc); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- m.Run(ctx) }()
			time.Sleep(time.Second)
			during()
			time.Sleep(time.Minute)
			e, _ := gc.Queue().Lookup(store.Key{Name: "new"})
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			return e.LastError
		}
		failed := run(s, func() {
			if err := parents.Delete(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		})
		if !errors.Is(failed, store.ErrNewer) {
			t.Errorf("the run of the newer child: %v, want ErrNewer", failed)
		}
		if _, err := newer.Get(t.Context(), store.Key{Name: "new"}); err != nil {
			t.Errorf("the newer child: %v, want it to be there", err)
		}
		if _, err := s.Get(t.Context(), store.Key{Name: "old"}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the child of this version: %v, want it gone", err)
		}
		if err := run(newer, func() {}); err != nil {
			t.Errorf("with a newer server: %v", err)
		}
		if _, err := newer.Get(t.Context(), store.Key{Name: "new"}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the newer child with a newer server: %v, want it gone", err)
		}
	})
}
