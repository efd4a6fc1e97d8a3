package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// A Mapper turns a changed object into the keys that depend on it. It gets the
// object as it was when it was last mapped (nil: never) and as it is (nil: gone),
// so that an edited reference wakes both sides; of one that came and went before it was
// mapped the last that was seen. Never are both nil. An error or a panic is retried
// with backoff, and by then the newest object is seen; nothing is lost. The
// objects are shared: it must not write to them.
type Mapper[K comparable, S, T any] func(ctx context.Context, old, now *store.Object[S, T]) ([]K, error)

// Map is the source of keys that depend on the objects of a cache. It maps all of
// them at the start, and then each one when a change passes all of when; without
// any, every change passes, status writes included. Mapped keys are not urgent.
// Keys that cannot be (an empty name) are skipped and counted.
//
// It is synced when every object there was at the start is queued for mapping.
func Map[K comparable, S, T any](c *cache.Cache[S, T], m Mapper[K, S, T], when ...Predicate[S, T]) Source[K] {
	if slices.ContainsFunc(when, isNilPredicate) {
		return Source[K]{bad: errors.New("Map: a nil Predicate")}
	}
	return MapWith(c, m, &MapOptions[S, T]{when: all(when)})
}

// MapOptions is what else Map can do.
type MapOptions[S, T any] struct {
	// when says which changes matter. Default: Any.
	when Predicate[S, T]
	// Urgent lets a change end the backoff or the park of the keys it is mapped
	// to: for a change that is most likely their cure. Default: it does not.
	Urgent bool
	// KeepAttempts makes an urgent change leave the attempts as they are: the key runs, and if
	// it fails once more it waits for as long as it would have without the change. It is for
	// changes that come again and again. Without Urgent it means nothing.
	KeepAttempts bool
	backoff      queue.Backoff // how long a failed mapping waits; the zero value but in tests
}

// MapWith is Map with options; nil is the defaults.
func MapWith[K comparable, S, T any](c *cache.Cache[S, T], m Mapper[K, S, T], given *MapOptions[S, T]) Source[K] {
	if c == nil || m == nil {
		return Source[K]{bad: errors.New("Map: needs a cache and a mapper")}
	}
	o := orZero(given)
	if c.Shards() > 0 {
		return Source[K]{bad: fmt.Errorf("Map: cache %q holds shards: another server's keys may depend on what it does not show", c.Name())}
	}
	return Source[K]{
		Name: c.Name() + " mapped", kind: c.Kind(), mapped: true, cache: c,
		Run: func(ctx context.Context, to Sink[K]) error {
			return runMapping(ctx, c, outletOf(to), m, o)
		},
	}
}

// step is what of an object is still to be mapped.
type step[S, T any] struct {
	old, now *store.Object[S, T]
	initial  bool
	at       store.Revision // of the newest change
	only     []int          // shards that were gained, for which it was listed; nil: all
	failed   bool           // its last mapping did
}

// mapping is one run of a Map source. Objects wait in a queue of their own, one
// entry per object, with the retries that every key has.
type mapping[K comparable, S, T any] struct {
	mapper Mapper[K, S, T]
	o      MapOptions[S, T]
	to     outlet[K]
	q      *queue.Queue[store.Key]

	mu     sync.Mutex // guards what follows
	todo   map[store.Key]step[S, T]
	failed int // objects whose last mapping failed
}

func runMapping[K comparable, S, T any](ctx context.Context, c *cache.Cache[S, T], to outlet[K], m Mapper[K, S, T], o MapOptions[S, T]) error {
	q, err := queue.New(&queue.Options[store.Key]{Name: c.Name() + " mapper", Policy: o.backoff.Policy(), Shards: 1})
	if err != nil {
		return err
	}
	p := &mapping[K, S, T]{mapper: m, o: o, to: to, q: q, todo: make(map[store.Key]step[S, T])}
	var wg sync.WaitGroup
	wg.Go(func() { // ended by the queue's Stop
		for isolate(func() error { p.work(ctx); return nil }) != nil {
			continue // the mapper ended the goroutine: the next one goes on
		}
	})
	defer func() {
		_ = q.Stop(context.Background()) // only p.work holds items, and it settles them
		wg.Wait()
	}()
	when := o.when
	if when == nil {
		when = Any
	} else {
		when = guarded(to, "when", when, true)
	}
	return follow(ctx, c, to, func(ch cache.Change[S, T], gained []int) error {
		if !ch.Initial && !when(ch) {
			return nil
		}
		return p.note(ch.Key, step[S, T]{old: ch.Old, now: ch.New, initial: ch.Initial, at: revisionOf(ch), only: gained})
	})
}

