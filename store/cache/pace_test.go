package cache_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// mortal is a backend that dies and comes back. It counts the calls.
type mortal struct {
	store.Backend
	mu             sync.Mutex // guards what follows
	watches, lists error      // why they fail; nil: they work
	tries          int        // of those that fail
	shows          bool       // the watches that fail have delivered a snapshot
	health         error
	broken         chan struct{}
}

var errDead = errors.New("dead")

// die has the calls fail from now on, and ends the watches; nil: they work again.
func (m *mortal) die(watches, lists error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watches, m.lists, m.tries = watches, lists, 0
	if watches != nil {
		m.breakLocked()
	}
}

func (m *mortal) breakLocked() {
	close(m.broken)
	m.broken = make(chan struct{})
}

// cut ends the watches, which can be opened again, and counts those that are.
func (m *mortal) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tries = 0
	m.breakLocked()
}

// Health implements store.HealthChecker.
func (m *mortal) Health() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.health
}

// fails has the backend say that it does not serve; nil: it does.
func (m *mortal) fails(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.health = err
}

func (m *mortal) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tries
}

func (m *mortal) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		m.mu.Lock()
		m.tries++
		err, broken, tries := m.watches, m.broken, m.tries
		m.mu.Unlock()
		if tries > 10_000 { // without any pause the bubble's clock would stand still for ever
			<-ctx.Done()
			yield(store.Batch{}, context.Cause(ctx))
			return
		}
		if err != nil {
			if m.shows {
				m.show(ctx, kind, after, yield)
			}
			yield(store.Batch{}, err)
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-broken:
				cancel(errDead)
			case <-stop:
			}
		}()
		for b, err := range m.Backend.Watch(ctx, kind, after) {
			if !yield(b, err) {
				return
			}
		}
	}
}

// show yields the snapshot that a watch begins with, if it does.
func (m *mortal) show(ctx context.Context, kind string, after store.Revision, yield func(store.Batch, error) bool) {
	if after != 0 {
		return
	}
	for b, err := range m.Backend.Watch(ctx, kind, 0) {
		if err != nil || !yield(b, nil) || b.Kind == store.BatchSnapshotEnd {
			return
		}
	}
}

func (m *mortal) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	m.mu.Lock()
	err := m.lists
	if err != nil {
		m.tries++
	}
	m.mu.Unlock()
	if err != nil {
		return store.Page{}, err
	}
	return m.Backend.List(ctx, kind, o)
}

