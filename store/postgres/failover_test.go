//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
)

// standby starts a server that follows s. It begins with a copy of s's data, for which s is stopped
// for a moment: pg_basebackup needs no stop, but is refused by a server of another major version, and
// not every build of PostgreSQL has it.
func (s *server) standby(t testing.TB) *server {
	t.Helper()
	dir, err := newDir()
	if err != nil {
		t.Fatal(err)
	}
	follow := fmt.Sprintf("primary_conninfo=host=127.0.0.1 port=%d user=postgres", s.port)
	f := &server{dir: dir, options: slices.Concat(s.options, []string{"-c", follow})}
	t.Cleanup(func() {
		if f.cmd != nil {
			f.signal(syscall.SIGCONT)
			f.stop(syscall.SIGQUIT)
		}
		os.RemoveAll(dir)
	})
	s.stop(syscall.SIGINT)
	signal := filepath.Join(f.data(), "standby.signal")
	if err := errors.Join(f.copy(s), os.WriteFile(signal, nil, 0o600), own(signal), s.start(), f.start()); err != nil {
		t.Fatal(err)
	}
	return f
}

// caughtUp waits until the standby has all that the primary has.
func caughtUp(t testing.TB, primary, standby *server, schema string) {
	t.Helper()
	waitFor(t, func() bool {
		a, errA := primary.revision(schema)
		b, errB := standby.revision(schema)
		return errA == nil && errB == nil && a == b
	})
}

func (s *server) revision(schema string) (r int64, err error) {
	err = s.query("SELECT revision FROM "+schema+".head", &r)
	return r, err
}

func hosts(servers ...*server) string {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.addr())
	}
	return "postgres://postgres@" + strings.Join(addrs, ",") + "/postgres?sslmode=disable&connect_timeout=5"
}

// A standby is promoted that lacks the last commits, among them a lease, its record and
// what its holder wrote. Promised is what is told here, step by step.
//
// promise S2, promise L1, promise L2
func TestPromotedStandbyThatLacksCommitsBeginsANewEra(t *testing.T) {
	t.Parallel()
	primary := startServer(t)
	standby := primary.standby(t)
	schema := newSchema()
	ctx := t.Context()
	const ttl = 3 * time.Second
	o := postgres.Options{Schema: schema, Timeout: 10 * time.Second}
	b := openAt(t, hosts(standby, primary), o) // the standby first: it is passed over
	if _, err := postgres.Open(ctx, standby.dsn(), &postgres.Options{Schema: schema, Timeout: 8 * time.Second}); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("Open of a standby: %v, want an error that says so", err)
	}

	kept, err := b.Grant(ctx, ttl)
	if err != nil {
		t.Fatal(err)
	}
	keptRecord := put(key("kept"), "old")
	keptRecord.Lease = kept
	keptAt, err := b.Commit(ctx, store.Txn{Ops: []store.Op{keptRecord, put(key("a"), "1")}})
	if err != nil {
		t.Fatal(err)
	}
	keptGuard := store.WithGuard(ctx, store.Compare{Kind: "thing", Key: key("kept"), Created: keptAt})
	caughtUp(t, primary, standby, schema)

	standby.stop(syscall.SIGINT) // what follows does not get there
	lost, err := b.Grant(ctx, ttl)
	if err != nil {
		t.Fatal(err)
	}
	lostRecord := put(key("lost"), "old")
	lostRecord.Lease = lost
	lostAt, err := b.Commit(ctx, store.Txn{Ops: []store.Op{lostRecord}})
	if err != nil {
		t.Fatal(err)
	}
	lostGuard := store.WithGuard(ctx, store.Compare{Kind: "thing", Key: key("lost"), Created: lostAt})
	var head store.Revision
	for i := range 20 {
		if head, err = b.Commit(lostGuard, store.Txn{Ops: []store.Op{put(key("a"), fmt.Sprint("lost", i))}}); err != nil {
			t.Fatal(err)
		}
	}
	watching := make(chan error, 1)
	began := make(chan struct{})
	var once sync.Once
	go func() {
		for batch, err := range b.Watch(ctx, "thing", head-1) {
			if err != nil {
				watching <- err
				return
			}
			if batch.Kind == store.BatchChanges {
				once.Do(func() { close(began) })
			}
		}
	}()
	<-began

	primary.stop(syscall.SIGKILL)
	standby.mustStart(t)
	promoted := time.Now()
	if err := standby.query("SELECT pg_promote()", new(bool)); err != nil {
		t.Fatal(err)
	}

	// The watch ends: what it delivered is not what is there.
	if err := <-watching; !errors.Is(err, store.ErrCompacted) {
		t.Errorf("the watch over the failover ended with %v, want ErrCompacted", err)
	}
	// What was written under the lost lease is refused, although the new primary has
	// never heard of it.
	if _, err := b.Commit(lostGuard, store.Txn{Ops: []store.Op{put(key("a"), "2")}}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("write under a guard that was lost: %v, want ErrFenced", err)
	}
	// Neither lease can be renewed.
	for name, id := range map[string]store.LeaseID{"kept": kept, "lost": lost} {
		if err := b.Renew(ctx, id); !errors.Is(err, store.ErrLeaseGone) {
			t.Errorf("Renew of the %s lease: %v, want ErrLeaseGone", name, err)
		}
	}
	// Nothing is granted before the longest lease has had its time, also not by a server
	// that knows nothing of what was.
	fresh := openAt(t, hosts(primary, standby), o)
	var granted store.LeaseID
	waitFor(t, func() bool {
		id, err := fresh.Grant(ctx, ttl)
		granted = id
		return err == nil
	})
	if waited := time.Since(promoted); waited < ttl {
		t.Errorf("a lease was granted %v after the promotion, although one of %v may have lived", waited, ttl)
	}
	// By then the records of leases of before are gone, and their guards fence.
	if _, err := b.Commit(keptGuard, store.Txn{Ops: []store.Op{put(key("a"), "3")}}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("write under a guard of before the failover: %v, want ErrFenced", err)
	}
	again := put(key("lost"), "new")
	again.Lease = granted
	rev, err := fresh.Commit(ctx, store.Txn{If: absent(key("lost")), Ops: []store.Op{again}})
	if err != nil {
		t.Fatal(err)
	}
	// No revision is handed out twice, or the old guard would hold again.
	if rev <= head {
		t.Errorf("a commit after the failover has revision %d, one that was lost had %d", rev, head)
	}
	if _, err := b.Commit(lostGuard, store.Txn{Ops: []store.Op{put(key("a"), "4")}}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("write under the old guard after the record was made again: %v, want ErrFenced", err)
	}
	if rec, err := b.Get(ctx, "thing", key("a")); err != nil || string(rec.Bytes) != "1" {
		t.Errorf("the record is %q, error %v, want what the standby had", rec.Bytes, err)
	}
	if err := fresh.Renew(ctx, granted); err != nil {
		t.Errorf("Renew of the new lease: %v", err)
	}
}

