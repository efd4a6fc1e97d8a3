//go:build unix

package etcd_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
)

// BenchmarkStore measures this backend beside etcd's raw client, on the same
// embedded member, doing the same work: a compare on the record's revision, a put,
// and a read of what is there where the compare fails.
//
//	go test -C store/etcd -run '^$' -bench Store -count 6
func BenchmarkStore(b *testing.B) {
	for _, clients := range []int{1, 64, 256} {
		for _, impl := range []struct {
			name string
			cas  func(b *testing.B, prefix string) func(ctx context.Context, name string, was int64) int64
		}{{"tend", casByTend}, {"clientv3", casByRawClient}} {
			b.Run(fmt.Sprintf("op=cas/clients=%d/impl=%s", clients, impl.name), func(b *testing.B) {
				benchmarkCAS(b, clients, impl.cas(b, newPrefix()))
			})
		}
	}
	for _, watchers := range []int{1, 100} {
		b.Run(fmt.Sprintf("op=watch/watchers=%d/impl=tend", watchers), func(b *testing.B) { watchByTend(b, watchers) })
		b.Run(fmt.Sprintf("op=watch/watchers=%d/impl=clientv3", watchers), func(b *testing.B) { watchByRawClient(b, watchers) })
	}
}

// benchmarkCAS has each client move a record of its own forward.
func benchmarkCAS(b *testing.B, clients int, cas func(ctx context.Context, name string, was int64) int64) {
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	for i := range clients {
		wg.Go(func() {
			name, at := fmt.Sprint("k", i), int64(0)
			for left.Add(-1) >= 0 {
				at = cas(b.Context(), name, at)
			}
		})
	}
	wg.Wait()
}

var payload = make(store.Bytes, 256)

func casByTend(b *testing.B, prefix string) func(context.Context, string, int64) int64 {
	backend := open(b, etcd.Options{Prefix: prefix})
	return func(ctx context.Context, name string, was int64) int64 {
		rev, err := backend.Commit(ctx, store.Txn{
			If:  []store.Compare{{Kind: "thing", Key: key(name), Revision: store.Revision(was)}},
			Ops: []store.Op{{Kind: "thing", Key: key(name), Put: payload}},
		})
		if err != nil {
			b.Error(err)
		}
		return int64(rev)
	}
}

func casByRawClient(b *testing.B, prefix string) func(context.Context, string, int64) int64 {
	client := rawClient(b)
	value := string(payload)
	return func(ctx context.Context, name string, was int64) int64 {
		path := prefix + "/thing/ns/" + name
		resp, err := client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(path), "=", was)).
			Then(clientv3.OpPut(path, value)).
			Else(clientv3.OpGet(path)).
			Commit()
		if err != nil || !resp.Succeeded {
			b.Error("not written", err)
			return was
		}
		return resp.Header.Revision
	}
}

func rawClient(b *testing.B) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint(server)}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	return client
}

// watchByTend writes b.N records and waits until every watcher has seen them.
func watchByTend(b *testing.B, watchers int) {
	backend := open(b, etcd.Options{History: 1 << 20})
	var ready, all sync.WaitGroup
	for range watchers {
		ready.Add(1)
		all.Go(func() {
			n := 0
			for batch, err := range backend.Watch(b.Context(), "thing", 0) {
				if err != nil {
					b.Error(err)
					return
				}
				if batch.Kind == store.BatchSnapshotEnd {
					ready.Done()
				}
				if n += len(batch.Changes); n >= b.N {
					return
				}
			}
		})
	}
	ready.Wait()
	benchmarkWrites(b, rawClient(b), backend)
	all.Wait()
}

func watchByRawClient(b *testing.B, watchers int) {
	backend := open(b, etcd.Options{Prefix: newPrefix()})
	client := rawClient(b)
	var all sync.WaitGroup
	for range watchers {
		events := client.Watch(b.Context(), backend.Prefix()+"/thing/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		<-events
		all.Go(func() {
			for n := 0; n < b.N; {
				n += len((<-events).Events)
			}
		})
	}
	benchmarkWrites(b, client, backend)
	all.Wait()
}

// benchmarkWrites writes b.N records in transactions of a hundred, so that the
// watchers and not the writing are what is measured.
func benchmarkWrites(b *testing.B, client *clientv3.Client, backend *etcd.Backend) {
	b.ResetTimer()
	value := string(payload)
	for n := 0; n < b.N; {
		var ops []clientv3.Op
		for ; n < b.N && len(ops) < 100; n++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s/thing/ns/k%d", backend.Prefix(), n), value))
		}
		if _, err := client.Txn(b.Context()).Then(ops...).Commit(); err != nil {
			b.Fatal(err)
		}
	}
}
