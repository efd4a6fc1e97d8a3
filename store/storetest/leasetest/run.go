//go:build unix

package leasetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/storetest/campaign"
)

var (
	shards   = flag.Int("shards", 32, "how many shards the servers share")
	keys     = flag.Int("keys", 200, "and how many keys")
	rounds   = flag.Int("rounds", 1, "how often everything is done to a server that is done")
	page     = flag.String("page", "", "the file to add to how long each takeover took")
	patience = flag.Duration("patience", 6*time.Minute, "bounds how long servers may take to settle; it measures nothing")
	forget   = flag.String("forgetful", "", "have the servers lose changes of the kind thing, base or part: it must fail")
)

// Fleet is the servers of a campaign, and their store.
type Fleet struct {
	// Backend is of the test process itself, which is not cut off from the store.
	Backend store.Backend
	// TTL is that of the servers' leases.
	TTL time.Duration
	// Start starts a server: a process in which [Serve] is called with the configuration, and
	// of which hear gets each line.
	Start func(c Config, hear func(w *campaign.Worker, line string)) *campaign.Worker
	// Restart has the store crash, or a part of it, and start again.
	Restart func()
}

// Run has five servers share some dozen shards with a few hundred keys; by flags it has a
// thousand with a hundred thousand. Each key is a thing that needs a base and owns a part. While
// things come, change, need another base and go, and bases and parts change, each thing that can
// happen to a server happens to one of them: it is killed, told to stop, frozen for as long as it
// takes the others to notice, cut off from the store, and started; and the store crashes while a
// server that was killed is replaced, and while one joins. Each time every key is soon worked on
// by one server again, with itself, its base and its part as they were last changed, and no part
// of a thing that has gone is left; no key is run by two at once, no write by a server whose time
// was over is accepted, and no cache shows an object of a shard that it lost, or lacks one that
// is run.
//
// Negative control: with -forgetful thing, base or part the servers lose changes of that kind,
// and Run fails.
func Run(t *testing.T, f Fleet) {
	t.Helper()
	all, err := newKinds(f.Backend)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(campaign.Context(t))
	c := &course{ctx: ctx, w: newWitness(*shards), kinds: all}
	c.create(t)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { c.w.follow(ctx, all.things) })
	var workers []*campaign.Worker
	for i := range 5 {
		cfg := Config{Name: fmt.Sprint("server", i), Shards: *shards, TTL: f.TTL, Forgetful: *forget}
		c.names = append(c.names, cfg.Name)
		workers = append(workers, f.Start(cfg, func(v *campaign.Worker, line string) { c.w.hear(v.Name, line) }))
	}
	c.await(t, "every key to be worked on", func(all world) bool { return c.w.settled(all, c.names...) })
	watching.Go(func() { c.change(ctx) }) // while their shards move

	var killed, stopped, frozen, cut, joined, crashed, met times
	killed.event, stopped.event, frozen.event, cut.event, joined.event = "kill -9", "told to stop", "SIGSTOP", "cut off from the store", "joins"
	crashed.event, met.event = "kill -9, and the store crashes", "joins, and the store crashes"
	for range *rounds {
		v := workers[0]
		c.lose(t, &killed, v, v.Kill)
		c.regain(t, &joined, v, func() { v.Start(t) })
		v = workers[1]
		c.lose(t, &stopped, v, v.Stop)
		c.regain(t, &joined, v, func() { v.Start(t) })
		v = workers[2]
		c.lose(t, &frozen, v, v.Pause)
		c.regain(t, nil, v, v.Resume)
		v = workers[3]
		c.lose(t, &cut, v, v.Cut)
		c.regain(t, nil, v, v.Heal)
		v = workers[4]
		c.lose(t, &crashed, v, func() { v.Kill(); f.Restart() })
		c.regain(t, &met, v, func() { v.Start(t); f.Restart() })
		workers = append(workers[1:], workers[0]) // each server meets each event
	}
	for _, v := range workers {
		v.Stop()
	}
	for _, p := range c.w.problems() {
		t.Error(p)
	}
	moves := 0
	var rows strings.Builder
	for _, x := range []times{killed, frozen, cut, stopped, joined, crashed, met} {
		if len(x.shards) == 0 {
			t.Errorf("%s: nothing moved, so nothing was shown", x.event)
		}
		moves += len(x.shards)
		fmt.Fprintf(&rows, "| %s | %d | %s | %s | %d | %s |\n", x.event, len(x.shards), spread(x.shards), spread(x.ownerless), len(x.keys), spread(x.keys))
	}
	t.Logf("\n%s", rows.String())
	c.changing.Lock()
	changes := c.turn
	c.changing.Unlock()
	t.Logf("campaign: %d runs, %d changes, %d shards moved, %d faults", c.w.heard(), changes, moves, 10**rounds)
	if *page != "" {
		if err := appendTo(*page, section(rows.String())); err != nil {
			t.Error(err)
		}
	}
}

// course is what happens to the servers.
type course struct {
	kinds
	ctx   context.Context // ends with the test, and when the test has failed
	w     *witness
	names []string // of the servers

	changing sync.Mutex // held while an object is changed; guards turn
	turn     int
}

// keysOfABase is how many things need one base.
const keysOfABase = 25

func bases() int { return 1 + *keys/keysOfABase }

func (c *course) world(ctx context.Context) (all world, err error) {
	for _, of := range []struct {
		s    *things
		into *map[string]*thing
	}{{c.things, &all.things}, {c.bases, &all.bases}, {c.parts, &all.parts}} {
		*of.into = make(map[string]*thing)
		for o, err := range of.s.All(ctx, store.Selector{}) {
			if err != nil {
				return world{}, err
			}
			(*of.into)[o.Name] = o
		}
	}
	return all, nil
}

