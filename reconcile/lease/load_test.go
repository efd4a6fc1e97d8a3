package lease_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// burdens is what shards cost, by shard, wherever they are.
type burdens struct {
	mu   sync.Mutex // guards of
	of   []int64
	bias int64 // percent that all measurements are wrong by; the sign changes each time
}

func (b *burdens) load(shard int) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bias = -b.bias
	return b.of[shard] * (100 + b.bias) / 100
}

func (b *burdens) set(of []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of = of
}

// measuring starts a server that measures the load of its shards.
func measuring(t *testing.T, b store.FullBackend, l *ledger, name string, shards int, load func(int) int64, log *slog.Logger) *server {
	t.Helper()
	p, err := lease.NewSharded(b, "job", shards, &lease.Options{TTL: ttl, Server: name, Load: load, Logger: log})
	return startPlacement(t, &link{FullBackend: b}, name, p, err, l.work(name, 0))
}

// sums are the loads of the servers.
func (l *ledger) sums(of []int64) map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := make(map[string]int64)
	for shard, server := range l.on {
		sum[server] += of[shard]
	}
	return sum
}

// records is the text of all records of leases.
func records(t *testing.T, b store.FullBackend) string {
	t.Helper()
	page, err := b.List(t.Context(), lease.Kind, store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, r := range page.Records {
		text, err := r.Value.Encode()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return string(all)
}

// Servers that measure what their shards cost share that, and not the number of shards; and
// measurements that vary by a little move nothing. A measurement counts once its server has held
// the shard for the whole time before it.
//
// promise L2. Negative controls: the mutants "shares are by the number of shards whatever was
// measured" and "a measurement counts at once".
func TestSharesByMeasuredLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		const shards, every = 60, 4 * ttl
		all := &burdens{of: slices.Repeat([]int64{10}, shards), bias: 4}
		var servers []*server
		for _, name := range []string{"a", "b", "c"} {
			servers = append(servers, measuring(t, b, l, name, shards, all.load, quiet))
		}
		time.Sleep(every + ttl)
		if strings.Contains(records(t, b), `"loads":"`) {
			t.Error("a server announces loads that it cannot have measured for the whole time")
		}
		time.Sleep(4 * every)
		for name, n := range l.owners() {
			if n < shards/3*75/100 || n > shards/3*125/100 {
				t.Errorf("with shards of one load %s has %d of %d", name, n, shards)
			}
		}
		was := l.begun()
		hot, n := slices.Repeat([]int64{10}, shards), 0
		l.mu.Lock()
		for shard := range hot { // all that is hot is with one server
			if l.on[shard] == "a" && n < 12 {
				n++
				hot[shard] = 40
			}
		}
		l.mu.Unlock()
		all.set(hot)
		total := int64(0)
		for _, load := range hot {
			total += load
		}
		before := l.sums(hot)["a"]
		time.Sleep(10 * every)
		for name, sum := range l.sums(hot) {
			if part := total / 3; sum < part*75/100 || sum > part*125/100 {
				t.Errorf("%s has a load of %d, its part is %d; they were moved %d times", name, sum, part, l.begun()-was)
			}
		}
		if l.begun() == was || before < total/2 {
			t.Errorf("a had %d of %d, and %d shards moved: the test shows nothing", before, total, l.begun()-was)
		}
		was = l.begun()
		time.Sleep(10 * every)
		if n := l.begun() - was; n != 0 {
			t.Errorf("%d shards moved although nothing changed but the errors of measurement", n)
		}
		// A server that joins takes its part of the load; one that dies leaves it to the others.
		servers = append(servers, measuring(t, b, l, "d", shards, all.load, quiet))
		time.Sleep(5 * every)
		if got := l.sums(hot)["d"]; got < total/4*75/100 {
			t.Errorf("a server that joined has a load of %d, its part is %d", got, total/4)
		}
		for _, s := range servers {
			s.end()
		}
	})
}

