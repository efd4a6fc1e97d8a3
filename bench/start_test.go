//go:build peers && unix

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/file"
	memstore "github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/postgres"
)

// startEnv makes the test binary a start of BenchmarkStart.
const startEnv = "TEND_BENCH_START"

// startConfig is that of one start.
type startConfig struct {
	Raw          bool   // read and decode the rows, and nothing else
	Objects      int    // that there are
	File, Rows   string // the file store, and a bbolt file of the same rows
	DSN, Schema  string // of a PostgreSQL server
	Endpoint     string // of an etcd server
	Prefix, Kind string
}

// startResult is what a start cost: CPU time of its process, and memory in bytes.
type startResult struct {
	First, All time.Duration // until the change that was made meanwhile was served, and until all were
	Before     int           // objects that were served before that change
	Live       uint64        // the heap after a collection, when all were served
	PeakFirst  uint64        // the resident memory, at most, until the first
	Peak       uint64
	PeakOwn    uint64 // of that, what no file backs; looked at now and then
}

type (
	volumeSpec struct {
		Zone string
		Size int
		Note string
	}
	volumeStatus struct{ Size int }
	volume       = store.Object[volumeSpec, volumeStatus]
)

// startNote is the text of each volume: 1,000 bytes.
var startNote = strings.Repeat("volume ", 143)[:1000]

const changedSize = 7 // of the volume that is changed during the start

