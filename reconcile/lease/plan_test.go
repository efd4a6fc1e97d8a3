package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// division is a plan and the servers that live, with their weights.
type division struct {
	plan lease.Plan
	live map[string]int
	last int // number of the last server's name
}

func (d *division) join(name string, weight int) {
	d.live[name] = weight
	d.plan = d.plan.Next(d.live)
}

func (d *division) leave(name string) {
	delete(d.live, name)
	d.plan = d.plan.Next(d.live)
}

func (d *division) newName() string {
	d.last++
	return fmt.Sprintf("server-%03d", d.last)
}

// check reports what is wrong with the plan itself.
func (d *division) check(t *rapid.T) {
	owners, total := d.plan.Owners(), 0
	if len(d.live) == 0 {
		return
	}
	count := map[string]int{}
	for shard, owner := range owners {
		if _, ok := d.live[owner]; !ok {
			t.Fatalf("shard %d is with %q, which does not live: %v", shard, owner, d.live)
		}
		count[owner]++
	}
	for _, weight := range d.live {
		total += weight
	}
	for name, weight := range d.live {
		part := float64(len(owners)*weight) / float64(total)
		if n := float64(count[name]); n >= part+1 || n <= part-1 {
			t.Fatalf("%s has %v shards, its part is %v", name, n, part)
		} else if part >= 10 && n > 1.1*part {
			t.Fatalf("%s has %v shards, more than 1.1 of its part %v", name, n, part)
		}
	}
	if again := d.plan.Next(d.live); !again.Equal(d.plan) {
		t.Fatalf("the next plan for the same servers is another one:\n%v\n%v", d.plan, again)
	}
	read, err := d.plan.Reread()
	if err != nil || !read.Equal(d.plan) {
		t.Fatalf("read back as %v, %v, want %v", read, err, d.plan)
	}
}

// changed gives the shards with another owner than before.
func changed(before, after lease.Plan) (shards []int) {
	b, a := before.Owners(), after.Owners()
	for shard := range b {
		if b[shard] != a[shard] {
			shards = append(shards, shard)
		}
	}
	return shards
}

// history lets a fleet live through joins, leaves, crashes and returns. Weights are
// between 1 and most.
func history(t *rapid.T, most int) *division {
	d := &division{plan: lease.NewPlan(rapid.SampledFrom([]int{1, 7, 64, 256}).Draw(t, "shards")), live: map[string]int{}}
	weight := func() int { return rapid.IntRange(1, most).Draw(t, "weight") }
	var away []string
	for range rapid.IntRange(1, 30).Draw(t, "steps") {
		live := slices.Sorted(maps.Keys(d.live))
		before, was := d.plan, maps.Clone(d.live)
		switch kind := rapid.SampledFrom([]string{"join", "join", "leave", "return", "crash", "many"}).Draw(t, "what"); {
		case kind == "join":
			name := d.newName()
			d.join(name, weight())
			d.checkJoin(t, before, was, name, most)
		case kind == "return" && len(away) > 0:
			name := away[len(away)-1]
			away = away[:len(away)-1]
			d.join(name, weight())
			d.checkJoin(t, before, was, name, most)
		case kind == "leave" && len(live) > 1:
			name := rapid.SampledFrom(live).Draw(t, "server")
			away = append(away, name)
			d.leave(name)
			for _, shard := range changed(before, d.plan) {
				if owner := before.Owners()[shard]; most == 1 && owner != name {
					t.Fatalf("%s left, and shard %d moved away from %s", name, shard, owner)
				}
			}
		case kind == "many": // come at a time, new ones and others
			for range rapid.IntRange(1, 4).Draw(t, "how many") {
				d.live[d.newName()] = weight()
			}
			for _, name := range away {
				d.live[name] = weight()
			}
			away = nil
			d.plan = d.plan.Next(d.live)
		case kind == "crash" && len(live) > 2: // several at a time
			for _, name := range live[:rapid.IntRange(1, len(live)-1).Draw(t, "how many")] {
				away = append(away, name)
				delete(d.live, name)
			}
			d.plan = d.plan.Next(d.live)
		}
		d.check(t)
	}
	return d
}

func (d *division) checkJoin(t *rapid.T, before lease.Plan, was map[string]int, name string, most int) {
	if most > 1 || len(was) == 0 {
		return
	}
	moved := changed(before, d.plan)
	for _, shard := range moved {
		if owner := d.plan.Owners()[shard]; owner != name {
			t.Fatalf("%s joined, and shard %d moved to %s", name, shard, owner)
		}
	}
	if least := len(before.Owners()) / len(d.live); len(moved) > least+1 || least >= 10 && float64(len(moved)) > 1.2*float64(least) {
		t.Fatalf("a join moved %d shards, the least is %d", len(moved), least)
	}
}

