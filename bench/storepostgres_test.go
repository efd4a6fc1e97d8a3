//go:build peers && unix

package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
)

// benchmarkPostgresStore: this module's backend beside pgx, both on one server that syncs
// to the disk and shares the cores with them. impl=pgx makes each write as one statement
// of its own, UPDATE … WHERE key AND revision, through a pool of so many connections.
// Both move records of 600 bytes, of 100,000 or a million (-postgres-objects).
//
// A disk's syncs drift by half within minutes, so the two are compared by turns:
// op=cas/…/turns alternates slices of 700 ms, for one client single writes. An iteration is
// one slice, or write, of each; x-raw is the median of the quotients of their throughputs, and
// of single writes and deliveries raw's median time in tend's.
// cpu-x-raw is the quotient of the processor times of a write, of the server and of this
// process together, on Linux: other load on the machine hardly changes it.
func benchmarkPostgresStore(b *testing.B) {
	if _, err := pgBinaries(); err != nil {
		b.Skip(err)
	}
	cas := "op=cas/objects=" + short(*postgresObjects)
	b.Run(cas+"/clients=1/turns", alternateWrites)
	for _, clients := range []int{16, 64, 256} {
		for _, pool := range []int{8, 32, 64} {
			b.Run(fmt.Sprintf("%s/clients=%d/turns/pool=%d", cas, clients, pool), func(b *testing.B) { alternateSlices(b, clients, pool) })
		}
	}
	b.Run("op=deliver/writers=0/turns", alternateDeliveries)
	b.Run("op=deliver/writers=64/impl=tend", func(b *testing.B) { deliverPostgres(b, 64) })
	b.Run("op=deliver/writers=64/impl=pgx", func(b *testing.B) { deliverRaw(b, 64) })
	b.Run("op=watch/watchers=100", func(b *testing.B) {
		b.Run("impl=tend", func(b *testing.B) { watchPostgres(b, 100) })
		b.Run("impl=pgx", func(b *testing.B) { watchRawRows(b, 100) })
	})
}

// pgServer is the one PostgreSQL server of the process, started when first asked for and
// stopped by TestMain.
var pgServer struct {
	once    sync.Once
	err     error
	dir     string
	dsn     string
	cmd     *exec.Cmd
	schemas atomic.Int64
}

