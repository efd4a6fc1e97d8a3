//go:build unix

package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// await reads n changes of a watch after a revision, and fails if they do not come.
func await(t testing.TB, b store.Backend, after store.Revision, n int) (got []string) {
	t.Helper()
	for batch, err := range b.Watch(longEnough(t), "thing", after) {
		if err != nil {
			t.Fatalf("watch after %d: %v; saw %v", after, err, got)
		}
		for _, c := range batch.Changes {
			got = append(got, campaign.Show(c))
		}
		if len(got) >= n {
			return got
		}
	}
	return got
}

// longEnough returns a context that ends when the test has asked the server 150 questions,
// one each 50 ms: after many times Options.Poll if the machine is idle, and much later if
// it is busy, because it keeps the questions waiting too.
func longEnough(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan struct{})
	t.Cleanup(func() { cancel(nil); <-over })
	conn, err := pgx.Connect(ctx, shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ended by Cleanup
		defer close(over)
		defer func() { _ = conn.Close(context.Background()) }()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for range 150 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if _, err := conn.Exec(ctx, "SELECT"); err != nil {
				cancel(err)
				return
			}
		}
		cancel(errors.New("it does not happen, whatever the server is asked meanwhile"))
	}()
	return ctx
}

// A notification is a bell: lies, garbage, doubles and silence change nothing that a watch
// delivers.
//
// promise S2. Negative controls: the mutants "a notification is taken for the message" and
// "a watch waits for a notification".
func TestNotificationsAreOnlyABell(t *testing.T) {
	watcher := open(t, *(&postgres.Options{}).SetPoll(50 * time.Millisecond))
	writer := open(t, postgres.Options{Schema: watcher.Schema(), NoNotify: true})
	ctx := t.Context()
	start, err := writer.Commit(ctx, store.Txn{Ops: []store.Op{put(key("start"), "")}})
	if err != nil {
		t.Fatal(err)
	}
	await(t, watcher, start-1, 1) // the log is being read
	for _, payload := range []string{"99999999", "x", "", "-1", "inbox", "99999999"} {
		if err := shared.exec("SELECT pg_notify($1, $2)", watcher.Schema(), payload); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	got := make(chan []string)
	ready := make(chan struct{})
	go func() {
		defer close(got) // also when await gives up
		close(ready)
		got <- await(t, watcher, start, 20)
	}()
	<-ready
	for i := range 20 {
		rev, err := writer.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), fmt.Sprint(i))}})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%s@%d=%d", key("a"), rev, i))
		if i == 10 {
			// The session that listens is ended: what is notified meanwhile is lost.
			if err := shared.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = $1", "LISTEN "+watcher.Schema()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if seen := <-got; fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("saw  %v\nwant %v", seen, want)
	}
	awaitWithoutBell(t, watcher, writer)
}

// awaitWithoutBell writes one change after another with a writer that does not notify, each
// once a watch has seen the one before. The watch's start and a session that listens again
// may each make the watcher read once; five changes need more than that.
func awaitWithoutBell(t *testing.T, watcher, writer store.Backend) {
	t.Helper()
	ctx := longEnough(t)
	write := func() store.Revision {
		rev, err := writer.Commit(ctx, store.Txn{Ops: []store.Op{put(key("b"), "")}})
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	seen, first := 0, write()
	for batch, err := range watcher.Watch(ctx, "thing", first-1) {
		if err != nil {
			t.Fatalf("the watch ended after %d of 5 changes: %v", seen, err)
		}
		if len(batch.Changes) == 0 {
			continue
		}
		if seen++; seen == 5 {
			return
		}
		write()
	}
	t.Fatalf("saw %d of 5 changes", seen)
}

// The watcher of a kind in which nothing happens is told how far the store has got, so that
// it can resume from there, also while another kind is written all the time.
//
// Negative control: with Options.Poll counted from the last notification, no progress was
// told. Mutant "progress waits until all kinds are quiet".
func TestIdleKindIsToldOfProgressWhileAnotherIsWritten(t *testing.T) {
	t.Parallel()
	b := open(t, postgres.Options{})
	ctx, cancel := context.WithCancel(longEnough(t))
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel()
	write := func() (r store.Revision) {
		r, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "1")}})
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		return r
	}
	var first store.Revision
	for batch, err := range b.Watch(ctx, "idle", 0) {
		switch {
		case err != nil:
			t.Fatalf("the watch ended with %v, want progress", err)
		case batch.Kind == store.BatchSnapshotEnd:
			first = write()
			writer.Go(func() {
				for ctx.Err() == nil {
					write()
				}
			})
		case first != 0 && batch.Kind == store.BatchProgress && batch.Revision >= first:
			return
		}
	}
}