// The shares are even and no shard moves without need, whatever the fleet has lived through.
//
// promise L2. Negative controls: the mutants "a plan stops before it is even" and "a plan
// begins from nothing each time".
func TestPlansAreEvenAndMoveOnlyWhatTheyMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { history(t, 1) })
}

// promise L2. Negative control: the mutant "weights are forgotten".
func TestPlansAreEvenByWeight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { history(t, 5) })
}

// A fleet whose servers are restarted one after another moves each shard away and back, and
// no shard because of a server that does not have it. A server may come back under another
// name, as those do that are named by their platform.
//
// promise L2. Negative control: the mutant "a server that comes back gets any shards".
func TestRollingRestartMovesEachShardAtMostTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := history(t, 1)
		fleet := slices.Sorted(maps.Keys(d.live))
		if len(fleet) < 2 {
			return
		}
		seed := rapid.Uint64().Draw(t, "order")
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(fleet), func(i, j int) { fleet[i], fleet[j] = fleet[j], fleet[i] })
		moves := map[int]int{}
		count := func(before lease.Plan) {
			for _, shard := range changed(before, d.plan) {
				if moves[shard]++; moves[shard] > 2 {
					t.Fatalf("shard %d moved %d times", shard, moves[shard])
				}
			}
		}
		renamed := rapid.Bool().Draw(t, "renamed")
		for _, name := range fleet {
			before := d.plan
			d.leave(name)
			count(before)
			if renamed {
				name = d.newName()
			}
			before = d.plan
			d.join(name, 1)
			count(before)
			d.check(t)
		}
	})
}

// Servers of the version before know no plans. While one of them lives all servers divide
// by its rule: so each shard has one owner and stays there. When the last one has left, the
// shares become even.
//
// promise L2. Negative control: the mutant "a server does not wait for all to know plans".
func TestServersOfBeforeAndAfterPlansAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 64
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		begin := func(name string, old bool) *server {
			p, err := lease.NewSharded(&link{FullBackend: b}, "job", shards, &lease.Options{TTL: ttl, Server: name, Logger: quiet})
			if err == nil && old {
				lease.KnowNoPlans(p)
			}
			return startPlacement(t, &link{FullBackend: b}, name, p, err, l.work(name, ttl/20))
		}
		// settled waits, and fails if shards go on moving.
		settled := func(when string, want map[string]int) {
			t.Helper()
			time.Sleep(4 * ttl)
			was := l.begun()
			time.Sleep(4 * ttl)
			if n := l.begun() - was; n != 0 {
				t.Errorf("%s: %d shards go on moving", when, n)
			}
			if got := l.owners(); !maps.Equal(got, want) {
				t.Errorf("%s: the servers have %v shards, want %v", when, got, want)
			}
		}
		byHash := func(names ...string) map[string]int {
			count := map[string]int{}
			for _, i := range lease.OwnersOf(names, shards) {
				count[names[i]]++
			}
			return count
		}
		old1, old2 := begin("a", true), begin("b", true)
		settled("before", byHash("a", "b"))
		new1 := begin("c", false)
		settled("the first of after has come", byHash("a", "b", "c"))
		old1.end()
		new2 := begin("a", false)
		settled("one has been replaced", byHash("a", "b", "c"))
		was, left := l.begun(), l.owners()["b"]
		old2.end()
		time.Sleep(4 * ttl)
		if moved := l.begun() - was; moved != left {
			t.Errorf("the change to plans moved %d shards, want the %d of the one that left", moved, left)
		}
		settled("all of before have left", map[string]int{"a": 32, "c": 32})
		back := begin("b", true)
		settled("one is rolled back", byHash("a", "b", "c"))
		back.end()
		settled("and forward", map[string]int{"a": 32, "c": 32})
		new1.end()
		new2.end()
	})
}

// withoutPlans starts a server that writes no plan as soon as another joins it, starts that,
// lets time pass, and checks that each has its share.
func withoutPlans(t *testing.T, pass func(store.Backend)) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		on := &mute{FullBackend: b}
		oldest, err := lease.NewSharded(on, "job", 8, &lease.Options{TTL: ttl, Server: "z", Logger: quiet})
		z := startPlacement(t, &link{FullBackend: b}, "z", oldest, err, l.work("z", 0))
		time.Sleep(ttl)
		on.muted.Store(true)
		a := start(t, b, "a", 8, l.work("a", 0))
		pass(b)
		if got := l.owners(); got["a"] != 4 || got["z"] != 4 {
			t.Errorf("the servers have %v, want 4 each", got)
		}
		a.end()
		z.end()
	})
}

