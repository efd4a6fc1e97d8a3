package etcd

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tendhq/tend/store"
)

// A URL names endpoints and a prefix, or leaves the endpoints to etcdctl's variable.
func TestURLsOfEtcdAreTakenApart(t *testing.T) {
	for rest, want := range map[string][]string{
		"a:1":                            {"", "a:1"},
		"//a:1/shop/":                    {"/shop", "a:1"},
		"https://a:1,https://b:2/shop/x": {"/shop/x", "https://a:1", "https://b:2"},
		"/shop":                          {"/shop", "env:1", "env:2"},
		"":                               {"", "env:1", "env:2"},
	} {
		endpoints, prefix, err := place(rest, "env:1,env:2")
		if got := append([]string{prefix}, endpoints...); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", rest, got, err, want)
		}
	}
	for _, rest := range []string{"", "/shop"} {
		if _, _, err := place(rest, ""); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q without endpoints: %v", rest, err)
		}
	}
	if _, _, err := place("db.example/shop", ""); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("an endpoint without a port: %v", err)
	}
}

// The user is that of etcdctl's variables, whose password stands behind the name or in a variable of its own.
//
// Seen to fail without the variable of the password, and with it where the name has one.
func TestUserOfEtcdIsThatOfItsVariables(t *testing.T) {
	for _, name := range []string{"ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("ETCDCTL_ENDPOINTS", "env:1")
	for _, c := range []struct{ user, password, wantName, wantPassword string }{
		{"", "", "", ""},
		{"root", "", "root", ""},
		{"root", "secret", "root", "secret"},
		{"root:a:b", "other", "root", "a:b"},
		{"root:", "other", "root", ""},
	} {
		t.Setenv("ETCDCTL_USER", c.user)
		t.Setenv("ETCDCTL_PASSWORD", c.password)
		cfg, prefix, err := configOf("/shop")
		if err != nil || cfg.Username != c.wantName || cfg.Password != c.wantPassword || prefix != "/shop" || !slices.Equal(cfg.Endpoints, []string{"env:1"}) || cfg.TLS != nil {
			t.Errorf("with %q and %q: %q, %q, %q at %q, TLS %v, %v", c.user, c.password, cfg.Username, cfg.Password, prefix, cfg.Endpoints, cfg.TLS, err)
		}
	}
	t.Setenv("ETCDCTL_CERT", filepath.Join(t.TempDir(), "none"))
	if _, _, err := configOf("/shop"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a certificate of the client that is not there: %v", err)
	}
}

// TLS is for https endpoints and for the variables of etcdctl, and what they name has to be there.
func TestTLSOfEtcdIsAsItsVariablesSay(t *testing.T) {
	for _, name := range []string{"ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY"} {
		t.Setenv(name, "")
	}
	if c, err := tlsConfig([]string{"a:1"}); c != nil || err != nil {
		t.Errorf("a plain endpoint has TLS: %v, %v", c, err)
	}
	if c, err := tlsConfig([]string{"https://a:1"}); c == nil || err != nil {
		t.Errorf("an https endpoint has no TLS: %v", err)
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("ETCDCTL_CACERT", none)
	if _, err := tlsConfig(nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a certificate that is not there: %v", err)
	}
	if err := os.WriteFile(none, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tlsConfig(nil); err == nil {
		t.Error("a file without a certificate is taken")
	}
	of := httptest.NewUnstartedServer(nil)
	of.StartTLS()
	defer of.Close()
	pair := of.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"ETCDCTL_CACERT": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		"ETCDCTL_CERT":   {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		"ETCDCTL_KEY":    {Type: "PRIVATE KEY", Bytes: secret},
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, path)
	}
	authority := x509.NewCertPool()
	authority.AddCert(of.Certificate())
	if c, err := tlsConfig(nil); err != nil || !c.RootCAs.Equal(authority) || len(c.Certificates) != 1 || !slices.Equal(c.Certificates[0].Certificate[0], pair.Certificate[0]) {
		t.Errorf("an authority and a client's certificate make %+v, %v", c, err)
	}
}

// Options that are left out mean what their comments say, those that are given are kept, and those that cannot be
// meant are refused.
func TestZeroOptionsMeanTheirDefaults(t *testing.T) {
	log := slog.Default()
	want := Options{
		Prefix: "/tend", Timeout: 5 * time.Second, batch: 32, inFlight: 2, History: 4096,
		silence: 10 * time.Second, firstLook: time.Minute, logger: log,
	}
	for _, o := range []*Options{nil, {}} {
		if got, err := o.withDefaults(); err != nil || got != want {
			t.Errorf("the defaults are %+v, error %v, want %+v", got, err, want)
		}
	}
	given := Options{
		Prefix: "/x", Timeout: 1, batch: 120, inFlight: 1, History: 1, silence: 1, firstLook: 1, logger: slog.New(slog.DiscardHandler),
	}
	if got, err := given.withDefaults(); err != nil || got != given {
		t.Errorf("%+v became %+v, error %v", given, got, err)
	}
	for _, o := range []Options{{Prefix: "/tend/"}, {Timeout: -1}, {inFlight: -1}, {History: -1}, {silence: -1}, {batch: -1}, {batch: 121}} {
		if _, err := o.withDefaults(); err == nil {
			t.Errorf("%+v is taken", o)
		}
		if b, err := New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}}, &o); err == nil {
			_ = b.Close()
			t.Errorf("a backend with %+v is made", o)
		}
	}
}

