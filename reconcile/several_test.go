package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/inrun"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/storetest"
)

// several is a program with two of each thing: two backends that lag by different times, two
// caches of each, and controllers that have two sources of their own kind, two workers or
// batches. Each of them writes down, on the objects of a name on both backends, what it saw of
// the two, and so each of its runs writes twice.
type several struct {
	*testing.T
	stores [2]*things
	caches [2][2]*cache.Cache[spec, status]
	calm   atomic.Bool
	runs   atomic.Int64

	mu    sync.Mutex
	busy  map[string]bool
	wrote map[string][2]store.Revision // by the last run of a key of a controller
}

func newSeveral(t *testing.T, seed uint64) *several {
	s := &several{T: t, busy: map[string]bool{}, wrote: map[string][2]store.Revision{}}
	for i, delay := range []time.Duration{time.Second, 3 * time.Second} {
		rates := storetest.Rates{Refused: 0.01, ReplyLost: 0.02, RequestLost: 0.01}
		random, late := storetest.Random(seed*2+uint64(i), rates), storetest.Random(seed*2+uint64(i)+100, storetest.Rates{Refused: 0.05, Delayed: 0.7, Delay: delay})
		b := storetest.Faulty(newBackend(t), func(c storetest.Call) storetest.Fault {
			switch {
			case s.calm.Load():
				return storetest.Fault{}
			case c.Method == "Watch":
				return late(c)
			}
			return random(c)
		})
		s.stores[i] = must[*things](t)(store.New[spec, status](b, "thing", nil))
		for n := range s.caches[i] {
			o := &cache.Options[spec, status]{Name: fmt.Sprintf("cache %d of backend %d", n, i), OnError: func(store.Key, error) {}}
			s.caches[i][n] = must[*cache.Cache[spec, status]](t)(cache.New(s.stores[i], o))
		}
	}
	return s
}

// size is what a run sees of an object: -1 if there is none.
func size(o *thing) int {
	if o == nil {
		return -1
	}
	return o.Spec.Size
}

// reconcile is one run of a key of a controller that reads some caches, the first of which are
// of the two backends.
func (s *several) reconcile(ctx context.Context, name string, k store.Key, reads []*cache.Cache[spec, status]) (result, error) {
	s.runs.Add(1)
	info, _ := reconcile.RunInfo(ctx)
	id := name + " " + k.Name
	s.mu.Lock()
	if s.busy[id] {
		s.Errorf("%s runs twice at once", id)
	}
	s.busy[id] = true
	wrote := s.wrote[id]
	s.mu.Unlock()
	for _, c := range reads {
		for i := range s.stores {
			if c.Backend() == s.stores[i].Backend() && c.Revision() < wrote[i] && !info.Stale {
				s.Errorf("%s runs with %s at revision %d, and the run before wrote %d", id, c.Name(), c.Revision(), wrote[i])
			}
		}
	}
	objects, err := s.look(ctx, k, reads, info.Stale)
	if err == nil {
		err = s.mark(ctx, name, objects)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, id)
	for i, c := range s.stores {
		wrote[i] = max(wrote[i], inrun.Wrote(ctx, c.Backend(), "thing"))
	}
	s.wrote[id] = wrote
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
		return result{Requeue: true}, nil
	}
	return result{}, err
}

func (s *several) look(ctx context.Context, k store.Key, reads []*cache.Cache[spec, status], stale bool) (objects [2]*thing, err error) {
	for i := range objects {
		if !stale {
			objects[i], _ = reads[i].Get(k)
		} else if objects[i], err = s.stores[i].Get(ctx, k); err != nil && !errors.Is(err, store.ErrNotFound) {
			return objects, err
		}
	}
	return objects, nil
}

