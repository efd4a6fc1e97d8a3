package lease_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

var simulate = flag.Bool("simulate", false, "simulate 100 servers and 10 million keys, and write docs/SIMULATION.md")

// simulation is a fleet of servers over a great many keys. The placement is
// computed, and the hand-overs are played by the engine itself, every server of
// the fleet with its session, in fake time.
type simulation struct {
	servers, keys int
	shardings     []int         // how many shards to compute the placement for
	shards        int           // to play with
	ttl           time.Duration // of each server's lease
	trip          time.Duration // a write takes
	drain         time.Duration // the longest that a shard's last run takes to end
}

// promise L2, at the size of a fleet.
//
// go test ./reconcile/lease -run TestSimulation -simulate writes the page. It
// fails, as does this with a small fleet in every run of the tests, if a server
// that joins or leaves moves more than its share, if two servers are at work on
// a shard at once, or if a shard is without an owner for longer than the bound
// in docs/TAKEOVER.md.
//
// Negative controls: the mutants "a server that joins moves everything" and
// "shards are claimed without a compare".
func TestSimulation(t *testing.T) {
	s := simulation{
		servers: 12, keys: 100_000, shardings: []int{128, 1024}, shards: 128,
		ttl: 15 * time.Second, trip: 5 * time.Millisecond, drain: 2 * time.Second,
	}
	if *simulate {
		s.servers, s.keys = 100, 10_000_000
		s.shardings, s.shards = []int{256, 1024, 4096, lease.MaxShards}, 1024
	}
	perShard := s.keysPerShard()
	page := s.placement(t, perShard)
	synctest.Test(t, func(t *testing.T) { page += s.play(t, perShard[s.shards]) })
	if !*simulate {
		return
	}
	if err := os.WriteFile("../../docs/SIMULATION.md", []byte(s.head()+page), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (s simulation) head() string {
	return fmt.Sprintf(`# Sharded placement, simulated

%d servers, %s keys. Written by

    go test ./reconcile/lease -run TestSimulation -simulate

The placement is computed with the code that servers run (HashKey, Shard and the
plan of NewSharded, made as the servers join one after another), and is the same in
every run. The hand-overs are played: every server of the fleet runs the engine, sessions, leases and all,
against one store in memory and in fake time, so their figures differ a little from run to run.
A server that is suspended here has clocks that stand still meanwhile, as on a laptop or a
virtual machine. The campaign etcd-leases (TestLeaseCampaign of store/etcd) suspends real
processes by SIGSTOP, servers and members of etcd, whose clocks go on meanwhile.
Nothing here was measured on a network; TAKEOVER.md has what processes on an etcd
did.

`, s.servers, group(s.keys))
}

func group(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// keysPerShard counts the keys of each shard, for each sharding.
func (s simulation) keysPerShard() map[int][]int {
	counts := make(map[int][]int)
	for _, n := range append(s.shardings, s.shards) {
		counts[n] = make([]int, n)
	}
	for i := range s.keys {
		hash := lease.HashKey(store.Key{Namespace: "team-" + strconv.Itoa(i%977), Name: "bucket-" + strconv.Itoa(i)})
		for n, c := range counts {
			c[lease.Shard(hash, n)]++
		}
	}
	return counts
}

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("server-%03d", i)
	}
	return list
}

// placement computes balance and movement.
func (s simulation) placement(t *testing.T, perShard map[int][]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `## Balance and movement

Keys per server with %d servers; and what moves when one more joins, or one of
them leaves. "Ideal" is the share of one server. What moves between two servers
that both stay is counted too: it is 0. The last columns are the fullest server with
rendezvous hashing, which the versions before plans divide by, and the same join
with shards dealt out by their number modulo the servers.

| shards | keys per server: mean | least | most | most ÷ mean | std. dev. | a join moves | ideal | a leave moves | ideal | between others | rendezvous: most ÷ mean | modulo moves |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`, s.servers)
	for _, shards := range s.shardings {
		keys := perShard[shards]
		grown := lease.NewPlan(shards)
		live := map[string]int{}
		for _, name := range names(s.servers) {
			live[name] = 1
			grown = grown.Next(live)
		}
		was := indexes(grown)
		least, most, dev := s.balance(was, keys)
		_, mostByHash, _ := s.balance(lease.OwnersOf(names(s.servers), shards), keys)
		mean := float64(s.keys) / float64(s.servers)
		newest := names(s.servers + 1)[s.servers]
		live[newest] = 1
		join, strayJoin := moved(was, indexes(grown.Next(live)), keys, s.servers)
		delete(live, newest)
		leaver := s.servers - 1
		delete(live, names(s.servers)[leaver])
		leave, strayLeave := moved(indexes(grown.Next(live)), was, keys, leaver)
		stray := strayJoin + strayLeave
		if stray != 0 {
			t.Errorf("%d shards: %d keys moved between servers that stayed", shards, stray)
		}
		if shards >= 10*s.servers && most > 1.1*mean {
			t.Errorf("%d shards: the server with the most keys has %.2f of the mean, want at most 1.1", shards, most/mean)
		}
		if ideal := 1 / float64(s.servers+1); join == 0 || shards >= 10*s.servers && join > 1.2*ideal {
			t.Errorf("%d shards: a join moves %.2f%% of the keys, the least is %.2f%%", shards, 100*join, 100*ideal)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.2f | %.1f %% | %.2f %% | %.2f %% | %.2f %% | %.2f %% | %d | %.2f | %.1f %% |\n",
			group(shards), group(int(mean)), group(int(least)), group(int(most)), most/mean, 100*dev,
			100*join, 100/float64(s.servers+1), 100*leave, 100/float64(s.servers), stray, mostByHash/mean, 100*s.modulo(keys))
	}
	b.WriteString("\nTen shards for each server, the least that NewSharded's comment asks for, are the\nsecond row. Each server has its part of the shards, rounded up or down: with more\nshards a server that rounding is less, and each shard costs a record. A leave moves\nwhat the leaver had, which is the ideal rounded up or down.\n\n")
	return b.String()
}

