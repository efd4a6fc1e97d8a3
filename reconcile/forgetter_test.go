package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
)

// rememberer is a reconciler that remembers every key that it ran, until told to forget.
type rememberer struct {
	mu   sync.Mutex
	keys map[string]bool
	deaf chan struct{}                // a run of "0 deaf" ends when it is closed
	next reconcile.Reconciler[string] // nil: there is none
}

func (r *rememberer) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if r.next != nil {
		if _, err := r.next.Reconcile(ctx, key); err != nil {
			return reconcile.Result{}, err
		}
	} else if key == "0 deaf" {
		<-r.deaf
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[key] = true
	return reconcile.Result{}, nil
}

func (r *rememberer) Forget(left func(key string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.keys {
		if left(key) {
			delete(r.keys, key)
		}
	}
}

func (r *rememberer) remembers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.keys)
}

// Promise Q7, over servers: what a reconciler remembers of keys goes when they leave
// this server, and of those that stay nothing goes. A run that ends late is no exception.
//
// Negative control: with Forget called when the shard is lost, and not after its last
// run, the deaf key is remembered; with a left that says true for all, those that stay
// are forgotten.
func TestReconcilerIsToldToForgetKeysAfterTheirLastRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hashes := make([]uint64, 2) // by shard
		for h := range uint64(100) {
			hashes[lease.Shard(h, 2)] = h
		}
		r := &rememberer{keys: make(map[string]bool), deaf: make(chan struct{})}
		p := newHandPlaced(2)
		around := &rememberer{keys: make(map[string]bool)} // a middleware that remembers, too
		c := newController(t, r, &reconcile.Options[string]{
			Placement: p,
			Hash:      func(key string) uint64 { return hashes[key[0]-'0'] },
			Middleware: []func(reconcile.Reconciler[string]) reconcile.Reconciler[string]{
				func(next reconcile.Reconciler[string]) reconcile.Reconciler[string] {
					around.next = next
					return around
				},
				func(next reconcile.Reconciler[string]) reconcile.Reconciler[string] {
					return reconcile.Func[string](next.Reconcile) // hides Forget
				},
			},
		})
		run := start(t, c)
		p.give(0, 1)
		for i := range 100 {
			add(t, c, fmt.Sprint("0 ", i))
			add(t, c, fmt.Sprint("1 ", i))
		}
		pass(time.Second)
		expect(t, "remembered", r.remembers(), 200)
		add(t, c, "0 deaf")
		synctest.Wait()
		p.take(0)
		pass(time.Minute)
		close(r.deaf)
		synctest.Wait()
		expect(t, "remembered when shard 0 has left", r.remembers(), 100)
		expect(t, "remembered by the middleware", around.remembers(), 100)
		p.take(1)
		expect(t, "remembered of no shard", r.remembers()+around.remembers(), 0)
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// slowForgetter is a rememberer whose first Forget hangs.
type slowForgetter struct {
	rememberer
	first   atomic.Bool
	release chan struct{}
}

func (r *slowForgetter) Forget(left func(key string) bool) {
	if r.first.CompareAndSwap(false, true) {
		<-r.release
	}
	r.rememberer.Forget(left)
}

// A Forget that hangs keeps its shard. Those of other shards are called, and Run returns
// and names what is left.
//
// promise Q8. Negative control: with Forget called by the supervisor nothing is forgotten
// any more, and Run never returns.
func TestForgetThatHangsKeepsItsOwnShardOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hashes := make([]uint64, 2) // by shard
		for h := range uint64(100) {
			hashes[lease.Shard(h, 2)] = h
		}
		r := &slowForgetter{rememberer: rememberer{keys: make(map[string]bool)}, release: make(chan struct{})}
		p := newHandPlaced(2)
		c := newController(t, r, &reconcile.Options[string]{
			Placement: p, Hash: func(key string) uint64 { return hashes[key[0]-'0'] }, StopTimeout: 3 * time.Second,
		})
		run := start(t, c)
		p.give(0, 1)
		add(t, c, "0", "1")
		synctest.Wait()
		expect(t, "remembered", r.remembers(), 2)
		p.take(0)
		expect(t, "remembered while Forget hangs", r.remembers(), 2)
		p.take(1)
		expect(t, "remembered of no shard", r.remembers(), 0)
		run.stop()
		pass(time.Minute)
		select {
		case <-run.done:
			if run.err == nil || !strings.Contains(run.err.Error(), "placement") {
				t.Errorf("Run = %v, want the placement named, which waits for Forget", run.err)
			}
		default:
			t.Error("Run has not returned a minute after it was told to")
		}
		close(r.release)
	})
}