// lose does something to a server, waits until the others have taken over, and measures.
func (c *course) lose(t *testing.T, into *times, v *campaign.Worker, do func()) {
	t.Helper()
	c.w.stop(v.Name, true)
	c.event(t, into, "takeover after "+into.event, do)
}

// regain ends it, and waits until the server has its share again.
func (c *course) regain(t *testing.T, into *times, v *campaign.Worker, do func()) {
	t.Helper()
	c.w.stop(v.Name, false)
	c.event(t, into, v.Name+" to have its share again", do, c.names...)
}

func (c *course) event(t *testing.T, into *times, what string, do func(), by ...string) {
	t.Helper()
	before, event := c.w.holds(), time.Now()
	do()
	c.await(t, what, func(all world) bool { return c.w.settled(all, by...) })
	if into != nil {
		c.w.measure(into, event, before)
	}
	c.changing.Lock() // nothing is changed now
	defer c.changing.Unlock()
	c.await(t, what+", and the last change of each key to be run", func(all world) bool { return len(c.w.behind(all)) == 0 })
}

// await waits until ready. It asks now and then, not at every one of the very many
// events: the question costs a look at every key.
func (c *course) await(t *testing.T, what string, ready func(world) bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(*patience)
	for {
		all, err := c.world(c.ctx)
		if err == nil && ready(all) { // otherwise a leader may still have to be found
			return
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			t.Fatalf("%s: %v", what, context.Cause(c.ctx))
		case <-limit:
			behind := c.w.behind(all)
			for _, name := range behind[:min(10, len(behind))] {
				t.Log(c.w.describe(all, name))
			}
			t.Fatalf("%s: not in %v; %d keys are behind, such as these; the store says %v", what, *patience, len(behind), err)
		}
	}
}

func thingName(i int) string { return fmt.Sprintf("thing-%06d", i) }

// baseName is the name of one of the bases.
func baseName(i int) string { return fmt.Sprintf("base-%d", i%bases()) }

// create makes the objects.
func (c *course) create(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(c.ctx, *patience, fmt.Errorf("%v are over", *patience))
	defer cancel()
	create := func(s *things, o *thing) {
		_, err := s.Create(ctx, o)
		for err != nil && !errors.Is(err, store.ErrExists) { // a leader may still have to be found
			if ctx.Err() != nil {
				t.Errorf("%s is not created: %v: %v", o.Name, context.Cause(ctx), err)
				return
			}
			_, err = s.Create(ctx, o)
		}
	}
	for i := 0; i < bases() && !t.Failed(); i++ {
		create(c.bases, &thing{Meta: store.Meta{Name: baseName(i)}})
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < *keys && !t.Failed(); i = int(next.Add(1)) - 1 {
				create(c.things, c.newThing(i))
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// newThing is that of a number, made by the present turn.
func (c *course) newThing(i int) *thing {
	return &thing{Meta: store.Meta{Name: thingName(i)}, Spec: wanted{Turn: c.turn, Base: baseName(i)}}
}

// perKey is how often each thing is changed or removed, at most: more often than ten times in ten
// seconds would be a fight with its run, which promise R5 slows by up to a minute.
const perKey = 1250 * time.Millisecond

// change changes one object after the other until ctx ends.
func (c *course) change(ctx context.Context) {
	pace := rate.NewLimiter(rate.Every(perKey/time.Duration(*keys)), 1)
	for pace.Wait(ctx) == nil {
		c.changeOne(ctx)
	}
}

// changeOne does the next change. What became of one that failed, the store will tell.
func (c *course) changeOne(ctx context.Context) {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.turn++
	i := c.turn % *keys
	key := store.Key{Name: thingName(i)}
	mutate := func(s *things, key store.Key, edit func(spec *wanted)) error {
		_, err := s.Mutate(ctx, key, func(o *thing) error {
			o.Spec.Turn = c.turn
			edit(&o.Spec)
			return nil
		})
		return err
	}
	remove := func(s *things) {
		if o, err := s.Get(ctx, key); err == nil {
			_ = s.Delete(ctx, o)
		}
	}
	var err error
	switch (c.turn/(*keys) + i) % 8 {
	case 0:
		remove(c.things)
	case 1:
		remove(c.parts)
	case 2:
		_ = mutate(c.parts, key, func(*wanted) {})
	case 3:
		err = mutate(c.things, key, func(spec *wanted) { spec.Base = baseName(i + c.turn/(*keys)) })
	case 4:
		if i%5 == 0 { // each has many things run
			base := store.Key{Name: baseName(c.turn / 5)}
			_ = mutate(c.bases, base, func(spec *wanted) { spec.Closed = true })
			for open := errors.New("not tried"); open != nil && ctx.Err() == nil; {
				open = mutate(c.bases, base, func(spec *wanted) { spec.Closed = false })
			}
			return
		}
		fallthrough
	default:
		err = mutate(c.things, key, func(*wanted) {})
	}
	if errors.Is(err, store.ErrNotFound) { // it was removed in the round before
		_, _ = c.things.Create(ctx, c.newThing(i))
	}
}

// section is what a run adds to the page. The page says what the columns are.
func section(rows string) string {
	return fmt.Sprintf(`
### %d shards, %d keys, %d of each event (joins: %d)

%s/%s, %d cores.

| event | shards moved | shard | without owner | keys run | key |
|---|---|---|---|---|---|
%s`, *shards, *keys, *rounds, 2**rounds, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), rows)
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
