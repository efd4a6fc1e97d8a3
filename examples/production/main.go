// Command production is a whole service on PostgreSQL: rows of an application declare DNS
// zones at a provider, three servers share the work and the provider's quota, and each
// serves health, metrics and the debug page. Page 6 of the guide explains it.
//
//	go run ./examples/production            # on a private PostgreSQL server
//	go run ./examples/production -dsn DSN   # on yours, in an empty database
//
// The three servers run in this process, which shows what they do and ends by itself; the
// provider is a simulated one. In production each server is a process that calls serve.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/examples/pgserver"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
)

func main() {
	dsn := flag.String("dsn", "", "the PostgreSQL database; empty: a private server")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))) // what fails
	if err := run(context.Background(), *dsn, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "production:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dsn string, out io.Writer) (err error) {
	if dsn == "" {
		server, err := pgserver.Start()
		if err != nil {
			return err
		}
		return errors.Join(show(ctx, server.DSN, out), server.Stop())
	}
	return show(ctx, dsn, out)
}

// zoneCount is how many rows there are.
const zoneCount = 30

// show starts three servers, and has them keep what the rows declare.
func show(ctx context.Context, dsn string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, table); err != nil {
		return err
	}
	database, err := postgres.OpenPool(ctx, pool, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	zones, err := store.New[Spec, struct{}](database, "zone", nil)
	if err != nil {
		return err
	}
	cloud, err := reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, Rate: 1000})
	if err != nil {
		return err
	}
	servers := map[string]*server{}
	defer func() {
		for _, s := range servers {
			err = errors.Join(err, s.end())
		}
	}()
	for _, name := range []string{"a", "b", "c"} {
		servers[name] = start(ctx, options{
			dsn: dsn, listen: "127.0.0.1:0", token: "secret", cloud: cloud, lease: lease.Options{Server: name, TTL: 2 * time.Second},
		})
	}
	app := application{pool, database, zones}
	return app.live(ctx, cloud, servers, out)
}

// live is what happens to the rows.
func (a application) live(ctx context.Context, cloud *reconciletest.Cloud, servers map[string]*server, out io.Writer) error {
	for i := range zoneCount {
		if err := a.put(ctx, name(i), "1h"); err != nil {
			return err
		}
	}
	if err := a.await(ctx, zoneCount); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d rows are ready, after %d creates\n", zoneCount, cloud.Calls("Create"))

	err := servers["c"].end()
	delete(servers, "c")
	for i := range zoneCount {
		err = errors.Join(err, a.put(ctx, name(i), "5m"))
	}
	if err := errors.Join(err, a.await(ctx, zoneCount)); err != nil {
		return err
	}
	fmt.Fprintf(out, "c stopped: a and b make them ready again, %s has the ttl %s\n", name(1), cloud.Peek(name(1)).Props["ttl"])

	if err := a.remove(ctx, name(2)); err != nil {
		return err
	}
	for cloud.Peek(name(2)).ID != "" {
		if err := pause(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "the row of %s is removed, and so is the zone\n", name(2))
	return a.await(ctx, zoneCount-1)
}

func name(i int) string { return fmt.Sprintf("zone-%d.org", i) }

// await waits until so many rows are ready, and no other is there.
func (a application) await(ctx context.Context, want int) error {
	for {
		var all, ready int
		if err := a.pool.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE ready) FROM zones`).Scan(&all, &ready); err != nil {
			return err
		}
		if all == want && ready == want {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%d of %d rows are ready, want %d: %w", ready, all, want, err)
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

// server is one that runs in this process.
type server struct {
	stop  context.CancelFunc
	ended chan error
}

func start(ctx context.Context, o options) *server {
	ctx, stop := context.WithCancel(ctx)
	s := &server{stop, make(chan error, 1)}
	go func() { s.ended <- serve(ctx, o) }() // ended, and waited for, by end
	return s
}

func (s *server) end() error {
	s.stop()
	return <-s.ended
}