// The oldest member writes the plan. If it does not, the next one does.
//
// promise L2. Negative control: the mutant "only the oldest member ever plans".
func TestPlanIsWrittenAlthoughTheOldestMemberHangs(t *testing.T) {
	withoutPlans(t, func(store.Backend) { time.Sleep(ttl) })
}

// Other placements in the same store do not put off the plan: a large fleet has one of them
// change several times within the wait of the second member.
//
// promise L2. Negative control: in plan, with at in place of the earlier dueAt.
func TestPlanIsWrittenAlthoughOtherPlacementsChange(t *testing.T) {
	withoutPlans(t, func(b store.Backend) {
		for n := range 40 {
			time.Sleep(ttl / 20)
			if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{
				Kind: lease.Kind, Key: store.Key{Namespace: "other", Name: "plan"}, Put: otherPlan(n),
			}}}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

type otherPlan int

func (n otherPlan) Encode() ([]byte, error) { return fmt.Appendf(nil, `{"live":%d}`, n), nil }

// Members that come and go do not put off the plan: each change of the members makes another
// one due, which has been due since the first of them.
//
// promise L2. Negative control: the mutant "each change of the members puts off the plan".
func TestPlanIsWrittenAlthoughMembersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		on := &mute{FullBackend: b}
		oldest, err := lease.NewSharded(on, "job", 8, &lease.Options{TTL: ttl, Server: "z", Logger: quiet})
		z := startPlacement(t, &link{FullBackend: b}, "z", oldest, err, l.work("z", 0))
		time.Sleep(ttl)
		on.muted.Store(true)
		a := start(t, b, "a", 8, l.work("a", 0))
		for range 20 { // each within the wait of the second member, a tenth of a TTL
			time.Sleep(ttl / 20)
			c := start(t, b, "c", 8, l.work("c", 0))
			time.Sleep(ttl / 20)
			c.end()
		}
		if got := l.owners(); got["a"] == 0 {
			t.Errorf("the servers have %v after two TTLs, want some with a", got)
		}
		a.end()
		z.end()
	})
}

// A server that stops while the store does not answer does not wait for its write of a plan.
//
// Negative control: the mutant "a plan is written by a server that has stopped".
func TestServerThatStopsDoesNotWaitForItsPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		on := &mute{FullBackend: b, hangs: make(chan struct{}, 1)}
		on.muted.Store(true)
		p, err := lease.NewSharded(on, "job", 8, &lease.Options{TTL: ttl, Server: "a", Logger: quiet})
		a := startPlacement(t, &link{FullBackend: b}, "a", p, err, l.work("a", 0))
		<-on.hangs
		began := time.Now()
		a.end()
		if took := time.Since(began); took != 0 {
			t.Errorf("it stopped after %v, want at once", took)
		}
	})
}

// A plan that the store refuses is logged, once and not with each try: without a plan the
// first servers have no shards.
func TestPlanThatTheStoreRefusesIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		on := &mute{FullBackend: b}
		on.muted.Store(true)
		var log strings.Builder // written by the session alone, and read after its end
		p, err := lease.NewSharded(on, "job", 8, &lease.Options{TTL: ttl, Server: "a", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		a := startPlacement(t, &link{FullBackend: b}, "a", p, err, l.work("a", 0))
		time.Sleep(4 * ttl)
		a.end()
		if n := strings.Count(log.String(), "cannot write the plan"); n != 1 {
			t.Errorf("%d warnings of the plan, want 1:\n%s", n, log.String())
		}
	})
}

// mute is a link on which no plan gets through once it is muted.
type mute struct {
	store.FullBackend
	muted atomic.Bool
	hangs chan struct{} // not nil: a plan has no answer, and this is told of each
}

func (m *mute) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if m.muted.Load() && t.Ops[0].Key.Name == "plan" {
		if m.hangs != nil {
			select {
			case m.hangs <- struct{}{}:
			default: // one was told and not received
			}
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		return 0, errors.New("the store is away")
	}
	return m.FullBackend.Commit(ctx, t)
}

// A weight is what a server takes of the shards.
func TestServerOfTwiceTheWeightTakesTwiceTheShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		var servers []*server
		for name, weight := range map[string]int{"a": 0, "b": 1, "c": 2} {
			p, err := lease.NewSharded(b, "job", 64, &lease.Options{TTL: ttl, Server: name, Weight: weight, Logger: quiet})
			servers = append(servers, startPlacement(t, &link{FullBackend: b}, name, p, err, l.work(name, 0)))
		}
		time.Sleep(4 * ttl)
		if got, want := l.owners(), map[string]int{"a": 16, "b": 16, "c": 32}; !maps.Equal(got, want) {
			t.Errorf("the servers have %v, want %v", got, want)
		}
		for _, s := range servers {
			s.end()
		}
	})
}