// A commit that has its revision and is held up must not be overtaken by one with a later
// revision: a watch that has seen the later one never looks for the earlier one.
//
// promise S2. Negative control: the mutant "revisions come from a sequence".
func TestRevisionsBecomeVisibleInTheirOrder(t *testing.T) {
	first := open(t, postgres.Options{})
	second := open(t, postgres.Options{Schema: first.Schema()})
	ctx := t.Context()
	start, err := first.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "0")}})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(ctx, "BEGIN; SELECT FROM "+first.Schema()+".records WHERE name = 'a' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 2)
	go func() { // has its revision, and waits for the record
		_, err := first.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "1")}})
		results <- err
	}()
	blocked(t, first)
	seen := make(chan []string, 1)
	go func() {
		defer close(seen) // also when await gives up
		seen <- await(t, second, start, 2)
	}()
	done := make(chan struct{})
	go func() {
		_, err := second.Commit(ctx, store.Txn{Ops: []store.Op{put(key("b"), "1")}})
		results <- err
		close(done)
	}()
	waitFor(t, func() bool { // it waits too, or went past
		select {
		case <-done:
			return true
		default:
		}
		var n int
		return shared.query("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"+first.Schema()+".commit%(%'", &n) == nil && n == 2
	})
	select {
	case <-done: // let the watch see it alone
		await(t, second, start, 1)
	default:
	}
	if _, err := conn.Exec(ctx, "COMMIT"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	if got := <-seen; len(got) != 2 || got[0] != fmt.Sprintf("%s@%d=1", key("a"), start+1) || got[1] != fmt.Sprintf("%s@%d=1", key("b"), start+2) {
		t.Errorf("saw %v, want a at %d and b at %d", got, start+1, start+2)
	}
}

