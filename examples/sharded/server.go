package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

type (
	// Work names the server that worked on a site last.
	Work struct {
		By    string
		Token uint64 // of the hold on the site's shard
		Hands int    // through which it went
	}
	// Plan is what a site is to be.
	Plan struct {
		Text  string
		Round int // of the measurement that changed it last
	}
	// Site is what there is to work on.
	Site  = store.Object[Plan, Work]
	sites = store.Store[Plan, Work]
)

const kind = "site"

// serve is one server. All run this, and the leases of the shards decide which
// sites are whose.
func serve(ctx context.Context, o options, out io.Writer) error {
	return fleet.Serve(ctx, o.Options, out, func(p *program.Program, lo *lease.Options) {
		all := program.AddKind(p, kind, &program.ObjectsOptions[Plan, Work]{
			Cache: &cache.Options[Plan, Work]{Shards: o.Shards}, // the sites of its own shards, no others
		})
		shards, err := lease.NewSharded(p.Backend(), "sites", o.Shards, lo)
		p.Check(err)
		var runs atomic.Int64
		all.Reconcile(func(ctx context.Context, s *Site) (reconcile.Result, error) {
			defer runs.Add(1)
			token, _ := lease.Token(ctx)
			if s.Status.Token == token || o.Measure != "" {
				return reconcile.Result{}, nil // as it should be, or measured without writes
			}
			s.Status = Work{By: o.Server, Token: token, Hands: s.Status.Hands + 1}
			_, err := all.UpdateStatus(ctx, s)
			return reconcile.Result{}, err
		}, &reconcile.ForOptions[Plan, Work]{Options: reconcile.Options[store.Key]{Placement: fleet.Told(shards, out)}})
		p.Use(fleet.Runner(func(ctx context.Context) error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case question := <-o.Asked:
					held := all.Cache().Snapshot()
					u := usage{CPU: ownCPU(), Read: ownRead(), Objects: held.Objects, Runs: int(runs.Load()), Others: held.Shards.Others}
					if question == askHeap {
						u.Heap = liveHeap()
					}
					fmt.Fprintln(out, "=", u)
				}
			}
		}), nil)
	})
}

// What a server is asked. Only askHeap has it collect its garbage.
const (
	askCounts = "counts"
	askHeap   = "heap"
)

// usage is what a server answers when it is asked.
type usage struct {
	Heap          uint64 // bytes that live; 0: it was not asked
	CPU           time.Duration
	Read          uint64 // bytes, from the store and from all else; 0: the system does not say
	Objects, Runs int
	Others        uint64 // changes of other servers' objects that it read
}

const usageForm = "heap=%d cpu=%d read=%d objects=%d runs=%d others=%d"

func (u usage) String() string {
	return fmt.Sprintf(usageForm, u.Heap, u.CPU, u.Read, u.Objects, u.Runs, u.Others)
}

func readUsage(text string) (u usage, err error) {
	_, err = fmt.Sscanf(text, usageForm, &u.Heap, (*int64)(&u.CPU), &u.Read, &u.Objects, &u.Runs, &u.Others)
	return u, err
}

// ownRead is how many bytes this process has read so far, as Linux counts them.
func ownRead() (bytes uint64) {
	text, _ := os.ReadFile("/proc/self/io")
	_, _ = fmt.Sscanf(string(text), "rchar: %d", &bytes)
	return bytes
}

// liveHeap is what is left after two collections: what a finalizer frees goes with the second.
func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
