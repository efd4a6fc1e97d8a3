package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/store"
)

func init() { store.Register("etcd", openURL) }

// openURL opens the cluster of a URL. What the URL does not say is in the variables of etcdctl:
// ETCDCTL_ENDPOINTS, ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY, ETCDCTL_USER (NAME or
// NAME:PASSWORD) and ETCDCTL_PASSWORD.
func openURL(_ context.Context, url string) (store.Backend, error) {
	cfg, prefix, err := configOf(strings.TrimPrefix(strings.TrimPrefix(url, "etcd"), ":"))
	if err != nil {
		return nil, err
	}
	return New(cfg, &Options{Prefix: prefix})
}

// configOf is what follows "etcd:", and what the environment has beside it.
func configOf(rest string) (cfg clientv3.Config, prefix string, err error) {
	if cfg.Endpoints, prefix, err = place(rest, os.Getenv("ETCDCTL_ENDPOINTS")); err != nil {
		return cfg, "", err
	}
	name, password, found := strings.Cut(os.Getenv("ETCDCTL_USER"), ":")
	if !found {
		password = os.Getenv("ETCDCTL_PASSWORD")
	}
	cfg.Username, cfg.Password = name, password
	cfg.TLS, err = tlsConfig(cfg.Endpoints)
	return cfg, prefix, err
}

// place takes what follows "etcd:" apart. The endpoints are those of the environment where
// it names none.
func place(rest, fromEnv string) (endpoints []string, prefix string, err error) {
	const hint = "a URL is etcd:[https://]HOST:PORT,.../PREFIX; without endpoints they are those of ETCDCTL_ENDPOINTS"
	rest = strings.TrimPrefix(rest, "//")
	named := rest
	if i := strings.Index(strings.ReplaceAll(rest, "://", ":::"), "/"); i >= 0 {
		named, prefix = rest[:i], strings.TrimRight(rest[i:], "/")
	}
	if named == "" {
		named = fromEnv
	}
	if named == "" {
		return nil, "", fmt.Errorf("%w: there is no endpoint of etcd: %s", store.ErrInvalid, hint)
	}
	endpoints = strings.Split(named, ",")
	for _, e := range endpoints {
		if _, _, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimPrefix(e, "https://"), "http://")); err != nil {
			return nil, "", fmt.Errorf("%w: %q is no endpoint of etcd: %s", store.ErrInvalid, e, hint)
		}
	}
	return endpoints, prefix, nil
}

// tlsConfig is nil if neither the endpoints nor the environment ask for TLS.
func tlsConfig(endpoints []string) (*tls.Config, error) {
	ca, cert, key := os.Getenv("ETCDCTL_CACERT"), os.Getenv("ETCDCTL_CERT"), os.Getenv("ETCDCTL_KEY")
	if ca == "" && cert == "" && !strings.Contains(strings.Join(endpoints, ","), "https://") {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("ETCDCTL_CACERT: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ETCDCTL_CACERT: %s holds no certificate", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("ETCDCTL_CERT and ETCDCTL_KEY: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
