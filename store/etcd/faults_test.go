//go:build unix

package etcd_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/storetest/campaign"
)

var faultsFor = flag.Duration("faults", 10*time.Second, "how long the fault campaign lasts")

// Three members in processes of their own are killed, stopped, cut off and
// reset, while writers compare and swap and watchers follow. Afterwards:
//
//   - what each client saw is linearizable, key by key (porcupine; a verdict of
//     "unknown" fails);
//   - every acknowledged write is in the log;
//   - every watcher saw the log from its snapshot on, in order, without a gap and
//     without a repetition.
//
// promise S1, promise S2. Negative control: TestCheckersRejectBrokenHistories
// feeds the same checkers a stale read, a lost write, a repeated, a missing and
// a swapped change.
func TestClusterUnderFaultsIsLinearizableAndItsWatchesAreGapless(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	prefix := newPrefix()
	direct := c.openDirect(etcd.Options{Prefix: prefix, Timeout: 10 * time.Second})
	waitFor(t, func() bool {
		_, err := direct.Get(t.Context(), "thing", key("none"))
		return errors.Is(err, store.ErrNotFound)
	})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	hist := &campaign.History{Began: time.Now()}
	ctx, stop := context.WithCancel(campaign.Context(t))
	defer stop()
	// However slow the machine: a quiet test is no test.
	campaign.Until(ctx, stop, *faultsFor, func() bool { return hist.Count() >= 500 })

	var work, watching sync.WaitGroup
	for i := range 6 {
		b := c.open(*(&etcd.Options{Prefix: prefix, Timeout: 2 * time.Second}).SetSilence(time.Second))
		work.Go(func() { hist.Client(ctx, b, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	wctx, stopWatching := context.WithCancel(campaign.Context(t))
	defer stopWatching()
	var views []*campaign.Watched
	for range 3 {
		b := c.open(*(&etcd.Options{Prefix: prefix, Timeout: 2 * time.Second}).SetSilence(time.Second))
		v := &campaign.Watched{}
		views = append(views, v)
		watching.Go(func() { v.Follow(wctx, b) })
	}
	faults := c.torment(ctx, rand.New(rand.NewPCG(seed, 99)))
	work.Wait()

	// All is well again. The log is what a fresh reader sees from the beginning.
	var last store.Revision
	waitFor(t, func() (ok bool) { // a leader may still have to be found
		rev, err := direct.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("last"), "last")}})
		last = rev
		return err == nil
	})
	log := &campaign.Watched{}
	lctx, stopLog := context.WithTimeout(t.Context(), patience)
	defer stopLog()
	log.Read(lctx, direct, 1, last)
	for _, v := range views {
		waitFor(t, func() bool { return v.Reached() >= last })
	}
	stopWatching()
	watching.Wait()

	for i, v := range views {
		if err := v.Check(log); err != nil {
			t.Errorf("watcher %d: %v", i, err)
		}
	}
	ops, unknown, err := hist.Operations(log)
	if err != nil {
		t.Error(err)
	}
	t.Logf("campaign: %d operations, %d with an unknown outcome, %d faults, %d changes", len(ops), unknown, faults, len(log.Changes))
	checkLinearizable(t, ops)
}

// The two backends of a single process are held to the same judge, under as much
// contention as it can still judge.
//
// promise S1
func TestLocalBackendsAreLinearizable(t *testing.T) {
	for name, open := range map[string]func() (store.Backend, error){
		"memory": func() (store.Backend, error) { return memory.New(&memory.Options{History: 1 << 16}) },
		"file":   func() (store.Backend, error) { return file.Open(filepath.Join(t.TempDir(), "state")) },
	} {
		t.Run(name, func(t *testing.T) {
			b, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			var work sync.WaitGroup
			hist := &campaign.History{Began: time.Now()}
			log := &campaign.Watched{}
			first, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("first"), "first")}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 6 {
				ctx, cancel := context.WithCancel(t.Context())
				work.Go(func() {
					defer cancel()
					hist.ClientFor(ctx, b, i, rand.New(rand.NewPCG(seed, uint64(i))), 1500)
				})
			}
			work.Wait()
			last, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("last"), "last")}})
			if err != nil {
				t.Fatal(err)
			}
			log.Read(t.Context(), b, first, last)
			ops, _, err := hist.Operations(log)
			if err != nil {
				t.Error(err)
			}
			checkLinearizable(t, ops)
		})
	}
}

// torment breaks one thing after the other until ctx ends, and mends it all.
func (c *cluster) torment(ctx context.Context, r *rand.Rand) (faults int) {
	wait := func(least, most time.Duration) {
		t := time.NewTimer(least + time.Duration(r.Int64N(int64(most-least))))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	for wait(300*time.Millisecond, 900*time.Millisecond); ctx.Err() == nil; faults++ {
		p := c.members[r.IntN(len(c.members))]
		switch r.IntN(4) {
		case 0:
			p.Kill()
			wait(200*time.Millisecond, time.Second)
			p.start()
		case 1:
			p.Pause()
			wait(500*time.Millisecond, 2*time.Second)
			p.Resume()
		case 2:
			p.proxy.Set(campaign.Reset)
			wait(100*time.Millisecond, time.Second)
			p.proxy.Set(campaign.Pass)
		case 3:
			p.proxy.Set(campaign.Blackhole)
			wait(500*time.Millisecond, 2*time.Second)
			p.proxy.Set(campaign.Pass)
		}
		wait(300*time.Millisecond, 900*time.Millisecond)
	}
	return faults
}
