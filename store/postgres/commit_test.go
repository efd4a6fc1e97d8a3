//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest/campaign"
)

func TestConflictCarriesWhatIsThere(t *testing.T) {
	b := open(t, postgres.Options{})
	ctx := t.Context()
	for name, value := range map[string]string{"short": "one", "long": strings.Repeat("0123456789", 20_000)} {
		rev, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key(name), value)}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Commit(ctx, store.Txn{If: absent(key(name)), Ops: []store.Op{put(key(name), "two")}})
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) {
			t.Fatalf("Commit over an existing record: %v, want a ConflictError", err)
		}
		if got := conflict.Current; got.Revision != rev || string(got.Bytes) != value {
			t.Errorf("ConflictError has %d bytes at %d, want %d at %d", len(got.Bytes), got.Revision, len(value), rev)
		}
	}
}

// A Commit to a store that was restored, or whose server was replaced, since the backend
// looked last begins a new era and is then made, whether it is alone in its transaction or
// not. Nothing was done before, so its outcome is known.
//
// Negative control: with no revision in the answer of commit_one, a lone Commit was of
// unknown outcome.
func TestCommitThatFindsAnotherStoreBeginsANewEra(t *testing.T) {
	for name, ops := range map[string][]store.Op{
		"one write":  {put(key("a"), "2")},
		"two writes": {put(key("a"), "2"), put(key("b"), "2")},
	} {
		for cause, change := range map[string]string{"another origin": "origin = 'another'", "an older revision": "revision = revision - 1"} {
			t.Run(name+" after "+cause, func(t *testing.T) {
				b := open(t, postgres.Options{})
				ctx := t.Context()
				head, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "1")}})
				if err != nil {
					t.Fatal(err)
				}
				lock := holdHead(t, b, change)
				done := make(chan error, 1)
				var again store.Revision
				go func() { // ends with the commit
					var err error
					again, err = b.Commit(ctx, store.Txn{Ops: ops})
					done <- err
				}()
				blocked(t, b)
				lock()
				if err := <-done; err != nil || again <= head+1 {
					t.Errorf("Commit = %d, %v; want a revision of a new era, beyond %d", again, err, head)
				}
			})
		}
	}
}

// Whatever looks first at a store that was restored, or whose server was replaced, begins a new era, and in that
// nothing of before counts, however often it is tried: no revision, and no lease.
//
// promise S2, promise L1. Seen to fail with a head that is believed although more was seen, and with renewals and
// writes under leases that are not asked for their era.
func TestStoreThatWentBackIsNoticedByWhateverLooksFirst(t *testing.T) {
	t.Parallel()
	for cause, change := range map[string]string{"another origin": "origin = 'another'", "an older revision": "revision = revision - 1"} {
		for first := range 5 {
			t.Run(fmt.Sprint(cause, first), func(t *testing.T) {
				t.Parallel()
				b := open(t, postgres.Options{})
				ctx := t.Context()
				lease, err := b.Grant(ctx, time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				head, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "1")}})
				if err != nil {
					t.Fatal(err)
				}
				bound := put(key("bound"), "v")
				bound.Lease = lease
				calls := []func(){
					func() {
						if page, err := b.List(ctx, "thing", store.ListOptions{}); err != nil || page.Revision <= head+1 || len(page.Records) != 1 {
							t.Errorf("List: %+v, %v; want the record, at a revision of a new era", page, err)
						}
					},
					func() {
						for batch, err := range b.Watch(ctx, "thing", head) {
							if !errors.Is(err, store.ErrCompacted) {
								t.Errorf("Watch: %+v, %v; want ErrCompacted", batch, err)
							}
							break
						}
					},
					func() {
						if err := b.Renew(ctx, lease); !errors.Is(err, store.ErrLeaseGone) {
							t.Errorf("Renew: %v, want ErrLeaseGone", err)
						}
					},
					func() {
						if _, err := b.Commit(ctx, store.Txn{Ops: []store.Op{bound}}); !errors.Is(err, store.ErrLeaseGone) {
							t.Errorf("Commit under the lease: %v, want ErrLeaseGone", err)
						}
					},
					func() {
						if _, err := b.Grant(ctx, time.Hour); err == nil || !strings.Contains(err.Error(), "no lease is granted") || errors.Is(err, store.ErrUnknownOutcome) {
							t.Errorf("Grant: %v, want that none is granted for a while", err)
						}
					},
				}
				holdHead(t, b, change)()
				for i := range 2 * len(calls) {
					calls[(first+i)%len(calls)]()
				}
			})
		}
	}
}