// BenchmarkStart: a process starts with a controller of objects with a text of 1 kB that are
// all there, and serves each once: the run reads the object and writes nothing. When half of
// the list was read, its last object is changed. One operation is a start, in a
// process of its own, and beside it one that reads the rows with bbolt, etcd's client or pgx,
// decodes each with encoding/json and keeps it.
//
// x-raw is the quotient of their CPU times, of the processes alone and not of the stores'
// servers. before-% says how many of the objects were served before the change was. The peaks
// are of resident memory, on Linux: that of mapped pages of the file included, which the system
// takes back when it needs them, and in peak-own without what a file backs.
func BenchmarkStart(b *testing.B) {
	for _, backend := range []string{"file", "etcd", "postgres"} {
		b.Run(fmt.Sprintf("backend=%s/objects=%s", backend, short(*startObjects)), func(b *testing.B) {
			b.StopTimer()
			cfg := startConfig{Objects: *startObjects, Kind: "volume"}
			switch backend {
			case "file":
				cfg.File, cfg.Rows = filepath.Join(b.TempDir(), "state"), filepath.Join(b.TempDir(), "rows")
			case "etcd":
				cfg.Endpoint, cfg.Prefix = endpoint(b), newPrefix()
			case "postgres":
				if _, err := pgBinaries(); err != nil {
					b.Skip(err)
				}
				cfg.DSN, cfg.Schema = pgDSN(b), fmt.Sprint("start", pgServer.schemas.Add(1))
			}
			if err := cfg.fill(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			for range b.N {
				raw := cfg
				raw.Raw = true
				was, is := startProcessOf(b, raw), startProcessOf(b, cfg)
				n := float64(cfg.Objects)
				b.ReportMetric(is.First.Seconds(), "cpu-s/first")
				b.ReportMetric(is.All.Seconds(), "cpu-s/all")
				b.ReportMetric(is.All.Seconds()/was.All.Seconds(), "x-raw")
				b.ReportMetric(100*float64(is.Before)/n, "before-%")
				b.ReportMetric(float64(is.Live)/n, "live-B/object")
				b.ReportMetric(float64(is.PeakFirst)/n, "peak-first-B/object")
				b.ReportMetric(float64(is.Peak)/n, "peak-B/object")
				b.ReportMetric(float64(is.PeakOwn)/n, "peak-own-B/object")
			}
		})
	}
}

func startProcessOf(b *testing.B, cfg startConfig) (r startResult) {
	text, err := json.Marshal(cfg)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), startEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (c startConfig) open(ctx context.Context) (store.Backend, error) {
	switch {
	case c.File != "":
		return file.Open(c.File)
	case c.Endpoint != "":
		return etcd.New(clientv3.Config{Endpoints: []string{c.Endpoint}}, &etcd.Options{Prefix: c.Prefix, Timeout: time.Minute})
	}
	return postgres.Open(ctx, c.DSN, &postgres.Options{Schema: c.Schema, Timeout: time.Minute})
}

// fill makes the objects, as many in a transaction as there can be.
func (c startConfig) fill() error {
	ctx := context.Background()
	backend, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer backend.Close()
	var all sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, 32)
	for w := range errs {
		all.Go(func() {
			for errs[w] == nil {
				from := int(next.Add(store.MaxTxn)) - store.MaxTxn
				if from >= c.Objects {
					return
				}
				errs[w] = c.fillPart(ctx, backend, from, min(from+store.MaxTxn, c.Objects))
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil || c.Rows == "" {
		return err
	}
	return c.copyRows(ctx, backend)
}

// fillPart makes some of the objects, in one transaction: those that a store in memory has of them.
func (c startConfig) fillPart(ctx context.Context, backend store.Backend, from, to int) error {
	few, err := memstore.New(nil)
	if err != nil {
		return err
	}
	defer few.Close()
	s, err := store.New[volumeSpec, volumeStatus](few, c.Kind, nil)
	if err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if _, err := s.Create(ctx, &volume{Meta: store.Meta{Name: "volume-" + strconv.Itoa(i)}, Spec: volumeSpec{Zone: "a", Size: 10, Note: startNote}}); err != nil {
			return err
		}
	}
	page, err := few.List(ctx, c.Kind, store.ListOptions{})
	if err != nil {
		return err
	}
	var t store.Txn
	for _, r := range page.Records {
		t.Ops = append(t.Ops, store.Op{Kind: c.Kind, Key: r.Key, Put: r.Value})
	}
	_, err = backend.Commit(ctx, t)
	return err
}

var rows = []byte("rows")

// copyRows makes the bbolt file of the rows, a page in a transaction.
func (c startConfig) copyRows(ctx context.Context, backend store.Backend) error {
	db, err := bolt.Open(c.Rows, 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		return err
	}
	defer db.Close()
	for o := (store.ListOptions{}); ; {
		p, err := backend.List(ctx, c.Kind, o)
		if err != nil {
			return err
		}
		if err := db.Update(func(tx *bolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists(rows)
			for i := 0; i < len(p.Records) && err == nil; i++ {
				err = bucket.Put([]byte(p.Records[i].Key.String()), p.Records[i].Bytes)
			}
			return err
		}); err != nil {
			return err
		}
		if o.Cursor = p.Cursor; o.Cursor == "" {
			return nil
		}
	}
}

// startBench is the main function of a start.
func startBench(text string) int {
	var cfg startConfig
	err := json.Unmarshal([]byte(text), &cfg)
	if err == nil {
		start := cfg.start
		if cfg.Raw {
			start = cfg.startRaw
		}
		var r startResult
		if r, err = start(context.Background()); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(r)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (c startConfig) startRaw(ctx context.Context) (r startResult, err error) {
	from := ownCPU()
	all := make([]*volume, 0, c.Objects)
	keep := func(data []byte) error {
		v := new(volume)
		all = append(all, v)
		return json.Unmarshal(data, v)
	}
	switch {
	case c.Rows != "":
		err = eachBolt(c.Rows, keep)
	case c.Endpoint != "":
		err = eachEtcd(ctx, c.Endpoint, c.Prefix+"/"+c.Kind+"/", keep)
	default:
		err = eachPostgres(ctx, c.DSN, c.Schema, c.Kind, keep)
	}
	if err == nil && (len(all) != c.Objects || all[0].Spec.Note != startNote) {
		err = fmt.Errorf("%d rows of %d objects were read", len(all), c.Objects)
	}
	r.All = ownCPU() - from
	return r, err
}

func eachBolt(path string, each func([]byte) error) error {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(rows).ForEach(func(_, v []byte) error { return each(v) })
	})
}

func eachEtcd(ctx context.Context, endpoint, prefix string, each func([]byte) error) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		return err
	}
	defer client.Close()
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from, more := prefix, true; more; {
		page, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(1000))
		if err != nil {
			return err
		}
		for _, kv := range page.Kvs {
			if err := each(kv.Value); err != nil {
				return err
			}
			from = string(kv.Key) + "\x00"
		}
		more = page.More
	}
	return nil
}

