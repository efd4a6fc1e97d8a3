//go:build unix

package etcd_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest/campaign"
	"github.com/tendhq/tend/store/storetest/leasetest"
	"github.com/tendhq/tend/store/storetest/quotatest"
)

var (
	leasesFor = flag.Duration("leases", 12*time.Second, "how long the campaign against leases lasts")
	unfenced  = flag.Bool("unfenced", false, "have the campaign's servers write without their guard: it must fail")
	sessions  = flag.Bool("sessions", false, "have the campaign's servers trust etcd's concurrency.Session until its Done: it must fail")
)

// serverEnv makes the test binary one of the servers that share the work.
const serverEnv = "TEND_TEST_SERVER"

type serverConfig struct {
	Name, Prefix string
	Endpoints    []string
	Unfenced     bool
	Sessions     bool
	// Rate is that of the server's clock, in percent of the others'.
	Rate int
	// Sharded is for a server that runs a controller; nil: it works on shards as
	// such.
	Sharded *leasetest.Config
	// Creates is for a server that creates what is declared; nil: it does not.
	Creates *quotatest.Config
}

const (
	campaignShards = 12
	campaignTTL    = 2 * time.Second
)

// runServer works on its shards for as long as its process lives: it writes
// down, again and again, that it holds a shard and under which token.
func runServer(text string) int {
	var cfg serverConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	config := clientv3.Config{Endpoints: cfg.Endpoints}
	if cfg.Sharded == nil && cfg.Creates == nil { // what listens to the others does not know of promises
		config.DialOptions = tellPromises()
	}
	b, err := etcd.New(config, &etcd.Options{Prefix: cfg.Prefix, Timeout: time.Second})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer b.Close()
	ctx := campaign.UntilReleased()
	switch {
	case cfg.Creates != nil:
		err = quotatest.Serve(ctx, b, *cfg.Creates)
	case cfg.Sharded != nil:
		err = leasetest.Serve(ctx, b, *cfg.Sharded)
	case cfg.Sessions:
		err = runSessions(ctx, b.(*etcd.Backend), cfg)
	default:
		err = runShards(ctx, b.(*etcd.Backend), cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runShards(ctx context.Context, b *etcd.Backend, cfg serverConfig) error {
	p, err := lease.NewSharded(slowClock{b}, "campaign", campaignShards, &lease.Options{
		TTL: campaignTTL * 100 / time.Duration(cfg.Rate), Server: cfg.Name, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return p.Run(ctx, func(ctx context.Context, shard int) error {
		token, _ := lease.Token(ctx)
		campaign.WriteAsHolder(ctx, b, cfg.Name, shard, token, cfg.Unfenced, func() bool { _, held := p.Lease(shard).Held(); return held })
		return nil
	})
}

// slowClock grants the TTL that a server means by its own clock. One whose clock
// runs at nine tenths of the others' speed counts twenty seconds where eighteen
// are meant; everything that it measures is stretched so. Its options are
// therefore those of a server with longer times, and its lease is not.
type slowClock struct{ *etcd.Backend }

func (b slowClock) Grant(ctx context.Context, _ time.Duration) (store.LeaseID, error) {
	return b.Backend.Grant(ctx, campaignTTL)
}

// runSessions works on the shards as programs do that use etcd's own recipes: a
// mutex for each, trusted until the session is Done.
func runSessions(ctx context.Context, b *etcd.Backend, cfg serverConfig) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: cfg.Endpoints, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	for ctx.Err() == nil {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(campaignTTL.Seconds())), concurrency.WithContext(ctx))
		if err != nil {
			continue
		}
		sctx, cancel := context.WithCancel(ctx)
		context.AfterFunc(sctx, func() { session.Close() })
		var all sync.WaitGroup
		for shard := range campaignShards {
			all.Go(func() {
				m := concurrency.NewMutex(session, fmt.Sprint(cfg.Prefix, "/mutex/", shard))
				if m.Lock(sctx) != nil {
					return
				}
				campaign.WriteAsHolder(sctx, b, cfg.Name, shard, uint64(m.Header().Revision), cfg.Unfenced, func() bool {
					select {
					case <-session.Done():
						return false
					default:
						return true
					}
				})
			})
		}
		select {
		case <-session.Done():
		case <-ctx.Done():
		}
		cancel()
		all.Wait()
	}
	return nil
}

// newWorker starts a process, and passes on what it says.
func newWorker(t *testing.T, c *cluster, cfg serverConfig, hear func(w *campaign.Worker, line string)) *campaign.Worker {
	t.Helper()
	var proxies []*campaign.Proxy
	for _, m := range c.members {
		p := campaign.NewProxy(t, strings.TrimPrefix(m.cfg.Client, "http://"))
		proxies = append(proxies, p)
		cfg.Endpoints = append(cfg.Endpoints, p.Addr())
	}
	return campaign.NewWorker(t, cfg.Name, serverEnv, cfg, proxies, hear)
}

// Five servers share twelve shards on a cluster of three. They are killed,
// stopped for longer than their leases live, cut off, and sent away in good order,
// while members of the cluster are killed and stopped too, its leader among them; the clock of one
// server runs slow, by as much as the margin allows. Of every shard the tokens of accepted writes
// never decrease: after a write under a new hold, no write is made under an older
// one. No two servers trust their hold on one shard at a time. And every
// shard is written again in the end; in a campaign of a minute or more, within the
// bound.
//
// promise L1, promise L2. Negative controls: go test -run Campaign -unfenced, in
// which the servers write without their guard, fails with a token that went
// back, and -sessions, in which they trust etcd's own recipe, with two that trust
// their hold at a time too. TestLeaseCheckerRejectsAnOldToken and
// TestTrustCheckerRejectsTwoAtATime do it without chance. Two that trust their hold because
// etcd ended a lease before the time that it had promised are counted and no failure of ours,
// see TestEtcdIsBlamedOnlyForAPromiseThatItBroke.
func TestLeaseCampaign(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	prefix := newPrefix()
	direct := c.openDirect(etcd.Options{Prefix: prefix, Timeout: 10 * time.Second})
	waitFor(t, func() bool {
		_, err := direct.Get(t.Context(), "work", campaign.ShardRecord(0))
		return errors.Is(err, store.ErrNotFound)
	})
	promised := new(promises)
	trust := campaign.Trust{Excused: promised.broken}
	var workers []*campaign.Worker
	for i := range 5 {
		cfg := serverConfig{Name: fmt.Sprint("server", i), Prefix: prefix, Unfenced: *unfenced, Sessions: *sessions, Rate: 100}
		if i == 0 {
			cfg.Rate = 92
		}
		workers = append(workers, newWorker(t, c, cfg, func(_ *campaign.Worker, line string) {
			if !promised.hear(line) {
				trust.Hear(line)
			}
		}))
	}
	log := new(campaign.Leases)
	wctx, stopWatching := context.WithCancel(campaign.Context(t))
	defer stopWatching()
	var watchers sync.WaitGroup
	watchers.Go(func() { log.Follow(wctx, direct) })
	watchers.Go(func() { promised.follow(wctx, c.client(), prefix+"/"+lease.Kind+"/") })
	waitFor(t, func() bool { return log.Shards() == campaignShards })

	beat := startHeartbeat()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithCancel(campaign.Context(t))
	defer cancel()
	campaign.Until(ctx, cancel, *leasesFor, func() bool { return log.Moves() >= 5 })
	r := rand.New(rand.NewPCG(seed, 1))
	victim := func() *campaign.Worker { return workers[r.IntN(len(workers))] }
	if *sessions {
		victim = func() *campaign.Worker { // mutexes are not shared out: one server has them all
			name := log.Holder(campaign.ShardRecord(0))
			return workers[slices.IndexFunc(workers, func(w *campaign.Worker) bool { return w.Name == name })]
		}
	}
	var mu sync.Mutex // guards onMembers
	var onMembers []fault
	var serving sync.WaitGroup
	member := func(name string, f func() *process) func() {
		return func() {
			from := time.Now()
			m := f()
			serving.Go(func() {
				m.serves(wctx)
				mu.Lock()
				defer mu.Unlock()
				onMembers = append(onMembers, fault{name, from, time.Now()})
			})
		}
	}
	crash := func(choose func(m *process) *process) func() *process { // of a member of the cluster
		return func() *process {
			m := choose(c.members[r.IntN(len(c.members))])
			m.Kill()
			campaign.Wait(ctx, r, 100*time.Millisecond, time.Second)
			m.start()
			return m
		}
	}
	suspend := func(choose func(m *process) *process) func() *process { // a member, past the leases that it knows of
		return func() *process {
			m := choose(c.members[r.IntN(len(c.members))])
			m.Pause()
			campaign.Wait(ctx, r, campaignTTL+time.Second, campaignTTL+3*time.Second)
			m.Resume()
			return m
		}
	}
	self := func(m *process) *process { return m }
	faults := campaign.Torment(ctx, t, r, campaignTTL, victim,
		member("a member crashes", crash(self)), member("the leader crashes", crash(c.leader)),
		member("a member is suspended", suspend(self)), member("the leader is suspended", suspend(c.leader)))

	mark := log.Count()
	waitFor(t, func() bool { return log.Count() > mark+2*campaignShards })
	stopWatching()
	watchers.Wait()
	serving.Wait()
	slices.SortFunc(onMembers, func(a, b fault) int { return a.from.Compare(b.from) })
	for _, p := range append(log.Problems(), trust.Problems()...) {
		t.Error(p)
	}
	t.Logf("campaign: %d accepted writes, %d changes of holder, %d faults", log.Count(), log.Moves(), faults)
	t.Logf("holds trusted beside a later one because etcd ended their lease too early: %d", promised.brokenSoOften())
	t.Logf("longest without a write: %v", log.Idle().Round(time.Millisecond))
	// A machine that lets this process stand still lets the servers and etcd stand still
	// too, so that much is added.
	starved := beat.longest()
	t.Logf("longest standstill of this process: %v", starved.Round(time.Millisecond))
	for _, g := range log.Gaps() {
		if most, meanwhile := longestGap(g, onMembers); g.To.Sub(g.From) > most+starved && *leasesFor >= time.Minute {
			t.Errorf("%s went without a write for %v, the bound is %v; meanwhile %s", g.Key, g.To.Sub(g.From), most+starved, meanwhile)
		}
	}
}

// serves waits until the member answers: one that was started reads its files first, which
// takes the longer the more was written.
func (p *process) serves(ctx context.Context) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{p.cfg.Client}, Logger: zap.NewNop()})
	if err != nil {
		p.t.Error(err)
		return
	}
	defer client.Close()
	for answered := false; !answered && ctx.Err() == nil; {
		once, cancel := context.WithTimeout(ctx, time.Second)
		_, err := client.Get(once, "serves", clientv3.WithSerializable())
		if answered = err == nil; !answered {
			<-once.Done()
		}
		cancel()
	}
}

