//go:build peers

package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
)

// benchmarkEtcdStore: this module's backend beside etcd's raw client, both on one
// embedded member that does not sync to the disk, so that the client's part of
// the time is as large as it can be. The server shares the cores with them:
// what the requests cost it is part of every figure.
//
// cas is a compare on the record's revision, a put, and a read of what is there
// where the compare fails; each client moves a record of its own. watch is one
// record written, until every watcher has it; the writing, a hundred records in
// a transaction of the raw client, is the same for both.
func benchmarkEtcdStore(b *testing.B) {
	for _, clients := range []int{1, 64, 256} {
		b.Run(fmt.Sprint("op=cas/clients=", clients), func(b *testing.B) {
			b.Run("impl=tend", func(b *testing.B) { moveRecords(b, clients, casTend(b)) })
			b.Run("impl=clientv3", func(b *testing.B) { moveRecords(b, clients, casRaw(b)) })
		})
	}
	b.Run("op=get", func(b *testing.B) {
		b.Run("impl=tend", func(b *testing.B) { getEtcd(b) })
		b.Run("impl=clientv3", func(b *testing.B) { getRaw(b) })
	})
	b.Run("op=update", func(b *testing.B) {
		b.Run("impl=tend", func(b *testing.B) { updateEtcd(b) })
	})
	for _, watchers := range []int{1, 100} {
		b.Run(fmt.Sprint("op=watch/watchers=", watchers), func(b *testing.B) {
			b.Run("impl=tend", func(b *testing.B) { watchEtcd(b, watchers) })
			b.Run("impl=clientv3", func(b *testing.B) { watchRaw(b, watchers) })
		})
	}
}

// member is the one etcd server of the process, started when first asked for and
// stopped by TestMain.
var member struct {
	once     sync.Once
	err      error
	dir      string
	server   *embed.Etcd
	prefixes atomic.Int64
}

func endpoint(b *testing.B) string {
	b.Helper()
	member.once.Do(func() { member.err = startMember() })
	if member.err != nil {
		b.Fatal(member.err)
	}
	return member.server.Clients[0].Addr().String()
}

func startMember() (err error) {
	if member.dir, err = os.MkdirTemp("", "tend-bench-etcd"); err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.LogOutputs = member.dir, "fatal", []string{os.DevNull}
	cfg.UnsafeNoFsync, cfg.QuotaBackendBytes = true, 8<<30
	client, peer := loopback(), loopback()
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	if member.server, err = embed.StartEtcd(cfg); err != nil {
		return err
	}
	select {
	case <-member.server.Server.ReadyNotify():
		return nil
	case err := <-member.server.Err():
		return err
	case <-time.After(time.Minute):
		return fmt.Errorf("etcd was not ready in a minute")
	}
}

// loopback finds a port that nothing listens on, below those that the system gives to
// outgoing connections.
func loopback() url.URL {
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(18000)))
		if err == nil {
			defer l.Close()
			return url.URL{Scheme: "http", Host: l.Addr().String()}
		}
	}
}

func stopMember() {
	if member.server != nil {
		member.server.Close()
	}
	if member.dir != "" {
		_ = os.RemoveAll(member.dir)
	}
}

// newPrefix is a part of the key space that was not used before.
func newPrefix() string { return fmt.Sprint("/bench", member.prefixes.Add(1)) }

