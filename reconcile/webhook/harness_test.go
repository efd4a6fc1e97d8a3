package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type result = reconcile.Result

var errBoom = errors.New("boom")

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// start runs a controller until the end of the test, or the returned func.
func start[K comparable](t *testing.T, c *reconcile.Controller[K]) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }() // ended by end
	end = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = end() })
	synctest.Wait()
	return end
}

// recorder is a reconciler that writes down its keys.
type recorder[K comparable] struct {
	do func(ctx context.Context, key K) (result, error)

	mu  sync.Mutex
	ran []K
}

func record[K comparable](do func(ctx context.Context, key K) (result, error)) *recorder[K] {
	return &recorder[K]{do: do}
}

func (r *recorder[K]) Reconcile(ctx context.Context, key K) (result, error) {
	r.mu.Lock()
	r.ran = append(r.ran, key)
	r.mu.Unlock()
	if r.do == nil {
		return result{}, nil
	}
	return r.do(ctx, key)
}

func (r *recorder[K]) keys() []K {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]K(nil), r.ran...)
}

func (r *recorder[K]) count() int { return len(r.keys()) }

func quiet() (*slog.Logger, *lockedBuffer) {
	b := new(lockedBuffer)
	return slog.New(slog.NewTextHandler(b, nil)), b
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newController[K comparable](t *testing.T, r reconcile.Reconciler[K], o *reconcile.Options[K]) *reconcile.Controller[K] {
	t.Helper()
	var copied reconcile.Options[K]
	if o != nil {
		copied = *o
	}
	if copied.Logger == nil {
		copied.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := reconcile.New("test", r, &copied)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func key(name string) store.Key { return store.Key{Name: name} }

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func expectList[T any](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// pass lets time pass, and then everything happen that is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// handPlaced is a placement of shards that the test gives, and takes at its end.
type handPlaced struct {
	shards int
	given  chan int
}

func newHandPlaced(shards int) *handPlaced { return &handPlaced{shards, make(chan int)} }

func (p *handPlaced) String() string        { return "by hand" }
func (p *handPlaced) Shards() int           { return p.shards }
func (p *handPlaced) Lease(int) lease.Lease { return nil }

func (p *handPlaced) Run(ctx context.Context, work lease.Work) error {
	var held sync.WaitGroup
	defer held.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case shard := <-p.given:
			held.Go(func() { _ = work(ctx, shard) }) // ends with ctx, waited for above
		}
	}
}

func (p *handPlaced) give(shard int) {
	p.given <- shard
	pass(time.Second)
}

// byFirstDigit puts a key into the shard of two that its first digit says.
func byFirstDigit(k string) uint64 {
	shard := int(k[0] - '0')
	for h := uint64(0); ; h++ {
		if lease.Shard(h, 2) == shard {
			return h
		}
	}
}
