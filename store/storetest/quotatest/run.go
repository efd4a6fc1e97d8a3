//go:build unix

package quotatest

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/storetest/campaign"
)

var granted = flag.Float64("creates-per-second", 100, "what the cloud of a long run of creates grants")

// patience bounds a hang, and measures nothing.
const patience = 5 * time.Minute

// Run has three servers create n resources through the store b; start starts one as a process
// in which [Serve] is called with the configuration. Once a third is there one is killed, and
// after two thirds another is added. No resource is created twice, and in no ten seconds, or in
// no two of a run of fewer than 1,000, are there more calls than the cloud grants. A run for which the quota allows five minutes
// at least, beside which the hand-overs count little, has to be done within 1.1 of that.
func Run(t *testing.T, n int, b store.Backend, start func(c Config) *campaign.Worker) {
	t.Helper()
	// Few calls under way and a rate that a slow machine exceeds: servers that take two times
	// the quota make more calls in two seconds than may lie between what was paid and what arrives.
	s := seen{declared: n, servers: 4, perSecond: 10, workers: 2, ttl: 2 * time.Second, window: 2 * time.Second}
	if n >= 1000 {
		s.perSecond, s.workers, s.ttl, s.window = *granted, 8, 5*time.Second, 10*time.Second
		s.exact = s.least() >= 5*time.Minute
	}
	c := newCloud()
	api := httptest.NewServer(c)
	defer api.Close()
	ctx := campaign.Context(t)
	declare(ctx, t, n, b)
	launch := func(i int) *campaign.Worker {
		return start(Config{Name: fmt.Sprint("server-", i), URL: api.URL, PerSecond: s.perSecond, TTL: s.ttl, Members: 3, Workers: s.workers})
	}
	all := []*campaign.Worker{launch(0), launch(1), launch(2)}
	await(ctx, t, c, n/3)
	all[0].Kill()
	await(ctx, t, c, 2*n/3)
	all = append(all[1:], launch(3))
	await(ctx, t, c, n)
	for _, w := range all {
		w.Stop()
	}
	api.Close() // and so no call is under way
	s.made, s.again, s.writes = len(c.made), c.again, c.writes
	t.Logf("%v; %d reads", s, c.reads)
	t.Logf("campaign: %d creates, %d servers, 1 kills", s.made, s.servers)
	for _, p := range s.problems() {
		t.Error(p)
	}
}

// await waits until so many resources were made, and fails when ctx ends before.
func await(ctx context.Context, t *testing.T, c *cloud, n int) {
	t.Helper()
	stuck := time.NewTicker(patience)
	defer stuck.Stop()
	for before := -1; ; {
		select {
		case <-c.when(n):
			return
		case <-ctx.Done():
			t.Fatalf("%v before there were %d resources", context.Cause(ctx), n)
		case <-stuck.C:
		}
		c.mu.Lock()
		made := len(c.made)
		c.mu.Unlock()
		if made == before {
			t.Fatalf("%d resources for %v, want %d", made, patience, n)
		}
		before = made
	}
}

// declare declares n resources, several at a time.
func declare(ctx context.Context, t *testing.T, n int, b store.Backend) {
	t.Helper()
	disks, err := store.New[spec, struct{}](b, kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	var next atomic.Int64
	var writers sync.WaitGroup
	for range 64 {
		writers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if _, err := disks.Create(ctx, &disk{Meta: store.Meta{Name: fmt.Sprintf("disk-%07d", i)}, Spec: spec{1}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
