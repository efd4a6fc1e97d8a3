//go:build unix

package etcd_test

import (
	"context"
	"flag"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest"
)

// forget has the server drop its history up to now, that of all tests: none that uses it
// may be parallel with another.
func forget(t testing.TB, endpoint string) *storetest.Options {
	return &storetest.Options{Compact: func(ctx context.Context, b store.Backend, _ string) error {
		// etcd still serves the revision it is compacted at: go one beyond.
		op := store.Op{Kind: "elsewhere", Key: key("x"), Put: store.Bytes("x")}
		head, err := b.Commit(ctx, store.Txn{Ops: []store.Op{op}})
		if err == nil {
			compact(t, endpoint, head)
		}
		return err
	}}
}

func TestContractOnOneMember(t *testing.T) {
	storetest.Run(t, func(t testing.TB) store.Backend { return open(t, etcd.Options{}) }, forget(t, server))
}

func compact(t testing.TB, endpoint string, at store.Revision) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Compact(t.Context(), int64(at), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}

var alikeFor = flag.Duration("alike", 0, "how long random writes are compared with those in memory; 0: a small size")

// Seen to fail: with texts cut before their last newline.
//
// promise S3
func TestRandomWritesAreAsInMemory(t *testing.T) {
	storetest.WriteAlike(t, func(t testing.TB) store.Backend {
		b := open(t, etcd.Options{})
		if *alikeFor > 0 { // else the member's space is used up after some minutes
			if err := forget(t, server).Compact(t.Context(), b, ""); err != nil {
				t.Fatal(err)
			}
		}
		return b
	}, *alikeFor)
}