func eachPostgres(ctx context.Context, dsn, schema, kind string, each func([]byte) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	found, err := conn.Query(ctx, "SELECT value FROM "+schema+".records WHERE kind = $1", kind)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		if err := each(found.RawValues()[0]); err != nil {
			return err
		}
	}
	return found.Err()
}

// halfway is a backend that calls then when a watch has listed half of the objects.
type halfway struct {
	store.Backend
	left int
	then func() error
}

func (h *halfway) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for batch, err := range h.Backend.Watch(ctx, kind, after) {
			if h.left -= len(batch.Changes); err == nil && h.left <= 0 && h.then != nil {
				err = h.then()
				h.then = nil
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

func (c startConfig) start(ctx context.Context) (r startResult, err error) {
	from, before := ownCPU(), heap()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	peakOwn := watchOwn()
	backend, err := c.open(ctx)
	if err != nil {
		return r, err
	}
	defer backend.Close()
	other, err := store.New[volumeSpec, volumeStatus](backend, c.Kind, nil)
	if err != nil {
		return r, err
	}
	slow := &halfway{Backend: backend, left: c.Objects / 2, then: func() error {
		v, err := other.Get(ctx, store.Key{Name: "volume-" + strconv.Itoa(c.Objects-1)}) // the last of the list
		if err == nil {
			v.Spec.Size = changedSize
			_, err = other.Update(ctx, v)
		}
		return err
	}}
	volumes, err := store.New[volumeSpec, volumeStatus](slow, c.Kind, nil)
	if err != nil {
		return r, err
	}
	quiet := slog.New(slog.DiscardHandler)
	var mu sync.Mutex
	served, changed := make([]bool, c.Objects), false
	n, all := 0, make(chan struct{})
	controller, err := reconcile.For(volumes, func(_ context.Context, v *volume) (reconcile.Result, error) {
		i, err := strconv.Atoi(strings.TrimPrefix(v.Name, "volume-"))
		if err != nil {
			return reconcile.Result{}, err
		}
		mu.Lock()
		defer mu.Unlock()
		if v.Spec.Size == changedSize && !changed {
			changed = true
			r.First, r.Before, r.PeakFirst = ownCPU()-from, n, memoryOf("VmHWM:")
		}
		if !served[i] {
			served[i] = true
			n++
		}
		if changed && n == c.Objects && r.All == 0 {
			r.All = ownCPU() - from
			close(all)
		}
		return reconcile.Result{}, nil
	}, &reconcile.ForOptions[volumeSpec, volumeStatus]{Options: reconcile.Options[store.Key]{Logger: quiet, Workers: 8}})
	if err != nil {
		return r, err
	}
	m := reconcile.Manager{Logger: quiet}
	if err := m.Register(controller); err != nil {
		return r, err
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	select {
	case <-all:
	case err := <-ended:
		return r, fmt.Errorf("it ended before all were served: %w", err)
	}
	r.Peak, r.PeakOwn = memoryOf("VmHWM:"), peakOwn()
	r.Live = heap() - before
	stop()
	return r, <-ended
}

// watchOwn looks fifty times a second how much memory the process has that no file backs, until
// peak, which gives the most.
func watchOwn() (peak func() uint64) {
	end, ended := make(chan struct{}), make(chan uint64, 1)
	go func() { // ended by peak
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for most := uint64(0); ; {
			most = max(most, memoryOf("RssAnon:"))
			select {
			case <-tick.C:
			case <-end:
				ended <- most
				return
			}
		}
	}()
	return func() uint64 { close(end); return <-ended }
}

// memoryOf is one of the lines of /proc/self/status about the memory of the process, in bytes;
// 0 where it is not told.
func memoryOf(name string) uint64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name); ok {
			kb, _ := strconv.ParseUint(strings.Fields(text)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}
