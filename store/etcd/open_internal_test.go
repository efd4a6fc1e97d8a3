package etcd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

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
}
