//go:build peers

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

var discard = slog.New(slog.DiscardHandler)

// job is what a run of BenchmarkController does. It is the same function for every
// implementation; what differs is what calls it.
type job struct {
	do    func(ctx context.Context, key store.Key) error
	looks bool               // the run first asks its context whether it is done, and gets its logger
	reads []reconcile.Cached // the caches that do reads
}

// parseWork reads a kind of work: none, context, cache, status, http, or how long a
// run waits.
func parseWork(s string) (string, error) {
	switch s {
	case "none", "context", "cache", "status", "http":
		return s, nil
	}
	if d, err := time.ParseDuration(s); err != nil || d <= 0 {
		return "", fmt.Errorf("%q is neither none, context, cache, status, http nor a duration", s)
	}
	return s, nil
}

// jobFor makes the job for a kind of work, with the store, the cache or the server
// that it uses:
//
//	none     count only: no real reconciler does so little
//	context  Done of the context, and a line to the logger that is discarded
//	cache    that, and the object is read from a cache
//	status   that, and every tenth run writes a status to the store
//	http     context, and a request to a server on this machine
//	10ms     context, and a wait of so long
//
// There is one cache and one memory store for all implementations.
func jobFor(b *testing.B, work string, keys []store.Key) job {
	nothing := func(context.Context, store.Key) error { return nil }
	switch work {
	case "none":
		return job{do: nothing}
	case "context":
		return job{do: nothing, looks: true}
	case "cache":
		f := newFleet(b, keys)
		return job{do: f.read, looks: true, reads: []reconcile.Cached{runningCache{f.cache}}}
	case "status":
		f := newFleet(b, keys)
		return job{do: f.writeTenth, looks: true, reads: []reconcile.Cached{runningCache{f.cache}}}
	case "http":
		return job{do: request(b), looks: true}
	}
	wait, _ := time.ParseDuration(work)
	return job{do: func(context.Context, store.Key) error { time.Sleep(wait); return nil }, looks: true}
}

// diskKeys are n keys of 40 bytes that a store takes.
func diskKeys(n int) []store.Key {
	keys := make([]store.Key, n)
	for i := range keys {
		keys[i] = store.Key{Namespace: fmt.Sprintf("account-%04d.region-eu", i%100), Name: fmt.Sprintf("disk-%08d.bkt", i)}
	}
	return keys
}

// fleet is a store of disks with a cache that is synced.
type fleet struct {
	disks *diskStore
	cache *cache.Cache[diskSpec, diskStatus]
	runs  atomic.Uint64
}

var errNoDisk = errors.New("the cache lacks a disk")

func newFleet(b *testing.B, keys []store.Key) *fleet {
	f := &fleet{disks: newDisks(b, "Disk", newMemory(b, nil))}
	for i, key := range keys {
		o := &disk{Meta: store.Meta{Namespace: key.Namespace, Name: key.Name}, Spec: diskSpec{Zone: "a", Size: i + 1}}
		if _, err := f.disks.Create(context.Background(), o); err != nil {
			b.Fatal(err)
		}
	}
	var err error
	if f.cache, err = cache.New(f.disks, nil); err != nil {
		b.Fatal(err)
	}
	background(b, f.cache.Run)
	<-f.cache.Synced()
	return f
}

func (f *fleet) read(_ context.Context, key store.Key) error {
	o, ok := f.cache.Get(key)
	if !ok || o.Spec.Size == 0 {
		return errNoDisk
	}
	return nil
}

func (f *fleet) writeTenth(ctx context.Context, key store.Key) error {
	o, ok := f.cache.Get(key)
	if !ok {
		return errNoDisk
	}
	if f.runs.Add(1)%10 != 0 {
		return nil
	}
	o = f.disks.Clone(o)
	o.Status.Size++
	_, err := f.disks.UpdateStatus(ctx, o)
	return err
}

// runningCache is a cache that the benchmark runs, not the manager.
type runningCache struct {
	*cache.Cache[diskSpec, diskStatus]
}

func (runningCache) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// request makes a server on this machine, and a run that calls it.
func request(b *testing.B) func(context.Context, store.Key) error {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
	b.Cleanup(func() { client.CloseIdleConnections(); server.Close() })
	return func(ctx context.Context, key store.Key) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/"+key.Name, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.Body.Close()
	}
}
