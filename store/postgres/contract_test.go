//go:build unix

package postgres_test

import (
	"context"
	"flag"
	"sync"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest"
)

func key(name string) store.Key { return store.Key{Namespace: "ns", Name: name} }

// forget has the backend drop its log up to now.
var forget = &storetest.Options{Parallel: true, Compact: func(ctx context.Context, b store.Backend, _ string) error {
	head, err := b.Commit(ctx, store.Txn{})
	if err == nil {
		err = b.(*postgres.Backend).Compact(ctx, head)
	}
	return err
}}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB) store.Backend { return open(t, postgres.Options{}) }, forget)
}

// A short part of the contract is enough to see that every Commit may go out alone.
func TestCommitsWithoutBatching(t *testing.T) {
	b := open(t, *(&postgres.Options{NoNotify: true}).SetBatch(1))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if err := increment(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if rec, err := b.Get(t.Context(), "thing", key("n")); err != nil || string(rec.Bytes) != "80" {
		t.Errorf("after 80 increments the number is %s, error %v", rec.Bytes, err)
	}
}

func put(k store.Key, value string) store.Op {
	return store.Op{Kind: "thing", Key: k, Put: store.Bytes(value)}
}

func absent(k store.Key) []store.Compare { return []store.Compare{{Kind: "thing", Key: k}} }

var alikeFor = flag.Duration("alike", 0, "how long random writes are compared with those in memory; 0: a small size")

// Seen to fail: with the keys of the JSON in their order, as a column of type jsonb has them.
//
// promise S3
func TestRandomWritesAreAsInMemory(t *testing.T) {
	t.Parallel()
	storetest.WriteAlike(t, func(t testing.TB) store.Backend { return open(t, postgres.Options{}) }, *alikeFor)
}
