package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/postgres"
)

// table is the application's own.
const table = `CREATE TABLE zones (name text PRIMARY KEY, ttl text NOT NULL, ready boolean NOT NULL DEFAULT false)`

// application is the part of the service that owns the rows.
type application struct {
	pool     *pgxpool.Pool
	database store.FullBackend
	zones    *Zones
}

// guide: rows
// put writes a row, and declares its object in the same transaction.
func (a application) put(ctx context.Context, name, ttl string) error {
	return pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO zones VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET ttl = $2, ready = false`, name, ttl)
		if err != nil {
			return err
		}
		return a.declare(ctx, tx, name, Spec{TTL: ttl})
	})
}

// remove deletes a row, and declares that it has gone. Declarations of an object are
// applied in the order of their commits.
func (a application) remove(ctx context.Context, name string) error {
	return pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error {
		spec := Spec{Gone: true}
		err := tx.QueryRow(ctx, `DELETE FROM zones WHERE name = $1 RETURNING ttl`, name).Scan(&spec.TTL)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return a.declare(ctx, tx, name, spec)
	})
}

func (a application) declare(ctx context.Context, tx pgx.Tx, name string, spec Spec) error {
	return postgres.Declare(ctx, tx, a.database, a.zones, &Zone{Meta: store.Meta{Name: name}, Spec: spec})
}

// newRows deletes the objects whose rows have gone, and writes into the other rows how
// their objects are.
func newRows(pool *pgxpool.Pool, zones *Zones, known *cache.Cache[Spec, struct{}], placement lease.Placement) (*reconcile.Controller[reconcile.Request], error) {
	rows, err := reconcile.New("rows", reconcile.AsReconciler(known, func(ctx context.Context, z *Zone) (reconcile.Result, error) {
		if z.Spec.Gone {
			return reconcile.Result{}, zones.Delete(ctx, z) // unless it was declared again meanwhile
		}
		_, err := pool.Exec(ctx, `UPDATE zones SET ready = $2 WHERE name = $1 AND ttl = $3 AND ready <> $2`, z.Name, z.Ready(), z.Spec.TTL)
		return reconcile.Result{}, err
	}), &reconcile.Options[reconcile.Request]{Placement: placement, Resync: 10 * time.Minute})
	if err != nil {
		return nil, err
	}
	return rows, rows.Watch(reconcile.From(known, reconcile.Any[Spec, struct{}])) // of the status too
}

// guide: end
