package external_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
)

// heard is a source of Changed whose reports are noted.
func heard(src reconcile.Source[reconcile.Request], told func(error)) reconcile.Source[reconcile.Request] {
	run := src.Run
	src.Run = func(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
		return run(ctx, &tells{to, told})
	}
	return src
}

type tells struct {
	reconcile.Sink[reconcile.Request]
	told func(error)
}

// Failed implements reconcile.Reporter.
func (s *tells) Failed(err error) {
	s.told(err)
	s.Sink.(reconcile.Reporter).Failed(err)
}

// A list that a source makes for runs, and that fails or panics, is that source's failure
// until the next one succeeds: the runs look at their resources one by one meanwhile, and
// no other error shows that.
//
// promise R3
func TestListThatFailsIsTheFailureOfItsSource(t *testing.T) {
	for name, fail := range map[string]func() error{
		"an error": func() error { return errors.New("list refused") },
		"a panic":  func() error { panic("list refused") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.populate(3)
				w.o.Poll = 10 * time.Minute
				var mended atomic.Bool
				inv := w.inventory(func(o *invOpts) {
					list := o.List
					o.Fresh = 5 * time.Minute
					o.List = func(ctx context.Context) iter.Seq2[resource, error] {
						if !mended.Load() {
							if err := fail(); err != nil {
								return func(yield func(resource, error) bool) { yield(resource{}, err) }
							}
						}
						return list(ctx)
					}
				})
				w.restart(nil)
				w.reconcileBy(inv)
				var told []error
				m, stop := w.serve(&reconcile.Options[reconcile.Request]{Workers: 1}, []reconcile.Source[reconcile.Request]{
					heard(inv.Changed("lists"), func(err error) { told = append(told, err) }),
				})
				time.Sleep(time.Minute)
				synctest.Wait()
				if len(told) == 0 || told[0] == nil || !strings.Contains(told[0].Error(), "list refused") {
					t.Errorf("the source said %v, want the error of the list", told)
				}
				unwell := false
				for _, c := range m.Checks() {
					unwell = unwell || !c.OK && strings.Contains(c.Reason, "list refused")
				}
				if !unwell {
					t.Errorf("no check names the list: %+v", m.Checks())
				}
				mended.Store(true)
				time.Sleep(30 * time.Minute)
				synctest.Wait()
				if last := told[len(told)-1]; last != nil {
					t.Errorf("the source says %v after lists work again", last)
				}
				for _, c := range m.Checks() {
					if !c.OK {
						t.Errorf("%s is not well after lists work again: %s", c.Name, c.Reason)
					}
				}
				stop()
			})
		})
	}
}