func pgBinaries() (string, error) {
	if dir := os.Getenv("TEND_POSTGRES_BIN"); dir != "" {
		return dir, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errors.New("there is no PostgreSQL server on this machine")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

func pgDSN(b *testing.B) string {
	b.Helper()
	pgServer.once.Do(func() { pgServer.err = startPostgres() })
	if pgServer.err != nil {
		b.Fatal(pgServer.err)
	}
	return pgServer.dsn
}

func startPostgres() error {
	bin, err := pgBinaries()
	if err != nil {
		return err
	}
	if pgServer.dir, err = os.MkdirTemp("/tmp", "tend-bench-pg-"); err != nil {
		return err
	}
	attr := &syscall.SysProcAttr{Setpgid: true}
	if u, err := user.Lookup("postgres"); err == nil && os.Geteuid() == 0 { // it refuses to be root
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(pgServer.dir, uid, gid); err != nil {
			return err
		}
	}
	data := filepath.Join(pgServer.dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")
	initdb.SysProcAttr, initdb.Dir = attr, pgServer.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	pgServer.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", pgServer.dir, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=", "-c", "shared_buffers=512MB", "-c", "max_connections=200", "-c", "max_wal_size=4GB", "-c", "log_min_messages=fatal")
	pgServer.cmd.SysProcAttr, pgServer.cmd.Dir = attr, pgServer.dir
	if err := pgServer.cmd.Start(); err != nil {
		return err
	}
	pgServer.dsn = fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres", pgServer.dir, port)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := pgx.Connect(context.Background(), pgServer.dsn)
		if err == nil {
			return conn.Close(context.Background())
		}
		if time.Now().After(end) {
			return err
		}
	}
}

func stopPostgres() {
	if pgServer.cmd != nil {
		_ = pgServer.cmd.Process.Signal(syscall.SIGQUIT)
		_ = pgServer.cmd.Wait()
	}
	if pgServer.dir != "" {
		_ = os.RemoveAll(pgServer.dir)
	}
}

func openPostgres(b *testing.B, schema string) store.FullBackend {
	s, err := postgres.Open(context.Background(), pgDSN(b), &postgres.Options{Schema: schema, Timeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func pgPool(b *testing.B, conns int) *pgxpool.Pool {
	pool, err := pgxpool.New(context.Background(), fmt.Sprintf("%s pool_max_conns=%d", pgDSN(b), conns))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return pool
}

func pgExec(b *testing.B, sql string, args ...any) {
	b.Helper()
	pool, err := pgxpool.New(context.Background(), pgDSN(b))
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(context.Background(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

// stock is a store and a plain table with the same records.
type stock struct {
	schema  string
	backend store.FullBackend
	raw     *pgxpool.Pool
	names   []string
	tend    []store.Revision // by record
	plain   []int64
	value   []byte
}

func newStock(b *testing.B, pool int) *stock {
	b.Helper()
	s := &stock{schema: fmt.Sprint("bench", pgServer.schemas.Add(1)), value: make([]byte, 600)}
	for i := range s.value {
		s.value[i] = byte('a' + i*7%26)
	}
	b.Cleanup(func() { pgExec(b, "DROP SCHEMA IF EXISTS "+s.schema+" CASCADE") }) // after the backends are closed
	s.backend, s.raw = openPostgres(b, s.schema), pgPool(b, pool)
	n := *postgresObjects
	pgExec(b, `CREATE TABLE `+s.schema+`.raw (kind text, namespace text, name text, revision bigint, value bytea, PRIMARY KEY (kind, namespace, name)) WITH (fillfactor = 80)`)
	pgExec(b, `INSERT INTO `+s.schema+`.raw SELECT 'thing', 'ns', 'k' || i, 1, $1 FROM generate_series(0, $2::integer - 1) i`, s.value, n)
	pgExec(b, `INSERT INTO `+s.schema+`.records SELECT 'thing', 'ns', 'k' || i, 0, 1, 1, 0, $1 FROM generate_series(0, $2::integer - 1) i`, s.value, n)
	pgExec(b, `VACUUM ANALYZE `+s.schema+`.raw`)
	pgExec(b, `VACUUM ANALYZE `+s.schema+`.records`)
	pgExec(b, `CHECKPOINT`)
	s.names, s.tend, s.plain = make([]string, n), make([]store.Revision, n), make([]int64, n)
	for i := range n {
		s.names[i], s.tend[i], s.plain[i] = fmt.Sprint("k", i), 1, 1
	}
	return s
}

func (s *stock) casTend(i int) error {
	key := store.Key{Namespace: "ns", Name: s.names[i]}
	rev, err := s.backend.Commit(context.Background(), store.Txn{
		If:  []store.Compare{{Kind: "thing", Key: key, Revision: s.tend[i]}},
		Ops: []store.Op{{Kind: "thing", Key: key, Put: store.Bytes(s.value)}},
	})
	s.tend[i] = rev
	return err
}

func (s *stock) casRaw(i int) error {
	tag, err := s.raw.Exec(context.Background(), "UPDATE "+s.schema+".raw SET value = $5, revision = $4 + 1 WHERE kind = $1 AND namespace = $2 AND name = $3 AND revision = $4",
		"thing", "ns", s.names[i], s.plain[i], s.value)
	s.plain[i]++
	return notOne(tag, err)
}

func notOne(tag pgconn.CommandTag, err error) error {
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("not written")
	}
	return err
}

// slice has so many clients write for a time, each to records of its own, and returns the
// writes a second.
func (s *stock) slice(b *testing.B, clients int, length time.Duration, next []int, cas func(i int) error) float64 {
	var all sync.WaitGroup
	var done atomic.Int64
	began := time.Now()
	for c := range clients {
		all.Go(func() {
			for time.Since(began) < length {
				next[c] += clients * 37
				if next[c] >= len(s.names) {
					next[c] = c
				}
				if err := cas(next[c]); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

func alternateSlices(b *testing.B, clients, pool int) {
	s := newStock(b, pool)
	next := [2][]int{make([]int, clients), make([]int, clients)}
	for c := range clients {
		next[0][c], next[1][c] = c, c
	}
	const length = 700 * time.Millisecond
	s.slice(b, clients, length, next[0], s.casTend)
	s.slice(b, clients, length, next[1], s.casRaw)
	var tend, raw, quotient []float64
	var cpu [2]time.Duration
	var writes [2]float64
	slice := func(i int, cas func(i int) error) float64 {
		server, own := pgCPU(), ownCPU()
		perSecond := s.slice(b, clients, length, next[i], cas)
		cpu[i] += ownCPU() - own + pgCPU() - server
		writes[i] += perSecond
		return perSecond
	}
	b.ResetTimer()
	for range b.N {
		x, y := slice(0, s.casTend), slice(1, s.casRaw)
		tend, raw, quotient = append(tend, x), append(raw, y), append(quotient, x/y)
	}
	reportCPU(b, cpu, writes)
	b.ReportMetric(middle(tend), "tend/s")
	b.ReportMetric(middle(raw), "raw/s")
	b.ReportMetric(middle(quotient), "x-raw")
}

func alternateWrites(b *testing.B) {
	s := newStock(b, 8)
	var took [2][]float64
	var cpu [2]time.Duration
	for i := range 200 {
		_, _ = s.casTend(i), s.casRaw(i)
	}
	write := func(side, i int, cas func(i int) error) {
		server, own, t := pgCPU(), ownCPU(), time.Now()
		if err := cas(i); err != nil {
			b.Fatal(err)
		}
		took[side] = append(took[side], float64(time.Since(t)))
		cpu[side] += ownCPU() - own + pgCPU() - server
	}
	b.ResetTimer()
	for n := range b.N {
		i := n * 37 % len(s.names)
		write(0, i, s.casTend)
		write(1, i, s.casRaw)
	}
	reportCPU(b, cpu, [2]float64{float64(b.N), float64(b.N)})
	tend, raw := took[0], took[1]
	b.ReportMetric(middle(tend), "tend-ns")
	b.ReportMetric(middle(raw), "raw-ns")
	b.ReportMetric(middle(raw)/middle(tend), "x-raw")
}

// reportCPU reports the quotient of the processor times of a write, of raw and of tend.
func reportCPU(b *testing.B, cpu [2]time.Duration, writes [2]float64) {
	if cpu[0] > 0 && pgCPU() > 0 {
		b.ReportMetric(float64(cpu[1])/writes[1]/(float64(cpu[0])/writes[0]), "cpu-x-raw")
	}
}

// pgCPU is the processor time that the server's processes have used; 0 where there is no
// /proc.
func pgCPU() (sum time.Duration) {
	pid := pgServer.cmd.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	for _, p := range append(strings.Fields(string(children)), strconv.Itoa(pid)) {
		text, _ := os.ReadFile("/proc/" + p + "/schedstat")
		if f := strings.Fields(string(text)); len(f) > 0 {
			ns, _ := strconv.ParseInt(f[0], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

func middle(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// background keeps so many clients writing to all records but the first, until stop.
func (s *stock) background(b *testing.B, writers int, cas func(i int) error) (stop func()) {
	var over atomic.Bool
	var all sync.WaitGroup
	for c := range writers {
		all.Go(func() {
			for i := c + 1; !over.Load(); i += writers {
				if i >= len(s.names) {
					i = c + 1
				}
				if err := cas(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	return func() { over.Store(true); all.Wait() }
}

// watchedBySecond has another backend watch, and returns when each change of the first record
// has arrived there. stop ends it.
func (s *stock) watchedBySecond(b *testing.B) (arrived <-chan time.Time, stop func()) {
	other := openPostgres(b, s.schema)
	ctx, cancel := context.WithCancel(context.Background())
	head, err := other.Commit(ctx, store.Txn{})
	if err != nil {
		b.Fatal(err)
	}
	got := make(chan time.Time, 1)
	var all sync.WaitGroup
	all.Go(func() {
		for batch, err := range other.Watch(ctx, "thing", head) {
			if err != nil {
				return
			}
			for _, c := range batch.Changes {
				if c.Key.Name == "k0" {
					got <- time.Now()
				}
			}
		}
	})
	return got, func() { cancel(); all.Wait() }
}

// casNotify is an UPDATE and a NOTIFY in one transaction, as one statement.
func (s *stock) casNotify(i int) error {
	tag, err := s.raw.Exec(context.Background(), "WITH u AS (UPDATE "+s.schema+".raw SET value = $5, revision = $4 + 1 WHERE kind = $1 AND namespace = $2 AND name = $3 AND revision = $4 RETURNING name) SELECT pg_notify($6, name) FROM u",
		"thing", "ns", s.names[i], s.plain[i], s.value, s.schema+"_raw")
	s.plain[i]++
	return notOne(tag, err)
}

// heardRaw has a connection listen for casNotify and read each row that it hears of, and
// returns when that of the first record was read. stop ends it.
func (s *stock) heardRaw(b *testing.B) (arrived <-chan time.Time, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := pgx.Connect(ctx, pgDSN(b))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "LISTEN "+s.schema+"_raw"); err != nil {
		b.Fatal(err)
	}
	got := make(chan time.Time, 1)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				return
			}
			var value []byte
			if err := conn.QueryRow(ctx, "SELECT value FROM "+s.schema+".raw WHERE kind = 'thing' AND namespace = 'ns' AND name = $1", n.Payload).Scan(&value); err != nil {
				if ctx.Err() == nil {
					b.Error(err)
				}
				return
			}
			if n.Payload == "k0" {
				got <- time.Now()
			}
		}
	})
	return got, func() { cancel(); all.Wait(); _ = conn.Close(context.Background()) }
}

// deliveries returns how long n changes of the first record took, from the call that writes
// it until it has arrived.
func deliveries(b *testing.B, n int, cas func(i int) error, arrived <-chan time.Time) (took []float64) {
	for range n {
		t := time.Now()
		if err := cas(0); err != nil {
			b.Fatal(err)
		}
		took = append(took, float64((<-arrived).Sub(t)))
	}
	return took
}

// alternateDeliveries: one object's change, from the call of Commit until a watcher in
// another backend has it, and a change of raw, by turns, while nothing else is written.
func alternateDeliveries(b *testing.B) {
	s := newStock(b, 8)
	watched, stopWatch := s.watchedBySecond(b)
	defer stopWatch()
	heard, stopListen := s.heardRaw(b)
	defer stopListen()
	deliveries(b, 50, s.casTend, watched)
	deliveries(b, 50, s.casNotify, heard)
	var tend, raw []float64
	b.ResetTimer()
	for range b.N {
		tend = append(tend, deliveries(b, 1, s.casTend, watched)...)
		raw = append(raw, deliveries(b, 1, s.casNotify, heard)...)
	}
	b.ReportMetric(middle(tend), "tend-ns")
	b.ReportMetric(middle(raw), "raw-ns")
	b.ReportMetric(middle(raw)/middle(tend), "x-raw")
	b.ReportMetric(raw[len(raw)/10]/tend[len(tend)/10], "fastest-tenth-x-raw") // middle sorted them
}

// deliverPostgres: a change of one object until a watcher in another backend has it, while
// others write. The median is reported.
func deliverPostgres(b *testing.B, writers int) {
	s := newStock(b, 64)
	arrived, stop := s.watchedBySecond(b)
	defer stop()
	defer s.background(b, writers, s.casTend)()
	b.ResetTimer()
	b.ReportMetric(middle(deliveries(b, b.N, s.casTend, arrived)), "median-ns")
}

// deliverRaw: the same with raw, whose other writers notify too, as theirs would.
func deliverRaw(b *testing.B, writers int) {
	s := newStock(b, 64)
	arrived, stop := s.heardRaw(b)
	defer stop()
	defer s.background(b, writers, s.casNotify)()
	b.ResetTimer()
	b.ReportMetric(middle(deliveries(b, b.N, s.casNotify, arrived)), "median-ns")
}

// watchPostgres: 100 local watchers of one process each see b.N changes.
func watchPostgres(b *testing.B, watchers int) {
	s := newStock(b, 8)
	head, err := s.backend.Commit(context.Background(), store.Txn{})
	if err != nil {
		b.Fatal(err)
	}
	var all sync.WaitGroup
	for range watchers {
		all.Go(func() {
			n := 0
			for batch, err := range s.backend.Watch(context.Background(), "thing", head) {
				if err != nil {
					b.Error(err)
					return
				}
				if n += len(batch.Changes); n >= b.N {
					return
				}
			}
		})
	}
	measure(b, func() {
		for i := range b.N {
			if err := s.casTend(i % len(s.names)); err != nil {
				b.Fatal(err)
			}
		}
		all.Wait()
	})
}

// watchRawRows: 100 connections that LISTEN and read each row that they hear of.
func watchRawRows(b *testing.B, watchers int) {
	s := newStock(b, 8)
	ctx := context.Background()
	var all sync.WaitGroup
	for range watchers {
		conn, err := pgx.Connect(ctx, pgDSN(b))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close(ctx) })
		if _, err := conn.Exec(ctx, "LISTEN "+s.schema+"_raw"); err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			for range b.N {
				n, err := conn.WaitForNotification(ctx)
				if err != nil {
					b.Error(err)
					return
				}
				var value []byte
				if err := conn.QueryRow(ctx, "SELECT value FROM "+s.schema+".raw WHERE kind = 'thing' AND namespace = 'ns' AND name = $1", n.Payload).Scan(&value); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	measure(b, func() {
		for i := range b.N {
			j := i % len(s.names)
			if _, err := s.raw.Exec(ctx, "WITH u AS (UPDATE "+s.schema+".raw SET value = $2 WHERE kind = 'thing' AND namespace = 'ns' AND name = $1 RETURNING name) SELECT pg_notify($3, name) FROM u",
				s.names[j], s.value, s.schema+"_raw"); err != nil {
				b.Fatal(err)
			}
		}
		all.Wait()
	})
}