// indexes are those of the owners in names.
func indexes(p lease.Plan) (list []int) {
	for _, owner := range p.Owners() {
		i, err := strconv.Atoi(strings.TrimPrefix(owner, "server-"))
		if err != nil {
			panic(err)
		}
		list = append(list, i)
	}
	return list
}

func (s simulation) balance(owners, keys []int) (least, most, dev float64) {
	load := make([]float64, s.servers)
	for shard, owner := range owners {
		load[owner] += float64(keys[shard])
	}
	mean, sum := float64(s.keys)/float64(s.servers), 0.0
	for _, l := range load {
		sum += (l - mean) * (l - mean)
	}
	return slices.Min(load), slices.Max(load), math.Sqrt(sum/float64(s.servers)) / mean
}

// moved gives the share of the keys that the server has in after and did not
// have before, and how many keys moved between others.
func moved(before, after, keys []int, server int) (share float64, stray int) {
	all, mine := 0, 0
	for shard, n := range keys {
		all += n
		switch {
		case before[shard] == after[shard]:
		case after[shard] == server:
			mine += n
		default:
			stray += n
		}
	}
	return float64(mine) / float64(all), stray
}

func (s simulation) modulo(keys []int) float64 {
	n := 0
	for shard, k := range keys {
		if shard%s.servers != shard%(s.servers+1) {
			n += k
		}
	}
	return float64(n) / float64(s.keys)
}

// fleet is the servers that are played, and what an observer sees of them.
type fleet struct {
	simulation
	t        *testing.T
	b        store.FullBackend
	keysOf   []int
	servers  map[string]*server
	machines map[string]*machine
	crowd    *ledger

	mu   sync.Mutex
	dead map[string]time.Time // since when the server does nothing
	free map[int]time.Time    // since when the shard has no owner
	gaps []gap
	// begun counts how often the work of each shard was begun.
	begun map[int]int
	lists map[listing]int // objects that a cache of a server's own shards lists
	loads []load
}

// listing is a moment in which a server gains shards: a cache lists them together.
type listing struct {
	server string
	at     time.Time
}

// load is what caches of own shards read in a scene.
type load struct {
	what                string
	objects, most, each int // listed by all servers, by the one with the most, and lists of all servers
	held                int // objects of the fullest server in the end
}

