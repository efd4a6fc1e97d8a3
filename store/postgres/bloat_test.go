//go:build unix

package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
)

var bloatObjects = flag.Int("bloat", 500, "how many objects the test of the tables' sizes writes ten times each")

// Ten writes of every object leave the tables within the bytes that docs/POSTGRES.md
// states: the space of what is trimmed and replaced is used again after a vacuum. Autovacuum
// makes one by itself, with the thresholds of the store's tables; at the end of a round the
// test asks for another one. Nothing is said of times: the test's log has the writes a
// second of each round.
//
// Negative control: TestSizeCheckRejectsATableThatIsNotVacuumed.
func TestTablesStayWithinTheStatedBytes(t *testing.T) {
	t.Parallel()
	const rounds, writes = 5, 2
	n := *bloatObjects
	history := min(bloatLogged(n), 256<<20)
	s := startServer(t, "-c", "fsync=off", "-c", "autovacuum_naptime=1s")
	b := openAt(t, s.dsn(), postgres.Options{Schema: newSchema(), HistoryBytes: history})
	stat := func(column string) int64 {
		return s.number(t, fmt.Sprintf("SELECT %s FROM pg_stat_user_tables WHERE relid = '%s.changes'::regclass", column, b.Schema()))
	}
	for round := range rounds {
		began := time.Now()
		for range writes {
			writeAll(t, b, n)
		}
		perSecond := float64(n*writes) / time.Since(began).Seconds()
		t.Logf("round %d: %.0f writes a second, the log's table has %.1f times HistoryBytes", round, perSecond, float64(s.size(t, b, "changes"))/float64(history))
		if round == 0 {
			continue // the log is not full yet
		}
		waitFor(t, func() bool { // a change that is trimmed stays while one that replaced it does
			return s.number(t, fmt.Sprintf("SELECT coalesce(sum(octet_length(value) + 200), 0)::bigint FROM %s.changes", b.Schema())) <= 2*(history+history/4)
		})
		waitFor(t, func() bool { return stat("autovacuum_count") > 0 })
		// Autovacuum may have come before the last trim, and does not come again for a little.
		waitFor(t, func() bool {
			if err := s.exec("VACUUM " + b.Schema() + ".changes"); err != nil {
				t.Fatal(err)
			}
			return stat("n_dead_tup") <= int64(n/4)
		})
	}
	for _, problem := range s.oversized(t, b, n, history) {
		t.Error(problem)
	}
	t.Logf("campaign: %d writes", n*writes*rounds)
}

func TestSizeCheckRejectsATableThatIsNotVacuumed(t *testing.T) {
	n := 500
	b := open(t, postgres.Options{HistoryBytes: bloatLogged(n)})
	if err := shared.exec("ALTER TABLE " + b.Schema() + ".changes SET (autovacuum_enabled = false)"); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		writeAll(t, b, n)
	}
	if problems := shared.oversized(t, b, n, bloatLogged(n)); len(problems) != 1 {
		t.Errorf("problems of the log's table: %v", problems)
	}
}

// The table head is vacuumed, though pruning leaves it few dead rows: otherwise each snapshot that
// is older than some hundred commits makes it a page longer, for good.
//
// Negative control: the threshold of step 1 of the schema, 10,000 dead rows.
func TestHeadIsVacuumed(t *testing.T) {
	t.Parallel()
	s := startServer(t, "-c", "fsync=off", "-c", "autovacuum_naptime=1s")
	b := openAt(t, s.dsn(), postgres.Options{Schema: newSchema()})
	conn, err := pgx.Connect(t.Context(), s.dsn())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for range 3 {
		tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		var seen int64
		if err := tx.QueryRow(t.Context(), "SELECT revision FROM "+b.Schema()+".head").Scan(&seen); err != nil {
			t.Fatal(err)
		}
		for range 150 {
			if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: key("a"), Put: store.Bytes("x")}}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if size := s.number(t, "SELECT pg_relation_size('"+b.Schema()+".head')"); size <= 8192 {
		t.Fatalf("the table has %d bytes: the snapshots filled no page", size)
	}
	waitFor(t, func() bool {
		return s.number(t, "SELECT autovacuum_count FROM pg_stat_user_tables WHERE relid = '"+b.Schema()+".head'::regclass") > 0
	})
}

const bloatValue = 600

// bloatLogged is what one write of each of n objects adds to the log, in bytes.
func bloatLogged(n int) int64 { return int64(n) * (bloatValue + 200) }

// oversized names the tables that are larger than docs/POSTGRES.md says.
func (s *server) oversized(t *testing.T, b *postgres.Backend, n int, history int64) (problems []string) {
	t.Helper()
	for table, most := range map[string]int64{
		"changes": 5 * history,                               // twice that of changes, and what was written since the last vacuum, which is as much
		"records": 3 * int64(n) * (bloatValue + 100) * 5 / 4, // fillfactor 80
		"head":    1 << 20,
	} {
		got := s.size(t, b, table)
		t.Logf("%s: %d bytes", table, got)
		if got > most {
			problems = append(problems, fmt.Sprintf("the table %s has %d bytes, want at most %d", table, got, most))
		}
	}
	return problems
}

// size is that of a table with its indexes, in bytes.
func (s *server) size(t *testing.T, b *postgres.Backend, table string) int64 {
	t.Helper()
	return s.number(t, fmt.Sprintf("SELECT pg_total_relation_size('%s.%s')", b.Schema(), table))
}

func (s *server) number(t *testing.T, sql string) (n int64) {
	t.Helper()
	if err := s.query(sql, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// writeAll writes n objects, by many goroutines, so that their commits are gathered.
func writeAll(t *testing.T, b store.Backend, n int) {
	t.Helper()
	var all sync.WaitGroup
	next := make(chan int)
	value := make(store.Bytes, bloatValue)
	for range 64 {
		all.Go(func() {
			for i := range next {
				if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: key(fmt.Sprint(i)), Put: value}}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}
