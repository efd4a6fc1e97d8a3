package leasetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// Config says how a server is to run.
type Config struct {
	Name   string // of the server
	Shards int    // into which the keys are divided
	TTL    time.Duration
	// Forgetful servers lose changes that their store sends: a negative control.
	Forgetful bool
}

const kind = "thing"

type (
	// wanted changes all the time: each change has the number of its turn.
	wanted struct{ Turn int }
	// done is what the servers make of every object: they put their hold on it.
	done struct {
		By    string
		Token uint64
	}
	thing  = store.Object[wanted, done]
	things = store.Store[wanted, done]
)

// Serve is a server as users write them, until ctx ends: a controller, placed by shards, whose
// cache holds the objects of its own shards. On standard output it tells [Run] of its holds,
// "hold SHARD TOKEN AT" and "drop SHARD TOKEN AT", and of its runs, "run KEY TOKEN FIRST LAST
// TURN": the run was under way at First, and at Last, when its hold was found to be trusted
// still. What must not happen it tells in other lines.
func Serve(ctx context.Context, b store.Backend, cfg Config) error {
	if cfg.Forgetful {
		all, ok := b.(leaserWithSlots)
		if !ok {
			return errors.New("leasetest: the backend has no leases, or no watches of slots")
		}
		b = forgetful{all}
	}
	all, err := store.New[wanted, done](b, kind, nil)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	p, err := lease.NewSharded(b, "takeover", cfg.Shards, &lease.Options{TTL: cfg.TTL, Server: cfg.Name, Logger: quiet})
	if err != nil {
		return err
	}
	var c *reconcile.ObjectController[wanted, done]
	c, err = reconcile.For(all, func(ctx context.Context, o *thing) (reconcile.Result, error) {
		first := time.Now().UnixNano()
		token, _ := lease.Token(ctx)
		if _, ok := c.Cache().Get(o.Key()); !ok {
			fmt.Printf("forgotten %s is run under %d, and the cache does not have it\n", o.Name, token)
		}
		var err error // not that of Serve, which all runs share
		if o.Status.Token != token {
			o.Status = done{cfg.Name, token}
			_, err = all.UpdateStatus(ctx, o)
		}
		last := time.Now().UnixNano()
		guard, held := p.Lease(lease.Shard(lease.HashKey(o.Key()), cfg.Shards)).Held()
		if !held || uint64(guard.Created) != token {
			last = first
		}
		fmt.Printf("run %s %d %d %d %d\n", o.Name, token, first, last, o.Spec.Turn)
		return reconcile.Result{}, err
	}, &reconcile.ForOptions[wanted, done]{Options: reconcile.Options[store.Key]{
		Placement: tellingHolds{p}, Workers: 16, Logger: quiet,
		Backoff: queue.Backoff{Base: 50 * time.Millisecond, Max: time.Second},
		Hooks:   reconcile.Hooks[store.Key]{OnError: func(reconcile.Failure[store.Key]) {}},
	}, Cache: &cache.Options[wanted, done]{Shards: cfg.Shards}})
	if err != nil {
		return err
	}
	m := reconcile.Manager{Logger: quiet}
	if err := m.Register(c); err != nil {
		return err
	}
	go tellStrangers(ctx, c.Cache(), cfg.Name) // ends with ctx
	return m.Run(ctx)
}

// staysShown is in how many looks, half a second apart, an object of a lost shard is shown
// that the cache does not drop. Negative control: with cache.dropParts doing nothing.
const staysShown = 4

// tellStrangers tells of objects that the cache goes on showing although their shards are lost.
func tellStrangers(ctx context.Context, c *cache.Cache[wanted, done], server string) {
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	shown := map[store.Key]int{} // in so many looks one after the other
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		before := shown
		shown = map[store.Key]int{}
		for _, k := range strangers(c) {
			// What is shown at one look may be about to be dropped.
			if shown[k] = before[k] + 1; shown[k] == staysShown {
				fmt.Printf("stranger %s is shown by %s, which does not have its shard\n", k.Name, server)
			}
		}
	}
}

// strangers are the objects that a cache shows although their shards were not its own, neither
// before it was read nor after.
func strangers(c *cache.Cache[wanted, done]) (keys []store.Key) {
	own := make(map[int]bool)
	note := func() {
		at := c.Snapshot().Shards
		for _, shard := range slices.Concat(at.Ready, at.Waiting) {
			own[shard] = true
		}
	}
	note()
	for o := range c.All() {
		keys = append(keys, o.Key())
	}
	note()
	return slices.DeleteFunc(keys, func(k store.Key) bool { return own[store.ShardOf(k, c.Shards())] })
}

type tellingHolds struct{ lease.Placement }

func (p tellingHolds) Run(ctx context.Context, work lease.Work) error {
	return p.Placement.Run(ctx, func(ctx context.Context, shard int) error {
		token, _ := lease.Token(ctx)
		fmt.Printf("hold %d %d %d\n", shard, token, time.Now().UnixNano())
		defer func() { fmt.Printf("drop %d %d %d\n", shard, token, time.Now().UnixNano()) }()
		return work(ctx, shard)
	})
}

type leaserWithSlots interface {
	store.Backend
	store.Leaser
	store.SlotReader
}

// forgetful loses each twentieth batch of changes of a watch.
type forgetful struct{ leaserWithSlots }

func (b forgetful) WatchSlots(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		n := 0
		for batch, err := range b.leaserWithSlots.WatchSlots(ctx, kind, slots, after) {
			if batch.Kind == store.BatchChanges && len(batch.Changes) > 0 {
				if n++; n%20 == 0 {
					batch = store.Batch{Kind: store.BatchProgress, Revision: batch.Revision}
				}
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}
