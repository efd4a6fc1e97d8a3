//go:build unix

package postgres_test

import (
	"context"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest"
)

func key(name string) store.Key { return store.Key{Namespace: "ns", Name: name} }

// forget has the backend drop its log up to now.
var forget = &storetest.Options{Compact: func(ctx context.Context, b store.Backend, _ string) error {
	head, err := b.Commit(ctx, store.Txn{})
	if err == nil {
		err = b.(*postgres.Backend).Compact(ctx, head)
	}
	return err
}}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB) store.Backend { return open(t, postgres.Options{}) }, forget)
}

// The watches of this one live by polling alone.
func TestContractWithoutNotifications(t *testing.T) {
	storetest.Run(t, func(t testing.TB) store.Backend { return open(t, postgres.Options{NoNotify: true, Batch: 1}) }, forget)
}

func put(k store.Key, value string) store.Op {
	return store.Op{Kind: "thing", Key: k, Put: store.Bytes(value)}
}

func absent(k store.Key) []store.Compare { return []store.Compare{{Kind: "thing", Key: k}} }
