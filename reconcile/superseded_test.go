package reconcile_test

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
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// lateAnswers is a backend whose watch is a second faster than the answers of its commits.
type lateAnswers struct{ store.Backend }

func (b lateAnswers) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	r, err := b.Backend.Commit(ctx, t)
	time.Sleep(time.Second)
	return r, err
}

// A run is told by the end of its context that its object has a newer spec or is to go,
// if it asks for that; what the run wrote itself, and what is no such change, does not
// end it, however late the store answers.
//
// Negative control: without Writes.Writing the run that writes its own spec is ended.
func TestRunIsToldThatItsObjectHasChanged(t *testing.T) {
	deleted := func(t *testing.T, s *things) {
		if err := s.Delete(t.Context(), must[*thing](t)(s.Get(t.Context(), key("a")))); err != nil {
			t.Fatal(err)
		}
	}
	newSpec := func(t *testing.T, s *things) { mutate(t, s, "a", func(o *thing) { o.Spec.Size += 10 }) }
	ownSpec := func(ctx context.Context, s *things) {
		if _, err := s.Mutate(ctx, key("a"), func(o *thing) error { o.Spec.Size++; return nil }); err != nil {
			panic(err)
		}
	}
	for name, c := range map[string]struct {
		off       bool
		finalizer string
		own       func(ctx context.Context, s *things)
		edit      func(t *testing.T, s *things)
		ended     time.Duration // since the run's begin; 0: not
	}{
		"newer spec":         {edit: newSpec, ended: 5 * time.Second},
		"deletion asked for": {edit: deleted, finalizer: "keep", ended: 5 * time.Second},
		"gone":               {edit: deleted, ended: 5 * time.Second},
		"not asked for":      {edit: newSpec, off: true},
		"a label": {edit: func(t *testing.T, s *things) {
			mutate(t, s, "a", func(o *thing) { o.Labels = map[string]string{"x": "y"} })
		}},
		"its own spec":                 {own: ownSpec},
		"its own spec, then another's": {own: ownSpec, edit: newSpec, ended: 5 * time.Second},
		"another's, while it is writing": {own: func(ctx context.Context, s *things) {
			time.Sleep(5*time.Second - 500*time.Millisecond)
			o, err := s.Get(ctx, key("a"))
			if err != nil {
				panic(err)
			}
			o.Status.Size++
			if _, err := s.UpdateStatus(ctx, o); err != nil { // at 4.5 s, answered at 5.5 s
				panic(err)
			}
		}, edit: newSpec, ended: 5500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBackend(t)
				s, run := newStore(t, b, "thing"), newStore(t, lateAnswers{b}, "thing")
				create(t, s, "a", func(o *thing) {
					if c.finalizer != "" {
						o.Finalizers = []string{c.finalizer}
					}
				})
				var ended list[time.Duration]
				runs := 0
				ctl := must[*objectController](t)(reconcile.For(run, func(ctx context.Context, o *thing) (result, error) {
					if runs++; runs > 1 {
						return result{}, nil
					}
					began := time.Now()
					if c.own != nil {
						c.own(ctx, run)
					}
					select {
					case <-ctx.Done():
						ended.add(time.Since(began))
						if err := context.Cause(ctx); !errors.Is(err, reconcile.ErrSuperseded) || !strings.Contains(err.Error(), `"thing"`) {
							t.Errorf("the run ended by %v, want ErrSuperseded of the controller", err)
						}
						return result{}, ctx.Err()
					case <-time.After(time.Minute):
						return result{}, nil
					}
				}, &reconcile.ForOptions[spec, status]{Options: reconcile.Options[store.Key]{EndSuperseded: !c.off}}))
				start(t, ctl)
				time.Sleep(5 * time.Second)
				if c.edit != nil {
					c.edit(t, s)
				}
				pass(10 * time.Minute)
				n := ctl.Counts()
				if c.ended == 0 {
					expectList(t, "ended", ended.get())
					expect(t, "runs that were cancelled", n.Canceled, 0)
					return
				}
				expectList(t, "ended", ended.get(), c.ended)
				expect(t, "runs that were cancelled", n.Canceled, 1)
				expect(t, "failures", n.Error, 0)
				expect(t, "runs after it", n.Success, 1)
			})
		})
	}
}

