//go:build unix

package etcd_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest"
)

// own starts a server for one test.
func own(t *testing.T, scheme string, set func(*embed.Config)) *embed.Etcd {
	t.Helper()
	m := member{Name: "own", Dir: t.TempDir(), Client: strings.Replace(loopback(), "http", scheme, 1), Peer: loopback(), Set: set}
	m.Cluster = m.Name + "=" + m.Peer
	e, err := m.start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func putBytes(t *testing.T, b *etcd.Backend, name string, value []byte) error {
	t.Helper()
	_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: name}, Put: store.Bytes(value)}}})
	return err
}

// A server whose space is used up says so. What it acknowledged before is all there
// and can be read and deleted, and when there is space again writing goes on. What
// was refused for certain is not there: a write that met the end of the space may
// have been applied or not, and its outcome is unknown.
//
// Negative control: with ErrNoSpace among the refusals, a commit that was "refused"
// was found in the store.
func TestServerWithoutSpaceRefusesAndLosesNothing(t *testing.T) {
	e := own(t, "http", func(cfg *embed.Config) { cfg.QuotaBackendBytes = 8 << 20 })
	b := openAt(t, endpoint(e), etcd.Options{Prefix: "/tend"})
	value := bytes.Repeat([]byte("x"), 64<<10)
	kept, refused := fillUp(t, e, value)
	for name, err := range refused {
		if !strings.Contains(err.Error(), "space") {
			t.Errorf("%s: %v, want an error that speaks of space", name, err)
		}
		if _, found := b.Get(t.Context(), "thing", store.Key{Name: name}); !errors.Is(err, store.ErrUnknownOutcome) && found == nil {
			t.Errorf("%s is there, and its commit said %v", name, err)
		}
	}
	if _, err := b.Grant(t.Context(), store.MinTTL); err == nil || !strings.Contains(err.Error(), "space") {
		t.Errorf("Grant without space: %v, want an error that speaks of space", err)
	}
	for _, name := range kept {
		if _, err := b.Get(t.Context(), "thing", store.Key{Name: name}); err != nil {
			t.Errorf("%s was acknowledged: %v", name, err)
		}
	}
	for _, name := range kept {
		if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: name}}}}); err != nil {
			t.Fatalf("deleting %s: %v", name, err)
		}
	}

	freeSpace(t, e)
	if err := putBytes(t, b, "again", value); err != nil {
		t.Errorf("a commit when there is space again: %v", err)
	}
}

