//go:build unix

package etcd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// memberEnv makes the test binary an etcd server instead of a test.
const memberEnv = "TEND_TEST_ETCD_MEMBER"

// membersEnv names another binary of these tests to run such servers with: one that was
// built without the race detector, which makes etcd slow and has nothing to find in it.
const membersEnv = "TEND_ETCD_MEMBERS"

func runMember(cfg string) int {
	var m member
	if err := json.Unmarshal([]byte(cfg), &m); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Another process may have had the port in between.
	e, err := m.start()
	for end := time.Now().Add(patience); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); e, err = m.start() {
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test lets go, or dies
	e.Close()
	return 0
}

// process is a member in a process of its own, behind a proxy.
type process struct {
	campaign.Process

	t     *testing.T
	cfg   member
	proxy *campaign.Proxy
}

// newProcess starts a member, which is killed when the test ends; the test fails if it ends before.
func newProcess(t *testing.T, m member) *process {
	t.Helper()
	p := &process{t: t, cfg: m}
	p.Process = campaign.Process{
		Name: "etcd " + m.Name, Command: func() *exec.Cmd { return p.cfg.command() }, Failed: func(err error) { t.Error(err) },
	}
	p.start()
	t.Cleanup(func() {
		p.Resume()
		p.Kill()
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	if err := p.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// cluster is three of them.
type cluster struct {
	t       *testing.T
	members []*process
}

func startCluster(t *testing.T) *cluster { return startMembers(t, member{}) }

// startMembers starts three members that are like the one given.
func startMembers(t *testing.T, like member) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var peers []string
	all := make([]member, 3)
	for i := range all {
		all[i] = like
		m := &all[i]
		m.Name, m.Dir, m.Client, m.Peer = fmt.Sprint("m", i), t.TempDir(), loopback(), loopback()
		peers = append(peers, m.Name+"="+m.Peer)
	}
	for _, m := range all {
		m.Cluster = strings.Join(peers, ",")
		u, err := url.Parse(m.Client)
		if err != nil {
			t.Fatal(err)
		}
		p := newProcess(t, m)
		p.proxy = campaign.NewProxy(t, u.Host)
		c.members = append(c.members, p)
	}
	return c
}

// leader is the member that leads the cluster, or the one given if none is known.
func (c *cluster) leader(otherwise *process) *process {
	for _, p := range c.members {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{p.cfg.Client}})
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		status, err := client.Status(ctx, p.cfg.Client)
		cancel()
		client.Close()
		if err == nil && status.Leader == status.Header.MemberId {
			return p
		}
	}
	return otherwise
}

// open gives a backend that reaches the members through their proxies.
func (c *cluster) open(o etcd.Options) *etcd.Backend {
	c.t.Helper()
	var endpoints []string
	for _, p := range c.members {
		endpoints = append(endpoints, p.proxy.Addr())
	}
	return c.openAt(endpoints, o)
}

// openDirect gives one that the proxies do not stand in the way of.
func (c *cluster) openDirect(o etcd.Options) *etcd.Backend {
	c.t.Helper()
	return c.openAt(c.direct(), o)
}

// direct are the addresses of the members themselves.
func (c *cluster) direct() (endpoints []string) {
	for _, p := range c.members {
		endpoints = append(endpoints, p.cfg.Client)
	}
	return endpoints
}

// client is etcd's own.
func (c *cluster) client() *clientv3.Client {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.direct(), Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

func (c *cluster) openAt(endpoints []string, o etcd.Options) *etcd.Backend {
	c.t.Helper()
	b, err := etcd.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second}, &o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = b.Close() })
	return b.(*etcd.Backend)
}
