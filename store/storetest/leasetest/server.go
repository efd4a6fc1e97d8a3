package leasetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// Config says how a server is to run.
type Config struct {
	Name   string // of the server
	Shards int    // into which the keys are divided
	TTL    time.Duration
	// Forgetful is a kind of which the servers lose changes that their store sends: a
	// negative control. Empty: none.
	Forgetful string
}

// The kinds. Each thing needs a base, which several share, and owns a part of its own name,
// which its run makes.
const (
	kind     = "thing"
	baseKind = "base"
	partKind = "part"
)

type (
	// wanted changes all the time: each change has the number of its turn.
	wanted struct {
		Turn   int
		Base   string // what a thing needs
		Closed bool   // a base that may not be used
	}
	// done is what the servers make of every thing: they put their hold on it.
	done struct {
		By    string
		Token uint64
	}
	thing  = store.Object[wanted, done]
	things = store.Store[wanted, done]
)

// kinds are the stores of one process.
type kinds struct{ things, bases, parts *things }

func newKinds(b store.Backend) (k kinds, err error) {
	for _, of := range []struct {
		s    **things
		kind string
	}{{&k.things, kind}, {&k.bases, baseKind}, {&k.parts, partKind}} {
		if *of.s, err = store.New[wanted, done](b, of.kind, nil); err != nil {
			return kinds{}, err
		}
	}
	return k, nil
}

// Serve is a server as users write them, until ctx ends: a controller, placed by shards, whose
// cache holds the objects of its own shards, with what they need and own, and a cascade. On
// standard output it tells [Run] of its holds, "hold SHARD TOKEN AT" and "drop SHARD TOKEN AT",
// and of its runs, "run KEY TOKEN FIRST LAST TURN BASE PART": the run was under way at First,
// and at Last, when its hold was found to be trusted still; it saw the key, its base and its
// part as they were made by these turns, with -1 for no part. What must not happen it tells in
// other lines.
func Serve(ctx context.Context, b store.Backend, cfg Config) error {
	if cfg.Forgetful != "" {
		all, ok := b.(leaserWithSlots)
		if !ok {
			return errors.New("leasetest: the backend has no leases, or no watches of slots")
		}
		b = forgetful{all, cfg.Forgetful}
	}
	s := server{cfg: cfg}
	var err error
	if s.kinds, err = newKinds(b); err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	hold := &lease.Options{TTL: cfg.TTL, Server: cfg.Name, Logger: quiet}
	if s.p, err = lease.NewSharded(b, "takeover", cfg.Shards, hold); err != nil {
		return err
	}
	if s.own, err = cache.New(s.things, &cache.Options[wanted, done]{Shards: cfg.Shards, Logger: quiet}); err != nil {
		return err
	}
	var whole [3]*cache.Cache[wanted, done]
	for i, of := range []*things{s.things, s.bases, s.parts} {
		if whole[i], err = cache.New(of, &cache.Options[wanted, done]{Logger: quiet}); err != nil {
			return err
		}
	}
	s.whole.bases, s.whole.parts = whole[1], whole[2]
	needs, err := depend.New(s.own, depend.On(s.whole.bases, func(o *thing) []store.Key { return []store.Key{{Name: o.Spec.Base}} }, &depend.NeedOptions[wanted, done]{
		Ready: func(b *thing) bool { return !b.Spec.Closed }, Value: func(b *thing) string { return strconv.Itoa(b.Spec.Turn) },
	}), &depend.Options{Logger: quiet})
	if err != nil {
		return err
	}
	o := reconcile.Options[store.Key]{
		Placement: tellingHolds{s.p}, Workers: 16, Logger: quiet, Reads: needs.Caches(),
		Backoff: queue.Backoff{Base: 50 * time.Millisecond, Max: time.Second},
		Hooks:   reconcile.Hooks[store.Key]{OnError: func(reconcile.Failure[store.Key]) {}},
	}
	c, err := reconcile.New(kind, reconcile.AsReconciler(s.own, needs.Wrap(s.run)), &o)
	if err != nil {
		return err
	}
	if err := c.Watch(reconcile.From(s.own), reconcile.Owns(s.whole.parts), needs.Source()); err != nil {
		return err
	}
	o.Reads = nil
	if o.Placement, err = lease.NewSingleton(b, "cascade", hold); err != nil {
		return err
	}
	cascade, err := lifecycle.NewCascade("cascade", s.whole.parts,
		[]lifecycle.OwnerKind[wanted, done]{lifecycle.Owning[wanted, done](whole[0])}, &o)
	if err != nil {
		return err
	}
	m := reconcile.Manager{Logger: quiet}
	if err := m.Register(c, cascade); err != nil {
		return err
	}
	go tellStrangers(ctx, s.own, cfg.Name) // ends with ctx
	return m.Run(ctx)
}

type server struct {
	kinds
	cfg   Config
	p     lease.Placement
	own   *cache.Cache[wanted, done] // the things of its shards
	whole struct{ bases, parts *cache.Cache[wanted, done] }
}

func (s *server) run(ctx context.Context, o *thing) (reconcile.Result, error) {
	first := time.Now().UnixNano()
	token, _ := lease.Token(ctx)
	if _, ok := s.own.Get(o.Key()); !ok && s.exists(ctx, o) {
		fmt.Printf("forgotten %s is run under %d, and the cache does not have it\n", o.Name, token)
	}
	base, ok := s.whole.bases.Get(store.Key{Name: o.Spec.Base})
	if !ok {
		return reconcile.Result{}, fmt.Errorf("there is no %s", o.Spec.Base)
	}
	saw := -1
	if part, ok := s.whole.parts.Get(o.Key()); !ok {
		part = &thing{Meta: store.Meta{Name: o.Name, Owners: []store.Owner{s.things.OwnerOf(o)}}}
		if _, err := s.parts.Create(ctx, part); err != nil {
			return reconcile.Result{}, err
		}
	} else if part.Owners[0].UID == o.UID { // otherwise the cascade deletes it, which runs the thing again
		saw = part.Spec.Turn
	}
	turn, needed := o.Spec.Turn, base.Spec.Turn
	var err error
	if o.Status.Token != token {
		o.Status = done{s.cfg.Name, token}
		_, err = s.things.UpdateStatus(ctx, o)
	}
	last := time.Now().UnixNano()
	guard, held := s.p.Lease(lease.Shard(lease.HashKey(o.Key()), s.cfg.Shards)).Held()
	if !held || uint64(guard.Created) != token {
		last = first
	}
	fmt.Printf("run %s %d %d %d %d %d %d\n", o.Name, token, first, last, turn, needed, saw)
	return reconcile.Result{}, err
}

// exists reports whether the store has an object that was read, which may have been deleted since.
func (s *server) exists(ctx context.Context, o *thing) bool {
	now, err := s.things.Get(ctx, o.Key())
	return err == nil && now.UID == o.UID
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

// forgetful loses each twentieth batch of changes of a watch of a kind.
type forgetful struct {
	leaserWithSlots
	kind string
}

func (b forgetful) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return b.lose(kind, b.leaserWithSlots.Watch(ctx, kind, after))
}

func (b forgetful) WatchSlots(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return b.lose(kind, b.leaserWithSlots.WatchSlots(ctx, kind, slots, after))
}

func (b forgetful) lose(kind string, watch iter.Seq2[store.Batch, error]) iter.Seq2[store.Batch, error] {
	if kind != b.kind {
		return watch
	}
	return func(yield func(store.Batch, error) bool) {
		n := 0
		for batch, err := range watch {
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