func openEtcd(b *testing.B, prefix string) store.FullBackend {
	s, err := etcd.New(clientv3.Config{Endpoints: []string{endpoint(b)}}, &etcd.Options{Prefix: prefix})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func openRaw(b *testing.B) *clientv3.Client {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint(b)}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// payload is what a record holds.
var payload = make(store.Bytes, 256)

// moveRecords has each client move a record of its own forward. The first round
// opens the connection and makes the records.
func moveRecords(b *testing.B, clients int, cas func(name string, was int64) int64) {
	at := make([]int64, clients)
	round := func(n int) {
		var left atomic.Int64
		var all sync.WaitGroup
		left.Store(int64(n))
		for i := range clients {
			all.Go(func() {
				for name := fmt.Sprint("k", i); left.Add(-1) >= 0; {
					at[i] = cas(name, at[i])
				}
			})
		}
		all.Wait()
	}
	round(1000 + 2*clients) // also warms the server up for the first benchmark
	measure(b, func() { round(b.N) })
}

func casTend(b *testing.B) func(string, int64) int64 {
	s := openEtcd(b, newPrefix())
	return func(name string, was int64) int64 {
		key := store.Key{Namespace: "ns", Name: name}
		rev, err := s.Commit(context.Background(), store.Txn{
			If:  []store.Compare{{Kind: "thing", Key: key, Revision: store.Revision(was)}},
			Ops: []store.Op{{Kind: "thing", Key: key, Put: payload}},
		})
		if err != nil {
			b.Error(err)
			return was
		}
		return int64(rev)
	}
}

func casRaw(b *testing.B) func(string, int64) int64 {
	c, prefix, value := openRaw(b), newPrefix(), string(payload)
	return func(name string, was int64) int64 {
		path := prefix + "/thing/ns/" + name
		resp, err := c.Txn(context.Background()).
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

func getEtcd(b *testing.B) {
	s := openEtcd(b, newPrefix())
	key := store.Key{Name: "k"}
	if _, err := s.Commit(context.Background(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: key, Put: payload}}}); err != nil {
		b.Fatal(err)
	}
	measure(b, func() {
		for range b.N {
			if _, err := s.Get(context.Background(), "thing", key); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func getRaw(b *testing.B) {
	c, path := openRaw(b), newPrefix()+"/thing//k"
	if _, err := c.Put(context.Background(), path, string(payload)); err != nil {
		b.Fatal(err)
	}
	measure(b, func() {
		for range b.N {
			if _, err := c.Get(context.Background(), path); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// updateEtcd is Store.Update, encoding and all, of an object read before.
func updateEtcd(b *testing.B) {
	s, err := store.New[thingSpec, thingStatus](openEtcd(b, newPrefix()), "Thing", nil)
	if err != nil {
		b.Fatal(err)
	}
	o, err := s.Create(context.Background(), newThing(0))
	if err != nil {
		b.Fatal(err)
	}
	measure(b, func() {
		for i := range b.N {
			o.Spec.A = fmt.Sprint(i)
			if o, err = s.Update(context.Background(), o); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func watchEtcd(b *testing.B, watchers int) {
	prefix := newPrefix()
	s, err := etcd.New(clientv3.Config{Endpoints: []string{endpoint(b)}}, &etcd.Options{Prefix: prefix, History: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	var ready, all sync.WaitGroup
	for range watchers {
		ready.Add(1)
		all.Go(func() {
			n := 0
			for batch, err := range s.Watch(context.Background(), "thing", 0) {
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
	writer := openRaw(b)
	measure(b, func() {
		writeHundreds(b, writer, prefix)
		all.Wait()
	})
}

func watchRaw(b *testing.B, watchers int) {
	c, prefix := openRaw(b), newPrefix()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	for range watchers {
		events := c.Watch(ctx, prefix+"/thing/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		<-events
		all.Go(func() {
			for n := 0; n < b.N; {
				n += len((<-events).Events)
			}
		})
	}
	writer := openRaw(b)
	measure(b, func() {
		writeHundreds(b, writer, prefix)
		all.Wait()
	})
}

func writeHundreds(b *testing.B, c *clientv3.Client, prefix string) {
	value := string(payload)
	for n := 0; n < b.N; {
		var ops []clientv3.Op
		for ; n < b.N && len(ops) < 100; n++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s/thing/ns/k%d", prefix, n), value))
		}
		if _, err := c.Txn(context.Background()).Then(ops...).Commit(); err != nil {
			b.Fatal(err)
		}
	}
}
