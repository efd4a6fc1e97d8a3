package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// failing is a handler that fails each time, and notes its attempts.
func failing(attempts *[]int) Handler[widgetSpec, widgetStatus] {
	act := func(ctx context.Context, _ *widget) (reconcile.Result, error) {
		*attempts = append(*attempts, Current(ctx).Attempt)
		return reconcile.Result{}, errBoom
	}
	return Handler[widgetSpec, widgetStatus]{Name: "h", Retry: queue.ExponentialRetry(time.Minute, 9), Add: act}
}

// A change is held against the retry that it met. One that has taken its place meanwhile, because
// a run has failed while Supersede was asked, stays.
//
// Negative control: mutant "a change drops the retry that came after it".
func TestRetryThatCameWhileSupersedeWasAskedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts []int
		s := newWidgets(t)
		h := failing(&attempts)
		var l *Lifecycle[widgetSpec, widgetStatus]
		h.Supersede = func(Pending[widgetSpec, widgetStatus]) bool {
			time.Sleep(time.Minute) // its retry is due
			runFails(t, l, "a", errBoom)
			return true
		}
		l = mustNew(t, s, h)
		create(t, s, "a")
		runFails(t, l, "a", errBoom)
		if jump, _ := l.work.urgent(edit(t, s, "a", func(o *widget) { o.Labels = map[string]string{"x": "y"} })); jump {
			t.Error("the change is urgent, and the retry that it met has been made")
		}
		time.Sleep(2 * time.Minute)
		runFails(t, l, "a", errBoom)
		if want := []int{0, 1, 2}; !slices.Equal(attempts, want) {
			t.Errorf("attempts %v, want %v", attempts, want)
		}
	})
}

// Supersede is asked about changes of the object that failed, and of no other one of its name.
//
// Negative control: mutant "a retry meets the changes of the next object of the name".
func TestSupersedeIsNotAskedAboutTheNextObjectOfTheName(t *testing.T) {
	var attempts []int
	s, asked := newWidgets(t), 0
	h := failing(&attempts)
	h.Simple = true // without a finalizer the object goes at once
	h.Supersede = func(Pending[widgetSpec, widgetStatus]) bool { asked++; return false }
	l := mustNew(t, s, h)
	create(t, s, "a")
	runFails(t, l, "a", errBoom)
	remove(t, s, "a")
	l.work.urgent(create(t, s, "a"))
	if asked != 0 {
		t.Errorf("Supersede was asked %d times about another object", asked)
	}
}

// An edit is urgent to a handler that gave up, whatever its Supersede says of retries that wait.
//
// Negative control: mutant "an edit does not reach a handler that gave up".
func TestEditReachesAHandlerThatGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := newWidgets(t)
		h := d.handler("h", func(_ context.Context, o *widget) error {
			if o.Spec.Size == 1 {
				return errBoom
			}
			return nil
		})
		h.Retry = func(int, error) time.Duration { return -1 }
		h.Supersede = func(Pending[widgetSpec, widgetStatus]) bool { return false }
		start(t, mustNew(t, s, h), nil, patient())
		create(t, s, "a")
		restFor(time.Minute)
		d.expect(t, "h Added 1")
		edit(t, s, "a", resize(2))
		restFor(time.Second)
		d.expect(t, "h Added 2")
	})
}

// A change of what an object depends on makes its handlers' retries due, from the first attempt
// or where they were, as the source says.
//
// Negative control: mutant "a cured handler goes on with its attempts".
func TestCuredHandlerBeginsAgainIfTheSourceSaysSo(t *testing.T) {
	var attempts []int
	s := newWidgets(t)
	l := mustNew(t, s, failing(&attempts))
	create(t, s, "a")
	runFails(t, l, "a", errBoom)
	for _, fromZero := range []bool{false, false, true} {
		l.work.cured(key("a"), fromZero)
		runFails(t, l, "a", errBoom)
	}
	if want := []int{0, 1, 2, 0}; !slices.Equal(attempts, want) {
		t.Errorf("attempts %v, want %v", attempts, want)
	}
}

