package external_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type diskSpec struct {
	Size string
	Zone string // the cloud chooses one if it is empty
	// Where is the account that the disk lies in; empty: that of all tests but those of places.
	Where string `json:",omitempty"`
}

type diskStatus struct{ ID, State string }

type disk = store.Object[diskSpec, diskStatus]

const home = "here" // our installation

// world is a store, a cloud and a reconciler between them. What the client and
// the reconciler say is kept for the test to read.
type world struct {
	t       testing.TB
	cloud   *reconciletest.Cloud
	backend store.Backend
	store   *store.Store[diskSpec, diskStatus]
	client  diskClient
	lies    bool               // the client names disks otherwise than w.o.Naming says
	listed  bool               // looks are served by an inventory
	settle  time.Duration      // of that inventory; zero: its default
	lists   *inventory         // a source of it makes the lists; nil: the looks do
	lost    map[store.Key]bool // whose object the store lost once; see losers
	o       external.Options[diskSpec, diskStatus]
	rec     *external.Reconciler[diskSpec, diskStatus]

	mu      sync.Mutex
	events  []event.Event
	changes []external.Change
}

// newWorld makes a perfect cloud, an empty store and a reconciler whose names
// are chosen by us. Change w.cloud, w.o or w.client, then call w.restart.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, o: external.Options[diskSpec, diskStatus]{Naming: external.ByUs, PollJitter: -1}}
	w.backend = must(memory.New(nil))
	w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true}))
	w.restart(nil)
	return w
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// restart makes a new store and reconciler, as a new process would, over the
// same backend and cloud. Steps may be nil.
func (w *world) restart(steps *reconciletest.Steps) {
	w.t.Helper()
	b := w.backend
	if steps != nil {
		b = steps.Backend(b)
	}
	w.cloud.Through(steps)
	w.store = must(store.New[diskSpec, diskStatus](b, "Disk", nil))
	w.client.cloud, w.client.naming, w.client.exclusive = w.cloud, w.o.Naming, w.o.ExclusiveCreate
	if w.lies {
		w.client.naming = external.ByCloud
	}
	w.with(external.ConnectorFunc[diskSpec, diskStatus](func(_ context.Context, o *disk) (external.Client[diskSpec, diskStatus], error) {
		return w.client, nil
	}))
	if w.listed {
		w.reconcileBy(w.inventory(func(o *invOpts) { o.Settle = w.settle }))
	}
}

// with makes a reconciler with another connector.
func (w *world) with(c external.Connector[diskSpec, diskStatus]) {
	w.t.Helper()
	o := w.o
	o.Changes = func(_ context.Context, c external.Change) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changes = append(w.changes, c)
	}
	w.rec = must(external.New(w.store, c, &o))
}

// ctx is that of the runs, whose events w keeps.
func (w *world) ctx() context.Context {
	return event.With(w.t.Context(), func(_ context.Context, e event.Event) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e)
		return nil
	})
}

var key = store.Key{Namespace: "t", Name: "a"}

func (w *world) declare(edit ...func(*disk)) *disk {
	w.t.Helper()
	o := &disk{Meta: store.Meta{Namespace: key.Namespace, Name: key.Name}, Spec: diskSpec{Size: "1", Zone: "z"}}
	for _, e := range edit {
		e(o)
	}
	return must(w.store.Create(w.t.Context(), o))
}

// run reconciles once and fails the test on an error.
func (w *world) run() reconcile.Result {
	w.t.Helper()
	res, err := w.rec.Reconcile(w.ctx(), key)
	if err != nil {
		w.t.Fatalf("reconcile: %v", err)
	}
	return res
}

// fails reconciles once and wants an error.
func (w *world) fails() error {
	w.t.Helper()
	res, err := w.rec.Reconcile(w.ctx(), key)
	if err == nil {
		w.t.Fatalf("reconcile succeeded with %+v, want an error", res)
	}
	return err
}

// converged declares a disk and reconciles until it is there.
func (w *world) converged(edit ...func(*disk)) *disk {
	w.t.Helper()
	w.declare(edit...)
	w.run()
	w.run()
	w.wantCondition(store.ConditionReady, store.True, "")
	return w.get()
}