// A connection that dies without a word is noticed: a keepalive is set where the caller sets none, and one that is
// set is kept. So is the caller's logger; without one etcd's client logs nothing.
func TestConnectionsAreKeptAlive(t *testing.T) {
	logger := zap.NewExample()
	for _, c := range []struct {
		every, answer, wantEvery, wantAnswer time.Duration
		log                                  *zap.Logger
	}{
		{0, 0, 10 * time.Second, 3 * time.Second, nil},
		{time.Hour, time.Minute, time.Hour, time.Minute, logger},
	} {
		made, err := New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, DialKeepAliveTime: c.every, DialKeepAliveTimeout: c.answer, Logger: c.log}, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := made.(*backend)
		if cfg := b.streams.cfg; cfg.DialKeepAliveTime != c.wantEvery || cfg.DialKeepAliveTimeout != c.wantAnswer {
			t.Errorf("%v and %v became %v and %v, want %v and %v", c.every, c.answer, cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout, c.wantEvery, c.wantAnswer)
		}
		if l := b.streams.cfg.Logger; l == nil || c.log != nil && l != c.log || c.log == nil && l.Core().Enabled(zap.FatalLevel) {
			t.Errorf("the logger %v became %v", c.log, l)
		}
		_ = b.Close()
	}
}

// The calls of commits have the sizes that the caller's client has.
func TestCallsHaveTheSizesOfTheClient(t *testing.T) {
	for _, c := range []struct{ send, recv, wantSend, wantRecv int }{{0, 0, 2 << 20, math.MaxInt32}, {5, 7, 5, 7}} {
		options := callOptions(clientv3.Config{MaxCallSendMsgSize: c.send, MaxCallRecvMsgSize: c.recv})
		if !slices.Contains(options, grpc.MaxCallSendMsgSize(c.wantSend)) || !slices.Contains(options, grpc.MaxCallRecvMsgSize(c.wantRecv)) {
			t.Errorf("sizes of %d and %d became %v, want %d and %d", c.send, c.recv, options, c.wantSend, c.wantRecv)
		}
	}
}

// Of a call that was not sent etcd's client is told that it is not to be made again, and whether the caller gave up.
func TestCallThatWasNotSentSaysWhy(t *testing.T) {
	for of, want := range map[codes.Code]codes.Code{codes.Unavailable: codes.FailedPrecondition, codes.DeadlineExceeded: codes.FailedPrecondition, codes.Canceled: codes.Canceled} {
		err := &unsentError{place: "here", err: status.Error(of, "why")}
		if got := status.Code(err); got != want || err.Unreachable() != (of != codes.Canceled) || err.Error() != "no connection to here: why" {
			t.Errorf("%v became %v, %q, unreachable: %v", of, got, err, err.Unreachable())
		}
	}
}
