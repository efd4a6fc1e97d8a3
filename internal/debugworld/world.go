// Package debugworld is what tests show on a debug page: a manager with something of
// everything (World), and a network after an hour (Pages). The tests of package debug use
// it, and those in a browser, which are in a module of their own.
package debugworld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

type (
	// Spec is what a bucket is to be.
	Spec struct{ Size int }
	// Status is what it is.
	Status struct{ Made bool }
	// Bucket is an object of the page.
	Bucket = store.Object[Spec, Status]
)

// Hostile is a name that an attacker with the right to name things would choose.
const Hostile = `"><script>window.pwned=1</script><img src=x onerror="window.pwned=1">javascript:alert(1)`

// World is a manager with something of everything: the controller "buckets", whose
// keys do what their names say, and "audit", which is woken by them.
type World struct {
	Manager reconcile.Manager
	Buckets *reconcile.ObjectController[Spec, Status]
	Audit   *reconcile.Controller[string]
	Events  *event.Log
	Quota   *ratelimit.Bucket
	Store   *store.Store[Spec, Status]
	Report  *external.Report
	Release chan struct{} // closed: the slow runs end
	Begun   chan string   // names of slow runs
	Ended   chan string   // names of keys whose run was settled
	Stop    func()
}

// Snapshot implements debug.Inventory.
func (w *World) Snapshot() introspect.Inventory[external.Report] {
	return introspect.Inventory[external.Report]{Kind: "bucket", Listed: 3, Report: w.Report, Held: ""}
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// New makes a world; nothing runs yet.
func New() *World {
	w := &World{Release: make(chan struct{}), Begun: make(chan string, 1000), Ended: make(chan string, 1000)}
	w.Store = must(store.New[Spec, Status](must(memory.New(nil)), "bucket", nil))
	w.Events = event.NewLog(nil)
	w.Quota = must(ratelimit.NewBucket("s3 calls", 10, 5))
	options := reconcile.Options[reconcile.Request]{
		Workers: 4, Logger: slog.New(slog.DiscardHandler),
		Backoff: queue.Backoff{Base: time.Minute, Max: time.Minute, NoJitter: true},
		Hooks:   reconcile.Hooks[reconcile.Request]{OnDone: func(k reconcile.Request, _ reconcile.Outcome, _ time.Duration) { w.Ended <- k.Name }},
	}
	w.Buckets = must(reconcile.For(w.Store, w.run, &reconcile.ForOptions[Spec, Status]{Options: options}))
	w.Audit = must(reconcile.New("audit", reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: time.Hour}, nil
	}), &reconcile.Options[string]{Workers: 2, Logger: options.Logger}))
	if err := w.Manager.Register(w.Buckets, w.Audit); err != nil {
		panic(err)
	}
	w.Report = &external.Report{
		Kind: "bucket", Listed: time.Now(), Declared: 4, Present: 5, Ours: 3, Foreign: 1,
		Orphans:   []external.Finding{{Key: store.Key{Name: "left-behind"}, ID: "i-1", Mark: &external.Mark{Installation: "demo", Kind: "bucket"}}},
		Different: []external.Finding{{Key: store.Key{Name: "logs"}, ID: "i-2", Diff: "versioning is off, declared on\n" + Hostile}},
	}
	return w
}

func (w *World) run(ctx context.Context, o *Bucket) (reconcile.Result, error) {
	switch {
	case strings.HasPrefix(o.Name, "slow"):
		w.Begun <- o.Name
		select {
		case <-w.Release:
		case <-ctx.Done():
		}
		return reconcile.Result{RequeueAfter: time.Hour}, nil
	case strings.HasPrefix(o.Name, "failing"):
		return reconcile.Result{}, errors.New("PUT https://s3/failing: 503 Slow Down")
	case strings.HasPrefix(o.Name, "parked"):
		return reconcile.Result{}, reconcile.Terminal(errors.New("the name is taken"))
	case o.Name == Hostile:
		_ = w.Events.Record(ctx, event.Event{
			Warning: true, Reason: "CannotCreate", Message: "no: " + Hostile, Kind: "bucket", Key: o.Key(), Time: time.Now(), Count: 1,
		})
		return reconcile.Result{}, fmt.Errorf("refused %s \x1b[31m\u202e", Hostile)
	}
	_ = w.Events.Record(ctx, event.Event{Reason: "Created", Kind: "bucket", Key: o.Key(), Time: time.Now(), Count: 1})
	return reconcile.Result{RequeueAfter: 10 * time.Minute}, nil
}

// Declare creates buckets.
func (w *World) Declare(names ...string) {
	for _, n := range names {
		_ = must(w.Store.Create(context.Background(), &Bucket{Meta: store.Meta{Name: n}}))
	}
}

// Start runs the manager until Stop.
func (w *World) Start(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Manager.Run(ctx) }() // ended by cancel, waited for by stop
	w.Stop = func() {
		close(w.Release)
		cancel()
		if err := <-done; err != nil {
			panic(err)
		}
	}
}

// Options are the page's.
func (w *World) Options() *debug.Options {
	return &debug.Options{
		Title: "example", Buckets: func() []*ratelimit.Bucket { return []*ratelimit.Bucket{w.Quota} }, Events: w.Events, Objects: []objects.Kind{objects.Of(w.Store)}, Inventories: []debug.Inventory{w},
		Sections: []debug.Section{{Title: "Program", Rows: func() [][2]string { return [][2]string{{"endpoint", "http://s3"}} }}},
		Logger:   slog.New(slog.DiscardHandler),
	}
}