// note queues a step; one that waits already is widened to cover both.
func (p *mapping[K, S, T]) note(key store.Key, s step[S, T]) error {
	o := queue.AddOptions{Priority: bandLive}
	if s.initial {
		o.Priority = bandInitial
	}
	p.mu.Lock()
	p.todo[key] = p.widenedLocked(key, s)
	p.mu.Unlock()
	return p.q.AddWith(key, o)
}

// widenedLocked is s together with what waits already. A change is mapped for all shards that
// are held then, so a list for shards that were gained counts only where no change waits: the
// one before it led to what it shows, and the one after it begins there.
func (p *mapping[K, S, T]) widenedLocked(key store.Key, s step[S, T]) step[S, T] {
	was, ok := p.todo[key]
	s.failed = was.failed
	switch {
	case !ok, was.only != nil && s.only == nil:
		return s
	case was.only == nil && s.only != nil:
		return was
	}
	s.initial, s.only = was.initial && s.initial, slices.Concat(was.only, s.only)
	if s.old = was.old; s.old == nil && s.now == nil {
		s.old = was.now // it came and went: what ran meanwhile may have seen it
	}
	return s
}

func (p *mapping[K, S, T]) work(ctx context.Context) {
	for {
		item, err := p.q.Get(context.Background())
		if err != nil {
			return
		}
		p.mapItem(ctx, item)
	}
}

// mapItem maps one object and settles its item, also if the mapper ends the
// goroutine.
func (p *mapping[K, S, T]) mapItem(ctx context.Context, item queue.Item[store.Key]) {
	err := contain.ErrGoexit
	defer func() {
		if err == nil || ctx.Err() != nil {
			item.Done()
			return
		}
		p.to.mapperFailed(item.Key, item.Attempt, err)
		item.Retry(err, 0)
	}()
	err = p.mapOne(ctx, item.Key)
}

// outletKey is the key under which a mapper's context has the outlet of its source.
type outletKey struct{}

// mapOne maps one object and puts the step back if that fails.
func (p *mapping[K, S, T]) mapOne(ctx context.Context, key store.Key) (err error) {
	p.mu.Lock()
	s, ok := p.todo[key]
	delete(p.todo, key)
	p.mu.Unlock()
	if !ok {
		return nil
	}
	ctx = context.WithValue(ctx, outletKey{}, p.to)
	err = contain.ErrGoexit
	defer func() {
		if err == nil {
			p.noteMapped(s)
		} else {
			p.putBack(key, s)
		}
	}()
	return protect(func() error {
		keys, err := p.mapper(ctx, s.old, s.now)
		if err != nil {
			return err
		}
		return p.send(ctx, key, s, keys)
	})
}

func (p *mapping[K, S, T]) send(ctx context.Context, object store.Key, s step[S, T], keys []K) error {
	o := queue.AddOptions{Priority: bandLive, Urgent: p.o.Urgent && !s.initial, KeepAttempts: p.o.KeepAttempts}
	if s.initial {
		o.Priority = bandInitial
	}
	sent := make(map[K]struct{}, len(keys)) // the old and the new object often name the same
	for _, k := range keys {
		if _, ok := sent[k]; ok || s.only != nil && !p.to.inShards(k, s.only) {
			continue
		}
		sent[k] = struct{}{}
		if !s.initial {
			p.to.caused(k, object, s.at)
		}
		if err := AddWaiting(ctx, p.to, k, o); err != nil {
			return err
		}
	}
	return nil
}

// noteMapped says so when the last object was mapped that had failed.
func (p *mapping[K, S, T]) noteMapped(s step[S, T]) {
	if !s.failed {
		return
	}
	p.mu.Lock()
	p.failed--
	well := p.failed == 0
	p.mu.Unlock()
	if well {
		p.to.mappedAll()
	}
}

// putBack restores a step that failed, under the newer one that may have come.
func (p *mapping[K, S, T]) putBack(key store.Key, s step[S, T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.failed {
		p.failed++
	}
	s.failed = true
	newer, ok := p.todo[key]
	p.todo[key] = s
	if ok {
		p.todo[key] = p.widenedLocked(key, newer)
	}
}