// gap is a time for which the keys of a shard had no owner.
type gap struct {
	keys int
	d    time.Duration
}

func (f *fleet) add(name string) {
	m := &machine{hasUptime: true}
	f.machines[name] = m
	f.servers[name] = m.start(f.t, &link{FullBackend: f.b, delay: f.trip}, f.ttl, name, f.shards, f.work(name))
}

// suspend has a machine sleep for d in which no time goes by for it: to its monotonic
// clock, and in the bubble, the resume follows at once. Its leases ran out meanwhile,
// and its network comes back later.
func (f *fleet) suspend(name string, d time.Duration) {
	srv := f.servers[name]
	srv.link.sever()
	f.machines[name].slept.Add(int64(d))
	for shard := range f.shards { // as the worker does that has a key of it
		if _, held := srv.p.Lease(shard).Held(); held {
			f.t.Errorf("%s holds shard %d after %v of suspension, before it has renewed", name, shard, d)
		}
	}
	time.Sleep(f.drain + time.Second) // its work, which was told to end
	if err := f.b.Revoke(f.t.Context(), store.LeaseID(srv.link.granted.Load())); err != nil {
		f.t.Error(err)
	}
}

func (f *fleet) work(name string) lease.Work {
	return func(ctx context.Context, shard int) error {
		f.crowd.enter(name, shard)
		f.mu.Lock()
		f.begun[shard]++
		f.lists[listing{name, time.Now().Truncate(time.Second)}] += f.keysOf[shard]
		if since, ok := f.free[shard]; ok {
			f.gaps = append(f.gaps, gap{f.keysOf[shard], time.Since(since)})
			delete(f.free, shard)
		}
		f.mu.Unlock()
		<-ctx.Done()
		if f.alive(name) { // the last run ends when it does
			time.Sleep(f.drain * time.Duration(shard%97) / 97)
		}
		f.mu.Lock()
		if since, dead := f.dead[name]; dead {
			f.free[shard] = since
		} else {
			f.free[shard] = time.Now()
		}
		f.mu.Unlock()
		f.crowd.leave(name, shard)
		return nil
	}
}

func (f *fleet) alive(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, dead := f.dead[name]
	return !dead
}

// crash cuts a server off. It lives on by itself, so that its trust is tested
// too, but counts as gone from this moment.
func (f *fleet) crash(name string) {
	f.mu.Lock()
	f.dead[name] = time.Now()
	f.mu.Unlock()
	f.servers[name].link.sever()
}

func (f *fleet) leave(name string) {
	f.servers[name].end()
	delete(f.servers, name)
}

