package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

const fleetShards = 16

// part is a server whose cache holds its own shards only.
type part struct {
	name string
	c    *reconcile.ObjectController[spec, status]
	run  *running
}

// fleet runs things on servers that come and go, and checks what each run sees.
type fleet struct {
	*testing.T
	b *store.Backend
	s *things

	mu    sync.Mutex
	busy  map[store.Key]string
	wrote map[store.Key]store.Revision // by the last run of a key, on whatever server
	runs  map[store.Key]int
}

func (f *fleet) join(name string) *part {
	p := &part{name: name}
	placement := must[lease.Placement](f.T)(lease.NewSharded(*f.b, "test", fleetShards, &lease.Options{Server: name}))
	p.c = must[*reconcile.ObjectController[spec, status]](f.T)(reconcile.For(f.s, func(ctx context.Context, o *thing) (result, error) {
		return f.reconcile(ctx, p, o)
	}, &reconcile.ForOptions[spec, status]{
		Options: reconcile.Options[store.Key]{Placement: placement},
		Cache:   &cache.Options[spec, status]{Shards: fleetShards},
	}))
	var m reconcile.Manager
	if err := m.Register(p.c); err != nil {
		f.Fatal(err)
	}
	p.run = start(f.T, &m)
	return p
}

func (f *fleet) reconcile(ctx context.Context, p *part, o *thing) (result, error) {
	k := o.Key()
	f.mu.Lock()
	if by := f.busy[k]; by != "" {
		f.Errorf("%v is run by %s and %s at once", k, by, p.name)
	}
	f.busy[k] = p.name
	f.runs[k]++
	if o.Revision < f.wrote[k] {
		f.Errorf("%s runs %v as of %d, and the run before wrote it at %d", p.name, k, o.Revision, f.wrote[k])
	}
	f.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
	var err error
	if _, ok := p.c.Cache().Get(k); !ok {
		f.Errorf("%s runs %v, and its cache has forgotten it", p.name, k)
	}
	if o.Status.Size != o.Spec.Size {
		o.Status.Size = o.Spec.Size
		_, err = f.s.UpdateStatus(ctx, o)
	}
	f.mu.Lock()
	if err == nil {
		f.wrote[k] = max(f.wrote[k], o.Revision)
	}
	delete(f.busy, k)
	f.mu.Unlock()
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrFenced) {
		err = nil // the change or the new owner brings another run
	}
	return result{}, err
}

// promises L2, R4, S2: while servers come and go and leases are lost, no key is run by two
// servers, none on an older state than the run before it left, none is forgotten; and a
// server's cache shows the objects of its own shards, all of them and no others.
func TestShardsMoveWhileObjectsChange(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 7))
				var b store.Backend = newBackend(t)
				f := &fleet{T: t, b: &b, s: newStore(t, b, "thing"), busy: map[store.Key]string{}, wrote: map[store.Key]store.Revision{}, runs: map[store.Key]int{}}
				const n = 120
				for i := range n {
					create(t, f.s, fmt.Sprint("t", i))
				}
				servers := []*part{f.join("s0"), f.join("s1")}
				for step := range 60 {
					switch x := r.IntN(10); {
					case x == 0 && len(servers) < 4:
						servers = append(servers, f.join(fmt.Sprint("s", step)))
					case x == 1 && len(servers) > 1:
						i := r.IntN(len(servers))
						if err := servers[i].run.end(); err != nil {
							t.Fatal(err)
						}
						servers = slices.Delete(servers, i, i+1)
					case x == 2: // a shard's lease is taken away
						k := store.Key{Namespace: "test", Name: fmt.Sprintf("shard-%05d", r.IntN(fleetShards))}
						if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: lease.Kind, Key: k}}}); err != nil {
							t.Fatal(err)
						}
					default:
						mutate(t, f.s, fmt.Sprint("t", r.IntN(n)), func(o *thing) { o.Spec.Size++ })
					}
					time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
				}
				pass(2 * time.Minute)
				shown := 0
				for _, p := range servers {
					at := p.c.Cache().Snapshot().Shards
					if len(at.Waiting) > 0 || len(at.Ready) != p.c.Snapshot().Held {
						t.Errorf("%s has %d shards and caches %v, waits for %v", p.name, p.c.Snapshot().Held, at.Ready, at.Waiting)
					}
					for o := range p.c.Cache().All() {
						shown++
						if !slices.Contains(at.Ready, store.ShardOf(o.Key(), fleetShards)) {
							t.Errorf("%s shows %v of another server's shard", p.name, o.Key())
						}
					}
				}
				expect(t, "objects shown by all servers together", shown, n)
				for o, err := range f.s.All(t.Context(), store.Selector{}) {
					if err != nil || o.Status.Size != o.Spec.Size || f.runs[o.Key()] == 0 {
						t.Errorf("%v was forgotten: status %d of %d, %d runs, %v", o.Key(), o.Status.Size, o.Spec.Size, f.runs[o.Key()], err)
					}
				}
				for _, p := range servers {
					if err := p.run.end(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// slowLists makes the lists of a kind wait.
type slowLists struct {
	store.Backend
	store.Leaser
	gate chan struct{}
}

func (s *slowLists) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	select {
	case <-s.gate:
	case <-ctx.Done():
		return store.Page{}, context.Cause(ctx)
	}
	return s.Backend.List(ctx, kind, o)
}

// promise R4, of each shard: its keys wait until its objects are listed, and the
// snapshot says so; those of the other shards do not wait.
func TestKeysOfAGainedShardWaitForItsList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := newBackend(t)
		s := &slowLists{Backend: inner, Leaser: inner, gate: make(chan struct{})}
		things := newStore(t, s, "thing")
		for i := range 40 {
			create(t, things, fmt.Sprint("t", i))
		}
		p := newHandPlaced(2)
		var ran list[int]
		c := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(things, func(_ context.Context, o *thing) (result, error) {
			ran.add(store.ShardOf(o.Key(), 2))
			return result{}, nil
		}, &reconcile.ForOptions[spec, status]{
			Options: reconcile.Options[store.Key]{Placement: p}, Cache: &cache.Options[spec, status]{Shards: 2},
		}))
		run := start(t, c)
		p.give(0)
		synctest.Wait()
		first := len(ran.get())
		if first == 0 || slices.Contains(ran.get(), 1) {
			t.Errorf("shards that ran: %v", ran.get())
		}
		p.give(1)
		synctest.Wait()
		expect(t, "runs before the list", len(ran.get()), first)
		at := c.Snapshot()
		expect(t, "shards held", at.Held, 1)
		expectList(t, "shards that are loaded", at.Loading, 1)
		expect(t, "the cache that is waited for", at.LoadingFrom, "thing")
		close(s.gate)
		synctest.Wait()
		expect(t, "runs", len(ran.get()), 40)
		if at := c.Snapshot(); at.Held != 2 || len(at.Loading) > 0 {
			t.Errorf("after the list: %d shards held, %v loading", at.Held, at.Loading)
		}
		if err := run.end(); err != nil {
			t.Error(err)
		}
	})
}

