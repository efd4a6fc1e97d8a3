package inspect_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// sick is a backend that says of itself what it is given.
type sick struct {
	store.Backend
	ill atomic.Pointer[store.UnavailableError]
}

func (b *sick) String() string { return "etcd e1" }

func (b *sick) Health() error {
	if err := b.ill.Load(); err != nil {
		return err
	}
	return nil
}

// A key that failed for its store is tried again after a backoff. From when the store answers until then
// it was told as a cause of its own, after the cure.
func TestKeysThatFailedForAStoreAreNoCauseOnceItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer inner.Close()
		b := &sick{Backend: inner}
		things, err := store.New[int, int](b, "thing", nil)
		if err != nil {
			t.Fatal(err)
		}
		cached, err := cache.New(things, nil)
		if err != nil {
			t.Fatal(err)
		}
		silent := slog.New(slog.DiscardHandler)
		fails := true
		mail, err := reconcile.New("mail", reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
			if fails {
				return reconcile.Result{}, errors.New("etcd: get: no answer")
			}
			return reconcile.Result{}, nil
		}), &reconcile.Options[string]{Logger: silent, Backoff: queue.Backoff{Base: time.Minute, Max: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		m := reconcile.Manager{Logger: silent}
		looker, err := inspect.New(&m, nil)
		if err := errors.Join(err, m.Register(cached, mail)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }() // ended by stop, waited for below
		look := func(when string, causes int, store string) {
			t.Helper()
			synctest.Wait()
			v, err := looker.Look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(v.Causes) != causes || !strings.Contains(v.Under[0].Says, store) {
				t.Errorf("%s: the causes are %+v, and underneath it says %+v", when, v.Causes, v.Under)
			}
		}
		time.Sleep(time.Second)
		look("before", 0, "answers")
		b.ill.Store(&store.UnavailableError{Since: time.Now(), Err: errors.New("no answer")})
		if err := mail.Add("alice"); err != nil {
			t.Error(err)
		}
		look("in the outage", 1, "has not answered since")
		time.Sleep(time.Second)
		b.ill.Store(nil)
		look("after it", 0, "etcd e1 answers again, 1 key that failed for it waits for its next try")
		if err := mail.Kick("alice"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		look("of a key that fails for the store although it is back", 1, "etcd e1 answers")
		fails = false
		if err := mail.Kick("alice"); err != nil {
			t.Error(err)
		}
		look("at the end", 0, "etcd e1 answers")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