// fault is one of a member of the cluster, until the member serves again.
type fault struct {
	name     string
	from, to time.Time
}

// longestGap is for how long a shard may go without a write, and which faults of members fell
// into that time. A server that crashes: the TTL, plus what etcd adds after a leader's death (a
// full TTL again), plus claiming. Doubled for a machine with other things to do; where many
// other things are done, as beside other packages' tests, it proves nothing, and only a long
// campaign is held to it. Each further fault of a member can be of the leader, which takes its
// time and has etcd add a TTL once more. There is less than that to one after the other, with
// those of servers between them, so that a shard that nothing holds any more is found.
func longestGap(g campaign.Gap, faults []fault) (most time.Duration, meanwhile string) {
	most = 2 * (2*campaignTTL + 3*time.Second)
	var names []string
	var counted time.Time // faults overlap: until then their time has counted
	for _, f := range faults {
		if f.to.Before(g.From) || f.from.After(g.To) {
			continue
		}
		if len(names) > 0 {
			from := f.from
			if counted.After(from) {
				from = counted
			}
			most += campaignTTL + max(f.to.Sub(from), 0)
		}
		if f.to.After(counted) {
			counted = f.to
		}
		names = append(names, fmt.Sprintf("%s from %v to %v", f.name, f.from.Sub(g.From).Round(time.Millisecond), f.to.Sub(g.From).Round(time.Millisecond)))
	}
	return most, strings.Join(names, ", ")
}