// A shard is held when the last of the controller's caches has listed it, whichever that
// is, and each of them gives it up when it is lost.
//
// promise R4. Negative controls: mutants "a shard waits for one of its caches alone", "one
// of several caches gives a lost shard up".
func TestShardIsOfAllCachesOfItsController(t *testing.T) {
	for _, slowFirst := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			b := newBackend(t)
			s := newStore(t, b, "thing")
			slow := &slowLists{Backend: b, Leaser: b, gate: make(chan struct{})}
			for i := range 40 {
				create(t, s, fmt.Sprint("t", i))
			}
			o := &cache.Options[spec, status]{Shards: 2}
			own := must[*cache.Cache[spec, status]](t)(cache.New(s, o))
			other := must[*cache.Cache[spec, status]](t)(cache.New(newStore(t, slow, "other"), o))
			reads := []reconcile.Cached{own, other}
			if slowFirst {
				slices.Reverse(reads)
			}
			p := newHandPlaced(2)
			r := record[store.Key](nil)
			c := newController(t, r, &reconcile.Options[store.Key]{Placement: p, Reads: reads})
			if err := c.Watch(reconcile.From(own)); err != nil {
				t.Fatal(err)
			}
			startManaged(t, c)
			ran := func() (shards []int) {
				for _, k := range r.keys() {
					shards = append(shards, store.ShardOf(k, 2))
				}
				slices.Sort(shards)
				return slices.Compact(shards)
			}
			p.give(0)
			synctest.Wait()
			p.give(1)
			synctest.Wait()
			expectList(t, "shards that ran before the other cache has listed the second", ran(), 0)
			close(slow.gate)
			synctest.Wait()
			expectList(t, "shards that ran", ran(), 0, 1)
			p.take(1)
			synctest.Wait()
			for _, ca := range []*cache.Cache[spec, status]{own, other} {
				expectList(t, "shards left in cache "+ca.Name(), ca.Snapshot().Shards.Ready, 0)
			}
		})
	}
}

func TestACacheOfOtherShardsIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		f := func(context.Context, *thing) (result, error) { return result{}, nil }
		for _, o := range []reconcile.Options[store.Key]{
			{},
			{Placement: newHandPlaced(4)},
			{Placement: newHandPlaced(8), Hash: func(store.Key) uint64 { return 1 }},
		} {
			c := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(s, f, &reconcile.ForOptions[spec, status]{Options: o, Cache: &cache.Options[spec, status]{Shards: 8}}))
			if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "holds shards") {
				t.Errorf("%v: Run returned %v", o.Placement, err)
			}
		}
		c := newController(t, record[store.Key](nil), nil)
		own := must[*cache.Cache[spec, status]](t)(cache.New(s, &cache.Options[spec, status]{Shards: 8}))
		err := c.Watch(reconcile.Map(own, func(_ context.Context, _, o *thing) ([]store.Key, error) { return nil, nil }))
		if err == nil || !strings.Contains(err.Error(), "holds shards") {
			t.Errorf("Map of a cache of shards: %v", err)
		}
	})
}

// keySink notes the keys that a source adds.
type keySink struct{ added list[string] }