func (w *world) get() *disk {
	w.t.Helper()
	return must(w.store.Get(context.WithoutCancel(w.t.Context()), key))
}

func (w *world) edit(f func(*disk)) {
	w.t.Helper()
	must(w.store.Mutate(w.t.Context(), key, func(o *disk) error { f(o); return nil }))
}

func (w *world) intent(f func(*store.Intent)) {
	w.t.Helper()
	o := w.get()
	f(&o.Intent)
	must(w.store.UpdateIntent(w.t.Context(), o))
}

func (w *world) delete() {
	w.t.Helper()
	if err := w.store.Delete(w.t.Context(), w.get()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) gone() bool {
	_, err := w.store.Get(w.t.Context(), key)
	return errors.Is(err, store.ErrNotFound)
}

func (w *world) wantCondition(typ string, status store.ConditionStatus, reason string) {
	w.t.Helper()
	c, _ := w.get().Condition(typ)
	if c.Status != status || reason != "" && c.Reason != reason {
		w.t.Errorf("condition %s is %s/%s (%s), want %s/%s", typ, c.Status, c.Reason, c.Message, status, reason)
	}
}

func (w *world) wantCalls(want map[string]int) {
	w.t.Helper()
	for op, n := range want {
		if got := w.cloud.Calls(op); got != n {
			w.t.Errorf("%s was called %d times, want %d", op, got, n)
		}
	}
}

// reasons is those of the events so far.
func (w *world) reasons() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		all = append(all, e.Reason)
	}
	return all
}

// diskClient manages disks in the cloud, in each of the three ways to name
// them.
type diskClient struct {
	cloud  *reconciletest.Cloud
	naming external.Naming
	// exclusive creates say that the name is taken, as Options.ExclusiveCreate declares.
	exclusive bool
	byID      bool // by mark, it looks for the id that is on record first
}

func markOf(o *disk) external.Mark { return external.NewMark(home, "Disk", o) }

func tags(m external.Mark) map[string]string { return m.SetTags(nil) }

func readMark(r reconciletest.Resource) (external.Mark, bool) { return external.MarkOf(r.Tags) }

func nameOf(o *disk) string {
	name := o.Namespace + "-" + o.Name
	if o.Spec.Where != "" {
		name += "-" + o.Spec.Where
	}
	return name
}

// find looks in the account that the spec says.
func (c diskClient) find(ctx context.Context, o *disk) (reconciletest.Resource, error) {
	r, err := c.findAnywhere(ctx, o)
	if err == nil && r.Props["where"] != o.Spec.Where {
		return r, reconciletest.ErrNotFound
	}
	return r, err
}

func (c diskClient) findAnywhere(ctx context.Context, o *disk) (reconciletest.Resource, error) {
	switch c.naming {
	case external.ByUs:
		return c.cloud.Get(ctx, nameOf(o))
	case external.ByCloud:
		if o.Intent.ExternalName == "" {
			return reconciletest.Resource{}, reconciletest.ErrNotFound
		}
		return c.cloud.Get(ctx, o.Intent.ExternalName)
	}
	if c.byID && o.Intent.ExternalName != "" { // what is to be taken over carries no mark yet
		return c.cloud.Get(ctx, o.Intent.ExternalName)
	}
	for r, err := range c.cloud.List(ctx) {
		if err != nil {
			return r, err
		}
		if m, ok := readMark(r); ok && m.Key == o.Key() && r.Props["where"] == o.Spec.Where {
			return r, nil
		}
	}
	return reconciletest.Resource{}, reconciletest.ErrNotFound
}

func (c diskClient) Observe(ctx context.Context, o *disk) (external.Observation, error) {
	r, err := c.find(ctx, o)
	if errors.Is(err, reconciletest.ErrNotFound) {
		return external.Observation{}, nil
	}
	if err != nil {
		return external.Observation{}, err
	}
	o.Status.ID, o.Status.State = r.ID, "available"
	if c.byID {
		o.Intent.ExternalName = r.ID
	}
	seen := external.Observation{Exists: true, UpToDate: r.Props["size"] == o.Spec.Size, Owner: markOf(o).Compare(readMark(r))}
	if !seen.UpToDate {
		seen.Diff = fmt.Sprintf("size: %q, want %q", r.Props["size"], o.Spec.Size)
	}
	if o.Spec.Zone == "" {
		o.Spec.Zone, seen.LateInitialized = r.Props["zone"], true
	}
	return seen, nil
}