// A round over all objects that was cut off is made by the next life of the source.
//
// Negative control: mutant "a round that was cut off is not made again".
func TestRoundThatWasCutOffIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n news
		var told uint64
		n.tell() // a handler was added, or the config has changed
		if err := n.follow(t.Context(), &told, func() error { return errBoom }); !errors.Is(err, errBoom) {
			t.Fatalf("the source ended with %v, want why the round was cut off", err)
		}
		rounds := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- n.follow(ctx, &told, func() error { rounds++; return nil }) }() // ends at cancel
		synctest.Wait()
		cancel()
		if err := <-done; err != nil || rounds != 1 {
			t.Errorf("%d rounds in the next life, error %v; want one", rounds, err)
		}
	})
}

// A handler that gave up is called again at the slow resync of its parked key, which may come
// before the hour that it waits for beside handlers that go on.
//
// promise R2. Negative control: mutant "a handler that gave up sleeps through the slow resync".
func TestHandlerThatGaveUpIsCalledAtTheSlowResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := newWidgets(t)
		h := d.handler("h", func(context.Context, *widget) error { return errBoom })
		h.Retry = func(int, error) time.Duration { return -1 }
		start(t, mustNew(t, s, h), nil, patient())
		create(t, s, "a")
		restFor(time.Minute)
		d.expect(t, "h Added 1")
		restFor(time.Hour + time.Minute) // parked keys are tried after an hour at most, looked for each minute
		d.expect(t, "h Added 1")
	})
}

// A handler comes back while an object still carries the finalizer that it had before its Add
// succeeded: the object stays until its Delete has succeeded.
//
// Negative control: mutant "an object does not wait for a handler that came back".
func TestHandlerThatComesBackIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, added := range []bool{false, true} {
			var d diary
			fails := !added
			h := d.handler("h", func(context.Context, *widget) error {
				if fails {
					return errBoom
				}
				return nil
			})
			s := newWidgets(t)
			l := mustNew(t, s, h)
			create(t, s, "a")
			_, _ = l.Reconcile(t.Context(), key("a"))
			l.Handlers().Remove("h")
			if _, err := l.Handlers().Add(h); err != nil {
				t.Fatal(err)
			}
			remove(t, s, "a")
			d.take()
			fails = true
			runFails(t, l, "a", errBoom)
			d.expect(t, "h Deleted 1")
			get(t, s, "a") // it is still there
			time.Sleep(time.Hour)
			fails = false
			run(t, l, "a")
			d.expect(t, "h Deleted 1")
			expectGone(t, s, "a")
		}
	})
}

// unread is a store whose records cannot be read one by one.
type unread struct {
	store.FullBackend
	on atomic.Bool
}

func (u *unread) Get(ctx context.Context, kind string, k store.Key) (store.Record, error) {
	if u.on.Load() {
		return store.Record{}, errBoom
	}
	return u.FullBackend.Get(ctx, kind, k)
}

// An owner that cannot be read has not gone: the child is looked at again.
//
// Negative control: mutant "an owner that cannot be read has gone".
func TestCascadeDeletesNothingWhileOwnersCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		away := &unread{FullBackend: b}
		s, parents := newWidgets(t), on[struct{}, struct{}](t, away, "parent")
		owners, err := cache.New(parents, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewCascade("cascade", childCache(t, s), []OwnerKind[widgetSpec, widgetStatus]{Owning[widgetSpec, widgetStatus](owners)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create(t.Context(), &widget{Meta: store.Meta{Name: "a", Owners: []store.Owner{{Kind: "parent", Key: key("gone"), UID: "gone"}}}}); err != nil {
			t.Fatal(err)
		}
		away.on.Store(true)
		manage(t, c)
		restFor(time.Minute)
		get(t, s, "a") // it is there
		away.on.Store(false)
		restFor(time.Hour)
		expectGone(t, s, "a")
	})
}
