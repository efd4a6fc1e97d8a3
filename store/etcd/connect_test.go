//go:build unix

package etcd_test

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// A client that never had a connection says so at once, with the endpoint and the
// reason. What it did not send is not of unknown outcome.
//
// Negative control: before, each of these waited for Options.Timeout, named neither,
// and the outcome of the commit was said to be unknown.
func TestClientWithoutAConnectionSaysWhyAtOnce(t *testing.T) {
	certs, other := makeCerts(t), makeCerts(t)
	secure := own(t, "https", func(cfg *embed.Config) {
		cfg.ClientTLSInfo = transport.TLSInfo{CertFile: certs.file("server.pem"), KeyFile: certs.file("server.key")}
	})
	free := strings.TrimPrefix(loopback(), "http://")
	for name, c := range map[string]struct {
		endpoint, word string
		tls            *tls.Config
	}{
		"nothing listens":            {free, "connection refused", nil},
		"another authority":          {endpoint(secure), "certificate", other.client},
		"the server wants TLS":       {endpoint(secure), "", nil},
		"the server does not do TLS": {server, "handshake", certs.client},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := etcd.New(clientv3.Config{Endpoints: []string{c.endpoint}, TLS: c.tls}, &etcd.Options{Timeout: patience})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			check := func(call string, err error) {
				t.Helper()
				if err == nil || !strings.Contains(err.Error(), c.endpoint) || !strings.Contains(err.Error(), c.word) {
					t.Errorf("%s: %v, want an error with %s and %q", call, err, c.endpoint, c.word)
				}
				if errors.Is(err, store.ErrUnknownOutcome) || err != nil && strings.Contains(err.Error(), "timeout") {
					t.Errorf("%s: %v, want that nothing was sent, and not after the timeout", call, err)
				}
			}
			check("Commit", putBytes(t, b.(*etcd.Backend), "a", nil))
			_, err = b.Get(t.Context(), "thing", key("a"))
			check("Get", err)
			_, err = b.List(t.Context(), "thing", store.ListOptions{})
			check("List", err)
			_, err = b.Grant(t.Context(), store.MinTTL)
			check("Grant", err)
			for _, err := range b.Watch(t.Context(), "thing", 0) {
				check("Watch", err)
			}
			check("Health", store.Health(b))
		})
	}
}

// A client that had a connection waits for the next one as long as a request may
// take: a server that restarts is no error. What was not sent by then is known.
func TestClientThatLostItsConnectionWaitsForTheNext(t *testing.T) {
	p := campaign.NewProxy(t, server)
	b := openAt(t, p.Addr(), etcd.Options{Prefix: newPrefix(), Timeout: time.Second})
	write(t, b, "warm")
	p.Set(campaign.Reset)
	var err error
	waitFor(t, func() bool { // the first may meet the connection while it breaks
		err = putBytes(t, b, "a", nil)
		return !errors.Is(err, store.ErrUnknownOutcome)
	})
	if err == nil || !strings.Contains(err.Error(), p.Addr()) || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("Commit without a connection: %v, want that it was not sent to %s within the timeout", err, p.Addr())
	}
	p.Set(campaign.Pass)
	waitFor(t, func() bool { return putBytes(t, b, "a", nil) == nil })
}

// A server that takes less in one request than etcd does by default says so.
func TestTransactionTooLargeForTheServerIsInvalid(t *testing.T) {
	small := own(t, "http", func(cfg *embed.Config) { cfg.MaxRequestBytes = 64 << 10 })
	for name, client := range map[string]int{"refused by the server": 0, "refused by the client": 32 << 10} {
		t.Run(name, func(t *testing.T) {
			b, err := etcd.New(clientv3.Config{Endpoints: []string{endpoint(small)}, MaxCallSendMsgSize: client}, &etcd.Options{Timeout: patience})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			for _, size := range []int{128 << 10, store.MaxValue} {
				err := putBytes(t, b.(*etcd.Backend), "a", make([]byte, size))
				if !errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrUnknownOutcome) {
					t.Errorf("Commit of %d bytes: %v, want ErrInvalid", size, err)
				}
			}
		})
	}
}

func TestChangedCursorIsInvalid(t *testing.T) {
	b := open(t, etcd.Options{})
	for _, name := range []string{"a", "b", "c"} {
		write(t, b, name)
	}
	page, err := b.List(t.Context(), "thing", store.ListOptions{Limit: 1})
	if err != nil || page.Cursor == "" {
		t.Fatalf("the first page: cursor %q, error %v", page.Cursor, err)
	}
	c := page.Cursor
	changed := []string{c + "0", c + "A", c + "AAAA", c + "\n", c[1:], c[:len(c)-1] + "_"}
	for n := 1; n < len(c); n++ {
		changed = append(changed, c[:n])
	}
	for _, cursor := range changed {
		if page, err := b.List(t.Context(), "thing", store.ListOptions{Cursor: cursor}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("cursor %q, made of %q: %d records, error %v, want ErrInvalid", cursor, c, len(page.Records), err)
		}
	}
	if page, err := b.List(t.Context(), "thing", store.ListOptions{Cursor: c}); err != nil || len(page.Records) != 2 {
		t.Errorf("the cursor as it was: %d records, error %v, want 2", len(page.Records), err)
	}
}