// Whatever servers come and go, none announces a load that it measured before it had held the
// shard for the whole time since a measurement: also not of a shard that it had before.
//
// promise L2. Negative control: the mutant "a measurement counts for a shard that was away".
func TestOnlyShardsHeldThroughoutAreMeasured(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			b, random := newBackend(t), rand.New(rand.NewPCG(seed, 1))
			defer b.Close()
			const shards, every, early = 12, 4 * ttl, 77_777
			var measured atomic.Int64 // in time
			join := func(name string) *server {
				var mu sync.Mutex // guards since
				since := map[int]time.Time{}
				load := func(shard int) int64 {
					mu.Lock()
					defer mu.Unlock()
					if at, ok := since[shard]; !ok || time.Since(at) < every {
						return early
					}
					measured.Add(1)
					return 10
				}
				p, err := lease.NewSharded(b, "job", shards, &lease.Options{TTL: ttl, Server: name, Load: load, Logger: quiet})
				return startPlacement(t, &link{FullBackend: b}, name, p, err, func(ctx context.Context, shard int) error {
					mu.Lock()
					since[shard] = time.Now()
					mu.Unlock()
					<-ctx.Done()
					mu.Lock()
					delete(since, shard)
					mu.Unlock()
					return nil
				})
			}
			first := join("a")
			for round := range 12 {
				time.Sleep(time.Duration(random.Int64N(int64(every))))
				other := join([]string{"b", "c"}[round%2])
				for range 8 {
					time.Sleep(time.Duration(random.Int64N(int64(ttl))))
					if text := records(t, b); strings.Contains(text, fmt.Sprint(":", early)) {
						t.Fatalf("in round %d a load is announced that was measured too early:\n%s", round, text)
					}
				}
				other.end()
			}
			first.end()
			if measured.Load() == 0 {
				t.Error("nothing was measured: the test shows nothing")
			}
		})
	}
}

// A load that differs by a tenth or less from what was announced is not announced again: at rest
// a server writes nothing.
//
// Negative control: the mutant "each measurement is written".
func TestLoadsThatHardlyChangeAreNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		const shards, every = 8, 4 * ttl
		costs := &burdens{of: slices.Repeat([]int64{1000}, shards)}
		s := measuring(t, b, l, "a", shards, costs.load, quiet)
		defer s.end()
		time.Sleep(5 * every)
		at := func() store.Revision {
			page, err := b.List(t.Context(), lease.Kind, store.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return page.Revision
		}
		for _, c := range []struct {
			load    int64
			written bool
		}{{1000, false}, {1050, false}, {950, false}, {1100, false}, {900, false}, {1101, true}, {1101, false}, {900, true}} {
			before := at()
			costs.set(slices.Repeat([]int64{c.load}, shards))
			time.Sleep(3 * every)
			if now := at(); (now != before) != c.written {
				t.Errorf("%d writes for a load of %d, want some: %v", now-before, c.load, c.written)
			}
		}
	})
}

// A measurement that panics counts for nothing, and the server goes on. The log has one
// line for each measurement, however many shards there are.
func TestLoadThatPanicsMeasuresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		var log strings.Builder // written by the session alone, and read after its end
		a := measuring(t, b, l, "a", 8, func(int) int64 { panic("no counter") }, slog.New(slog.NewTextHandler(&log, nil)))
		other := measuring(t, b, l, "b", 8, nil, quiet)
		time.Sleep(20 * ttl)
		if got, want := l.owners(), map[string]int{"a": 4, "b": 4}; !maps.Equal(got, want) {
			t.Errorf("the servers have %v, want %v", got, want)
		}
		a.end()
		other.end()
		if !strings.Contains(log.String(), "Options.Load failed") || !strings.Contains(log.String(), "no counter") {
			t.Errorf("logged\n%s\nwant the panic", log.String())
		}
		if n := strings.Count(log.String(), "\n"); n > 5 {
			t.Errorf("logged %d lines at five measurements:\n%s", n, log.String())
		}
	})
}

// sums are the loads of the servers by a plan.
func (d *byLoad) sums() map[string]int64 {
	sum := make(map[string]int64)
	for shard, owner := range d.plan.Owners() {
		sum[owner] += d.cost[shard]
	}
	return sum
}

// A server with a shard that alone is more than its part keeps that one, and the others divide the
// rest evenly: also later, when their loads change.
//
// promise L2. Negative control: the mutant "a shard that is too large to be moved keeps the others
// uneven".
func TestServersBesideOneLargeShardStayEven(t *testing.T) {
	d := &byLoad{plan: lease.NewPlan(41), live: map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, cost: slices.Repeat([]int64{20}, 41)}
	d.cost[0] = 1000
	d.next(true)
	large, hot := d.plan.Owners()[0], d.plan.Owners()[1]
	for shard, n := 1, 0; n < 10; shard++ {
		if d.plan.Owners()[shard] == hot {
			d.cost[shard], n = 60, n+1
		}
	}
	before, rest := d.sums()[hot], int64(0)
	for _, load := range d.cost[1:] {
		rest += load
	}
	d.next(true)
	for name, sum := range d.sums() {
		switch part := rest / 3; {
		case name == large && sum != 1000:
			t.Errorf("%s has a load of %d beside the shard of 1000", name, sum-1000)
		case name != large && (sum < part*75/100 || sum > part*125/100):
			t.Errorf("%s has a load of %d, its part of what is not the large shard is %d", name, sum, part)
		}
	}
	if large == hot || before < rest/3*125/100 {
		t.Errorf("%s had %d of %d: the test shows nothing", hot, before, rest)
	}
}

