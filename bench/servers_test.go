//go:build peers && unix

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/postgres"
)

// serverEnv makes the test binary one of the servers of BenchmarkServers.
const serverEnv = "TEND_BENCH_SERVER"

// serverConfig is that of one server.
type serverConfig struct {
	Name            string
	DSN, Schema     string // of a PostgreSQL server
	Endpoint        string // of an etcd server
	Shards, Workers int
	Wait            time.Duration // of each run, as for a cloud
}

func (c serverConfig) open(ctx context.Context) (store.Backend, error) {
	if c.Endpoint != "" {
		return etcd.New(clientv3.Config{Endpoints: []string{c.Endpoint}}, &etcd.Options{Prefix: c.Schema, Timeout: time.Minute})
	}
	return postgres.Open(ctx, c.DSN, &postgres.Options{Schema: c.Schema, Timeout: time.Minute})
}

// BenchmarkServers: objects are there, and servers, processes of their own, are started
// that share them by shards. Each run waits, as for a cloud's answer, and writes a status.
// One operation is all of it, until every object has its status: the start of the
// processes, their claims of shards and the fill of their caches are part of it. The
// servers, the store's server and what counts the statuses share the machine's cores. The
// PostgreSQL server syncs every commit to the disk; etcd, embedded here, does not.
//
// With no wait, the machine's cores and the store are what is used up, and more servers
// bring nothing on one machine. With a wait, a server does at most workers/wait runs a
// second, and each further one as many, until the store has enough to do.
func BenchmarkServers(b *testing.B) {
	for _, backend := range []string{"postgres", "etcd"} {
		for _, wait := range []time.Duration{0, 50 * time.Millisecond} {
			for _, servers := range []int{1, 3} {
				b.Run(fmt.Sprintf("backend=%s/objects=%s/work=%v/servers=%d", backend, short(*serversObjects), wait, servers), func(b *testing.B) {
					b.StopTimer() // convergeServers starts it
					cfg := serverConfig{Shards: 48, Workers: 64, Wait: wait}
					if backend == "postgres" {
						if _, err := pgBinaries(); err != nil {
							b.Skip(err)
						}
						cfg.DSN = pgDSN(b)
					} else {
						cfg.Endpoint = endpoint(b)
					}
					for range b.N {
						cfg.Schema = fmt.Sprint("servers", pgServer.schemas.Add(1))
						convergeServers(b, cfg, servers, *serversObjects)
					}
				})
			}
		}
	}
}

func convergeServers(b *testing.B, cfg serverConfig, servers, objects int) {
	ctx, cancel := context.WithCancel(context.Background())
	backend, err := cfg.open(ctx)
	if err != nil {
		b.Fatal(err)
	}
	disks := newDisks(b, "disk", backend)
	createDisks(b, disks, objects)
	head, err := backend.Commit(ctx, store.Txn{})
	if err != nil {
		b.Fatal(err)
	}
	var running []*exec.Cmd
	var inputs []io.Closer
	b.StartTimer()
	for i := range servers {
		cfg.Name = fmt.Sprint("server", i)
		cmd, stdin := startProcess(b, cfg)
		running, inputs = append(running, cmd), append(inputs, stdin)
	}
	began := time.Now()
	written := make(map[string]bool, objects)
	var first time.Duration
	for batch, err := range backend.Watch(ctx, "disk", head) {
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range batch.Changes {
			if first == 0 {
				first = time.Since(began)
			}
			written[c.Key.Name] = true
		}
		if len(written) == objects {
			break
		}
	}
	took := time.Since(began)
	b.StopTimer()
	b.ReportMetric(took.Seconds(), "s/converge")
	b.ReportMetric(first.Seconds(), "s-until-first")
	b.ReportMetric(float64(objects)/(took-first).Seconds(), "objects/s")
	for i, cmd := range running {
		inputs[i].Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("server %d: %v", i, err)
		}
	}
	cancel()
	if err := backend.Close(); err != nil {
		b.Error(err)
	}
}

// createDisks makes the objects, by many goroutines, so that their commits are gathered.
func createDisks(b *testing.B, disks *diskStore, n int) {
	var all sync.WaitGroup
	next := make(chan int)
	for range 128 {
		all.Go(func() {
			for i := range next {
				d := &disk{Spec: diskSpec{Zone: "a", Size: 10}}
				d.Name = "disk-" + strconv.Itoa(i)
				if _, err := disks.Create(context.Background(), d); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

func startProcess(b *testing.B, cfg serverConfig) (*exec.Cmd, io.Closer) {
	text, err := json.Marshal(cfg)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill() }) // if the benchmark failed before its end
	return cmd, stdin
}

// serveBench is the main function of a server.
func serveBench(text string) int {
	var cfg serverConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		cancel()
	}()
	if err := cfg.serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (c serverConfig) serve(ctx context.Context) error {
	backend, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer backend.Close()
	disks, err := store.New[diskSpec, diskStatus](backend, "disk", nil)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	placement, err := lease.NewSharded(backend, "disks", c.Shards, &lease.Options{Server: c.Name, Logger: quiet})
	if err != nil {
		return err
	}
	controller, err := reconcile.For(disks, func(ctx context.Context, d *disk) (reconcile.Result, error) {
		if d.Status.Size == d.Spec.Size {
			return reconcile.Result{}, nil
		}
		if c.Wait > 0 {
			timer := time.NewTimer(c.Wait)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return reconcile.Result{}, ctx.Err()
			}
		}
		d.Status.Size = d.Spec.Size
		_, err := disks.UpdateStatus(ctx, d)
		return reconcile.Result{}, err
	}, &reconcile.ForOptions[diskSpec, diskStatus]{
		Options: reconcile.Options[store.Key]{Placement: placement, Workers: c.Workers, Logger: quiet},
		Cache:   &cache.Options[diskSpec, diskStatus]{Shards: c.Shards},
	})
	if err != nil {
		return err
	}
	m := reconcile.Manager{Logger: quiet}
	if err := m.Register(controller); err != nil {
		return err
	}
	return m.Run(ctx)
}