func (c diskClient) desired(o *disk) reconciletest.Resource {
	zone := o.Spec.Zone
	if zone == "" {
		zone = "zone-1"
	}
	r := reconciletest.Resource{Name: nameOf(o), Tags: tags(markOf(o)), Props: map[string]string{"size": o.Spec.Size, "zone": zone}}
	if o.Spec.Where != "" {
		r.Props["where"] = o.Spec.Where
	}
	return r
}

func (c diskClient) Create(ctx context.Context, o *disk) error {
	r, err := c.cloud.Create(ctx, c.desired(o))
	if c.exclusive && errors.Is(err, reconciletest.ErrTimeout) && o.Intent.Attempt%2 == 1 {
		// As SDKs do. The second try may be refused for what the first made.
		r, err = c.cloud.Create(ctx, c.desired(o))
	}
	if c.exclusive && errors.Is(err, reconciletest.ErrExists) {
		return fmt.Errorf("%w: %w", external.ErrExists, err)
	}
	if c.naming == external.ByUs && errors.Is(err, reconciletest.ErrExists) {
		return nil // it is at our name: the next look says whose it is
	}
	if err == nil {
		o.Intent.ExternalName = r.ID
	}
	return err
}

func (c diskClient) Update(ctx context.Context, o *disk) error {
	r := c.desired(o)
	r.ID = o.Status.ID
	return c.cloud.Update(ctx, r)
}

func (c diskClient) Delete(ctx context.Context, o *disk) error {
	r, err := c.find(ctx, o)
	if err == nil {
		err = c.cloud.Delete(ctx, r.ID)
	}
	if errors.Is(err, reconciletest.ErrNotFound) {
		return nil
	}
	return err
}

// funcs is a client of funcs that finds the resource up to date, with the given
// ones in place of its own, and the names of the calls it got.
func funcs(edit func(f *external.ClientFuncs[diskSpec, diskStatus])) (external.ClientFuncs[diskSpec, diskStatus], *[]string) {
	calls := &[]string{}
	note := func(name string) func(context.Context, *disk) error {
		return func(context.Context, *disk) error { return nil }
	}
	f := external.ClientFuncs[diskSpec, diskStatus]{
		ObserveFunc: func(context.Context, *disk) (external.Observation, error) {
			return external.Observation{Exists: true, UpToDate: true}, nil
		},
		CreateFunc: note("Create"), UpdateFunc: note("Update"), DeleteFunc: note("Delete"),
		CloseFunc: func(context.Context) error { return nil },
	}
	edit(&f)
	return counted(f, calls), calls
}

// counted notes each call before it is made.
func counted(f external.ClientFuncs[diskSpec, diskStatus], calls *[]string) external.ClientFuncs[diskSpec, diskStatus] {
	wrap := func(name string, call func(context.Context, *disk) error) func(context.Context, *disk) error {
		if call == nil {
			return nil
		}
		return func(ctx context.Context, o *disk) error { *calls = append(*calls, name); return call(ctx, o) }
	}
	if observe := f.ObserveFunc; observe != nil {
		f.ObserveFunc = func(ctx context.Context, o *disk) (external.Observation, error) {
			*calls = append(*calls, "Observe")
			return observe(ctx, o)
		}
	}
	f.CreateFunc, f.UpdateFunc, f.DeleteFunc = wrap("Create", f.CreateFunc), wrap("Update", f.UpdateFunc), wrap("Delete", f.DeleteFunc)
	if closes := f.CloseFunc; closes != nil {
		f.CloseFunc = func(ctx context.Context) error { *calls = append(*calls, "Close"); return closes(ctx) }
	}
	return f
}

func wantSlice(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}
