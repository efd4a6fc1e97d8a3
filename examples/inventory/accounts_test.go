package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

var (
	resources = flag.Int("resources", 200, "buckets of TestAccountsInRealTime, over 20 accounts; from 20,000 on it measures")
	serveEach = flag.Int("serve", 0, "serve 20 accounts of so many buckets each until standard input ends: the server of TestAccountsInRealTime")
)

const (
	accounts = 20
	// mostPeak is the resident memory that a resource may take at the peak, at the default
	// GOGC. It is checked from so many resources on that what is not theirs is little.
	mostPeak, checkedFrom = 4 << 10, 1_000_000
)

func accountBucket(i int) string { return fmt.Sprintf("bucket-%06d", i) }

// The program's own kernels keep the buckets of twenty accounts in one process, in real
// time, against the S3 server that the program starts by default, which runs in a process
// of its own so that its memory does not count. The process starts with a state in which all is as
// declared, but one bucket, which was edited while it did not run; once that change is
// served, and another that is made then, every bucket is looked at. The state in
// memory, which in a service is on a disk or on another server, is subtracted from the
// peak of the resident memory: twice its live heap, since at the default GOGC the heap
// grows to twice what is live.
//
//	go test ./examples/inventory -run AccountsInRealTime -v -timeout 2h -args -resources 1000000
func TestAccountsInRealTime(t *testing.T) {
	t.Parallel()
	if *serveEach > 0 {
		serveAccounts(*serveEach)
		return
	}
	if *resources < accounts {
		t.Fatalf("-resources %d: want at least %d", *resources, accounts)
	}
	each := *resources / accounts
	file := filepath.Join(t.TempDir(), "inventory.yaml")
	writeFile(t, file, "tenants: []\n")
	var apps []*app
	for _, url := range startAccounts(t, each) {
		o := options{
			File: file, Endpoint: url, Installation: "demo", Store: "in memory, for marks with a uid",
			Workers: 4, Rate: 1e6, Writes: 1e6, Poll: 24 * time.Hour, Settings: 24 * time.Hour, watchEvery: time.Second,
		}
		apps = append(apps, populated(t, o, each))
	}
	edited := accountBucket(each / 2)
	change := func(a *app) (served chan time.Duration) {
		served = make(chan time.Duration, 1)
		began := time.Now()
		a.done.watch(func(name string) {
			if name == edited {
				served <- time.Since(began)
			}
		})
		if _, err := a.declared.Mutate(t.Context(), store.Key{Name: edited}, func(o *Bucket) error {
			o.Spec.Versioning = !o.Spec.Versioning
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return served
	}
	stopped := apps[accounts/2]
	served := change(stopped)
	debug.FreeOSMemory()
	before, live := resident(t, "VmRSS"), heap()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins again
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	began := time.Now()
	var running sync.WaitGroup
	for _, a := range apps {
		running.Go(func() {
			if err := a.program.Run(ctx, &program.Options{Left: func(program.Left) {}}); err != nil {
				t.Error(err)
			}
		})
	}
	<-served
	first := time.Since(began)
	second := <-change(apps[accounts/3])
	for _, a := range apps {
		if err := program.Wait(ctx, a.parts...); err != nil {
			t.Fatal(err)
		}
	}
	took, peak := time.Since(began), resident(t, "VmHWM")
	perResource := func(n int) int { return n / (each * accounts) }
	calls := map[string]int{}
	for _, a := range apps {
		for name, n := range a.meter.Calls() {
			calls[name] += n
		}
	}
	t.Logf("%d buckets: the change from before the start is served after %v, one made then after %v, all are looked at after %v; "+
		"for each bucket %d bytes resident at the peak beside the state, %d of live heap beside the state, "+
		"%d resident with the state, and %d with %d of live heap for the state before the start; calls %v",
		each*accounts, first, second, took, perResource(peak-2*live), perResource(heap()-live), perResource(peak), perResource(before), perResource(live), calls)
	t.Logf("campaign: %d buckets", each*accounts)
	if got := perResource(peak - 2*live); got > mostPeak && *resources >= checkedFrom {
		t.Errorf("%d bytes resident for each bucket, want at most %d", got, mostPeak)
	}
	stop()
	running.Wait()
}

// populated is an app whose store holds its account's buckets as a process before it left
// them.
func populated(t *testing.T, o options, each int) *app {
	t.Helper()
	backend, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	a := newApp(o, io.Discard)
	if err := a.prepare(t.Context(), backend, program.New(backend, nil), o.Endpoint, nil); err != nil {
		t.Fatal(err)
	}
	finalizer, err := lifecycle.FinalizerName(kind, "external")
	if err != nil {
		t.Fatal(err)
	}
	for i := range each {
		b := &Bucket{Meta: store.Meta{Name: accountBucket(i), Finalizers: []string{finalizer}}, Spec: acme}
		if b, err = a.declared.Create(t.Context(), b); err == nil {
			b.SetReady()
			b.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.True, Reason: "Success"})
			b.Status = BucketStatus{Bucket: a.buckets.ownership.BucketName(b.Name)}
			_, err = a.declared.UpdateStatus(t.Context(), b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// startAccounts starts the server, and returns the URLs of its accounts. It ends with the
// test.
func startAccounts(t *testing.T, each int) (urls []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestAccountsInRealTime$", "-test.timeout=0", "-serve", strconv.Itoa(each))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	for lines := bufio.NewScanner(out); len(urls) < accounts && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "http://") {
			urls = append(urls, lines.Text())
		}
	}
	if len(urls) < accounts {
		t.Fatalf("the server serves %d accounts, want %d", len(urls), accounts)
	}
	return urls
}

// serveAccounts is the server's process.
func serveAccounts(each int) {
	for range accounts {
		backend := s3mem.New()
		for i := range each {
			if err := backend.CreateBucket("tend-demo-" + accountBucket(i)); err != nil {
				panic(err)
			}
		}
		server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
		defer server.Close()
		fmt.Println(server.URL)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func heap() int {
	runtime.GC()
	runtime.GC() // what a finalizer frees goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// resident is one of the process's figures of memory, in bytes.
func resident(t *testing.T, figure string) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("resident memory is read from /proc: ", err)
	}
	for line := range strings.Lines(string(status)) {
		if name, rest, _ := strings.Cut(line, ":"); name == figure {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("/proc/self/status has no %s", figure)
	return 0
}
