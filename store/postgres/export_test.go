package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/store"
)

type Backend = backend

// Opened is what Open or OpenPool returned.
func Opened(b store.FullBackend, err error) (*Backend, error) {
	own, _ := b.(*backend)
	return own, err
}

// Compact drops the log up to a revision.
func (b *backend) Compact(ctx context.Context, r store.Revision) error {
	return b.compact(ctx, int64(r), false)
}

// CompactAgain is Compact after one that failed.
func (b *backend) CompactAgain(ctx context.Context, r store.Revision) error {
	return b.compact(ctx, int64(r), true)
}

// LimitTrims bounds the parts of trims. None may be under way.
func (b *backend) LimitTrims(rows int, each time.Duration) { b.trims = trimLimits{rows, each} }

// SetGather replaces gather. No kind may be watched yet.
func (b *backend) SetGather(d time.Duration) { b.gather = d }

// EndLease ends a lease that was renewed so often when it was seen.
func (b *backend) EndLease(ctx context.Context, id store.LeaseID, renewed int) error {
	return b.endLeases(ctx, []int64{int64(id)}, []int64{int64(renewed)}, 0)
}

// Schema is the schema in use.
func (b *backend) Schema() string { return b.opts.Schema }

// Sending says that a transaction is under way.
func (b *backend) Sending() bool {
	b.batch.mu.Lock()
	defer b.batch.mu.Unlock()
	return b.batch.sending
}

// FillWriters makes all sessions that change the store.
func (b *backend) FillWriters(ctx context.Context) error {
	for range writerConns {
		conn, err := b.writers.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
	}
	return nil
}

// Queued counts the Commits that wait for the next transaction.
func (b *backend) Queued() int {
	return b.batch.queued()
}

// What bounds the looks for the commits of others of a process that reads some slots.
const (
	Gather      = gather
	GatherMost  = gatherMost
	GatherBurst = gatherBurst
)

// Reads counts how often the log was read for watches.
func (b *backend) Reads() int {
	b.tail.mu.Lock()
	defer b.tail.mu.Unlock()
	return b.tail.reads
}

// DrainSome is one step of DrainAll.
func (b *backend) DrainSome(ctx context.Context, after int64) (next int64, more bool, err error) {
	return b.drainSome(ctx, after)
}

// DrainAll applies the declarations that there are.
func (b *backend) DrainAll(ctx context.Context) error { return b.drainAll(ctx) }

// Steps is the newest step of the schema.
func Steps() int { return len(steps) }

// Compatible is the version of the newest schema.
const Compatible = compatible

// SchemaOf is the SQL of version 1 or 2, as the programs of then made it.
func SchemaOf(version int, name string) string {
	return "CREATE SCHEMA " + name + ";" + strings.ReplaceAll(strings.Join(steps[:version], ""), "{schema}", name) +
		fmt.Sprintf("INSERT INTO %s.head (version, origin) VALUES (%d, %[1]s.origin());", name, version)
}

// MostConns is how many connections the pool has at most.
func (b *backend) MostConns() int32 { return b.readers.Config().MaxConns }

// ColumnsOfHead are the columns that every look at the head h reads.
func ColumnsOfHead(schema string) string {
	return strings.ReplaceAll(columnsOfHead, "{schema}", schema)
}

// ExplainList is how the server reads the first page of a list of some slots, with counts.
func (b *backend) ExplainList(ctx context.Context, kind string, slots store.SlotSet) (plan string, err error) {
	q := b.sql("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) " + pageSQL(recordsOf(slots)))
	rows, err := b.readers.Query(ctx, q, kind, "", "", "", pageRecords, pageBytes, bitmap(slots))
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), err
}

// SetQuiet replaces the time after which a connection for notifications is asked whether it lives.
// No kind may be watched yet.
func (b *backend) SetQuiet(d time.Duration) { b.quiet = d }

func (o *Options) SetBatch(v int) *Options {
	o.batch = v
	return o
}

func (o *Options) SetPoll(v time.Duration) *Options {
	o.poll = v
	return o
}

func (o *Options) SetLogger(v *slog.Logger) *Options {
	o.logger = v
	return o
}
