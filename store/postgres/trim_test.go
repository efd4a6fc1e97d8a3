//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/postgres"
)

// A trim that the server does not answer ends, and the next one drops what this one left. The
// test holds a row that the trim drops; a server that does not answer at all is the same to it.
func TestTrimThatHangsEndsAndIsMadeAgain(t *testing.T) {
	b := open(t, postgres.Options{})
	b.LimitTrims(4, 300*time.Millisecond)
	for range 3 {
		writeAll(t, b, 10)
	}
	head, err := b.Commit(t.Context(), store.Txn{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var held int64
	if err := tx.QueryRow(t.Context(), fmt.Sprintf("SELECT revision FROM %s.changes WHERE revision = (SELECT max(revision) FROM %[1]s.changes) FOR UPDATE", b.Schema())).Scan(&held); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- b.Compact(context.Background(), head) }() // waited for below
	select {
	case err = <-done:
	case <-longEnough(t).Done():
		t.Error("a trim of which the server does not answer a request does not end")
		_ = tx.Rollback(context.Background())
		<-done
		return
	}
	if err == nil || !strings.Contains(err.Error(), "no answer within") {
		t.Fatalf("a trim that cannot drop a change: %v, want a timeout", err)
	}
	count := func() int64 { return shared.number(t, fmt.Sprintf("SELECT count(*) FROM %s.changes", b.Schema())) }
	if n := count(); n == 0 || n > 4 { // the parts before were dropped
		t.Errorf("after a trim whose last part hung the log has %d changes, want 1 to 4", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.LimitTrims(4, time.Minute)
	if err := b.CompactAgain(t.Context(), head); err != nil || count() != 0 {
		t.Errorf("the trim after it: error %v, and the log has %d changes, want none", err, count())
	}
}

// Requests that are to have any time have it in trims and upgrades, too. On the old code ten times
// the longest time was less than none, and nothing was trimmed.
func TestTrimOfABackendWithoutATimeout(t *testing.T) {
	b := open(t, postgres.Options{Timeout: math.MaxInt64})
	head, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("a"), "1")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Compact(t.Context(), head); err != nil {
		t.Errorf("Compact: %v", err)
	}
}

// unmeasured makes the request fail that measures the log, as a statement_timeout of the role does
// that is shorter than it takes to read the whole log.
type unmeasured struct{}

func (unmeasured) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(q.SQL, "AS newest WHERE bytes") {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

func (unmeasured) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// On the old code nothing was trimmed from then on, and the larger the log became the longer it
// took to measure.
func TestLogThatCannotBeMeasuredIsTrimmedByAge(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Tracer = unmeasured{}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b, err := postgres.Opened(postgres.OpenPool(t.Context(), pool, (&postgres.Options{
		Schema: newSchema(), Timeout: patience, HistoryBytes: 1000, HistoryAge: time.Second,
	}).SetLogger(slog.New(slog.DiscardHandler))))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for range 3 {
		writeAll(t, b, 10)
	}
	enough := longEnough(t)
	waitFor(t, func() bool {
		n := shared.number(t, fmt.Sprintf("SELECT count(*) FROM %s.changes", b.Schema()))
		if n > 0 && enough.Err() != nil {
			t.Fatalf("the log has %d changes that are older than HistoryAge", n)
		}
		return n == 0
	})
}

// A trim in parts leaves what one in a single part does: the change of each object before
// those that are left, because pages of a list that began between need it.
func TestTrimInPartsKeepsWhatLaterChangesReplaced(t *testing.T) {
	left := func(rows int) (n int64) {
		b := open(t, postgres.Options{})
		b.LimitTrims(rows, time.Minute)
		var middle store.Revision
		for i := range 40 {
			r, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key(fmt.Sprint(i%7)), fmt.Sprint(i))}})
			if err != nil {
				t.Fatal(err)
			}
			if i == 29 {
				middle = r
			}
		}
		if err := b.Compact(t.Context(), middle); err != nil {
			t.Fatal(err)
		}
		return shared.number(t, fmt.Sprintf("SELECT count(*) FROM %s.changes", b.Schema()))
	}
	const want = 10 + 7 // the last ten, and what they replaced
	for _, rows := range []int{1, 3, 1000} {
		if n := left(rows); n != want {
			t.Errorf("trimmed in parts of %d changes the log has %d, want %d", rows, n, want)
		}
	}
}