// A Commit that is refused writes nothing to the log, and counts as nothing: what is
// counted decides how far back watches can resume.
//
// Negative control: with only the revision taken back by commit_one, 200,400 bytes were
// counted.
func TestRefusedCommitCountsAsNothingInTheLog(t *testing.T) {
	b := open(t, postgres.Options{})
	ctx := t.Context()
	if _, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "1")}}); err != nil {
		t.Fatal(err)
	}
	logged := func() (n int64) {
		if err := shared.query("SELECT logged FROM "+b.Schema()+".head", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := logged()
	for _, txn := range []store.Txn{
		{If: absent(key("a"))},
		{If: append(absent(key("a")), absent(key("b"))...)},
	} {
		txn.Ops = []store.Op{put(key("a"), strings.Repeat("x", 100_000))}
		if _, err := b.Commit(ctx, txn); !errors.Is(err, store.ErrConflict) {
			t.Fatalf("Commit over an existing record: %v, want a conflict", err)
		}
	}
	if now := logged(); now != before {
		t.Errorf("%d bytes are counted as logged by refused commits, want none", now-before)
	}
}

// Members of one transaction are judged by the state before it, so none may write what
// another one compares: both would succeed.
//
// Negative control: with fits always true, both Commits of a pair succeed.
func TestCommitsThatInvalidateEachOtherNeverBothSucceed(t *testing.T) {
	b := open(t, postgres.Options{})
	ctx := t.Context()
	for round := range 50 {
		x, y := key(fmt.Sprint("x", round)), key(fmt.Sprint("y", round))
		var wg sync.WaitGroup
		errs := make([]error, 2)
		gate := make(chan struct{})
		for i, txn := range []store.Txn{
			{If: absent(y), Ops: []store.Op{put(x, "1")}},
			{If: absent(x), Ops: []store.Op{put(y, "1")}},
		} {
			wg.Go(func() {
				<-gate
				_, errs[i] = b.Commit(ctx, txn)
			})
		}
		// Traffic that keeps a transaction under way, so that the two above meet in the
		// queue and are offered to the same batch.
		for i := range 8 {
			wg.Go(func() {
				<-gate
				if _, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key(fmt.Sprint("t", i)), "1")}}); err != nil {
					t.Error(err)
				}
			})
		}
		close(gate)
		wg.Wait()
		if errs[0] == nil && errs[1] == nil {
			t.Fatalf("round %d: both Commits succeeded although each invalidates the other", round)
		}
		for _, err := range errs {
			if err != nil && !errors.Is(err, store.ErrConflict) {
				t.Fatal(err)
			}
		}
	}
}

