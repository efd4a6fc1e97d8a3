//go:build unix

package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest/campaign"
	"github.com/tendhq/tend/store/storetest/leasetest"
	"github.com/tendhq/tend/store/storetest/quotatest"
)

var (
	leasesFor = flag.Duration("leases", 8*time.Second, "how long the campaign against leases lasts")
	unfenced  = flag.Bool("unfenced", false, "have the campaign's servers write without their guard: it must fail")
)

// processEnv makes the test binary one of the servers that share the work.
const processEnv = "TEND_TEST_PROCESS"

type serverConfig struct {
	Name, Schema, DSN string
	Unfenced          bool
	// DrainOnly is for a server that does nothing but to apply declarations.
	DrainOnly bool
	// Rate is that of the server's clock, in percent of the others'.
	Rate int
	// Sharded is for a server that runs a controller; nil: it works on shards as such.
	Sharded *leasetest.Config
	// Creates is for a server that creates what is declared; nil: it does not.
	Creates *quotatest.Config
}

const (
	campaignShards = 12
	campaignTTL    = 2 * time.Second
)

// runProcess works on its shards for as long as its process lives: it writes down, again
// and again, that it holds a shard and under which token.
func runProcess(text string) int {
	var cfg serverConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := campaign.UntilReleased()
	o := (&postgres.Options{Schema: cfg.Schema, Timeout: time.Second}).SetLogger(slog.New(slog.DiscardHandler))
	b, err := postgres.Opened(postgres.Open(ctx, cfg.DSN, o))
	for err != nil && ctx.Err() == nil { // the server may be away
		b, err = postgres.Opened(postgres.Open(ctx, cfg.DSN, o))
	}
	if err != nil {
		return 0
	}
	defer b.Close()
	if cfg.DrainOnly {
		<-ctx.Done()
		return 0
	}
	switch {
	case cfg.Creates != nil:
		err = quotatest.Serve(ctx, b, *cfg.Creates)
	case cfg.Sharded != nil:
		err = leasetest.Serve(ctx, b, *cfg.Sharded)
	default:
		err = runShards(ctx, b, cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runShards(ctx context.Context, b *postgres.Backend, cfg serverConfig) error {
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
type slowClock struct{ *postgres.Backend }

func (b slowClock) Grant(ctx context.Context, _ time.Duration) (store.LeaseID, error) {
	return b.Backend.Grant(ctx, campaignTTL)
}

// newWorker starts a process, and passes on what it says.
func newWorker(t *testing.T, s *server, cfg serverConfig, hear func(w *campaign.Worker, line string)) *campaign.Worker {
	t.Helper()
	proxy := campaign.NewProxy(t, s.addr())
	cfg.DSN = proxied(proxy)
	return campaign.NewWorker(t, cfg.Name, processEnv, cfg, []*campaign.Proxy{proxy}, hear)
}

// Five servers share twelve shards on one PostgreSQL server. They are killed, stopped for
// longer than their leases live, cut off, and sent away in good order, while the PostgreSQL
// server is killed and stopped too and its sessions are ended; the clock of one server
// runs slow, by as much as the margin allows. Of every shard the tokens of accepted writes
// never decrease: once a server has written under a new hold, none writes under an older
// one. No two servers trust their hold on one shard at a time. And every shard is written
// again in the end; in a campaign of a minute or more, within the bound.
//
// promise L1, promise L2. Negative control: go test -run Campaign -unfenced, in which the
// servers write without their guard, fails with a token that went back.
// TestLeaseCheckerRejectsAnOldToken and TestTrustCheckerRejectsTwoAtATime show without
// chance that the checkers can fail.
func TestLeaseCampaign(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	schema := newSchema()
	direct := openAt(t, s.dsn(), postgres.Options{Schema: schema, Timeout: 10 * time.Second})
	var trust campaign.Trust
	var workers []*campaign.Worker
	for i := range 5 {
		cfg := serverConfig{Name: fmt.Sprint("server", i), Schema: schema, Unfenced: *unfenced, Rate: 100}
		if i == 0 {
			cfg.Rate = 92
		}
		workers = append(workers, newWorker(t, s, cfg, func(_ *campaign.Worker, line string) { trust.Hear(line) }))
	}
	log := new(campaign.Leases)
	wctx, stopWatching := context.WithCancel(campaign.Context(t))
	defer stopWatching()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		log.Follow(wctx, direct)
	}()
	waitFor(t, func() bool { return log.Shards() == campaignShards })

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithCancel(campaign.Context(t))
	defer cancel()
	campaign.Until(ctx, cancel, *leasesFor, func() bool { return log.Moves() >= 5 })
	r := rand.New(rand.NewPCG(seed, 1))
	faults := campaign.Torment(ctx, t, r, campaignTTL, func() *campaign.Worker { return workers[r.IntN(len(workers))] },
		func() { // the PostgreSQL server crashes
			s.stop(syscall.SIGKILL)
			campaign.Wait(ctx, r, 100*time.Millisecond, time.Second)
			s.mustStart(t)
		},
		func() { // it is frozen for longer than leases live
			s.signal(syscall.SIGSTOP)
			campaign.Wait(ctx, r, campaignTTL, campaignTTL+time.Second)
			s.signal(syscall.SIGCONT)
		},
		s.endSessions)

	mark := log.Count()
	waitFor(t, func() bool { return log.Count() > mark+2*campaignShards })
	stopWatching()
	<-watched
	for _, p := range append(log.Problems(), trust.Problems()...) {
		t.Error(p)
	}
	t.Logf("campaign: %d accepted writes, %d changes of holder, %d faults", log.Count(), log.Moves(), faults)
	t.Logf("longest without a write: %v", log.Idle().Round(time.Millisecond))
	// A crash costs the TTL, what the others need to see it, and claiming; a server that
	// was away costs its time and a whole TTL again. Doubled for a machine with other
	// things to do, and only a long campaign is held to it.
	if bound := 2 * (2*campaignTTL + 4*time.Second); log.Idle() > bound && *leasesFor >= time.Minute {
		t.Errorf("a shard went without a write for %v, the bound is %v", log.Idle(), bound)
	}
}

// What a server saw of a lease ends it only if it was not renewed since: the renewal may come between the look and
// the end.
//
// promise L2. Seen to fail without the comparison in end_leases.
func TestLeaseThatIsRenewedMeanwhileIsNotEnded(t *testing.T) {
	b := open(t, postgres.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var id store.LeaseID
	for _, ttl := range []time.Duration{store.MinTTL, time.Minute, time.Hour} { // each is longer than any before
		var err error
		if id, err = b.Grant(ctx, ttl); err != nil {
			t.Fatalf("Grant of %v: %v", ttl, err)
		}
	}
	if !b.Shared() {
		t.Error("the leases are said to be of this process alone")
	}
	for renewed := range 3 {
		if err := b.Renew(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := b.EndLease(t.Context(), id, renewed); err != nil { // as it was before
			t.Fatal(err)
		}
	}
	if err := b.EndLease(t.Context(), id, 3); err != nil {
		t.Fatal(err)
	}
	if err := b.Renew(t.Context(), id); !errors.Is(err, store.ErrLeaseGone) {
		t.Errorf("Renew of a lease that has ended: %v", err)
	}
}

// On the old code the longest TTL was rounded up to milliseconds beyond what a Duration holds, and
// the lease ended at the second look.
func TestLongestLeaseOutlivesTheShortest(t *testing.T) {
	t.Parallel()
	b := open(t, postgres.Options{})
	ids := make(map[time.Duration]store.LeaseID)
	for _, ttl := range []time.Duration{math.MaxInt64, store.MinTTL} {
		id, err := b.Grant(t.Context(), ttl)
		if err != nil {
			t.Fatal(err)
		}
		ids[ttl] = id
	}
	if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: key("a"), Put: store.Bytes("1"), Lease: ids[store.MinTTL]}}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		_, err := b.Get(t.Context(), "thing", key("a"))
		return errors.Is(err, store.ErrNotFound)
	})
	if err := b.Renew(t.Context(), ids[math.MaxInt64]); err != nil {
		t.Errorf("Renew of a lease of %v: %v", time.Duration(math.MaxInt64), err)
	}
}
