//go:build unix

package etcd_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
)

// said is a log that tells when a text is in it.
type said struct {
	text string
	once sync.Once
	done chan struct{}
}

func (s *said) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.text) {
		s.once.Do(func() { close(s.done) })
	}
	return len(p), nil
}

// A server that has used up its space takes no new lease, and keeps those that are
// there: a holder goes on for as long as it likes, and leaves in good order; no server
// can follow it, which is said, until there is space again. Then one does.
//
// Negative control: with the first server's renewals taken for grants the renewal
// failed.
func TestLeaseOutlivesTheSpaceOfItsServer(t *testing.T) {
	e := own(t, "http", func(cfg *embed.Config) { cfg.QuotaBackendBytes = 8 << 20 })
	open := func() *etcd.Backend { return openAt(t, endpoint(e), etcd.Options{Prefix: "/tend"}) }
	first := open()
	other, err := first.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	begun, ended := make(chan string, 10), make(chan string, 10)
	start := func(name string, b store.Backend, ttl time.Duration, log *said) (p lease.Placement, stop func()) {
		p, err := lease.NewSingleton(b, "job", &lease.Options{TTL: ttl, Server: name, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { // ended and waited for by stop
			defer close(over)
			if err := p.Run(ctx, func(ctx context.Context, _ int) error {
				begun <- name
				<-ctx.Done()
				ended <- name
				return nil
			}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}()
		return p, sync.OnceFunc(func() { cancel(); <-over })
	}
	await := func(what string, ch <-chan string, want string) {
		t.Helper()
		select {
		case got := <-ch:
			if got != want {
				t.Fatalf("%s: %s, want %s", what, got, want)
			}
		case <-time.After(patience):
			t.Fatalf("%s: none, want %s", what, want)
		}
	}
	held, stopFirst := start("first", first, time.Minute, &said{text: "\x00", done: make(chan struct{})})
	defer stopFirst()
	await("the server that begins", begun, "first")

	kept, _ := fillUp(t, e, bytes.Repeat([]byte("x"), 64<<10))
	full := &said{text: "space", done: make(chan struct{})}
	_, stopSecond := start("second", open(), campaignTTL, full)
	defer stopSecond()
	select {
	case <-full.done:
	case <-time.After(patience):
		t.Fatal("the second server does not say that there is no space")
	}
	if err := first.Renew(t.Context(), other); err != nil {
		t.Errorf("a lease is not renewed without space: %v", err)
	}
	if _, ok := held.Lease(0).Held(); !ok || len(begun)+len(ended) > 0 {
		t.Errorf("held %v, %d began and %d ended while there was no space; want the first to go on", ok, len(begun), len(ended))
	}
	stopFirst()
	await("the server that ends", ended, "first")

	b := open()
	for _, name := range kept {
		if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: name}}}}); err != nil {
			t.Fatalf("deleting %s: %v", name, err)
		}
	}
	if len(begun) > 0 {
		t.Errorf("%s works, and there is no space for its lease", <-begun)
	}
	freeSpace(t, e)
	await("the server that begins when there is space again", begun, "second")
}