// The store goes back in time on the same server, as when its disk is set back to a
// snapshot. The timeline is the same, but this process has seen a later revision.
//
// promise S2
func TestRestoredDiskIsNoticedByWhoeverHasSeenMore(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	o := postgres.Options{Schema: newSchema(), Timeout: 30 * time.Second}
	b := openAt(t, s.dsn(), o)
	ctx := t.Context()
	old, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "1")}})
	if err != nil {
		t.Fatal(err)
	}
	s.stop(syscall.SIGINT)
	if err := s.run("cp", "-a", s.data(), s.dir+"/copy"); err != nil {
		t.Fatal(err)
	}
	s.mustStart(t)
	var head store.Revision
	for range 10 {
		if head, err = b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "2")}}); err != nil {
			t.Fatal(err)
		}
	}
	s.stop(syscall.SIGKILL)
	if err := errors.Join(os.Rename(s.data(), s.dir+"/gone"), os.Rename(s.dir+"/copy", s.data())); err != nil {
		t.Fatal(err)
	}
	s.mustStart(t)
	var again store.Revision
	waitFor(t, func() bool {
		again, err = b.Commit(ctx, store.Txn{
			If:  []store.Compare{{Kind: "thing", Key: key("a"), Revision: old}},
			Ops: []store.Op{put(key("a"), "3")},
		})
		return err == nil
	})
	if again <= head {
		t.Errorf("a commit to the restored store has revision %d, one that was lost had %d", again, head)
	}
	for _, err := range b.Watch(ctx, "thing", head) {
		if !errors.Is(err, store.ErrCompacted) {
			t.Errorf("watch from a lost revision: %v, want ErrCompacted", err)
		}
		break
	}
	page, err := b.List(ctx, "thing", store.ListOptions{})
	if err != nil || len(page.Records) != 1 || page.Revision != again {
		t.Errorf("list: %+v, error %v", page, err)
	}
}

// With a synchronous standby, a failover loses nothing that was acknowledged.
//
// promise S1
func TestSynchronousStandbyHasAllThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	primary := startServer(t)
	standby := primary.standby(t)
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if err := primary.exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, func() bool {
		var state string
		return primary.query("SELECT sync_state FROM pg_stat_replication", &state) == nil && state == "sync"
	})
	o := postgres.Options{Schema: newSchema(), Timeout: 10 * time.Second}
	b := openAt(t, hosts(primary, standby), o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	acked := make(chan []int)
	go func() {
		var done []int
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key(fmt.Sprint(i)), "v")}}); err == nil {
				done = append(done, i)
			}
		}
		acked <- done
	}()
	waitFor(t, func() bool {
		_, err := b.Get(ctx, "thing", key("100"))
		return err == nil
	})
	primary.stop(syscall.SIGKILL)
	if err := standby.query("SELECT pg_promote()", new(bool)); err != nil {
		t.Fatal(err)
	}
	cancel()
	done := <-acked
	for _, i := range done {
		waitFor(t, func() bool {
			_, err := b.Get(t.Context(), "thing", key(fmt.Sprint(i)))
			if errors.Is(err, store.ErrNotFound) {
				t.Fatalf("record %d was acknowledged and is not there", i)
			}
			return err == nil
		})
	}
	if len(done) < 100 {
		t.Errorf("only %d commits were acknowledged", len(done))
	}
}
