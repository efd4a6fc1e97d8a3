package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/store"
)

var errLeft = errors.New("the key is another server's")

// promise L2: what a run has not begun when its context ends, as after a process was
// frozen and its lease taken, is not begun any more.
//
// Negative control: mutant "handlers are called after the end of the run".
func TestHandlersAreNotCalledAfterTheEndOfTheRun(t *testing.T) {
	var d diary
	s := newWidgets(t)
	create(t, s, "a")
	ctx, end := context.WithCancelCause(t.Context())
	first := d.handler("first", func(context.Context, *widget) error { end(errLeft); return nil })
	second := d.handler("second", nil)
	second.Simple = true // no finalizer's write stands before its call
	l := mustNew(t, s, first, second)
	if _, err := l.Reconcile(ctx, key("a")); !errors.Is(err, errLeft) {
		t.Errorf("the run ended with %v, want why its context ended", err)
	}
	d.expect(t, "first Added 1")
	run(t, l, "a")
	d.expect(t, "second Added 1")
}

// Negative control: mutant "a provider is called after the end of the run".
func TestProviderIsNotCalledAfterTheEndOfTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		during string // what was called last before the end
		delete bool
		want   []string
	}{
		"CreateOrUpdate": {"Ensure", false, []string{"Ensure"}},
		"Delete":         {"Ensure", true, []string{"Ensure"}},
		"Release":        {"Delete", true, []string{"Ensure", "Delete a"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newWidgets(t), &fakeProvider{}
			create(t, s, "a")
			var end func(error)
			ends := func(during string) (reconcile.Result, error) {
				if end != nil && during == c.during {
					end(errLeft)
				}
				return reconcile.Result{}, nil
			}
			p.delete = func(context.Context, *widget, settings, client) (reconcile.Result, error) { return ends("Delete") }
			a := fakeAccess{diary: &p.diary, ensure: func(*widget) (reconcile.Result, error) { return ends("Ensure") }}
			l := mustProvide(t, s, p, nil, a)
			if c.delete {
				run(t, l, "a")
				remove(t, s, "a")
				p.take()
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			end = cancel
			if _, err := l.Reconcile(ctx, key("a")); !errors.Is(err, errLeft) {
				t.Errorf("the run ended with %v, want why its context ended", err)
			}
			p.expect(t, c.want...)
		})
	}
}

// A run that is past its deadline because the store does not take what it has to record
// is told from user code that does not end.
//
// Negative control: mutant "nothing says that a run waits for the store".
func TestRunThatWaitsForTheStoreIsNotBlamedOnTheHandler(t *testing.T) {
	for name, c := range map[string]struct {
		handler, store time.Duration
		want, not      string
	}{
		"the store":   {0, 20 * time.Second, "waits for the store", "goes on although"},
		"the handler": {20 * time.Second, 0, "goes on although", "waits for the store"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFaulty(t)
				s := on[widgetSpec, widgetStatus](t, b, "widget")
				var log bytes.Buffer
				l := mustNew(t, s, Handler[widgetSpec, widgetStatus]{Add: func(_ context.Context, o *widget) (reconcile.Result, error) {
					time.Sleep(c.handler)
					b.commit.Store(new(func(store.Txn) error { time.Sleep(c.store); return nil }))
					return reconcile.Result{}, nil
				}})
				create(t, s, "a")
				start(t, l, nil, &reconcile.Options[reconcile.Request]{
					Timeout: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
					Backoff: queue.Backoff{Base: time.Hour, Max: time.Hour},
				})
				restFor(15 * time.Second)
				if text := log.String(); strings.Count(text, "is stuck") != 1 || !strings.Contains(text, c.want) || strings.Contains(text, c.not) {
					t.Errorf("want one line that says %q:\n%s", c.want, text)
				}
				restFor(time.Minute)
			})
		})
	}
}

// Each call of a handler has the recorder of the run that makes it: what it tells of the object is heard.
//
// Seen to fail: with handlers that are called with a context of their own.
func TestHandlersTellEvents(t *testing.T) {
	s, log := newWidgets(t), event.NewLog(nil)
	create(t, s, "a")
	var d diary
	l := mustNew(t, s, d.handler("h", func(ctx context.Context, o *widget) error {
		event.Record(ctx, s, o, "Called", fmt.Sprint("size ", o.Spec.Size, ", deleting ", o.Deleting()))
		return nil
	}))
	ctx := event.With(t.Context(), log.Record)
	for _, does := range []func() error{
		func() error { return nil },
		func() error { edit(t, s, "a", resize(2)); return nil },
		func() error { return s.Delete(t.Context(), get(t, s, "a")) },
	} {
		if err := does(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Reconcile(ctx, key("a")); err != nil {
			t.Fatal(err)
		}
	}
	var said []string
	for _, e := range log.Events("widget", key("a"), 0) {
		said = append(said, e.Message)
	}
	if want := []string{"size 2, deleting true", "size 2, deleting false", "size 1, deleting false"}; !slices.Equal(said, want) {
		t.Errorf("the events are %q, want %q", said, want)
	}
}