// Of the members of one transaction, those whose lease is gone, whose condition does not
// hold or whose guard is lost are refused, each with its own error, and the others are not.
//
// Negative control: with leases that are gone looked at before the condition on the record that is
// written, every tenth of them is refused with another error.
func TestRefusedMembersDoNotTouchTheirNeighbours(t *testing.T) {
	b := open(t, postgres.Options{})
	ctx := t.Context()
	lock := holdHead(t, b)
	first := make(chan error, 1)
	go func() { // occupies the one transaction, so that the others share the next
		_, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("first"), "v")}})
		first <- err
	}()
	waitFor(t, b.Sending)
	const n = 60
	var wg sync.WaitGroup
	revisions := make([]store.Revision, n)
	for i := range n {
		txn := store.Txn{Ops: []store.Op{put(key(fmt.Sprint("k", i)), "v")}}
		want := error(nil)
		switch i % 10 {
		case 3:
			txn.Ops[0].Lease, want = 12345, store.ErrLeaseGone
		case 5:
			txn.If, want = []store.Compare{{Kind: "thing", Key: txn.Ops[0].Key, Revision: 7}}, store.ErrConflict
		case 7:
			txn.Guards, want = []store.Compare{{Kind: "thing", Key: key("nothing"), Created: 7}}, store.ErrFenced
		case 6: // a guard is told before another condition
			txn.Guards, want = []store.Compare{{Kind: "thing", Key: key("nothing"), Created: 7}}, store.ErrFenced
			txn.If = []store.Compare{{Kind: "thing", Key: key("nothing else"), Revision: 7}}
		case 8: // of two writes one is bound to a lease that is gone
			bound := put(key(fmt.Sprint("bound", i)), "v")
			bound.Lease = 12345
			txn.Ops, want = append(txn.Ops, bound), store.ErrLeaseGone
		case 9: // a condition that does not hold is told before a lease that is gone
			txn.If, want = []store.Compare{{Kind: "thing", Key: txn.Ops[0].Key, Revision: 7}}, store.ErrConflict
			txn.Ops[0].Lease = 12345
		}
		wg.Go(func() {
			rev, err := b.Commit(ctx, txn)
			if (err == nil) != (want == nil) || want != nil && !errors.Is(err, want) {
				t.Errorf("Commit %d: %v, want %v", i, err, want)
			}
			revisions[i] = rev
			_, err = b.Get(ctx, "thing", txn.Ops[0].Key)
			if errors.Is(err, store.ErrNotFound) != (want != nil) {
				t.Errorf("Get of record %d: %v, its Commit was to end with %v", i, err, want)
			}
		})
	}
	waitFor(t, func() bool { return b.Queued() == n })
	lock()
	wg.Wait()
	if err := <-first; err != nil {
		t.Error(err)
	}
	seen := make(map[store.Revision]bool)
	for i, r := range revisions {
		if r != 0 && seen[r] {
			t.Errorf("Commit %d has revision %d, like another", i, r)
		}
		seen[r] = true
	}
}