func (s *several) mark(ctx context.Context, name string, objects [2]*thing) error {
	is := fmt.Sprint(size(objects[0]), " ", size(objects[1]))
	for i, o := range objects {
		if o == nil || o.Annotations[name] == is {
			continue
		}
		o = s.stores[i].Clone(o)
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[name] = is
		if _, err := s.stores[i].Update(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// controllers makes three, of which no two have the same caches.
func (s *several) controllers() []reconcile.Runner {
	a, b := s.caches[0], s.caches[1]
	o := reconcile.Options[store.Key]{CacheWait: 300 * time.Millisecond, Workers: 2}
	single := func(name string, reads ...*cache.Cache[spec, status]) *reconcile.Controller[store.Key] {
		o := o
		for _, c := range reads {
			o.Reads = append(o.Reads, c)
		}
		r := record(func(ctx context.Context, k store.Key) (result, error) { return s.reconcile(ctx, name, k, reads) })
		return must[*reconcile.Controller[store.Key]](s.T)(reconcile.New(name, r, &o))
	}
	both := func(c *reconcile.Controller[store.Key], sources ...reconcile.Source[store.Key]) *reconcile.Controller[store.Key] {
		if err := c.Watch(sources...); err != nil {
			s.Fatal(err)
		}
		return c
	}
	batched := o
	batched.Batch, batched.Reads = 3, []reconcile.Cached{a[1]}
	reads := []*cache.Cache[spec, status]{a[0], b[1], a[1]}
	batch := must[*reconcile.Controller[store.Key]](s.T)(reconcile.NewBatch("batch", batchOf(func(ctx context.Context, keys []store.Key) []reconcile.Outcome {
		out := make([]reconcile.Outcome, len(keys))
		for i, k := range keys {
			out[i].Result, out[i].Err = s.reconcile(ctx, "batch", k, reads)
		}
		return out
	}), &batched))
	return []reconcile.Runner{
		both(single("own twice", a[0], b[0]), reconcile.From(a[0]), reconcile.From(a[1]), reconcile.Same(b[0])),
		both(single("mapped twice", a[1], b[1]), reconcile.From(b[1]), reconcile.Same(a[0]), reconcile.Same(a[1])),
		both(batch, reconcile.From(a[0]), reconcile.From(b[1])),
	}
}

// promises S4, Q2, R1 with two of each thing: no run begins before each cache that its controller
// reads, on either backend, has what the run of its key before wrote there, or else it is told;
// what changes anywhere reaches every controller; and in the end all are silent.
//
// Negative control: the mutant "of two caches that lack what an earlier run wrote one is waited
// for".
func TestSeveralControllersCachesAndBackendsConverge(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { bubble(t, func(t *testing.T) { runSeveral(t, seed) }) })
	}
}

func runSeveral(t *testing.T, seed uint64) {
	s := newSeveral(t, seed)
	m := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
	if err := m.Register(s.controllers()...); err != nil {
		t.Fatal(err)
	}
	start(t, &m)
	r := rand.New(rand.NewPCG(seed, 3))
	names := []string{"a", "b", "c", "d", "e"}
	for range 150 {
		things := s.stores[r.IntN(2)]
		k := key(names[r.IntN(len(names))])
		o, err := things.Get(t.Context(), k)
		switch {
		case errors.Is(err, store.ErrNotFound):
			_, err = things.Create(t.Context(), &thing{Meta: store.Meta{Name: k.Name}, Spec: spec{r.IntN(1000)}})
		case err == nil && r.IntN(5) == 0:
			err = things.Delete(t.Context(), o)
		case err == nil:
			o.Spec.Size = r.IntN(1000)
			_, err = things.Update(t.Context(), o)
		}
		_ = err // a fault or a conflict: another step follows
		time.Sleep(time.Duration(r.IntN(150)) * time.Millisecond)
	}
	s.calm.Store(true)
	pass(5 * time.Minute)
	before := s.runs.Load()
	pass(time.Hour)
	expect(t, "runs when nothing changed", s.runs.Load(), before)
	for _, name := range names {
		var objects [2]*thing
		for i, things := range s.stores {
			objects[i], _ = things.Get(t.Context(), key(name))
		}
		want := fmt.Sprint(size(objects[0]), " ", size(objects[1]))
		for i, o := range objects {
			if o == nil {
				continue
			}
			expectList(t, fmt.Sprintf("%s on backend %d has marks of", name, i), slices.Sorted(maps.Keys(o.Annotations)), "batch", "mapped twice", "own twice")
			for by, is := range o.Annotations {
				expect(t, fmt.Sprintf("what %q saw of %s, on backend %d", by, name, i), is, want)
			}
		}
	}
}