// Errors of measurement move nothing where there are too few shards for servers to be even.
//
// promise L2. Negative control: the mutant "errors of measurement move shards".
func TestErrorsOfMeasurementMoveNoShardOfFew(t *testing.T) {
	d := &byLoad{plan: lease.NewPlan(8), live: map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, cost: slices.Repeat([]int64{1000}, 8)}
	d.next(true)
	was := d.plan
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		for shard := range d.cost {
			d.cost[shard] = 960 + r.Int64N(81)
		}
		if d.next(true); !d.plan.Equal(was) {
			t.Fatalf("seed %d: with loads of %v\nthe plan is %v,\nbefore it was %v", seed, d.cost, d.plan.Owners(), was.Owners())
		}
	}
}

// byLoad is a plan by load and the servers that live.
type byLoad struct {
	plan lease.Plan
	live map[string]int
	cost []int64
}

// next makes the plan for the servers there are. With measured false none has measured since.
func (d *byLoad) next(measured bool) {
	loads := map[int]int64{}
	for shard, load := range d.cost {
		if measured {
			loads[shard] = load
		}
	}
	d.plan = d.plan.NextByLoad(d.live, loads)
}

// Plans by load give each shard to a server that lives, are even within their bounds where no
// shard is large, and are their own next ones: also before the new owners of shards have measured
// anything.
//
// promise L2. Negative controls: the mutants "a plan forgets what shards cost" and "a plan by load
// stops before it is even".
func TestPlansByLoadAreEvenAndComeToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.SampledFrom([]int{1, 8, 64, 256}).Draw(t, "shards")
		d := &byLoad{plan: lease.NewPlan(shards), live: map[string]int{"server-0": 1}, cost: make([]int64, shards)}
		for shard := range d.cost {
			d.cost[shard] = rapid.Int64Range(1, 1000).Draw(t, "load")
		}
		d.next(true)
		last := 0
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"join", "join", "leave", "heavier"}).Draw(t, "what") {
			case "join":
				last++
				d.live[fmt.Sprint("server-", last)] = rapid.IntRange(1, 3).Draw(t, "weight")
			case "leave":
				if len(d.live) > 1 {
					delete(d.live, rapid.SampledFrom(slices.Sorted(maps.Keys(d.live))).Draw(t, "server"))
				}
			case "heavier":
				d.cost[rapid.IntRange(0, shards-1).Draw(t, "shard")] = rapid.Int64Range(1, 5000).Draw(t, "load")
			}
			d.next(true)
			d.check(t)
			was := d.plan
			for _, measured := range []bool{true, false} {
				d.next(measured)
				if !d.plan.Equal(was) {
					t.Fatalf("the next plan for the same servers, measured again: %v, is another one:\n%v\n%v", measured, was, d.plan)
				}
			}
			if read, err := d.plan.Reread(); err != nil || !read.Equal(d.plan) {
				t.Fatalf("read back as %v, %v, want %v", read, err, d.plan)
			}
		}
	})
}

func (d *byLoad) check(t *rapid.T) {
	sum, total, weights, largest := map[string]int64{}, int64(0), 0, int64(0)
	for shard, owner := range d.plan.Owners() {
		if _, ok := d.live[owner]; !ok {
			t.Fatalf("shard %d is with %q, which does not live: %v", shard, owner, d.live)
		}
		cost := max(d.cost[shard], 1)
		sum[owner], total, largest = sum[owner]+cost, total+cost, max(largest, cost)
	}
	for _, weight := range d.live {
		weights += weight
	}
	for name, weight := range d.live {
		part := total * int64(weight) / int64(weights)
		// A shard counts as at least a tenth of the average one.
		if slack := 4*largest + total/8; sum[name] > part*125/100+slack || sum[name] < part*75/100-slack {
			t.Fatalf("%s has a load of %d, its part is %d and no shard has more than %d", name, sum[name], part, largest)
		}
	}
}