// A shard that is never written again is found however many faults there are; one that has to
// wait for leader after leader is none.
func TestGapOfAShardIsBoundedWhateverHappensToTheLeader(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	var faults []fault
	for n := range 100 { // as in a campaign: of nine faults in 25 seconds, two crashes and two suspensions
		base := float64(n) * 25
		faults = append(faults, fault{"crash", at(base), at(base + 0.6)}, fault{"crash", at(base + 6), at(base + 6.6)},
			fault{"suspended", at(base + 9), at(base + 13)}, fault{"suspended", at(base + 18), at(base + 22)})
	}
	for _, c := range []struct {
		from, to float64
		fine     bool
	}{
		{14, 17, true}, {14, 14 + 13.9, true}, // one fault: fourteen seconds
		{14, 14 + 14.1, true}, // suspended at 18, and crashed at 25
		{13.5, 17.9, true}, {100, 160, false}, {100, 200, false}, {0, 2500, false},
	} {
		g := campaign.Gap{From: at(c.from), To: at(c.to)}
		if most, meanwhile := longestGap(g, faults); (g.To.Sub(g.From) <= most) != c.fine {
			t.Errorf("%v: the bound is %v; %s", g.To.Sub(g.From), most, meanwhile)
		}
	}
	slow := []fault{{"crash", at(0), at(20)}, {"crash", at(2), at(20)}, {"crash", at(4), at(22)}} // a member that starts slowly, and is killed again
	if most, _ := longestGap(campaign.Gap{From: at(0), To: at(30)}, slow); most != 14*time.Second+2*campaignTTL+2*time.Second {
		t.Errorf("of faults at the same time the bound is %v, want their time to count once", most)
	}
	g := campaign.Gap{From: at(0), To: at(14.2)}
	if most, _ := longestGap(g, nil); most != 14*time.Second {
		t.Errorf("without a fault of a member the bound is %v, want 14s", most)
	}
}

// heartbeat measures for how long a goroutine that wants to run every 100 ms does not.
type heartbeat struct {
	stop chan struct{}
	most chan time.Duration
}

func startHeartbeat() *heartbeat {
	h := &heartbeat{stop: make(chan struct{}), most: make(chan time.Duration, 1)}
	go func() { // ended by longest
		const every = 100 * time.Millisecond
		tick := time.NewTicker(every)
		defer tick.Stop()
		most, last := time.Duration(0), time.Now()
		for {
			select {
			case <-tick.C:
			case <-h.stop:
				h.most <- max(most, time.Since(last)-every)
				return
			}
			most, last = max(most, time.Since(last)-every), time.Now()
		}
	}()
	return h
}

// longest is the longest standstill beyond the beat. It ends the measurement.
func (h *heartbeat) longest() time.Duration {
	close(h.stop)
	return <-h.most
}