// A backend that is dead is asked again and again, neither in a loop nor too seldom, and at
// once when it worked in between. Fake time: the counts are exact but for the spread of
// each wait, which is a quarter.
// Negative controls: no wait; a wait that does not grow, or has no end; tries that are not
// forgotten after a success, or after hours of a watch that had nothing to tell.
func TestReopeningIsPaced(t *testing.T) {
	for name, c := range map[string]struct {
		shards         int
		typed          bool // the store's own Watch
		shows          bool // the watch fails after its snapshot
		watches, lists error
		late           bool // it dies when all was well
		quick, long    [2]int
	}{
		"the watch of a cache":                     {watches: errDead, late: true, quick: [2]int{5, 8}, long: [2]int{30, 46}},
		"the first watch of a cache":               {watches: errDead, quick: [2]int{5, 8}, long: [2]int{30, 46}},
		"the watch of a cache, as compacted":       {watches: store.ErrCompacted, late: true, quick: [2]int{5, 8}, long: [2]int{30, 46}},
		"the watch of a cache of shards":           {shards: shards, watches: errDead, late: true, quick: [2]int{5, 8}, long: [2]int{30, 46}},
		"the first watch of a cache of shards":     {shards: shards, watches: errDead, quick: [2]int{5, 8}, long: [2]int{30, 46}},
		"the list of a shard":                      {shards: shards, lists: errDead, late: true, quick: [2]int{4, 7}, long: [2]int{29, 45}},
		"the watch of a store":                     {typed: true, watches: errDead, late: true, quick: [2]int{4, 7}, long: [2]int{22, 45}},
		"the first watch of a store":               {typed: true, watches: errDead, quick: [2]int{4, 7}, long: [2]int{22, 45}},
		"the watch of a store, as compacted":       {typed: true, watches: store.ErrCompacted, late: true, quick: [2]int{4, 7}, long: [2]int{22, 45}},
		"the watch of shards, as compacted":        {shards: shards, watches: store.ErrCompacted, late: true, quick: [2]int{5, 8}, long: [2]int{30, 46}},
		"the watch of a cache, after its snapshot": {watches: store.ErrCompacted, shows: true, late: true, quick: [2]int{5, 8}, long: [2]int{30, 46}},
		"the watch of shards, after its snapshot":  {shards: shards, watches: store.ErrCompacted, shows: true, late: true, quick: [2]int{5, 8}, long: [2]int{30, 46}},
		"the watch and the list of a cache's part": {shards: shards, watches: errDead, lists: errDead, quick: [2]int{5, 8}, long: [2]int{30, 46}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, err := memory.New(nil)
				if err != nil {
					t.Fatal(err)
				}
				defer inner.Close()
				create := func(name string) {
					o := &object{}
					o.Name = name
					if _, err := newStore(t, inner).Create(t.Context(), o); err != nil {
						t.Fatal(err)
					}
				}
				create("zero") // a shard that is gained is listed; of a store without a commit there is a snapshot
				m := &mortal{Backend: inner, broken: make(chan struct{}), shows: c.shows}
				s := newStore(t, m)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				seen := make(chan string, 100)
				gain := func(int) {} // holds a shard
				releases := make(map[int][]func())
				var running sync.WaitGroup
				defer running.Wait()
				defer cancel()
				if !c.late {
					m.die(c.watches, c.lists)
				}
				if c.typed {
					running.Go(func() {
						for e, err := range s.Watch(ctx, 0) {
							if err == nil && e.Object != nil && e.Object.Name != "zero" {
								seen <- e.Object.Name
							}
						}
					})
				} else {
					cc, err := cache.New(s, &cache.Options[spec, status]{Shards: c.shards, OnError: func(store.Key, error) {}})
					if err != nil {
						t.Fatal(err)
					}
					running.Go(func() { _ = cc.Run(ctx) })
					running.Go(func() {
						for ch, err := range cc.Changes(ctx, nil) {
							if err == nil && ch.New != nil && ch.New.Name != "zero" {
								seen <- ch.New.Name
							}
						}
					})
					if c.shards > 0 {
						gain = func(shard int) {
							_, release := cc.HoldShard(shard)
							releases[shard] = append(releases[shard], release)
						}
						gain(0)
					}
				}
				synctest.Wait()
				if c.late {
					time.Sleep(time.Minute)
					m.die(c.watches, c.lists)
					if c.lists != nil {
						gain(1)
					}
				}
				time.Sleep(time.Second)
				quick := m.count()
				time.Sleep(2*time.Minute - time.Second)
				if all := m.count(); quick < c.quick[0] || quick > c.quick[1] || all < c.long[0] || all > c.long[1] {
					t.Errorf("tried %d times in the first second and %d in two minutes, want %d to %d and %d to %d",
						quick, all, c.quick[0], c.quick[1], c.long[0], c.long[1])
				}
				m.die(nil, nil)
				time.Sleep(10 * time.Second)
				for shard := range c.shards {
					gain(shard)
				}
				time.Sleep(10 * time.Second)
				for _, name := range []string{"first", "second"} { // it works, is cut off, and works at once
					create(name)
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
					select {
					case got := <-seen:
						if got != name {
							t.Errorf("shows %s, want %s", got, name)
						}
					default:
						t.Errorf("%s is not shown after 100 ms", name)
					}
					time.Sleep(10 * time.Second)
					m.cut()
				}
				for i := range 10 { // with something to see, and soon
					time.Sleep(time.Second)
					create(fmt.Sprint("more", i))
					synctest.Wait()
					m.cut()
				}
				time.Sleep(100 * time.Millisecond)
				if n := m.count(); n != 1 {
					t.Errorf("a watch that had delivered was opened %d times in 100 ms, want once", n)
				}
				for range 10 { // with nothing to see in between
					time.Sleep(time.Hour)
					m.cut()
				}
				time.Sleep(100 * time.Millisecond)
				if n := m.count(); n != 1 {
					t.Errorf("a watch that was cut off was opened %d times in 100 ms, want once", n)
				}
				if c.lists == nil || c.watches != nil {
					return
				}
				for _, release := range releases[1] { // it is lost, and gained when lists fail again
					release()
				}
				time.Sleep(time.Minute)
				m.die(nil, c.lists)
				gain(1)
				time.Sleep(time.Second)
				if n := m.count(); n < c.quick[0] || n > c.quick[1] {
					t.Errorf("a list that had worked was tried %d times in the first second, want %d to %d", n, c.quick[0], c.quick[1])
				}
			})
		})
	}
}

// Lists that fail one after the other are one line of the log.
//
// Seen to fail, with many lines: with lists that do not know that the one before failed.
func TestListsThatFailInARowAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer inner.Close()
		create(t, newStore(t, inner), "one")
		m := &mortal{Backend: inner, broken: make(chan struct{})}
		var lines strings.Builder
		c, err := cache.New(newStore(t, m), &cache.Options[spec, status]{Shards: shards, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, c)
		ready, release := c.HoldShard(0)
		defer release()
		<-ready
		m.die(nil, errDead)
		ready, release = c.HoldShard(1)
		defer release()
		time.Sleep(time.Minute)
		m.die(nil, nil)
		<-ready
		stop()
		if got := lines.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "list of thing") {
			t.Errorf("want a line for the lists that failed, have\n%s", got)
		}
	})
}
