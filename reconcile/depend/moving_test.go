package depend_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type (
	turnSpec struct {
		Turn int
		Base string // what a thing needs
	}
	turnStatus struct{ Seen string } // what a thing's last run saw
	turnThing  = store.Object[turnSpec, turnStatus]
	turnStore  = store.Store[turnSpec, turnStatus]
	turnCache  = cache.Cache[turnSpec, turnStatus]
)

// turns are the kinds of one process.
type turns struct{ things, bases, parts *turnStore }

func newTurns(t testing.TB, b store.Backend) turns {
	return turns{
		must(store.New[turnSpec, turnStatus](b, "thing", nil))(t),
		must(store.New[turnSpec, turnStatus](b, "base", nil))(t),
		must(store.New[turnSpec, turnStatus](b, "part", nil))(t),
	}
}

// met says whether a base may be used: of four turns in three.
func met(b *turnThing) bool { return b.Spec.Turn%4 != 3 }

// seen is what a run of a thing is about.
func seen(thing, base *turnThing, parts iter.Seq[*turnThing]) string {
	var own []string
	for p := range parts {
		if slices.ContainsFunc(p.Owners, func(o store.Owner) bool { return o.Key == thing.Key() }) {
			own = append(own, fmt.Sprint(p.Name, "@", p.Spec.Turn))
		}
	}
	slices.Sort(own)
	return fmt.Sprintf("turn %d, %s@%d, parts %v", thing.Spec.Turn, base.Name, base.Spec.Turn, own)
}

// slowSlots is a store whose lists and watches take their time, and break.
type slowSlots struct {
	store.FullBackend
	mu sync.Mutex
	r  *rand.Rand
	ok bool // nothing breaks now
}

func (b *slowSlots) dice(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.r.IntN(n)
}

func (b *slowSlots) calm(ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ok = ok
}

func (b *slowSlots) pause() { time.Sleep(time.Duration(max(0, b.dice(600)-300)) * time.Millisecond) }

func (b *slowSlots) breaks() error {
	n := b.dice(40)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ok:
	case n == 0:
		return store.ErrCompacted
	case n < 3:
		return errors.New("the connection is lost")
	}
	return nil
}

func (b *slowSlots) ListSlots(ctx context.Context, kind string, slots store.SlotSet, o store.ListOptions) (store.Page, error) {
	b.pause()
	if err := b.breaks(); err != nil {
		return store.Page{}, err
	}
	o.Limit = 1 + b.dice(4)
	p, err := b.FullBackend.ListSlots(ctx, kind, slots, o)
	b.pause()
	return p, err
}

func (b *slowSlots) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return b.slow(b.FullBackend.Watch(ctx, kind, after))
}

func (b *slowSlots) WatchSlots(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return b.slow(b.FullBackend.WatchSlots(ctx, kind, slots, after))
}

