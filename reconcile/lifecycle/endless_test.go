package lifecycle

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
)

// loop is an error that unwraps to itself.
type loop struct{}

func (e *loop) Error() string { return "loop" }
func (e *loop) Unwrap() error { return e }

// promise R3: an error without an end, from a handler, a provider or an access, is a
// failure like any other.
//
// Negative control: with the errors as they come each of these runs is busy for ever.
func TestEndlessErrorIsAFailureLikeAnyOther(t *testing.T) {
	bad := error(&loop{})
	fail := func(*widget) (reconcile.Result, error) { return reconcile.Result{}, bad }
	call := func(context.Context, *widget, settings, client) (reconcile.Result, error) {
		return reconcile.Result{}, bad
	}
	for name, c := range map[string]struct {
		provider *fakeProvider
		access   fakeAccess
		deletes  bool
	}{
		"a handler":      {},
		"CreateOrUpdate": {provider: &fakeProvider{create: call}},
		"Delete":         {provider: &fakeProvider{delete: call}, deletes: true},
		"Ensure":         {access: fakeAccess{ensure: fail}},
		"Release":        {access: fakeAccess{release: fail}, deletes: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWidgets(t)
			l := mustNew(t, s, new(diary).handler("h", func(context.Context, *widget) error { return bad }))
			if name != "a handler" {
				c.access.diary = new(diary)
				l = mustProvide(t, s, cmp.Or(c.provider, &fakeProvider{}), nil, c.access)
			}
			create(t, s, "a")
			if c.deletes {
				run(t, l, "a")
				remove(t, s, "a")
			}
			ended := make(chan error, 1)
			go func() { // ends with the run
				_, err := l.Reconcile(t.Context(), key("a"))
				ended <- err
			}()
			select {
			case err := <-ended:
				if err == nil {
					t.Error("the run succeeded")
				}
			case <-time.After(time.Minute):
				t.Fatal("the run is busy with its error")
			}
		})
	}
}