// The pages of a list show one instant, also where the log no longer holds what the
// records were then, and is trimmed while the pages are read.
//
// promise S2. Negative control: the mutant "a later page shows what is there now".
func TestPagesShowOneInstantWhileTheLogIsTrimmed(t *testing.T) {
	b := open(t, postgres.Options{})
	ctx := t.Context()
	commit := func(ops ...store.Op) store.Revision {
		t.Helper()
		r, err := b.Commit(ctx, store.Txn{Ops: ops})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := make(map[string]string)
	for i := range 20 {
		name := fmt.Sprintf("k%02d", 2*i)
		commit(put(key(name), "old"))
		want[name] = "old"
	}
	if err := b.Compact(ctx, commit(put(key("k00"), "new"))); err != nil { // the log has none of them
		t.Fatal(err)
	}
	want["k00"] = "new"
	pinned := commit(put(key("k02"), "new")) // this one it has
	want["k02"] = "new"
	got := make(map[string]string)
	o := store.ListOptions{Limit: 3}
	for page := 0; ; page++ {
		p, err := b.List(ctx, "thing", o)
		if err != nil {
			t.Fatalf("page %d: %v", page, err)
		}
		if p.Revision != pinned {
			t.Fatalf("page %d is of revision %d, want %d", page, p.Revision, pinned)
		}
		for _, r := range p.Records {
			if _, twice := got[r.Key.Name]; twice {
				t.Errorf("%s is there twice", r.Key)
			}
			got[r.Key.Name] = string(r.Bytes)
			if r.Revision > pinned {
				t.Errorf("%s is of revision %d, newer than %d", r.Key, r.Revision, pinned)
			}
		}
		if len(p.Records) > o.Limit {
			t.Errorf("page %d has %d records, want %d at most", page, len(p.Records), o.Limit)
		}
		if o.Cursor = p.Cursor; o.Cursor == "" {
			break
		}
		for i := range 40 { // everything is changed, twice, and every third goes
			name := fmt.Sprintf("k%02d", i)
			txn := store.Txn{Ops: []store.Op{put(key(name), fmt.Sprint("page", page))}}
			switch { // each way in which a write gets to the log
			case i%8 < 3: // of what was read
				rec, err := b.Get(ctx, "thing", key(name))
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					t.Fatal(err)
				}
				txn.If = []store.Compare{{Kind: "thing", Key: key(name), Revision: rec.Revision}}
			case i%8 < 5: // with another
				txn.Ops = append(txn.Ops, put(store.Key{Name: "beside"}, ""))
			}
			if _, err := b.Commit(ctx, txn); err != nil {
				t.Fatal(err)
			}
			if i%3 == 0 {
				commit(store.Op{Kind: "thing", Key: key(name)})
			}
		}
		if err := b.Compact(ctx, pinned); err != nil { // the last revision that keeps the list
			t.Fatal(err)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	page, err := b.List(ctx, "thing", store.ListOptions{Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Compact(ctx, commit(put(key("x"), "x"))); err != nil {
		t.Fatal(err)
	}
	if _, err := b.List(ctx, "thing", store.ListOptions{Limit: 3, Cursor: page.Cursor}); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("a page of before the log's beginning: %v, want ErrCompacted", err)
	}
}

// The log stays within its size, by trimming what is oldest, also after a burst of writes
// between two looks at it, and a watch that is behind is told so.
//
// Negative control: the mutant "what is written between two looks is never trimmed".
func TestLogIsTrimmedBySize(t *testing.T) {
	t.Parallel()
	const size = 256 << 10
	b := open(t, postgres.Options{HistoryBytes: size})
	ctx := t.Context()
	value := make(store.Bytes, 64<<10)
	first, err := b.Commit(ctx, store.Txn{Ops: []store.Op{{Kind: "thing", Key: key("a"), Put: value}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 16 * size / len(value) {
		if _, err := b.Commit(ctx, store.Txn{Ops: []store.Op{{Kind: "thing", Key: key("a"), Put: value}}}); err != nil {
			t.Fatal(err)
		}
	}
	enough := longEnough(t)
	waitFor(t, func() bool {
		var bytes int64
		err := shared.query("SELECT coalesce(sum(octet_length(value)), 0) FROM "+b.Schema()+".changes", &bytes)
		if enough.Err() != nil {
			t.Fatalf("the log has %d bytes, error %v; want at most %d and a quarter", bytes, err, size)
		}
		return err == nil && bytes <= size+size/4
	})
	for _, err := range b.Watch(ctx, "thing", first) {
		if !errors.Is(err, store.ErrCompacted) {
			t.Errorf("a watch after what was trimmed: %v, want ErrCompacted", err)
		}
		break
	}
}

func TestLogIsTrimmedByAge(t *testing.T) {
	t.Parallel()
	b := open(t, postgres.Options{HistoryAge: 2 * time.Second})
	ctx := t.Context()
	first, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "1")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "2")}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		var left int
		err := shared.query(fmt.Sprintf("SELECT count(*) FROM %s.changes WHERE revision <= %d", b.Schema(), first+1), &left)
		return err == nil && left == 0
	})
}

// A look at the log asks the server for its origin once, however many changes it returns:
// the question reads a file of the server.
func TestALookAtTheLogAsksForTheOriginOnce(t *testing.T) {
	b := open(t, postgres.Options{})
	writeAll(t, b, 20)
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SET LOCAL track_functions = 'pl'"); err != nil {
		t.Fatal(err)
	}
	for name, sql := range map[string]string{
		"the log":    "SELECT count(*) FROM " + b.Schema() + ".read_log(0, '{thing}', '{NULL}', 1000, 1000000)",
		"the leases": "SELECT count(same) FROM (SELECT " + postgres.ColumnsOfHead(b.Schema()) + " FROM " + b.Schema() + ".head h LEFT JOIN " + b.Schema() + ".changes ON true) AS joined (era, opened, revision, compacted, logged, longest, same)",
	} {
		var rows, before, after int
		calls := "SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions WHERE schemaname = $1 AND funcname = 'origin'"
		if err := errors.Join(tx.QueryRow(ctx, calls, b.Schema()).Scan(&before),
			tx.QueryRow(ctx, sql).Scan(&rows), tx.QueryRow(ctx, calls, b.Schema()).Scan(&after)); err != nil {
			t.Fatal(err)
		}
		if rows < 20 || after-before != 1 {
			t.Errorf("a look at %s returns %d rows and asks for the origin %d times, want once", name, rows, after-before)
		}
	}
}

