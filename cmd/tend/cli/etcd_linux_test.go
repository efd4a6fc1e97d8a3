package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
)

// certificate makes one for 127.0.0.1 that signs itself, for servers and clients.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "shop"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", must(x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private))),
		write("key.pem", "EC PRIVATE KEY", must(x509.MarshalECPrivateKey(private)))
}

// A cluster with TLS, client certificates and authentication is reached with the variables that
// etcdctl has.
func TestCommandsOnAStoreInEtcdWithTLSAndUsers(t *testing.T) {
	binary, err := exec.LookPath("etcd")
	lacks(t, "TEND_ETCD", err)
	cert, key := certificate(t)
	host := freeAddress()
	client, peer := "https://"+host, "http://"+freeAddress()
	started(t, "serving client traffic", exec.Command(binary, "--name", "alone", "--data-dir", t.TempDir(),
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--cert-file", cert, "--key-file", key, "--trusted-ca-file", cert, "--client-cert-auth",
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "alone="+peer, "--logger", "zap", "--log-outputs", "stderr"))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(cert)))
	cfg := clientv3.Config{Endpoints: []string{client}, TLS: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{must(tls.LoadX509KeyPair(cert, key))}}}
	admin := must(clientv3.New(cfg))
	defer admin.Close()
	ctx := t.Context()
	must(admin.RoleAdd(ctx, "tend"))
	must(admin.RoleGrantPermission(ctx, "tend", "/shop/", clientv3.GetPrefixRangeEnd("/shop/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	for user, role := range map[string]string{"root": "root", "tend": "tend"} {
		must(admin.UserAdd(ctx, user, "hunter2"))
		must(admin.UserGrantRole(ctx, user, role))
	}
	must(admin.AuthEnable(ctx))
	cfg.Username, cfg.Password = "tend", "hunter2"
	b := must(etcd.New(cfg, &etcd.Options{Prefix: "/shop"}))
	defer b.Close()
	must(newDisks(b).Create(ctx, &disk{Meta: store.Meta{Namespace: "prod", Name: "data"}, Spec: spec{10, "hunter2"}}))

	c := &tend{t: t, env: map[string]string{}}
	set := func(variables ...string) {
		for i := 0; i < len(variables); i += 2 {
			t.Setenv("ETCDCTL_"+variables[i], variables[i+1])
		}
	}
	set("CACERT", cert, "CERT", cert, "KEY", key, "USER", "tend:hunter2")
	for _, address := range []string{"etcd:" + client + "/shop", "etcd://" + host + "/shop/", "etcd:" + client + "," + client + "/shop"} {
		wantAll(t, c.run(cli.Done, "", "-store", address, "get", "disk"), "prod/data")
	}
	set("USER", "tend", "PASSWORD", "hunter2", "ENDPOINTS", client)
	wantAll(t, c.run(cli.Done, "", "-store", "etcd:/shop", "get", "disk"), "prod/data")

	c.run(cli.Usage, "", "-store", "etcd:db.example/shop", "get", "disk")
	wantAll(t, c.said, "HOST:PORT", "ETCDCTL_ENDPOINTS")
	set("CACERT", filepath.Join(t.TempDir(), "none"))
	c.run(cli.Unreachable, "", "-store", "etcd:/shop", "get", "disk")
	wantAll(t, c.said, "ETCDCTL_CACERT")
}
