package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed schema.sql
var schemaSQL string

// steps make the schema: step n follows on step n-1. A step that was released is never edited.
var steps = regexp.MustCompile(`(?m)^-- step \d+: .*\n`).Split(schemaSQL, -1)[1:]

// compatible is the last step that changed what earlier programs rely on: the steps after it
// only add. It is the version of a schema. A program works with every schema whose version it
// knows, whatever was added, so that servers of both programs run side by side and are started
// again during a deployment.
const compatible = 2

// Schema returns the SQL that creates the schema of that name ("" means "tend") in its
// newest version, for databases whose schema is not created by [Open]; see also [Upgrade]. It is to be run
// once, in one transaction, by the role that will own the tables. The role that the
// servers use needs what the GRANT statements at its end, which are comments, give.
func Schema(name string) (string, error) {
	v, err := (&Options{Schema: name}).withDefaults()
	if err != nil {
		return "", err
	}
	return strings.Join([]string{
		"CREATE SCHEMA IF NOT EXISTS " + v.Schema + ";",
		script(v.Schema, 0), first(v.Schema) + ";", grants(v.Schema),
	}, "\n"), nil
}

// Upgrade returns the SQL that takes the schema of that name ("" means "tend") from an
// earlier step to the newest. The step is in the column steps of its table head, or in the
// column version where there is no such column. It is run as that of [Schema] is.
func Upgrade(name string, from int) (string, error) {
	v, err := (&Options{Schema: name}).withDefaults()
	if err != nil {
		return "", err
	}
	if from < 1 || from >= len(steps) {
		return "", fmt.Errorf("postgres: there is no upgrade from step %d of the schema: the newest is %d", from, len(steps))
	}
	return script(v.Schema, from) + upgraded(v.Schema) + ";\n" + grants(v.Schema), nil
}

func script(schema string, from int) string {
	return strings.ReplaceAll(strings.Join(steps[from:], ""), "{schema}", schema)
}

func first(schema string) string {
	return fmt.Sprintf("INSERT INTO %s.head (version, steps, origin) VALUES (%d, %d, %[1]s.origin())", schema, compatible, len(steps))
}

func upgraded(schema string) string {
	return fmt.Sprintf("UPDATE %s.head SET version = %d, steps = %d", schema, compatible, len(steps))
}

func grants(schema string) string {
	return fmt.Sprintf(`
-- GRANT USAGE ON SCHEMA %[1]s TO the_role;
-- GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO the_role;
-- GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %[1]s TO the_role;
`, schema)
}

// errSchema is the error of a server whose schema is newer than this program.
var errSchema = errors.New("postgres: the schema is of a newer version of tend")

// migrate creates the schema or takes it to the newest version. Servers that start
// together may all try: one of them does it in one transaction, and the others find it
// done. The lock only spares them the errors of losing that race.
func (b *backend) migrate(ctx context.Context) error {
	for {
		err := b.migrateOnce(ctx)
		var pg *pgconn.PgError
		raced := errors.As(err, &pg) && (pg.Code == "23505" || pg.Code == "42P06" || pg.Code == "42P07" || pg.Code == "42723" || retryable(pg.Code))
		if !raced || !pause(ctx, 50*time.Millisecond) {
			return err
		}
	}
}

func (b *backend) migrateOnce(ctx context.Context) error {
	var version, done int
	err := b.readers.use(ctx, func(c *pgx.Conn) (err error) {
		version, done, err = b.version(ctx, c)
		return err
	})
	switch {
	case err != nil:
		return err
	case version > len(steps):
		return fmt.Errorf("%w: schema %s has version %d, this program knows %d", errSchema, b.opts.Schema, version, len(steps))
	case done >= len(steps):
		return nil
	}
	return b.readers.use(ctx, func(c *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { return b.upgrade(ctx, tx) })
	})
}

// upgrade makes the steps that are missing.
func (b *backend) upgrade(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0::bigint))", "tend schema "+b.opts.Schema); err != nil {
		return err
	}
	_, done, err := b.version(ctx, tx) // again, now that it is our turn; on the same connection: the pool may have no other
	if err != nil || done >= len(steps) {
		return err
	}
	if done == 0 {
		var there bool
		if err := tx.QueryRow(ctx, "SELECT to_regnamespace($1) IS NOT NULL", b.opts.Schema).Scan(&there); err != nil {
			return err
		}
		if !there {
			if _, err := tx.Exec(ctx, "CREATE SCHEMA "+b.opts.Schema); err != nil {
				return err
			}
		}
	}
	if _, err := tx.Exec(ctx, script(b.opts.Schema, done), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	end := upgraded(b.opts.Schema)
	if done == 0 {
		end = first(b.opts.Schema)
	}
	_, err = tx.Exec(ctx, end)
	return err
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version is that of the schema, and done its steps that were done; 0: there is none yet.
func (b *backend) version(ctx context.Context, on querier) (version, done int, err error) {
	var there bool
	if err := on.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", b.opts.Schema+".head").Scan(&there); err != nil || !there {
		return 0, 0, err
	}
	err = on.QueryRow(ctx, b.sql("SELECT version, coalesce((to_jsonb(h) ->> 'steps')::integer, version) FROM {schema}.head h")).Scan(&version, &done)
	return version, done, err
}

// sql puts the name of the schema into a statement.
func (b *backend) sql(text string) string {
	return strings.ReplaceAll(text, "{schema}", b.opts.Schema)
}
