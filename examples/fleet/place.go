package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/examples/pgserver"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/postgres"
)

// The stores that servers can share.
const (
	Etcd     = "etcd"
	Postgres = "postgres"
)

// dsnEnv hands the connection string to the servers: a command line is for all users to see.
const dsnEnv = "TEND_EXAMPLE_DSN"

// Place says where the store is.
type Place struct {
	Store    string // Etcd or Postgres; "" means Etcd
	Endpoint string // of etcd
	DSN      string // of PostgreSQL
	Schema   string // in it
}

// String describes the place without its connection string.
func (p Place) String() string {
	if p.Store == Postgres {
		return "one PostgreSQL, in the schema " + p.Schema
	}
	return "one etcd at " + p.Endpoint
}

// flags tell a server the place.
func (p Place) flags() []string {
	if p.Store == Postgres {
		return []string{"-store", p.Store, "-schema", p.Schema}
	}
	return []string{"-etcd", p.Endpoint}
}

// newPlace makes a store ready. stop removes what it made.
func newPlace(o Options) (p Place, stop func() error, err error) {
	if o.Store == Postgres {
		return newSchema(o.Place)
	}
	dir, err := os.MkdirTemp("", "tend-fleet")
	if err != nil {
		return p, nil, err
	}
	e, err := startEtcd(dir)
	if err != nil {
		return p, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return Place{Store: Etcd, Endpoint: e.Clients[0].Addr().String()}, func() error {
		e.Close()
		return os.RemoveAll(dir)
	}, nil
}

// newSchema names a schema of the database's that is removed at the end, on a private server
// if no database is given. A schema that was named already stays: other things may be in it.
func newSchema(p Place) (Place, func() error, error) {
	if p.DSN == "" {
		server, err := pgserver.Start()
		if err != nil {
			return p, nil, err
		}
		p.DSN, p.Schema = server.DSN, "tend"
		return p, server.Stop, nil
	}
	if p.Schema != "" {
		return p, func() error { return nil }, nil
	}
	p.Schema = fmt.Sprintf("tend_example_%d", time.Now().UnixNano())
	return p, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		conn, err := pgx.Connect(ctx, p.DSN)
		if err != nil {
			return fmt.Errorf("removing the schema %s: %w", p.Schema, err)
		}
		_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{p.Schema}.Sanitize()+" CASCADE")
		return errors.Join(err, conn.Close(ctx))
	}, nil
}

// Open opens the store at a place.
func (p Place) Open(ctx context.Context) (store.Backend, error) {
	if p.Store == Postgres {
		// A server that is stopped while it starts is stopped in good order all the same.
		b, err := postgres.Open(context.WithoutCancel(ctx), p.DSN, &postgres.Options{Schema: p.Schema})
		if err != nil {
			return nil, err // a nil pointer is no nil Backend
		}
		return b, nil
	}
	return store.Open(ctx, "etcd:"+p.Endpoint)
}