// A change that the cache showed before the run began ends no run, however late the source
// comes to it: the run has read it.
func TestRunIsNotToldOfAChangeThatItHasSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		ca := newCache(t, s)
		gate := make(chan struct{})
		var cause error
		r := record(func(ctx context.Context, _ store.Key) (result, error) {
			select {
			case <-ctx.Done():
				cause = context.Cause(ctx)
			case <-time.After(time.Minute):
			}
			return result{}, nil
		})
		c := newController(t, r, &reconcile.Options[store.Key]{EndSuperseded: true})
		if err := c.Watch(reconcile.From(ca, func(ch cache.Change[spec, status]) bool {
			<-gate // the source is slow
			return true
		})); err != nil {
			t.Fatal(err)
		}
		create(t, s, "a")
		startManaged(t, c)
		pass(2 * time.Minute)
		mutate(t, s, "a", func(o *thing) { o.Spec.Size++ })
		synctest.Wait()
		add(t, c, key("a"))
		time.Sleep(time.Second)
		close(gate)
		pass(10 * time.Minute)
		if cause != nil {
			t.Errorf("a run was ended: %v", cause)
		}
		if n := r.count(); n < 2 {
			t.Errorf("%d runs, want the second one", n)
		}
	})
}

// The change may be made by any server; the server that runs the key is told, and no run
// of another key or server.
func TestRunIsToldOfAChangeByAnotherServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(t)
		hashes := map[string]uint64{}
		for h := range uint64(100) {
			hashes[[]string{"a", "b"}[lease.Shard(h, 2)]] = h
		}
		var told list[string]
		server := func(name string, shard int) *things {
			s := newStore(t, b, "thing")
			p := newHandPlaced(2)
			c := must[*objectController](t)(reconcile.For(s, func(ctx context.Context, o *thing) (result, error) {
				select {
				case <-ctx.Done():
					told.add(name + " " + o.Name)
				case <-time.After(time.Hour):
				}
				return result{}, ctx.Err()
			}, &reconcile.ForOptions[spec, status]{Options: reconcile.Options[store.Key]{
				EndSuperseded: true, Timeout: -1, Placement: p, StopTimeout: -1,
				Hash: func(k store.Key) uint64 { return hashes[k.Name] },
			}}))
			start(t, c)
			p.give(shard)
			return s
		}
		create(t, newStore(t, b, "thing"), "a")
		create(t, newStore(t, b, "thing"), "b")
		_, two := server("one", 0), server("two", 1)
		synctest.Wait()
		mutate(t, two, "a", func(o *thing) { o.Spec.Size++ }) // by the server that does not have the key
		pass(time.Minute)
		expectList(t, "told", told.get(), "one a")
		mutate(t, two, "b", func(o *thing) { o.Spec.Size++ }) // by the server that has it, but not by the run
		pass(time.Minute)
		expectList(t, "told", told.get(), "one a", "two b")
	})
}

// lateWatch is a backend whose watches show nothing while the gate is shut.
type lateWatch struct {
	store.Backend
	gate atomic.Pointer[chan struct{}] // nil: open
}

func (b *lateWatch) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for batch, err := range b.Backend.Watch(ctx, kind, after) {
			if gate := b.gate.Load(); gate != nil && err == nil {
				select {
				case <-*gate:
				case <-ctx.Done():
				}
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// What an earlier run of the key wrote ends no later run, however late the cache shows it:
// the later run was told to read the store.
//
// Negative control: mutant "what an earlier run wrote ends a run".
func TestRunIsNotToldOfWhatAnEarlierRunWrote(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &lateWatch{Backend: newBackend(t)}
		s := newStore(t, b, "thing")
		create(t, s, "a")
		gate := make(chan struct{})
		var runs atomic.Int32
		stale := false
		var cause error
		c := must[*objectController](t)(reconcile.For(s, func(ctx context.Context, o *thing) (result, error) {
			switch runs.Add(1) {
			case 1:
				b.gate.Store(&gate)
				o.Spec.Size++
				_, err := s.Update(ctx, o)
				return result{Requeue: true}, err
			case 2:
				info, _ := reconcile.RunInfo(ctx)
				stale = info.Stale
				select {
				case <-ctx.Done():
					cause = context.Cause(ctx)
				case <-time.After(30 * time.Second):
				}
			}
			return result{}, nil
		}, &reconcile.ForOptions[spec, status]{Options: reconcile.Options[store.Key]{
			EndSuperseded: true, CacheWait: time.Second, Timeout: time.Minute,
		}}))
		start(t, c)
		pass(10 * time.Second)
		if runs.Load() != 2 || !stale {
			t.Fatalf("%d runs, the last one stale: %v; want two, and the second without waiting for the cache", runs.Load(), stale)
		}
		b.gate.Store(nil)
		close(gate)
		pass(time.Minute)
		if cause != nil {
			t.Errorf("the second run was ended: %v", cause)
		}
	})
}
