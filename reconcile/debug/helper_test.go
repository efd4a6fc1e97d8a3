package debug_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/debug"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

type (
	spec   struct{ Size int }
	status struct{ Made bool }
	bucket = store.Object[spec, status]
)

// hostile is a name that an attacker with the right to name things would choose.
const hostile = `"><script>window.pwned=1</script><img src=x onerror="window.pwned=1">javascript:alert(1)`

// world is a manager with something of everything: the controller "buckets", whose
// keys do what their names say, and "audit", which is woken by them.
type world struct {
	manager reconcile.Manager
	buckets *reconcile.ObjectController[spec, status]
	audit   *reconcile.Controller[string]
	events  *external.Throttled
	quota   *queue.Bucket
	store   *store.Store[spec, status]
	report  *external.Report
	release chan struct{} // closed: the slow runs end
	begun   chan string   // names of slow runs
	ended   chan string   // names of keys whose run was settled
	stop    func()
}

func (w *world) Snapshot() external.InventorySnapshot {
	return external.InventorySnapshot{Kind: "bucket", Listed: 3, Report: w.report, Held: ""}
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// newWorld makes a world; nothing runs yet.
func newWorld() *world {
	w := &world{release: make(chan struct{}), begun: make(chan string, 1000), ended: make(chan string, 1000)}
	w.store = must(store.New[spec, status](must(memory.New(nil)), "bucket", nil))
	w.events = must(external.NewThrottled(nil, nil))
	w.quota = must(queue.NewBucket("s3 calls", 10, 5))
	options := reconcile.Options[reconcile.Request]{
		Workers: 4, Logger: slog.New(slog.DiscardHandler),
		Backoff: queue.Backoff{Base: time.Minute, Max: time.Minute, Jitter: queue.NoJitter},
		Hooks:   reconcile.Hooks[reconcile.Request]{OnDone: func(k reconcile.Request, _ reconcile.Outcome, _ time.Duration) { w.ended <- k.Name }},
	}
	w.buckets = must(reconcile.For(w.store, w.run, &reconcile.ForOptions[spec, status]{Options: options}))
	w.audit = must(reconcile.New("audit", reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: time.Hour}, nil
	}), &reconcile.Options[string]{Workers: 2, Logger: options.Logger}))
	if err := w.manager.Register(w.buckets, w.audit); err != nil {
		panic(err)
	}
	w.report = &external.Report{
		Kind: "bucket", Listed: time.Now(), Declared: 4, Present: 5, Ours: 3, Foreign: 1,
		Orphans:   []external.Finding{{Key: store.Key{Name: "left-behind"}, ID: "i-1", Mark: &external.Mark{Installation: "demo", Kind: "bucket"}}},
		Different: []external.Finding{{Key: store.Key{Name: "logs"}, ID: "i-2", Diff: "versioning is off, declared on\n" + hostile}},
	}
	return w
}

func (w *world) run(ctx context.Context, o *bucket) (reconcile.Result, error) {
	switch {
	case strings.HasPrefix(o.Name, "slow"):
		w.begun <- o.Name
		select {
		case <-w.release:
		case <-ctx.Done():
		}
		return reconcile.Result{RequeueAfter: time.Hour}, nil
	case strings.HasPrefix(o.Name, "failing"):
		return reconcile.Result{}, errors.New("PUT https://s3/failing: 503 Slow Down")
	case strings.HasPrefix(o.Name, "parked"):
		return reconcile.Result{}, reconcile.Terminal(errors.New("the name is taken"))
	case o.Name == hostile:
		_ = w.events.Record(ctx, external.Event{
			Type: external.Warning, Reason: external.ReasonCreateFailed, Message: "no: " + hostile, Kind: "bucket", Key: o.Key(), Time: time.Now(), Count: 1,
		})
		return reconcile.Result{}, fmt.Errorf("refused %s \x1b[31m\u202e", hostile)
	}
	_ = w.events.Record(ctx, external.Event{Reason: external.ReasonCreated, Kind: "bucket", Key: o.Key(), Time: time.Now(), Count: 1})
	return reconcile.Result{RequeueAfter: 10 * time.Minute}, nil
}

func (w *world) declare(names ...string) {
	for _, n := range names {
		_ = must(w.store.Create(context.Background(), &bucket{Meta: store.Meta{Name: n}}))
	}
}

// start runs the manager until end.
func (w *world) start(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.manager.Run(ctx) }() // ended by cancel, waited for by stop
	w.stop = func() {
		close(w.release)
		cancel()
		if err := <-done; err != nil {
			panic(err)
		}
	}
}

func (w *world) options() *debug.Options {
	return &debug.Options{
		Title: "example", Buckets: []*queue.Bucket{w.quota}, Events: w.events, Objects: []objects.Kind{objects.Of(w.store)}, Inventories: []debug.Inventory{w},
		Sections: []debug.Section{{Title: "Program", Rows: func() [][2]string { return [][2]string{{"endpoint", "http://s3"}} }}},
		Logger:   slog.New(slog.DiscardHandler),
	}
}

// bubble runs f in fake time with a world that has settled.
func bubble(t *testing.T, change func(*debug.Options), f func(t *testing.T, w *world, h *debug.Handler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		o := w.options()
		if change != nil {
			change(o)
		}
		h := must(debug.New(&w.manager, o))
		w.declare("logs", "slow-copy", "failing-a", "parked-b", "data", hostile)
		w.start(context.WithoutCancel(t.Context()))
		defer func() { w.stop() }()
		time.Sleep(3 * time.Second)
		if err := w.audit.Add("all"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f(t, w, h)
	})
}

// get asks for a view; the pairs are its query.
func get(t *testing.T, h http.Handler, want int, pairs ...string) string {
	t.Helper()
	return send(t, h, want, httptest.NewRequest(http.MethodGet, "http://localhost/debug?"+query(pairs...).Encode(), nil)).Body.String()
}

func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q
}

func post(t *testing.T, h http.Handler, want int, edit func(*http.Request), pairs ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost/debug", strings.NewReader(query(pairs...).Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if edit != nil {
		edit(r)
	}
	return send(t, h, want, r)
}

func send(t *testing.T, h http.Handler, want int, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != want {
		t.Fatalf("%s %s: %d, want %d:\n%s", r.Method, r.URL, w.Code, want, w.Body)
	}
	return w
}

func wantAll(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
}

// inspected is a controller as the pages see it.
func inspected(r reconcile.Runner) reconcile.Inspection {
	i, ok := reconcile.Inspect(r)
	if !ok {
		panic(fmt.Sprintf("%T cannot be inspected", r))
	}
	return i
}
