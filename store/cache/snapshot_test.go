package cache_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// A snapshot says all of a cache, of the whole kind and of shards, at each turn that its watch
// and its backend take, and Health says the same.
//
// Negative controls: mutants "a cache of shards stays connected to a watch that broke off", "a
// cache that tries in vain says that it just lost its watch" and "a backend that does not serve
// hides why the watch ended".
func TestSnapshotOfACacheIsWholeAtEachTurn(t *testing.T) {
	silent, cut, again := errors.New("silent"), errors.New("cut"), errors.New("cut again")
	for _, n := range []int{0, 1} {
		t.Run(fmt.Sprint("shards=", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, err := memory.New(nil)
				if err != nil {
					t.Fatal(err)
				}
				defer inner.Close()
				create(t, newStore(t, inner), "one")
				m := &mortal{Backend: inner, broken: make(chan struct{})}
				c, err := cache.New(newStore(t, m), &cache.Options[spec, status]{Name: "things", Shards: n, OnError: func(store.Key, error) {}})
				if err != nil {
					t.Fatal(err)
				}
				mustIndex(t, c, "region", regionOf)
				mustIndex(t, c, "letters", lettersOf)
				want := introspect.Cache{Name: "things", Kind: "thing", Indexes: []string{"region", "letters"}}
				if n > 0 {
					_, release := c.HoldShard(0)
					defer release()
					want.Shards = &introspect.CacheShards{Of: n, Waiting: []int{0}, Since: time.Now()}
				}
				stop := func() {}
				for _, turn := range []struct {
					what  string
					do    func()
					wants func(now time.Time)
				}{
					{"before Run", func() {}, func(time.Time) {}},
					{"synced", func() { stop = run(t, c) }, func(now time.Time) {
						want.Synced, want.Objects, want.Revision, want.Snapshots = true, 1, 1, 1
						want.Connected, want.Since = true, now
						if n > 0 {
							want.Shards = &introspect.CacheShards{Of: n, Ready: []int{0}}
						}
					}},
					{"cut off", func() { m.die(cut, nil) }, func(now time.Time) {
						want.Connected, want.Since, want.Err = false, now, cut
					}},
					{"cut off for another reason", func() { m.die(again, nil) }, func(time.Time) { want.Err = again }},
					{"cut off from a backend that is silent", func() { m.fails(&store.UnavailableError{Since: time.Now(), Err: silent}) }, func(now time.Time) {
						want.LagSince = now
					}},
					{"connected to a backend that is silent", func() { m.die(nil, nil); create(t, newStore(t, inner), "two") }, func(time.Time) {
						want.Objects, want.Revision = 2, 2
						want.Since, want.Err = want.LagSince, silent
					}},
					{"back", func() { m.fails(nil) }, func(now time.Time) {
						want.Connected, want.Err, want.LagSince = true, nil, time.Time{}
						want.Since = now.Add(-10 * time.Second) // the watch has been
					}},
					{"after Run", func() { stop() }, func(now time.Time) {
						want.Connected, want.Since = false, now
						if n > 0 {
							want.Shards = &introspect.CacheShards{Of: n, Waiting: []int{0}, Since: now}
						}
					}},
				} {
					turn.do()
					turn.wants(time.Now())
					time.Sleep(10 * time.Second) // more than the pause before a watch is opened again
					synctest.Wait()
					got := c.Snapshot()
					if diff := cmp.Diff(want, got, cmpopts.EquateErrors(), cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(5*time.Second), cmpopts.IgnoreFields(introspect.Cache{}, "Disconnected", "Compacted")); diff != "" {
						t.Errorf("%s (-want +got):\n%s", turn.what, diff)
					}
					if err := c.Health(); want.Err != nil && !errors.Is(err, want.Err) || want.Connected && err != nil {
						t.Errorf("%s: Health is %v, want it to have %v", turn.what, err, want.Err)
					}
				}
			})
		})
	}
}

// A cache can be relied on once it has synced: one of the whole kind for every key, one of shards
// for the keys of those that are ready. One that holds no shard has all of them, and is synced.
func TestWhatACacheCanBeReliedOn(t *testing.T) {
	for _, n := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			b, err := memory.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			s := newStore(t, b)
			var keys []store.Key
			for i := range 20 {
				keys = append(keys, create(t, s, fmt.Sprint("o", i)).Key())
			}
			keys = append(keys, store.Key{Name: "none"})
			c, err := cache.New(newStore(t, b), &cache.Options[spec, status]{Shards: n})
			if err != nil {
				t.Fatal(err)
			}
			check := func(when string, synced bool, holds func(k store.Key) bool) {
				t.Helper()
				synctest.Wait()
				if isSynced(c) != synced || c.Snapshot().Synced != synced {
					t.Errorf("%s: synced %v, want %v", when, isSynced(c), synced)
				}
				for _, k := range keys {
					if c.Holds(k) != holds(k) {
						t.Errorf("%s: Holds(%s) = %v", when, k, c.Holds(k))
					}
					if o, err := c.Read(t.Context(), k); (err == nil) != (k.Name != "none") || err == nil && o.Key() != k || err != nil && !errors.Is(err, store.ErrNotFound) {
						t.Errorf("%s: Read(%s) = %v, %v", when, k, o, err)
					}
				}
			}
			none := func(store.Key) bool { return false }
			check("before Run", false, none)
			stop := run(t, c)
			if n == 0 {
				check("of the whole kind", true, func(store.Key) bool { return true })
				stop()
				return
			}
			check("without a shard", true, none)
			_, release := c.HoldShard(1)
			check("with a shard", true, func(k store.Key) bool { return store.ShardOf(k, n) == 1 })
			release()
			check("without it again", true, none)
		})
	}
}

// A snapshot says since when a consumer has left a change untaken, however few there are.
//
// Negative control: mutant "the newest change that a consumer left is the one shown".
func TestSnapshotTellsSinceWhenAConsumerIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		s := newStore(t, b)
		c, err := cache.New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		run(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		ended, goOn := make(chan struct{}), make(chan struct{})
		defer func() { cancel(); <-ended }()
		go func() { // ended by cancel, and waited for above
			defer close(ended)
			for ch := range c.Changes(ctx, nil) {
				if ch.New != nil {
					<-goOn
				}
			}
		}()
		wants := func(pending int, since time.Time) {
			t.Helper()
			synctest.Wait()
			if got := c.Snapshot().Consumers; len(got) != 1 || got[0].Pending != pending || !got[0].Since.Equal(since) {
				t.Errorf("the consumer is %+v, want %d changes left since %v", got, pending, since)
			}
		}
		wants(0, time.Time{})
		create(t, s, "taken")
		wants(0, time.Time{}) // it has it, and hangs
		time.Sleep(time.Minute)
		first := time.Now()
		for i := range 3 {
			create(t, s, fmt.Sprint("left-", i))
			wants(i+1, first)
			time.Sleep(time.Minute)
		}
		close(goOn)
		wants(0, time.Time{})
	})
}