// A member of a shared transaction is answered as if it were alone: the writes of one share a
// revision and are in the log in their order, one that changes nothing is at the revision
// before, and one that is refused is told what is there and counts as nothing in the log.
func TestMembersOfOneTransactionAreAnsweredAsIfAlone(t *testing.T) {
	b := open(t, postgres.Options{})
	ctx := t.Context()
	start, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("old"), "v"), put(key("there"), "w")}})
	if err != nil {
		t.Fatal(err)
	}
	var before, after int64
	const logged = "SELECT logged FROM %s.head"
	if err := shared.query(fmt.Sprintf(logged, b.Schema()), &before); err != nil {
		t.Fatal(err)
	}
	lock := holdHead(t, b)
	remove := func(name string) store.Op { return store.Op{Kind: "thing", Key: key(name)} }
	txns := []store.Txn{
		{Ops: []store.Op{put(key("first"), "")}}, // occupies the one transaction, so that the others share the next
		{Ops: []store.Op{put(key("z"), "1"), remove("old"), put(key("a"), "2")}},
		{Ops: []store.Op{remove("nothing")}},
		{If: absent(key("there")), Ops: []store.Op{put(key("there"), strings.Repeat("x", 100_000))}},
		{Ops: []store.Op{remove("nothing2"), put(key("b"), "3")}},
	}
	revisions, errs := make([]store.Revision, len(txns)), make([]error, len(txns))
	var wg sync.WaitGroup
	for i, txn := range txns {
		wg.Go(func() { revisions[i], errs[i] = b.Commit(ctx, txn) })
		waitFor(t, func() bool { return b.Sending() && b.Queued() == i })
	}
	lock()
	wg.Wait()
	var conflict *store.ConflictError
	if !errors.As(errs[3], &conflict) || conflict.Current.Revision != start || string(conflict.Current.Bytes) != "w" {
		t.Errorf("the Commit over a record: %v, want a conflict with its revision %d and value", errs[3], start)
	}
	errs[3] = nil
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if first := revisions[0]; revisions[2] != first || revisions[1] <= first || revisions[4] <= first || revisions[1] == revisions[4] {
		t.Errorf("revisions %d: want two after the first, and the first of the one that changed nothing", revisions)
	}
	for i, keys := range map[int][]string{1: {"z", "old", "a"}, 4: {"b"}} {
		got := []string{}
		for batch, err := range b.Watch(longEnough(t), "thing", revisions[i]-1) {
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range batch.Changes {
				if c.Revision == revisions[i] {
					got = append(got, c.Key.Name)
				}
			}
			if len(got) > 0 {
				break
			}
		}
		if !slices.Equal(got, keys) {
			t.Errorf("the log has of Commit %d changes of %q, want %q", i, got, keys)
		}
	}
	if err := shared.query(fmt.Sprintf(logged, b.Schema()), &after); err != nil {
		t.Fatal(err)
	}
	if want := int64(5*200 + len("1v23")); after-before != want {
		t.Errorf("%d bytes are counted as logged, want %d", after-before, want)
	}
}

// holdHead takes the lock that every commit needs, changes head if it is given SET clauses,
// and returns what releases the lock.
func holdHead(t testing.TB, b *postgres.Backend, set ...string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), "BEGIN; SELECT FROM "+b.Schema()+".head FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	for _, clause := range set {
		if _, err := conn.Exec(t.Context(), "UPDATE "+b.Schema()+".head SET "+clause); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if _, err := conn.Exec(context.Background(), "COMMIT"); err != nil {
			t.Error(err)
		}
	}
}

