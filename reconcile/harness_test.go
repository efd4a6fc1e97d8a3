package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type (
	spec   struct{ Size int }
	status struct{ Size int }
	thing  = store.Object[spec, status]
	things = store.Store[spec, status]
)

var errBoom = errors.New("boom")

// bubble runs f in a bubble of fake time. The bubble fails the test if anything
// is left running, so that every test here is also one for leaks.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// over is a channel that is closed already.
var over = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// after is time.After, without a timer that is due at once. Goroutines of one bubble run
// such timers themselves, and the race detector of Go 1.26 keeps one stack for all timers of
// a bubble: where two do so at once, it crashes (a SIGSEGV in goroutine 0, then or later).
func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return over
	}
	return time.After(d)
}

// running is something that runs in the background of a test.
type running struct {
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// start runs r until stop or the end of the test.
func start(t *testing.T, r reconcile.Runner) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(run.done)
		run.err = r.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-run.done })
	synctest.Wait()
	return run
}

// startManaged starts a manager of its own for it, which runs the caches that it reads too.
func startManaged(t *testing.T, rs ...reconcile.Runner) *running {
	t.Helper()
	var m reconcile.Manager
	if err := m.Register(rs...); err != nil {
		t.Fatal(err)
	}
	return start(t, &m)
}

// end stops it and gives its error.
func (r *running) end() error {
	r.stop()
	<-r.done
	return r.err
}

// run is one call of a reconciler.
type run[K comparable] struct {
	key     K
	at      time.Duration // since the recorder was made
	attempt int
}

// recorder is a reconciler that writes down its calls and does what it is told.
type recorder[K comparable] struct {
	do func(ctx context.Context, key K) (reconcile.Result, error)

	mu   sync.Mutex
	from time.Time
	runs []run[K]
	now  map[K]int // running at the moment
	most int       // running at once
	twin bool      // a key ran twice at once
}

func record[K comparable](do func(ctx context.Context, key K) (reconcile.Result, error)) *recorder[K] {
	if do == nil {
		do = func(context.Context, K) (reconcile.Result, error) { return reconcile.Result{}, nil }
	}
	return &recorder[K]{do: do, from: time.Now(), now: make(map[K]int)}
}

func (r *recorder[K]) Reconcile(ctx context.Context, key K) (reconcile.Result, error) {
	info, _ := reconcile.RunInfo(ctx)
	r.mu.Lock()
	r.runs = append(r.runs, run[K]{key, time.Since(r.from), info.Attempt})
	r.now[key]++
	r.twin = r.twin || r.now[key] > 1
	r.most = max(r.most, len(r.now))
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.now[key]--; r.now[key] == 0 {
			delete(r.now, key)
		}
	}()
	return r.do(ctx, key)
}

func (r *recorder[K]) all() []run[K] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]run[K](nil), r.runs...)
}

func (r *recorder[K]) count() int { return len(r.all()) }

// times gives when the runs began.
func (r *recorder[K]) times() []time.Duration {
	var at []time.Duration
	for _, run := range r.all() {
		at = append(at, run.at)
	}
	return at
}

func (r *recorder[K]) attempts() []int {
	var n []int
	for _, run := range r.all() {
		n = append(n, run.attempt)
	}
	return n
}

func (r *recorder[K]) keys() []K {
	var keys []K
	for _, run := range r.all() {
		keys = append(keys, run.key)
	}
	return keys
}

// quiet is a logger whose lines can be looked at.
func quiet() (*slog.Logger, *lockedBuffer) {
	b := new(lockedBuffer)
	return slog.New(slog.NewTextHandler(b, nil)), b
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// must is for what cannot fail in a test that is right.
func must[T any](t *testing.T) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// newController makes a controller that logs nowhere.
func newController[K comparable](t *testing.T, r reconcile.Reconciler[K], o *reconcile.Options[K]) *reconcile.Controller[K] {
	t.Helper()
	var copied reconcile.Options[K]
	if o != nil {
		copied = *o
	}
	if copied.Logger == nil {
		copied.Logger = slog.New(slog.DiscardHandler)
	}
	return must[*reconcile.Controller[K]](t)(reconcile.New("test", r, &copied))
}

func newBackend(t *testing.T) store.FullBackend {
	t.Helper()
	b := must[store.FullBackend](t)(memory.New(nil))
	t.Cleanup(func() { b.Close() })
	return b
}

func newStore(t *testing.T, b store.Backend, kind string) *things {
	t.Helper()
	return must[*things](t)(store.New[spec, status](b, kind, nil))
}

func newCache(t *testing.T, s *things) *cache.Cache[spec, status] {
	t.Helper()
	return must[*cache.Cache[spec, status]](t)(cache.New(s, nil))
}

func create(t *testing.T, s *things, name string, edit ...func(*thing)) *thing {
	t.Helper()
	o := &thing{Meta: store.Meta{Name: name}}
	for _, e := range edit {
		e(o)
	}
	return must[*thing](t)(s.Create(t.Context(), o))
}

func mutate(t *testing.T, s *things, name string, edit func(*thing)) *thing {
	t.Helper()
	return must[*thing](t)(s.Mutate(t.Context(), store.Key{Name: name}, func(o *thing) error { edit(o); return nil }))
}

func key(name string) store.Key { return store.Key{Name: name} }

// add adds keys or fails the test.
func add[K comparable](t *testing.T, c *reconcile.Controller[K], keys ...K) {
	t.Helper()
	for _, k := range keys {
		if err := c.Add(k); err != nil {
			t.Fatalf("Add(%v): %v", k, err)
		}
	}
}

// entry gives what the queue knows of a key.
func entry[K comparable](c *reconcile.Controller[K], k K) (queue.Entry[K], bool) {
	for e := range c.Queue().Snapshot() {
		if e.Key == k {
			return e, true
		}
	}
	return queue.Entry[K]{}, false
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func expectList[T any](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v (%d), want %v", what, got[:min(len(got), 20)], len(got), want)
	}
}

// pass lets time pass, and then everything happen that is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// list is a slice that several goroutines may append to.
type list[T any] struct {
	mu  sync.Mutex
	all []T
}

func (l *list[T]) add(v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, v)
}

func (l *list[T]) get() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]T(nil), l.all...)
}

// inspected is a controller as pages and tools see it.
func inspected(t testing.TB, r reconcile.Runner) reconcile.Inspection {
	t.Helper()
	i, ok := reconcile.Inspect(r)
	if !ok {
		t.Fatalf("%T cannot be inspected", r)
	}
	return i
}
