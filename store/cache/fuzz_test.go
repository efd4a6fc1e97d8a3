package cache_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// FuzzStoredBytes writes to the store as another program would: an older or
// newer version, or an attacker. The object is held under the key where it
// lies, or reported with it; its neighbour is held in any case.
func FuzzStoredBytes(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `[]`, `"x"`, `{"schema":`,
		`{"schema":1,"meta":{"name":"a","uid":"u","generation":1,"created":"2026-01-02T03:04:05Z"},"spec":{"Region":"eu"},"status":{}}`,
		`{"schema":99,"meta":{"name":"other","namespace":"else","uid":"u","generation":1,"created":"2026-01-02T03:04:05Z"},"spec":{"Region":"eu","More":[1,2]}}`,
		`{"schema":1,"meta":null,"spec":null,"status":null}`,
		`{"schema":-1,"meta":{"name":7}}`,
		`{"schema":1e400,"meta":{"generation":-5,"finalizers":["",""],"owners":[{}],"labels":{"":""}}}`,
		strings.Repeat(`{"spec":`, 20000),
		"{\"meta\":{\"labels\":{\"\xff\":\"\x00\"}}}",
	} {
		f.Add([]byte(seed))
	}
	neighbour := put(at(1, "neighbour"))
	f.Fuzz(func(t *testing.T, data []byte) {
		reported := make(map[store.Key]error)
		feed := newFeed()
		c := newCache(t, feed, &cache.Options[spec, status]{
			DetectMutations: true, OnError: func(k store.Key, err error) { reported[k] = err },
		})
		byRegion(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		key := store.Key{Namespace: "ns", Name: "a"}
		record := store.Record{Kind: "bucket", Key: key, Created: 2, Revision: 2, Bytes: data}
		feed.batches <- snapshot(2, neighbour, store.Change{Record: record})
		feed.batches <- end(2)
		<-c.Synced()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returned %v", err)
		}
		if _, ok := c.Get(neighbour.Key); !ok {
			t.Error("the neighbour is missing")
		}
		o, held := c.Get(key)
		if held == (reported[key] != nil) {
			t.Errorf("held %v, reported %v; want one of them", held, reported[key])
		}
		if held && (o.Key() != key || o.Revision != 2) {
			t.Errorf("held as %s at revision %d, want where it lies: %s at 2", o.Key(), o.Revision, key)
		}
	})
}