// scene lets something happen, waits for what comes of it, and describes it.
func (f *fleet) scene(what string, bound time.Duration, do func()) string {
	f.mu.Lock()
	f.gaps = nil
	f.mu.Unlock()
	before := f.crowd.begun()
	f.mu.Lock()
	clear(f.lists)
	f.mu.Unlock()
	do()
	time.Sleep(4 * f.ttl)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled(what)
	f.count(what)
	slices.SortFunc(f.gaps, func(a, b gap) int { return cmp.Compare(a.d, b.d) })
	keys, longest := 0, time.Duration(0)
	for _, g := range f.gaps {
		keys, longest = keys+g.keys, max(longest, g.d)
	}
	if longest > bound {
		f.t.Errorf("%s: a shard had no owner for %v, the bound is %v", what, longest, bound)
	}
	return fmt.Sprintf("| %s | %d | %s | %.2f %% | %s | %s | %s | %v |\n", what, f.crowd.begun()-before, group(keys),
		100*float64(keys)/float64(f.simulation.keys), ms(quantile(f.gaps, keys, 0.5)), ms(quantile(f.gaps, keys, 0.99)), ms(longest), bound)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// quantile is of the keys, not of the shards.
func quantile(gaps []gap, keys int, q float64) time.Duration {
	want := int(q * float64(keys))
	for _, g := range gaps {
		if want -= g.keys; want < 0 {
			return g.d
		}
	}
	return 0
}

// settled checks that every shard is with a server that lives, that each of them has its
// part, and how often each shard moved since the last time.
func (f *fleet) settled(what string) {
	live := 0
	for name := range f.servers {
		if _, dead := f.dead[name]; !dead {
			live++
		}
	}
	f.crowd.mu.Lock()
	defer f.crowd.mu.Unlock()
	count := map[string]int{}
	for shard := range f.shards {
		name := f.crowd.on[shard]
		if _, dead := f.dead[name]; dead || f.servers[name] == nil {
			f.t.Errorf("%s: shard %d is with %q in the end, which does not live", what, shard, name)
		}
		count[name]++
	}
	for name, n := range count {
		if n < f.shards/live || n > (f.shards+live-1)/live {
			f.t.Errorf("%s: %s has %d of %d shards, with %d servers", what, name, n, f.shards, live)
		}
	}
	if len(count) != live {
		f.t.Errorf("%s: %d of %d servers have shards", what, len(count), live)
	}
}

// count notes what the caches have read since the last time. f.mu is held.
func (f *fleet) count(what string) {
	l := load{what: what}
	by, held := map[string]int{}, map[string]int{}
	for at, objects := range f.lists {
		l.objects += objects
		by[at.server] += objects
		l.most = max(l.most, by[at.server])
		l.each++
	}
	f.crowd.mu.Lock()
	for shard, name := range f.crowd.on {
		held[name] += f.keysOf[shard]
		l.held = max(l.held, held[name])
	}
	f.crowd.mu.Unlock()
	clear(f.lists)
	f.loads = append(f.loads, l)
}

// What the model of the store's load takes for an object: stored and listed, a page of a list
// at the most, and live on the heap of a server.
const (
	objectBytes = 1400
	pageBytes   = 1 << 20
	heapBytes   = 2200
)

// storesLoad is the page's part about what caches of own shards read from the store.
func (f *fleet) storesLoad() string {
	var b strings.Builder
	fmt.Fprintf(&b, `
## What the store gives, and a server holds

The same scenes, with a cache of its own shards on each server (cache.Options.Shards). An object
has %s bytes in the store and %s on a heap, a page of a list %s bytes. Counted is what was listed;
a store that reads by slot (PostgreSQL, with its column) gives just that. A store that does not
(etcd) reads the whole kind for each list: %s GB and %s pages each.

| what happens | objects listed | the most by one server | GB by slot | pages by slot | lists | GB without slots | heap of the fullest server |
|---|---|---|---|---|---|---|---|
`, group(objectBytes), group(heapBytes), group(pageBytes), gb(f.simulation.keys), group(pages(f.simulation.keys)))
	for _, l := range f.loads {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s MB |\n", l.what, group(l.objects), group(l.most), gb(l.objects), group(pages(l.objects)),
			group(l.each), gbOf(float64(l.each)*float64(f.simulation.keys)), group(int(int64(l.held)*heapBytes/1e6)))
	}
	changes := 1000 // a second, of the whole fleet
	fmt.Fprintf(&b, `
Of %s changes a second a server reads %s by slot, %.1f kB/s; without slots all of them, %.1f MB/s, and
the store sends %.0f MB/s to the fleet.

What breaks first is a store without slots: a start of the fleet reads the whole kind at least once
for each server, %d × %s GB = %s TB, and each gained shard once more; and an etcd with its quota of
8 GB holds no more than %s objects of this size in any case. What one would do: use PostgreSQL, or
divide the objects into several kinds or clusters. There the writes come next, one commit a change
(bench/RESULTS.md has how many a second a server of it takes); this is not simulated.
`, group(changes), group(changes/f.simulation.servers), float64(changes/f.simulation.servers*objectBytes)/1e3, float64(changes*objectBytes)/1e6,
		float64(changes)*objectBytes*float64(f.simulation.servers)/1e6,
		f.simulation.servers, gb(f.simulation.keys), strconv.FormatFloat(float64(f.simulation.servers)*float64(f.simulation.keys)*objectBytes/1e12, 'f', 1, 64),
		group(8_000_000_000/objectBytes))
	return b.String()
}

func gb(objects int) string { return strconv.FormatFloat(float64(objects)*objectBytes/1e9, 'f', 2, 64) }

