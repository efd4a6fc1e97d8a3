package postgres_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
)

// BucketSpec is what is declared of a bucket.
type BucketSpec struct{ Region string }

// An order and the bucket that it pays for are created in one transaction: both are there,
// or neither.
func ExampleDeclare() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	backend, err := postgres.OpenPool(ctx, pool, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()
	buckets, err := store.New[BucketSpec, struct{}](backend, "bucket", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (customer) VALUES ($1)", "ada"); err != nil {
			return err
		}
		bucket := &store.Object[BucketSpec, struct{}]{Spec: BucketSpec{Region: "eu"}}
		bucket.Namespace, bucket.Name = "ada", "photos"
		return postgres.Declare(ctx, tx, backend, buckets, bucket)
	})
	if err != nil {
		fmt.Println(err)
	}
}

func ExampleSchema() {
	sql, err := postgres.Schema("app_tend")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sql[:37])
	// Output: CREATE SCHEMA IF NOT EXISTS app_tend;
}