func (s *keySink) Add(k store.Key, _ queue.AddOptions) error { s.added.add(k.Name); return nil }
func (s *keySink) Synced()                                   {}

// An object that leaves a cache with its shard is not gone: another server has it now, and
// no source takes that for a deletion.
//
// promise L2. Negative control: mutant "what leaves with its shard counts as deleted".
func TestWhatLeavesWithItsShardIsNoChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t, newBackend(t), "thing")
		byShard := make([][]string, 2)
		for i := range 20 {
			name := fmt.Sprint("t", i)
			create(t, s, name)
			shard := store.ShardOf(key(name), 2)
			byShard[shard] = append(byShard[shard], name)
		}
		c := must[*cache.Cache[spec, status]](t)(cache.New(s, &cache.Options[spec, status]{Shards: 2}))
		shows := &stoppable{Cached: c}
		shows.start(t)
		defer shows.stop()
		var releases [2]func()
		for shard := range 2 {
			var ready <-chan struct{}
			ready, releases[shard] = c.HoldShard(shard)
			<-ready
		}
		defer releases[0]()
		var to keySink
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- reconcile.From(c).Run(ctx, &to) }() // ends at cancel
		synctest.Wait()
		all := to.added.get()
		expect(t, "keys added at the start", len(all), 20)
		releases[1]()
		synctest.Wait()
		gone := byShard[0][0]
		o := must[*thing](t)(s.Get(t.Context(), key(gone)))
		if err := s.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expect(t, "objects shown", len(slices.Collect(c.All())), len(byShard[0])-1)
		expectList(t, "keys added since", to.added.get()[len(all):], gone)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A shard may be gained between the moment at which a list for another one is taken and the
// moment at which that begins to be shown. Which of the two a source does first is up to chance
// in each try.
//
// promise Q1. Negative control: the mutant "a shard that is gained during a list is not listed".
func TestShardThatIsGainedWhileAnotherIsListedIsListedToo(t *testing.T) {
	for n := range 12 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const shards = 3
				b := newBackend(t)
				things := newStore(t, b, "thing")
				total := [shards]int{}
				slow := ""
				for i := range 40 {
					name := fmt.Sprint("t", i)
					create(t, things, name)
					sh := store.ShardOf(key(name), shards)
					total[sh]++
					if sh == 0 {
						slow = name
					}
				}
				p := newHandPlaced(shards)
				var ran list[string]
				gate := make(chan struct{})
				c := must[*reconcile.ObjectController[spec, status]](t)(reconcile.For(things, func(_ context.Context, o *thing) (result, error) {
					ran.add(o.Name)
					return result{}, nil
				}, &reconcile.ForOptions[spec, status]{
					Options: reconcile.Options[store.Key]{Placement: p},
					Cache:   &cache.Options[spec, status]{Shards: shards},
					When: func(ch cache.Change[spec, status]) bool {
						<-gate // the source is slow, not the cache
						return true
					},
				}))
				run := start(t, c)
				p.give(0)
				pass(time.Second)
				mutate(t, things, slow, func(o *thing) { o.Spec.Size++ })
				synctest.Wait() // the source is busy with it
				mutate(t, things, slow, func(o *thing) { o.Spec.Size++ })
				p.give(1)
				synctest.Wait()
				gate <- struct{}{} // it goes on, and takes a list, or the change first
				synctest.Wait()
				p.give(2)
				synctest.Wait()
				close(gate)
				pass(10 * time.Minute)
				seen := map[string]bool{}
				for _, name := range ran.get() {
					seen[name] = true
				}
				got := [shards]int{}
				for name := range seen {
					got[store.ShardOf(key(name), shards)]++
				}
				if got != total {
					t.Errorf("keys that ran by shard: %v of %v; sources %+v", got, total, c.Snapshot().Sources)
				}
				if err := run.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// promise S2. Negative control: the mutant "a cache of shards that is run again takes all for known".
func TestCacheThatIsRunAgainShowsWhatChangedMeanwhile(t *testing.T) {
	for _, shards := range []int{0, 2} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore(t, newBackend(t), "thing")
				ca := must[*cache.Cache[spec, status]](t)(cache.New(s, &cache.Options[spec, status]{Shards: shards}))
				st := &stoppable{Cached: ca}
				create(t, s, "a")
				r := record[store.Key](nil)
				p := newHandPlaced(2)
				c := newController(t, r, &reconcile.Options[store.Key]{Placement: p})
				if err := c.Watch(reconcile.From(ca)); err != nil {
					t.Fatal(err)
				}
				st.start(t)
				start(t, c)
				p.give(0)
				p.give(1)
				pass(time.Minute)
				expect(t, "runs", r.count(), 1)
				st.cancel()
				st.stop()
				mutate(t, s, "a", func(o *thing) { o.Spec.Size++ })
				st.start(t)
				defer st.stop()
				pass(10 * time.Minute)
				o, _ := ca.Get(key("a"))
				expect(t, "size in cache", o.Spec.Size, 1)
				expect(t, "runs after the change", r.count(), 2)
			})
		})
	}
}
