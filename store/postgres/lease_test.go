//go:build unix

package postgres_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest/campaign"
)

var (
	leasesFor = flag.Duration("leases", 12*time.Second, "how long the campaign against leases lasts")
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
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	o := &postgres.Options{Schema: cfg.Schema, Timeout: time.Second, Logger: slog.New(slog.DiscardHandler)}
	b, err := postgres.Open(ctx, cfg.DSN, o)
	for err != nil && ctx.Err() == nil { // the server may be away
		b, err = postgres.Open(ctx, cfg.DSN, o)
	}
	if err != nil {
		return 0
	}
	defer b.Close()
	if cfg.DrainOnly {
		<-ctx.Done()
		return 0
	}
	if err := runShards(ctx, b, cfg); err != nil {
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
		workOn(ctx, b, cfg, shard, token, func() bool { _, held := p.Lease(shard).Held(); return held })
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

// workOn works on a shard for as long as it is trusted, and tells when that was
// the case for certain: "trust SHARD TOKEN FIRST LAST", where First is a moment
// after the trust began and Last one before it was found to hold.
func workOn(ctx context.Context, b *postgres.Backend, cfg serverConfig, shard int, token uint64, trusted func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var first, told int64
	for ctx.Err() == nil {
		before := time.Now().UnixNano()
		if !trusted() {
			return
		}
		if first == 0 {
			first = time.Now().UnixNano()
		}
		if before-told > int64(50*time.Millisecond) {
			fmt.Printf("trust %d %d %d %d\n", shard, token, first, before)
			told = before
		}
		// Between this check and the write the process may be stopped for
		// longer than its lease lives: that is what the guard is for. The wait
		// is here, so that it is, and the write does not hear of the end of ctx,
		// so that nothing else keeps it back.
		<-tick.C
		wctx := context.WithoutCancel(ctx)
		if cfg.Unfenced {
			wctx = store.WithoutGuards(wctx)
		}
		value := store.Bytes(fmt.Sprintf("%d %s", token, cfg.Name))
		_, _ = b.Commit(wctx, store.Txn{Ops: []store.Op{{Kind: "work", Key: shardRecord(shard), Put: value}}})
	}
}

func shardRecord(shard int) store.Key { return store.Key{Name: fmt.Sprint("shard", shard)} }

// worker is a server under test: a process, with its own way to each member.
type worker struct {
	name  string
	cfg   string
	hear  func(w *worker, line string)
	proxy *campaign.Proxy
	cmd   *exec.Cmd
	stdin io.Closer
	heard chan struct{} // closed when it has nothing more to say
}

// newWorker starts a server, and hears what it says.
func newWorker(t *testing.T, s *server, cfg serverConfig, hear func(w *worker, line string)) *worker {
	t.Helper()
	w := &worker{name: cfg.Name, hear: hear, proxy: campaign.NewProxy(t, s.addr())}
	cfg.DSN = proxied(w.proxy)
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.cfg = string(text)
	w.start(t)
	t.Cleanup(func() {
		w.resume()
		w.kill()
	})
	return w
}

func (w *worker) start(t *testing.T) {
	t.Helper()
	w.cmd = exec.Command(os.Args[0])
	w.cmd.Env = append(os.Environ(), processEnv+"="+w.cfg)
	w.cmd.Stderr = os.Stderr
	var err error
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	w.heard = heard
	go func() { // ends with the process
		defer close(heard)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.hear(w, lines.Text())
		}
	}()
}

func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	<-w.heard
	_ = w.cmd.Wait()
}

func (w *worker) stop() {
	w.stdin.Close()
	<-w.heard
	_ = w.cmd.Wait()
}

func (w *worker) pause()  { _ = w.cmd.Process.Signal(syscall.SIGSTOP) }
func (w *worker) resume() { _ = w.cmd.Process.Signal(syscall.SIGCONT) }

// cut has the server's connections carry nothing, until heal.
func (w *worker) cut() { w.proxy.Set(campaign.Blackhole) }

func (w *worker) heal() { w.proxy.Set(campaign.Pass) }

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
	s := startServer(t)
	schema := newSchema()
	direct := openAt(t, s.dsn(), postgres.Options{Schema: schema, Timeout: 10 * time.Second})
	var trust campaign.Trust
	var workers []*worker
	for i := range 5 {
		cfg := serverConfig{Name: fmt.Sprint("server", i), Schema: schema, Unfenced: *unfenced, Rate: 100}
		if i == 0 {
			cfg.Rate = 92
		}
		workers = append(workers, newWorker(t, s, cfg, func(_ *worker, line string) { trust.Hear(line) }))
	}
	log := new(campaign.Leases)
	wctx, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		log.Follow(wctx, direct)
	}()
	waitFor(t, func() bool { return log.Shards() == campaignShards })

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	campaign.Until(ctx, cancel, *leasesFor, func() bool { return log.Moves() >= 5 })
	faults := tormentWorkers(ctx, t, workers, s, rand.New(rand.NewPCG(seed, 1)))

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

func tormentWorkers(ctx context.Context, t *testing.T, workers []*worker, s *server, r *rand.Rand) (faults int) {
	wait := func(least, most time.Duration) {
		timer := time.NewTimer(least + time.Duration(r.Int64N(int64(most-least))))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	order := []int{0, 1, 2, 3, 4, 5, 6, 7} // each fault comes once before any comes again
	for ; ctx.Err() == nil; faults++ {
		w := workers[r.IntN(len(workers))]
		if faults%len(order) == 0 {
			r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		switch order[faults%len(order)] {
		case 0: // crash
			w.kill()
			wait(100*time.Millisecond, time.Second)
			w.start(t)
		case 1, 2: // frozen past its lease, at any instant
			w.pause()
			wait(campaignTTL+time.Second, campaignTTL+3*time.Second)
			w.resume()
		case 3: // leaves in good order, and comes back
			w.stop()
			w.start(t)
		case 4: // cut off while it works
			w.cut()
			wait(campaignTTL+time.Second, campaignTTL+3*time.Second)
			w.heal()
		case 5: // the PostgreSQL server crashes
			s.stop(syscall.SIGKILL)
			wait(100*time.Millisecond, time.Second)
			s.mustStart(t)
		case 6: // it is frozen for longer than leases live
			s.signal(syscall.SIGSTOP)
			wait(campaignTTL, campaignTTL+time.Second)
			s.signal(syscall.SIGCONT)
		case 7:
			_ = s.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
		}
		wait(100*time.Millisecond, 500*time.Millisecond)
	}
	return faults
}