// A watch reads the log in parts of bounded size, and in whole revisions, also where one is
// larger than a part: the end of a lease removes all of its records in one.
//
// promise S2
func TestLogThatIsReadInPartsIsWhole(t *testing.T) {
	b := open(t, postgres.Options{})
	head, err := b.Commit(t.Context(), store.Txn{})
	if err != nil {
		t.Fatal(err)
	}
	var want []int // bytes and changes of each revision
	commit := func(lease store.LeaseID, values ...string) {
		txn := store.Txn{}
		bytes := 0
		for _, value := range values {
			op := put(key(fmt.Sprint(len(want), "-", len(txn.Ops))), value)
			op.Lease = lease
			txn.Ops = append(txn.Ops, op)
			bytes += len(value)
		}
		if _, err := b.Commit(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
		want = append(want, bytes, len(values))
	}
	long := strings.Repeat("v", 600_000)
	for range 5 { // 6 MB
		commit(0, long, long)
	}
	lease, err := b.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	const commits = 1024 / store.MaxTxn // more changes than a part has
	for range commits {
		commit(lease, slices.Repeat([]string{"x"}, store.MaxTxn)...)
	}
	if err := b.Revoke(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	want = append(want, commits*store.MaxTxn, commits*store.MaxTxn)
	commit(0, "last")
	var got []int
	for batch, err := range b.Watch(longEnough(t), "thing", head) {
		if err != nil {
			t.Fatalf("after %d: %v", got, err)
		}
		bytes := 0
		for _, c := range batch.Changes {
			bytes += len(c.Bytes)
		}
		if len(batch.Changes) > 0 {
			got = append(got, bytes, len(batch.Changes))
		}
		if len(got) == len(want) {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("bytes and changes of the revisions:\n%d, want\n%d", got, want)
	}
}

// A watch that the server gives nothing to stands still, and its records look current: the log
// says so, and when it goes on. On the old code the error was dropped.
func TestWatchesThatStandStillAreLogged(t *testing.T) {
	var text bytes.Buffer
	var mu sync.Mutex
	b := open(t, *(&postgres.Options{}).SetLogger(slog.New(slog.NewTextHandler(lockedWriter{&mu, &text}, nil))))
	ctx, stop := context.WithCancel(t.Context())
	began, over := make(chan struct{}), make(chan struct{})
	go func() { // ends with ctx
		defer close(over)
		for batch := range b.Watch(ctx, "thing", 0) {
			if batch.Kind == store.BatchSnapshotEnd {
				close(began)
			}
		}
	}()
	defer func() { stop(); <-over }()
	<-began
	rename := func(from, to string) {
		if err := shared.execSimple("ALTER FUNCTION " + b.Schema() + "." + from + " RENAME TO " + to); err != nil {
			t.Fatal(err)
		}
	}
	enough := longEnough(t)
	says := func(parts ...string) {
		waitFor(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			if enough.Err() != nil {
				t.Fatalf("the log does not say %q: %q", parts, text.String())
			}
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text.String(), part) })
		})
	}
	rename("read_log", "gone")
	says("watches stand still", "read_log")
	rename("gone", "read_log")
	says("watches go on")
}