// Trims of two servers that drop the same changes at once wait for each other and do not
// deadlock, in whatever order their plans find the changes. A third transaction holds the change
// in the middle, until both wait. Both are trims made again: of two that are not, the later one
// drops nothing.
//
// Seen to fail with a statement that locks the changes in the order of its plan.
func TestTrimsOfTwoServersDoNotDeadlock(t *testing.T) {
	first := open(t, postgres.Options{})
	second := openAt(t, shared.socket()+" options='-c enable_seqscan=off -c enable_bitmapscan=off'", postgres.Options{Schema: first.Schema()})
	writeAll(t, first, 20)
	head, err := first.Commit(t.Context(), store.Txn{})
	if err != nil {
		t.Fatal(err)
	}
	// The order on the disk is not that of the revisions: a table whose space is used again
	// becomes so by itself.
	if err := shared.exec(strings.ReplaceAll(`
		CREATE TEMPORARY TABLE old AS SELECT * FROM {schema}.changes;
		TRUNCATE {schema}.changes;
		INSERT INTO {schema}.changes SELECT * FROM old ORDER BY revision DESC;
		ANALYZE {schema}.changes`, "{schema}", first.Schema())); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), shared.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), fmt.Sprintf("SELECT FROM %s.changes WHERE revision = (SELECT revision FROM %[1]s.changes ORDER BY revision OFFSET 10 LIMIT 1) FOR UPDATE", first.Schema())); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2) // both are waited for below
	go func() { done <- first.CompactAgain(context.Background(), head) }()
	go func() { done <- second.CompactAgain(context.Background(), head) }()
	waitFor(t, func() bool {
		return shared.number(t, fmt.Sprintf(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%DELETE FROM %s.changes %%'`, first.Schema())) == 2
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("a trim beside another: %v", err)
		}
	}
	if n := shared.number(t, fmt.Sprintf("SELECT count(*) FROM %s.changes", first.Schema())); n != 0 {
		t.Errorf("after two trims the log has %d changes, want none", n)
	}
}

// gate holds up what reads the log for watches, while it is closed.
type gate struct {
	mu      sync.Mutex // guards what follows
	open    chan struct{}
	waiting int
}

func (g *gate) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(q.SQL, ".read_log(") {
		return ctx
	}
	g.mu.Lock()
	open := g.open
	if open != nil {
		g.waiting++
	}
	g.mu.Unlock()
	if open != nil {
		<-open
	}
	return ctx
}

func (*gate) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.waiting = make(chan struct{}), 0
}

func (g *gate) held() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting > 0
}

func (g *gate) letThrough() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
	g.open = nil
}

// A server that is late at reading the log has what is still there of it without a gap. Where the log was
// trimmed beyond what it has seen it begins again, and its cache tells of what was deleted meanwhile.
//
// Seen to fail with a tail that did not compare its place with where the log begins: the deletion was
// never told, and the deleted object stayed in the cache.
//
// promise S2
func TestServerThatIsLateLosesNothingByATrim(t *testing.T) {
	for _, beyond := range []bool{false, true} {
		t.Run(fmt.Sprintf("beyond=%v", beyond), func(t *testing.T) {
			first := open(t, postgres.Options{})
			cfg, err := pgxpool.ParseConfig(shared.socket())
			if err != nil {
				t.Fatal(err)
			}
			var g gate
			cfg.ConnConfig.Tracer = &g
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			second, err := postgres.Opened(postgres.OpenPool(t.Context(), pool, (&postgres.Options{Schema: first.Schema(), Timeout: patience}).SetLogger(slog.New(slog.DiscardHandler))))
			if err != nil {
				t.Fatal(err)
			}
			defer second.Close()
			things := func(b store.Backend) *store.Store[int, struct{}] {
				s, err := store.New[int, struct{}](b, "thing", nil)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			write := things(first)
			created := make(map[string]*store.Object[int, struct{}])
			create := func(name string) {
				if created[name], err = write.Create(t.Context(), &store.Object[int, struct{}]{Meta: store.Meta{Name: name}}); err != nil {
					t.Fatal(err)
				}
			}
			create("stays")
			create("goes")
			c, err := cache.New(things(second), nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			running.Go(func() { _ = c.Run(ctx) })
			told := make(chan string, 100)
			running.Go(func() {
				for ch := range c.Changes(ctx, nil) {
					if ch.New == nil && ch.Old != nil {
						told <- "deleted " + ch.Old.Name
					}
				}
			})
			<-c.Synced()
			waitFor(t, func() bool { return c.Revision() >= created["goes"].Revision })

			g.close()
			create("came")
			waitFor(t, g.held)
			seen := c.Revision()
			if err := write.Delete(t.Context(), created["goes"]); err != nil {
				t.Fatal(err)
			}
			create("last")
			if to := created["last"].Revision; beyond {
				err = first.Compact(t.Context(), to)
			} else {
				err = first.Compact(t.Context(), seen)
			}
			if err != nil {
				t.Fatal(err)
			}
			g.letThrough()
			waitFor(t, func() bool { return c.Revision() >= created["last"].Revision })
			var names []string
			for o := range c.All() {
				names = append(names, o.Name)
			}
			slices.Sort(names)
			if fmt.Sprint(names) != "[came last stays]" {
				t.Errorf("the cache has %v", names)
			}
			select {
			case what := <-told:
				if what != "deleted goes" {
					t.Errorf("told: %s", what)
				}
			case <-longEnough(t).Done():
				t.Error("nothing was told of the deletion")
			}
			if n := c.Snapshot().Compacted; n > 0 != beyond {
				t.Errorf("the cache began again %d times after a trim", n)
			}
		})
	}
}
