//go:build unix

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"

	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// server is the endpoint of the single member that most tests share, each under a
// prefix of its own.
var server string

func TestMain(m *testing.M) {
	if cfg := os.Getenv(memberEnv); cfg != "" {
		os.Exit(runMember(cfg)) // this process is a member of a cluster under test
	}
	if cfg := os.Getenv(serverEnv); cfg != "" {
		os.Exit(runServer(cfg)) // this process is a server under test
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "tend-etcd")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		stop, err := startShared(dir)
		if err != nil {
			panic(err)
		}
		code := m.Run()
		stop()
		if code == 0 {
			if err := goleak.Find(etcdLeaves...); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
		return code
	}())
}

// startShared starts the server that most tests share and waits until it answers.
func startShared(dir string) (stop func(), err error) {
	m := member{Name: "m0", Dir: dir, Client: loopback(), Peer: loopback()}
	m.Cluster = m.Name + "=" + m.Peer
	ctx, cancel := context.WithCancelCause(context.Background())
	p := &campaign.Process{Name: "etcd", Command: m.command, Failed: func(err error) {
		fmt.Fprintln(os.Stderr, err) // also if it is long after the start
		cancel(err)
	}}
	if err := p.Start(); err != nil {
		return nil, err
	}
	server = strings.TrimPrefix(m.Client, "http://")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server}})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ready, end := context.WithTimeout(ctx, patience)
	defer end()
	if _, err := client.Get(ready, "ready"); err != nil {
		return nil, errors.Join(err, context.Cause(ready))
	}
	return p.Stop, nil
}

// etcdLeaves are goroutines that etcd's server leaves behind when it is closed: idle
// connections of its peer transport.
var etcdLeaves = []goleak.Option{
	goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
	goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
}

// member says how to start one etcd server.
type member struct {
	Name, Dir    string
	Client, Peer string // URLs on the loopback interface
	Cluster      string // name=peer,…
	// Calm members wait ten times as long before they depose a leader: a busy
	// machine alone makes them hold no election.
	Calm bool
	// Binary is the etcd to run, in a process of its own; "": the one of this module,
	// inside a test binary.
	Binary string
	Flags  []string // of Binary, besides those that a test needs
	// Set changes what else there is to configure; nil: nothing.
	Set func(*embed.Config) `json:"-"`
}

func (m member) start() (*embed.Etcd, error) {
	client, err := url.Parse(m.Client)
	if err != nil {
		return nil, err
	}
	peer, err := url.Parse(m.Peer)
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = m.Name, filepath.Join(m.Dir, m.Name)
	cfg.LogLevel, cfg.LogOutputs = "fatal", []string{os.DevNull}
	cfg.UnsafeNoFsync = true // a killed process leaves its writes with the kernel
	cfg.TickMs, cfg.ElectionMs = 50, 500
	if m.Calm {
		cfg.ElectionMs *= 10
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.InitialCluster = m.Cluster
	if m.Set != nil {
		m.Set(cfg)
	}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-e.Err():
		return nil, err
	case <-time.After(patience):
		e.Close()
		return nil, fmt.Errorf("member %s was not ready in %v", m.Name, patience)
	}
}

// loopback finds a free port below those that the system gives to outgoing
// connections: a member that is away for a moment must find its port free again,
// and a client that dials it meanwhile must not be connected to itself.
func loopback() string {
	for {
		port := 12000 + rand.IntN(18000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // in use
		}
		l.Close()
		if _, again := ports.LoadOrStore(port, true); !again {
			return "http://" + l.Addr().String()
		}
	}
}

// ports are those that loopback has given away.
var ports sync.Map

func endpoint(e *embed.Etcd) string { return e.Clients[0].Addr().String() }

// patience is how long a test waits for what must happen. It bounds a hang and
// measures nothing: no test may fail because the machine is busy.
const patience = 3 * time.Minute

var prefixes atomic.Int64

// newPrefix gives a test a part of the key space to itself.
func newPrefix() string { return fmt.Sprintf("/test%d", prefixes.Add(1)) }

// open gives a backend on the shared server.
func open(t testing.TB, o etcd.Options) *etcd.Backend {
	t.Helper()
	if o.Prefix == "" {
		o.Prefix = newPrefix()
	}
	return openAt(t, server, o)
}

// openAt gives a backend that waits for answers as long as a test does, unless o
// says otherwise.
func openAt(t testing.TB, endpoint string, o etcd.Options) *etcd.Backend {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	b, err := etcd.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second}, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b.(*etcd.Backend)
}
