//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest/campaign"
)

var faultsFor = flag.Duration("faults", 6*time.Second, "how long the fault campaign lasts")

// A server is killed, stopped, restarted, cut off and reset, its sessions are terminated,
// and it is vacuumed, while writers compare and swap and watchers follow. Half of the
// backends have no notifications. Afterwards:
//
//   - what each client saw is linearizable, key by key (porcupine; a verdict of
//     "unknown" fails);
//   - every acknowledged write is in the log;
//   - every watcher saw the log from its snapshot on, in order, without a gap and
//     without a repetition.
//
// promise S1, promise S2. Negative control: TestWatchCheckerRejectsBrokenStreams and, in
// store/etcd, TestCheckersRejectBrokenHistories feed the
// same checkers a stale read, a lost write, a repeated, a missing and a swapped change.
func TestServerUnderFaultsIsLinearizableAndItsWatchesAreGapless(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	proxy := campaign.NewProxy(t, s.addr())
	schema := newSchema()
	direct := openAt(t, s.dsn(), postgres.Options{Schema: schema, Timeout: 20 * time.Second})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	hist := &campaign.History{Began: time.Now()}
	ctx, stop := context.WithCancel(campaign.Context(t))
	defer stop()
	// However slow the machine: a quiet test is no test.
	campaign.Until(ctx, stop, *faultsFor, func() bool { return hist.Count() >= 500 })

	var work, watching sync.WaitGroup
	backend := func(i int) *postgres.Backend {
		dsn := proxied(proxy)
		return openAt(t, dsn, postgres.Options{Schema: schema, Timeout: 2 * time.Second, NoNotify: i%2 == 1})
	}
	for i := range 6 {
		b := backend(i)
		work.Go(func() { hist.Client(ctx, b, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	wctx, stopWatching := context.WithCancel(campaign.Context(t))
	defer stopWatching()
	var views []*campaign.Watched
	for i := range 4 {
		b := backend(i)
		v := &campaign.Watched{}
		views = append(views, v)
		watching.Go(func() { v.Follow(wctx, b) })
	}
	faults := s.torment(ctx, t, proxy, rand.New(rand.NewPCG(seed, 99)))
	work.Wait()

	// All is well again. The log is what a fresh reader sees from the beginning.
	var last store.Revision
	waitFor(t, func() (ok bool) {
		rev, err := direct.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("last"), "last")}})
		last = rev
		return err == nil
	})
	log := &campaign.Watched{}
	lctx, stopLog := context.WithTimeout(t.Context(), patience)
	defer stopLog()
	log.Read(lctx, direct, 1, last)
	for _, v := range views {
		waitFor(t, func() bool { return v.Reached() >= last })
	}
	stopWatching()
	watching.Wait()

	for i, v := range views {
		if err := v.Check(log); err != nil {
			t.Errorf("watcher %d: %v", i, err)
		}
		if v.Resyncs > 0 {
			t.Errorf("watcher %d began again %d times, although nothing was compacted", i, v.Resyncs)
		}
	}
	ops, unknown, err := hist.Operations(log)
	if err != nil {
		t.Error(err)
	}
	t.Logf("campaign: %d operations, %d with an unknown outcome, %d faults, %d changes", len(ops), unknown, faults, len(log.Changes))
	checkLinearizable(t, ops)
}

// proxied is the connection string of what a proxy leads to.
func proxied(p *campaign.Proxy) string {
	return "postgres://postgres@" + p.Addr() + "/postgres?sslmode=disable&connect_timeout=2"
}

// torment breaks one thing after the other until ctx ends, and mends it all.
func (s *server) torment(ctx context.Context, t *testing.T, proxy *campaign.Proxy, r *rand.Rand) (faults int) {
	wait := func(least, most time.Duration) { campaign.Wait(ctx, r, least, most) }
	order := r.Perm(7) // each fault comes once before any comes again
	for wait(200*time.Millisecond, 600*time.Millisecond); ctx.Err() == nil; faults++ {
		if faults%len(order) == 0 {
			r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		switch order[faults%len(order)] {
		case 0: // power cut, in the middle of commits
			s.stop(syscall.SIGKILL)
			wait(50*time.Millisecond, 500*time.Millisecond)
			s.mustStart(t)
		case 1: // restart
			s.stop(syscall.SIGINT)
			s.mustStart(t)
		case 2: // frozen
			s.signal(syscall.SIGSTOP)
			wait(300*time.Millisecond, 3*time.Second)
			s.signal(syscall.SIGCONT)
		case 3: // an operator ends every session
			for range 5 {
				s.endSessions()
				wait(10*time.Millisecond, 100*time.Millisecond)
			}
		case 4:
			proxy.Set(campaign.Reset)
			wait(100*time.Millisecond, 500*time.Millisecond)
			proxy.Set(campaign.Pass)
		case 5:
			proxy.Set(campaign.Blackhole)
			wait(300*time.Millisecond, 3*time.Second)
			proxy.Set(campaign.Pass)
		case 6:
			_ = s.exec("VACUUM FULL")
			_ = s.exec("VACUUM ANALYZE")
		}
		wait(200*time.Millisecond, 600*time.Millisecond)
	}
	return faults
}

func (s *server) mustStart(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// endSessions ends all sessions, as an operator may.
func (s *server) endSessions() {
	_ = s.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
}

// exec runs a statement as a superuser.
func (s *server) exec(sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.dsn())
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql, args...)
	return errors.Join(err, conn.Close(ctx))
}

// execSimple runs several statements at once.
func (s *server) execSimple(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.dsn())
	if err != nil {
		return err
	}
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return errors.Join(err, conn.Close(ctx))
}

// query reads one value, as a superuser.
func (s *server) query(sql string, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.dsn())
	if err != nil {
		return err
	}
	err = conn.QueryRow(ctx, sql).Scan(into)
	return errors.Join(err, conn.Close(ctx))
}