// freeSpace does what an operator does once something was deleted.
func freeSpace(t *testing.T, e *embed.Etcd) {
	t.Helper()
	c := raw(t, clientv3.Config{Endpoints: []string{endpoint(e)}})
	resp, err := c.Get(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(t.Context(), resp.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Defragment(t.Context(), endpoint(e)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
}

// fillUp writes from many sides until each has met an error.
func fillUp(t *testing.T, e *embed.Etcd, value []byte) (kept []string, refused map[string]error) {
	t.Helper()
	refused = map[string]error{}
	var mu sync.Mutex
	var writers sync.WaitGroup
	for w := range 16 {
		b := openAt(t, endpoint(e), etcd.Options{Prefix: "/tend"})
		writers.Go(func() {
			for n := range 1000 {
				name := fmt.Sprintf("t%d-%d", w, n)
				err := putBytes(t, b, name, value)
				if errors.Is(err, store.ErrUnknownOutcome) && !strings.Contains(err.Error(), "space") {
					continue // a machine that stood still: the outcome is not known
				}
				mu.Lock()
				if err == nil {
					kept = append(kept, name)
				} else {
					refused[name] = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	writers.Wait()
	if len(refused) != 16 || len(kept) == 0 {
		t.Fatalf("%d writers met an error, %d records were written; want 16 and some", len(refused), len(kept))
	}
	return kept, refused
}

func raw(t *testing.T, cfg clientv3.Config) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

const password = "correct-horse-battery"

// TLS with client certificates, and a user that may write under one prefix.
//
// Negative control: with InsecureSkipVerify in the client's configuration both wrong
// servers are believed; without ClientCertAuth and TrustedCAFile a client without a
// certificate is let in, and so is one with another authority's.
func TestCertificatesAndPasswordsAreAskedFor(t *testing.T) {
	certs := makeCerts(t)
	e := own(t, "https", func(cfg *embed.Config) {
		cfg.BcryptCost = 4 // the least: hashing is not what is tested
		cfg.ClientTLSInfo = transport.TLSInfo{
			CertFile: certs.file("server.pem"), KeyFile: certs.file("server.key"),
			TrustedCAFile: certs.file("ca.pem"), ClientCertAuth: true,
		}
	})
	config := func(user, pass string) clientv3.Config {
		return clientv3.Config{
			Endpoints: []string{e.Clients[0].Addr().String()}, DialTimeout: patience,
			TLS: certs.client.Clone(), Username: user, Password: pass,
		}
	}
	admin := enableAuth(t, config)
	b, err := etcd.New(config("tend", password), &etcd.Options{Prefix: "/tend", Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()

	changes := make(chan store.Change, 10)
	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for batch, err := range b.Watch(ctx, "thing", 0) {
			if err != nil && ctx.Err() == nil {
				t.Errorf("watch: %v", err)
			}
			for _, c := range batch.Changes {
				changes <- c
			}
		}
	}()
	defer func() { stop(); <-watched }()
	see := func(name string) {
		t.Helper()
		select {
		case c := <-changes:
			if c.Record.Key.Name != name {
				t.Errorf("the watch saw %v, want %s", c.Record.Key, name)
			}
		case <-time.After(patience):
			t.Fatalf("the watch never saw %s", name)
		}
	}
	if err := putBytes(t, b.(*etcd.Backend), "first", []byte("1")); err != nil {
		t.Fatal(err)
	}
	see("first")

	// A new password, be it the same, makes all tokens invalid: new ones are got
	// without anybody noticing.
	if _, err := admin.UserChangePassword(t.Context(), "tend", password); err != nil {
		t.Fatal(err)
	}
	if err := putBytes(t, b.(*etcd.Backend), "second", []byte("2")); err != nil {
		t.Errorf("a commit with a token that is not valid any more: %v", err)
	}
	see("second")
	if _, err := b.Get(t.Context(), "thing", store.Key{Name: "second"}); err != nil {
		t.Errorf("Get: %v", err)
	}

	t.Run("another's prefix", func(t *testing.T) {
		other, err := etcd.New(config("tend", password), &etcd.Options{Prefix: "/other", Timeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		checkDenied(t, "permission", putBytes(t, other.(*etcd.Backend), "x", nil))
		_, err = other.Get(t.Context(), "thing", store.Key{Name: "x"})
		checkDenied(t, "permission", err)
	})
	t.Run("no user", func(t *testing.T) {
		unnamed, err := etcd.New(config("", ""), &etcd.Options{Prefix: "/tend", Timeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		defer unnamed.Close()
		checkDenied(t, "permission denied", putBytes(t, unnamed.(*etcd.Backend), "x", nil))
		for _, err := range unnamed.Watch(t.Context(), "thing", 0) {
			checkDenied(t, "permission denied", err)
		}
	})
	t.Run("wrong password", func(t *testing.T) {
		if wrong, err := etcd.New(config("tend", "wrong-"+password), &etcd.Options{Timeout: patience}); err == nil {
			defer wrong.Close()
			checkDenied(t, "authentication", putBytes(t, wrong.(*etcd.Backend), "x", nil))
		} else {
			checkDenied(t, "authentication", err)
		}
	})
	// All of these have the right password, and one thing wrong about their
	// certificates; what is read is there.
	other := makeCerts(t)
	for name, wrong := range map[string]func(*clientv3.Config){
		"no certificate":                       func(c *clientv3.Config) { c.TLS.Certificates = nil },
		"another authority's certificate":      func(c *clientv3.Config) { c.TLS.Certificates = other.client.Certificates },
		"a server that is another authority's": func(c *clientv3.Config) { c.TLS.RootCAs = other.client.RootCAs },
		"a server that goes by another name": func(c *clientv3.Config) {
			c.Endpoints[0] = strings.Replace(c.Endpoints[0], "127.0.0.1", "localhost", 1)
		},
		"": func(*clientv3.Config) {}, // the control: with nothing wrong it is let in
	} {
		t.Run(cmp.Or(name, "all is right"), func(t *testing.T) {
			cfg := config("tend", password)
			wrong(&cfg)
			if name != "" {
				cfg.DialTimeout = time.Second // nothing to wait for
			}
			err := readFirst(t, cfg)
			if refused := err != nil; refused != (name != "") {
				t.Errorf("reading with %s: %v", cmp.Or(name, "the right certificates"), err)
			}
		})
	}
}

// readFirst reads the record that is there, by a client of its own.
func readFirst(t *testing.T, cfg clientv3.Config) error {
	b, err := etcd.New(cfg, &etcd.Options{Prefix: "/tend", Timeout: cfg.DialTimeout})
	if err != nil {
		return err
	}
	defer b.Close()
	_, err = b.Get(t.Context(), "thing", store.Key{Name: "first"})
	return err
}

func checkDenied(t *testing.T, word string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, store.ErrUnknownOutcome) || !strings.Contains(err.Error(), word) {
		t.Errorf("got %v, want an error that speaks of %s", err, word)
	}
	if err != nil && strings.Contains(err.Error(), password) {
		t.Errorf("the error tells the password: %v", err)
	}
}

// enableAuth makes the users root and tend, and returns root's client.
func enableAuth(t *testing.T, config func(user, pass string) clientv3.Config) *clientv3.Client {
	t.Helper()
	c, ctx := raw(t, config("", "")), t.Context()
	_, err1 := c.UserAdd(ctx, "root", "root-"+password)
	_, err2 := c.UserGrantRole(ctx, "root", "root")
	_, err3 := c.RoleAdd(ctx, "tend")
	_, err4 := c.RoleGrantPermission(ctx, "tend", "/tend/", clientv3.GetPrefixRangeEnd("/tend/"), clientv3.PermissionType(clientv3.PermReadWrite))
	_, err5 := c.UserAdd(ctx, "tend", password)
	_, err6 := c.UserGrantRole(ctx, "tend", "tend")
	_, err7 := c.AuthEnable(ctx)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	return raw(t, config("root", "root-"+password))
}

// certs are of an authority, a server and a client, made for one test.
type certs struct {
	dir    string
	client *tls.Config
}

func (c certs) file(name string) string { return filepath.Join(c.dir, name) }

func makeCerts(t *testing.T) certs {
	t.Helper()
	c := certs{dir: t.TempDir()}
	caKey, ca := c.issue(t, "ca", nil, nil)
	c.issue(t, "server", ca, caKey)
	c.issue(t, "client", ca, caKey)
	pair, err := tls.LoadX509KeyPair(c.file("client.pem"), c.file("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	c.client = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}
	return c
}

// issue makes a certificate; without an authority it is one.
func (c certs) issue(t *testing.T, name string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if ca == nil {
		cert.IsCA, cert.BasicConstraintsValid, cert.KeyUsage = true, true, x509.KeyUsageCertSign
		ca, caKey = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, ca, &key.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(file, kind string, der []byte) {
		if err := os.WriteFile(c.file(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(name+".pem", "CERTIFICATE", der)
	write(name+".key", "PRIVATE KEY", keyDER)
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, made
}

// A cluster whose space is used up answers reads and renews leases. Its health shows that it takes no
// writes, until it does.
//
// promise S7
func TestHealthGoesByWrites(t *testing.T) {
	t.Parallel()
	e := own(t, "http", func(cfg *embed.Config) { cfg.QuotaBackendBytes = 8 << 20 })
	b := openAt(t, endpoint(e), etcd.Options{Prefix: "/tend"})
	other := openAt(t, endpoint(e), etcd.Options{Prefix: "/tend"})
	var kept []string
	storetest.Health(t, b, func(full bool) {
		if full {
			kept, _ = fillUp(t, e, bytes.Repeat([]byte("x"), 64<<10))
			return
		}
		for _, name := range kept {
			if _, err := other.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: name}}}}); err != nil {
				t.Fatalf("deleting %s: %v", name, err)
			}
		}
		freeSpace(t, e)
	})
}