func (b *slowSlots) slow(watch iter.Seq2[store.Batch, error]) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for batch, err := range watch {
			b.pause()
			if broken := b.breaks(); broken != nil && err == nil {
				yield(store.Batch{}, broken)
				return
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// serveTurns is one server: things by shards, of which its cache holds its own, that need a base
// and own parts. It runs until stop, which waits for it.
func serveTurns(t testing.TB, b store.Backend, name string) (stop func()) {
	s := newTurns(t, b)
	quiet := slog.New(slog.DiscardHandler)
	things := must(cache.New(s.things, &cache.Options[turnSpec, turnStatus]{Shards: shards, Logger: quiet}))(t)
	var whole []*turnCache
	for _, of := range []*turnStore{s.bases, s.parts} {
		whole = append(whole, must(cache.New(of, &cache.Options[turnSpec, turnStatus]{Logger: quiet}))(t))
	}
	bases, parts := whole[0], whole[1]
	tracker := must(depend.New(things, depend.On(bases, func(o *turnThing) []store.Key { return []store.Key{{Name: o.Spec.Base}} }, &depend.NeedOptions[turnSpec, turnStatus]{
		Ready: met, Value: func(b *turnThing) string { return strconv.Itoa(b.Spec.Turn) },
	}), &depend.Options{Logger: quiet}))(t)
	run := tracker.Wrap(func(ctx context.Context, o *turnThing) (reconcile.Result, error) {
		base, ok := bases.Get(store.Key{Name: o.Spec.Base})
		if !ok {
			return reconcile.Result{}, errors.New("there is no base")
		}
		text := seen(o, base, parts.All())
		if o.Status.Seen == text {
			return reconcile.Result{}, nil
		}
		o.Status.Seen = text
		_, err := s.things.UpdateStatus(ctx, o)
		return reconcile.Result{}, err
	})
	c := must(reconcile.New("thing", reconcile.AsReconciler(things, run), &reconcile.Options[reconcile.Request]{
		Placement: must(lease.NewSharded(b, "things", shards, &lease.Options{Server: name, TTL: 2 * time.Second, Logger: quiet}))(t),
		Reads:     tracker.Caches(), Logger: quiet,
	}))(t)
	check(t, c.Watch(reconcile.From(things), reconcile.Owns(parts), tracker.Source()))
	m := &reconcile.Manager{Logger: quiet}
	check(t, m.Register(c))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// Servers that share things by shards come and go, while the things, the base that each needs
// and the parts that it owns change, also into another's; lists and watches are slow, and break.
// Whenever the world stands still, each thing that may run has soon run with all as it is.
//
// Controls: the mutants "never woken, seen while shards move" and "what changes while a shard is
// listed is lost, seen while shards move"; without reconcile.Owns it fails too.
//
// promise R4
func TestNothingIsLeftBehindWhileShardsMove(t *testing.T) {
	for seed := range campaign.Seeds(t, campaign.Sized(20, 4), campaign.Length()) {
		synctest.Test(t, func(t *testing.T) { moveShards(t, seed) })
	}
}

func moveShards(t *testing.T, seed uint64) {
	const things, bases, parts, rounds = 12, 3, 8, 8
	r := rand.New(rand.NewPCG(seed, 0x22))
	b := &slowSlots{FullBackend: must(memory.New(nil))(t), r: rand.New(rand.NewPCG(seed, 0x23))}
	defer b.Close()
	s := newTurns(t, b.FullBackend)
	ctx := t.Context()
	name := func(kind string, i int) string { return fmt.Sprint(kind, i) }
	for i := range bases {
		must(s.bases.Create(ctx, &turnThing{Meta: store.Meta{Name: name("base", i)}}))(t)
	}
	for i := range things {
		must(s.things.Create(ctx, &turnThing{Meta: store.Meta{Name: name("thing", i)}, Spec: turnSpec{Base: name("base", i%bases)}}))(t)
	}
	own := func(o *turnThing) {
		owner := must(s.things.Get(ctx, store.Key{Name: name("thing", r.IntN(things))}))(t)
		o.Owners = []store.Owner{s.things.OwnerOf(owner)}
	}
	for i := range parts {
		o := &turnThing{Meta: store.Meta{Name: name("part", i)}}
		own(o)
		must(s.parts.Create(ctx, o))(t)
	}
	var history []string
	note := func(format string, args ...any) { history = append(history, fmt.Sprintf(format, args...)) }
	change := func(s *turnStore, name string, edit func(o *turnThing)) {
		_, err := s.Mutate(ctx, store.Key{Name: name}, func(o *turnThing) error { edit(o); return nil })
		check(t, err)
		note("%v %s changes", time.Now().Format("04:05.000"), name)
	}
	var servers []func()
	born := 0
	begin := func() {
		born++
		servers = append(servers, serveTurns(t, b, name("server", born)))
		note("%v server%d begins", time.Now().Format("04:05.000"), born)
	}
	begin()
	act := func() {
		switch n := r.IntN(20); {
		case n < 5:
			change(s.things, name("thing", r.IntN(things)), func(o *turnThing) { o.Spec.Turn++ })
		case n < 7:
			change(s.things, name("thing", r.IntN(things)), func(o *turnThing) { o.Spec.Base = name("base", r.IntN(bases)) })
		case n < 10:
			change(s.bases, name("base", r.IntN(bases)), func(o *turnThing) { o.Spec.Turn++ })
		case n < 13:
			change(s.parts, name("part", r.IntN(parts)), func(o *turnThing) { o.Spec.Turn++ })
		case n < 16:
			change(s.parts, name("part", r.IntN(parts)), own)
		case n < 18 && len(servers) < 3:
			begin()
		case len(servers) > 1:
			i := r.IntN(len(servers))
			servers[i]()
			servers = slices.Delete(servers, i, i+1)
			note("%v a server ends", time.Now().Format("04:05.000"))
		}
	}
	for range rounds {
		for range 1 + r.IntN(12) {
			act()
			time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
		}
		b.calm(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if left := s.left(t); len(left) > 0 {
			t.Errorf("seed %d: %s\nthe end of what happened:\n%s", seed, strings.Join(left, "\n"), strings.Join(history[max(0, len(history)-20):], "\n"))
			break
		}
		b.calm(false)
	}
	for _, stop := range servers {
		stop()
	}
	t.Logf("campaign: %d operations", len(history))
}

// left says which things that may run have not run with all as it is.
func (s turns) left(t testing.TB) (problems []string) {
	list := func(of *turnStore) []*turnThing { return must(of.List(t.Context(), store.Selector{}))(t) }
	bases, parts := list(s.bases), list(s.parts)
	for _, o := range list(s.things) {
		base := bases[slices.IndexFunc(bases, func(b *turnThing) bool { return b.Name == o.Spec.Base })]
		if want := seen(o, base, slices.Values(parts)); met(base) && o.Status.Seen != want {
			problems = append(problems, fmt.Sprintf("%s has last run with %s, want %s", o.Name, o.Status.Seen, want))
		}
	}
	return problems
}