func gbOf(objects float64) string { return group(int(objects * objectBytes / 1e9)) }

func pages(objects int) int { return int((int64(objects)*objectBytes + pageBytes - 1) / pageBytes) }

// play has the fleet live through what happens to fleets.
func (s simulation) play(t *testing.T, keysOf []int) string {
	f := &fleet{
		simulation: s, t: t, b: newBackend(t), keysOf: keysOf, servers: make(map[string]*server), machines: make(map[string]*machine),
		crowd: newLedger(t), dead: make(map[string]time.Time), free: make(map[int]time.Time), begun: make(map[int]int), lists: make(map[listing]int),
	}
	defer f.b.Close()
	inOrder := s.drain + time.Second       // the last run, and some round trips
	crashed := s.ttl + s.ttl/10 + s.trip*4 // the lease, one more try, and the claim
	all := names(s.servers)
	for _, name := range all {
		f.add(name)
	}
	time.Sleep(4 * s.ttl)
	f.settled("start")
	f.mu.Lock()
	f.count("start, all at once")
	f.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, `## Hand-over

%s shards; leases of %v; a write takes %v, the last run of a shard takes up to %v
to end after it was told to. Quantiles are of the keys that moved. The time begins
with the end of the last run of the old owner, or with its crash, and ends when the
new owner begins. At no time were two servers at work on one shard.

| what happens | shards begun | keys without owner for a while | of all | half for up to | 99 %% | longest | bound |
|---|---|---|---|---|---|---|---|
`, group(s.shards), s.ttl, s.trip, s.drain)
	b.WriteString(f.scene("one joins", inOrder, func() { f.add("server-new") }))
	b.WriteString(f.scene("one leaves in good order", inOrder, func() { f.leave(all[0]) }))
	b.WriteString(f.scene("one crashes", crashed, func() { f.crash(all[1]) }))
	tenth := max(s.servers/10, 2)
	b.WriteString(f.scene(fmt.Sprintf("%d crash at once", tenth), crashed, func() {
		for _, name := range all[2 : 2+tenth] {
			f.crash(name)
		}
	}))
	b.WriteString(f.scene("all others are restarted, one after another", inOrder, func() {
		clear(f.begun)
		for _, name := range all[2+tenth:] {
			f.leave(name)
			time.Sleep(s.drain + time.Second) // the others take its shards
			f.add(name)
			time.Sleep(s.drain + 5*time.Second) // and give them back
		}
	}))
	for shard, n := range f.begun {
		if n > 2 {
			t.Errorf("a restart of all servers, one after another, moved shard %d %d times", shard, n)
		}
	}
	b.WriteString(f.scene("one is suspended, and its network comes back late", s.ttl, func() {
		name := slices.Sorted(maps.Keys(f.servers))[len(f.servers)-1]
		f.suspend(name, 2*s.ttl)
		time.Sleep(s.ttl / 3)
		f.servers[name].link.heal()
	}))
	b.WriteString(f.scene("the store is silent for a third of a TTL", 0, func() {
		f.silence(s.ttl / 3)
	}))
	b.WriteString(f.scene("one crashes, and the watch of another is silent", crashed+s.ttl/3, func() {
		live := slices.DeleteFunc(slices.Sorted(maps.Keys(f.servers)), func(name string) bool { return !f.alive(name) })
		f.servers[live[0]].link.hushed.Store(true)
		f.crash(live[1])
	}))
	b.WriteString("\nA server that crashed is missed after its lease has run out: two thirds of the\nTTL at the least, since it is renewed every third, and the whole of it at the\nmost. TTL is what to change when that is too long.\n")
	b.WriteString(f.storesLoad())
	for _, srv := range f.servers {
		if !f.alive(srv.name) {
			srv.link.heal()
		}
		srv.stop(errors.New("the simulation is over"))
	}
	for _, srv := range f.servers {
		<-srv.done
	}
	return b.String()
}

func (f *fleet) silence(d time.Duration) {
	var cut []*server
	for name, srv := range f.servers {
		if f.alive(name) {
			srv.link.sever()
			cut = append(cut, srv)
		}
	}
	time.Sleep(d)
	for _, srv := range cut {
		srv.link.heal()
	}
}
