package external_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store/cache"
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
				for _, c := range m.Health() {
					unwell = unwell || !c.OK && strings.Contains(c.Reason, "list refused")
				}
				if !unwell {
					t.Errorf("no check names the list: %+v", m.Health())
				}
				mended.Store(true)
				time.Sleep(30 * time.Minute)
				synctest.Wait()
				if last := told[len(told)-1]; last != nil {
					t.Errorf("the source says %v after lists work again", last)
				}
				for _, c := range m.Health() {
					if !c.OK {
						t.Errorf("%s is not well after lists work again: %s", c.Name, c.Reason)
					}
				}
				stop()
			})
		})
	}
}

// A run that ends because it needs a list has found out nothing: a program does not count
// its object as declared.
//
// Seen to fail: a program said "22 of 22 as declared: 0 created" while the first list was
// under way.
//
// Negative control: mutant "a run that leaves for a list counts as one that looked".
func TestRunThatLeavesForAListSaysNothingOfItsObject(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Poll = time.Minute
		keys := w.populate(3)
		gate := make(chan struct{})
		inv := w.inventory(func(o *invOpts) {
			list := o.List
			o.Fresh = time.Minute
			o.List = func(ctx context.Context) iter.Seq2[resource, error] {
				<-gate
				return list(ctx)
			}
		})
		w.restart(nil)
		w.reconcileBy(inv)
		shown := must(cache.New(w.store, nil))
		kind := must(program.Of(shown, nil))
		o := must(kind.Track(&reconcile.Options[reconcile.Request]{Workers: 2, Backoff: queue.Backoff{Base: time.Second, Max: time.Hour}}))
		ctl := must(w.rec.Controller("disks", shown, o))
		m := &reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
		if err := errors.Join(ctl.Watch(inv.Changed("lists")), m.Register(ctl)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ends at cancel
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if p := kind.Progress(); p.Declared != len(keys) || p.Done != 0 {
			t.Errorf("%v while the first list is under way", p)
		}
		close(gate)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if p := kind.Progress(); p.Done != len(keys) {
			t.Errorf("%v when the list has ended", p)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// An object whose create fails is tried by its backoff, although each try waits for a list:
// the wait is no success that begins the attempts again, and the list ends it at once.
//
// Seen to fail: the attempts began again at each list, and the create was tried hundreds of
// times in two hours.
//
// Negative control: mutant "a run that leaves for a list begins the attempts again".
func TestFailingObjectThatWaitsForAListKeepsItsBackoff(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Poll = 10 * time.Minute
		inv := w.inventory(func(o *invOpts) {
			list := o.List
			o.Fresh = time.Second // every look needs a list
			o.List = func(ctx context.Context) iter.Seq2[resource, error] {
				time.Sleep(100 * time.Millisecond)
				return list(ctx)
			}
		})
		w.restart(nil)
		var tries []time.Time
		w.with(inv.Client(external.ClientFuncs[diskSpec, diskStatus]{
			CreateFunc: func(context.Context, *disk) error {
				tries = append(tries, time.Now())
				return errors.New("refused")
			},
		}))
		w.lists = inv
		w.declare()
		stop := w.startWith(reconcile.Options[reconcile.Request]{
			Workers: 2, Backoff: queue.Backoff{Base: time.Second, Max: time.Hour, NoJitter: true},
		})
		begun := time.Now()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		stop()
		// At 0 s, 1 s, 3 s, ..., 2^12-1 s.
		if len(tries) != 13 {
			t.Fatalf("%d creates were tried in two hours, want 13", len(tries))
		}
		if last, want := tries[12].Sub(begun), (1<<12-1)*time.Second; last < want || last > want+13*time.Second {
			t.Errorf("the last was tried after %v, want little more than %v", last, want)
		}
	})
}