// blocked waits until a commit to the schema waits for the lock.
func blocked(t testing.TB, b *postgres.Backend) (pid int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	waitFor(t, func() bool {
		return conn.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '.commit%(%'`, b.Schema()).Scan(&pid) == nil
	})
	return pid
}

// The server gives up waiting for a lock when its caller does, and does not collect the calls of
// all that gave up.
//
// Negative control: with a call that sets no lock_timeout, its session waits until the lock is free.
func TestCallThatWasGivenUpWaitsForNoLock(t *testing.T) {
	for name, ops := range map[string][]store.Op{
		"a lone write": {put(key("a"), "v")},
		"two writes":   {put(key("a"), "v"), put(key("b"), "v")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t, postgres.Options{Timeout: time.Second})
			release := holdHead(t, b)
			defer release()
			if _, err := b.Commit(t.Context(), store.Txn{Ops: ops}); err == nil {
				t.Error("Commit while another transaction has the lock = nil, want an error")
			}
			waitFor(t, func() bool {
				waiting := -1
				err := shared.query(`SELECT count(*) FROM pg_stat_activity
					WHERE wait_event_type = 'Lock' AND query LIKE '%' || '`+b.Schema()+`' || '.commit%(%'`, &waiting)
				return err == nil && waiting == 0
			})
		})
	}
}

// A caller that gives up must not take back what others sent along with it, and is told
// that its own outcome is open.
func TestCancelledCommitIsUnknownOnceSentAndUndoneBefore(t *testing.T) {
	b := open(t, postgres.Options{})
	ctx := t.Context()
	release := holdHead(t, b)
	first, cancelFirst := context.WithCancel(ctx)
	sent := make(chan error, 1)
	go func() {
		_, err := b.Commit(first, store.Txn{Ops: []store.Op{put(key("sent"), "v")}})
		sent <- err
	}()
	blocked(t, b)
	second, cancelSecond := context.WithCancel(ctx)
	queued := make(chan error, 1)
	go func() {
		_, err := b.Commit(second, store.Txn{Ops: []store.Op{put(key("queued"), "v")}})
		queued <- err
	}()
	waitFor(t, func() bool { return b.Queued() == 1 })
	cancelSecond()
	if err := <-queued; errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before it was sent: %v, want context.Canceled and a known outcome", err)
	}
	cancelFirst()
	if err := <-sent; !errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled after it was sent: %v, want ErrUnknownOutcome and context.Canceled", err)
	}
	release()
	if _, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("after"), "v")}}); err != nil {
		t.Error(err)
	}
	if _, err := b.Get(ctx, "thing", key("queued")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the withdrawn Commit was applied: %v", err)
	}
}

// The server commits, and its answer is lost. That is neither success nor failure, and
// making the write again would be wrong. Negative control: the mutant "a lost COMMIT is
// taken for a failure".
//
// promise S1
func TestLostAnswerToACommitIsAnUnknownOutcome(t *testing.T) {
	p := campaign.NewProxy(t, shared.addr())
	loseAnswer(t, p, openAt(t, proxied(p), postgres.Options{}))
}

// loseAnswer makes a commit whose answer is lost in the proxy on the way to b.
func loseAnswer(t *testing.T, p *campaign.Proxy, b *postgres.Backend) {
	t.Helper()
	ctx := t.Context()
	release := holdHead(t, b)
	outcome := make(chan error, 1)
	go func() {
		_, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "v")}})
		outcome <- err
	}()
	blocked(t, b)
	p.Set(campaign.Blackhole)
	release()
	direct := openAt(t, shared.socket(), postgres.Options{Schema: b.Schema()})
	waitFor(t, func() bool {
		_, err := direct.Get(ctx, "thing", key("a"))
		return err == nil
	})
	p.Set(campaign.Reset)
	if err := <-outcome; !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("Commit whose answer was lost: %v, want ErrUnknownOutcome", err)
	}
	p.Set(campaign.Pass)
	if rec, err := b.Get(ctx, "thing", key("a")); err != nil || rec.Revision != rec.Created {
		t.Errorf("the record was written again: %+v, error %v", rec, err)
	}
}

// A session that is ended before it has committed has written nothing: its commit is made
// again, on another connection, be it that this takes some tries, and its caller notices nothing.
func TestTerminatedSessionIsTriedAgain(t *testing.T) {
	type byCommit struct{}
	var refusals atomic.Int64
	const name = "terminated sessions"
	b, _ := openPool(t, postgres.Options{Timeout: patience}, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = name
		c.BeforeConnect = func(ctx context.Context, _ *pgx.ConnConfig) error {
			if ctx.Value(byCommit{}) != nil && refusals.Add(1) < 3 {
				return errors.New("no password yet")
			}
			return nil
		}
	})
	release := holdHead(t, b)
	outcome := make(chan error, 1)
	go func() {
		_, err := b.Commit(context.WithValue(t.Context(), byCommit{}, true), store.Txn{If: absent(key("a")), Ops: []store.Op{put(key("a"), "v")}})
		outcome <- err
	}()
	first := blocked(t, b)
	refusals.Store(0)
	if err := shared.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", name); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return refusals.Load() > 0 || blocked(t, b) != first }) // the next try
	release()
	if err := <-outcome; err != nil {
		t.Errorf("Commit whose session was ended: %v, want it to be tried again", err)
	}
}

// A commit and a renewal that meet a dead path end with an unknown outcome, and a read with an error
// that claims nothing.
//
// Negative control: the mutant "a renewal without an answer counts as not made".
func TestWriteIntoAPartitionEndsWithAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	p := campaign.NewProxy(t, shared.addr())
	b := openAt(t, proxied(p), postgres.Options{Timeout: time.Second})
	waitFor(t, func() bool {
		_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("warm"), "v")}})
		return err == nil
	})
	p.Set(campaign.Blackhole)
	if _, err := b.Get(t.Context(), "thing", key("a")); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get from a blackhole: %v, want an error that claims nothing", err)
	}
	p.Set(campaign.Pass)
	waitFor(t, func() bool {
		_, err := b.Get(t.Context(), "thing", key("warm"))
		return err == nil
	})
	p.Set(campaign.Blackhole)
	if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "v")}}); err == nil {
		t.Error("Commit into a blackhole succeeded")
	}
	p.Set(campaign.Pass)
	var id store.LeaseID
	waitFor(t, func() (ok bool) {
		var err error
		id, err = b.Grant(t.Context(), time.Minute)
		return err == nil
	})
	p.Set(campaign.Blackhole)
	if err := b.Renew(t.Context(), id); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("Renew into a blackhole: %v, want an unknown outcome", err)
	}
	p.Set(campaign.Pass)
}

// Databases may have another default isolation level than read committed: the server then
// refuses a transaction that had to wait for another one, and it is made again.
func TestSerializationFailuresAreTriedAgain(t *testing.T) {
	schema := newSchema()
	dsn := shared.socket() + " options='-c default_transaction_isolation=serializable'"
	var wg sync.WaitGroup
	const each = 30
	for range 3 {
		b := openAt(t, dsn, postgres.Options{Schema: schema})
		for range 2 {
			wg.Go(func() {
				for range each {
					if err := increment(t.Context(), b); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	b := openAt(t, dsn, postgres.Options{Schema: schema})
	if rec, err := b.Get(t.Context(), "thing", key("n")); err != nil || string(rec.Bytes) != strconv.Itoa(6*each) {
		t.Errorf("after %d increments the number is %s, error %v", 6*each, rec.Bytes, err)
	}
}

// increment adds one to a number by compare-and-swap.
func increment(ctx context.Context, b store.Backend) error {
	for {
		n := 0
		rec, err := b.Get(ctx, "thing", key("n"))
		if err == nil {
			n, err = strconv.Atoi(string(rec.Bytes))
		} else if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		if err != nil {
			return err
		}
		_, err = b.Commit(ctx, store.Txn{
			If:  []store.Compare{{Kind: "thing", Key: key("n"), Revision: rec.Revision}},
			Ops: []store.Op{put(key("n"), strconv.Itoa(n+1))},
		})
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// Callers that give up while their Commits are under way are told no revision, and read nothing
// that is being written. The server goes on at the moment in which they give up: that nothing
// orders the two is what lets the race detector see it.
//
// Negative control: with Commit returning the member's revision in any case, the race detector
// reports it in each of eight runs.
func TestCallersThatGiveUpReadNothingOfACommitUnderWay(t *testing.T) {
	b := open(t, postgres.Options{})
	const callers = 30
	var wg sync.WaitGroup
	commit := func(ctx context.Context, name string) {
		rev, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key(name), "v")}})
		if (err == nil) != (rev != 0) || err != nil && !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Commit = %d, %v; want a revision, or an unknown outcome and none", rev, err)
		}
	}
	release := holdHead(t, b)
	first, cancelFirst := context.WithCancel(t.Context())
	wg.Go(func() { commit(first, "first") })
	blocked(t, b)
	rest, cancelRest := context.WithCancel(t.Context())
	for i := range callers {
		wg.Go(func() { commit(rest, fmt.Sprint(i)) })
	}
	waitFor(t, func() bool { return b.Queued() == callers })
	cancelFirst()
	waitFor(t, func() bool { return b.Queued() == 0 }) // the rest is sent, and waits for the lock
	cancelRest()
	release()
	waitFor(t, func() bool { return !b.Sending() }) // before anything waits for the callers, which would order the two
	wg.Wait()
}
