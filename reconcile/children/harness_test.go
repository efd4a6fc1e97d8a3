package children_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/tendhq/tend/reconcile/children"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type (
	siteSpec    struct{ Round int }
	diskSpec    struct{ Size int }
	machineSpec struct {
		Image string
		Zone  string `json:",omitempty"`
	}
	site    = store.Object[siteSpec, struct{}]
	disk    = store.Object[diskSpec, struct{}]
	machine = store.Object[machineSpec, struct{}]
)

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newMemory(t testing.TB) store.FullBackend {
	t.Helper()
	b := must[store.FullBackend](t)(memory.New(nil))
	t.Cleanup(func() { b.Close() })
	return b
}

// world is one process: stores, and children of sites.
type world struct {
	sites        *store.Store[siteSpec, struct{}]
	disks        *store.Store[diskSpec, struct{}]
	machines     *store.Store[machineSpec, struct{}]
	diskCache    *cache.Cache[diskSpec, struct{}]
	machineCache *cache.Cache[machineSpec, struct{}]
	kids         *children.Kinds[siteSpec, struct{}]
	diskKids     *children.Kind[diskSpec, struct{}]
	machineKids  *children.Kind[machineSpec, struct{}]
}

func newWorld(t testing.TB, b store.Backend, o *children.Options) *world {
	t.Helper()
	w := &world{
		sites:    must[*store.Store[siteSpec, struct{}]](t)(store.New[siteSpec, struct{}](b, "site", nil)),
		disks:    must[*store.Store[diskSpec, struct{}]](t)(store.New[diskSpec, struct{}](b, "disk", nil)),
		machines: must[*store.Store[machineSpec, struct{}]](t)(store.New[machineSpec, struct{}](b, "machine", nil)),
	}
	w.diskCache = must[*cache.Cache[diskSpec, struct{}]](t)(cache.New(w.disks, nil))
	w.machineCache = must[*cache.Cache[machineSpec, struct{}]](t)(cache.New(w.machines, nil))
	w.kids = must[*children.Kinds[siteSpec, struct{}]](t)(children.New(w.sites, o))
	w.diskKids = must[*children.Kind[diskSpec, struct{}]](t)(children.Add(w.kids, w.diskCache))
	w.machineKids = must[*children.Kind[machineSpec, struct{}]](t)(children.Add(w.kids, w.machineCache))
	return w
}

// want is a child as a test wants it.
type want struct {
	kind, name string
	value      int
	finalizer  bool
	after      []string // refs
}

func (w want) ref() string { return w.kind + " " + w.name }

// plan is what one owner wants, in order.
type plan []want

func (w *world) site(t testing.TB, name string) *site {
	t.Helper()
	return must[*site](t)(w.sites.Get(t.Context(), store.Key{Name: name}))
}

func (w *world) newSite(t testing.TB, name string, finalizers ...string) *site {
	t.Helper()
	return must[*site](t)(w.sites.Create(t.Context(), &site{Meta: store.Meta{Name: name, Finalizers: finalizers}}))
}

// set is the set of a plan.
func (w *world) set(of *site, p plan) *children.Set {
	set, made := w.kids.Of(of), map[string]*children.Child{}
	if len(p) == 0 {
		set.MayBeEmpty()
	}
	for _, c := range p {
		m := store.Meta{Name: c.name}
		if c.finalizer {
			m.Finalizers = []string{"theirs"}
		}
		var after []*children.Child
		for _, ref := range c.after {
			after = append(after, made[ref])
		}
		if c.kind == "disk" {
			made[c.ref()] = w.diskKids.Want(set, &disk{Meta: m, Spec: diskSpec{c.value}}, after...)
		} else {
			made[c.ref()] = w.machineKids.Want(set, &machine{Meta: m, Spec: machineSpec{Image: fmt.Sprint(c.value)}}, after...)
		}
	}
	return set
}

func (w *world) apply(t testing.TB, name string, p plan) (children.State, error) {
	t.Helper()
	return w.set(w.site(t, name), p).Apply(t.Context())
}

// applied fails the test with an error of the call.
func (w *world) applied(t testing.TB, name string, p plan) children.State {
	t.Helper()
	return must[children.State](t)(w.apply(t, name, p))
}

// there is a child, of whichever kind.
type there struct {
	meta  *store.Meta
	value string
	ready bool
}

// all are the children and others that are stored, by ref.
func (w *world) all(t testing.TB) map[string]there {
	t.Helper()
	all := map[string]there{}
	for _, o := range must[[]*disk](t)(w.disks.List(t.Context(), store.Selector{})) {
		all["disk "+o.Name] = there{&o.Meta, fmt.Sprint(o.Spec.Size), o.Ready()}
	}
	for _, o := range must[[]*machine](t)(w.machines.List(t.Context(), store.Selector{})) {
		all["machine "+o.Name] = there{&o.Meta, o.Spec.Image, o.Ready()}
	}
	return all
}

func (w *world) expect(t testing.TB, refs ...string) {
	t.Helper()
	var got []string
	for ref := range w.all(t) {
		got = append(got, ref)
	}
	slices.Sort(got)
	slices.Sort(refs)
	if !slices.Equal(got, refs) {
		t.Errorf("there are %q, want %q", got, refs)
	}
}

// settle does what the reconcilers of the children do: those of the refs become Ready, or go if they are being deleted.
// None given: all.
func (w *world) settle(t testing.TB, refs ...string) {
	t.Helper()
	for ref, c := range w.all(t) {
		if len(refs) > 0 && !slices.Contains(refs, ref) {
			continue
		}
		if c.meta.Deleting() {
			w.edit(t, ref, func(m *store.Meta, _ readier) { m.Finalizers = nil })
		} else if !c.ready {
			w.edit(t, ref, func(_ *store.Meta, o readier) { o.SetReady() })
		}
	}
}

type readier interface {
	SetReady()
	SetProgressing(reason, message string)
}

func (w *world) edit(t testing.TB, ref string, fn func(m *store.Meta, o readier)) {
	t.Helper()
	var kind, name string
	if _, err := fmt.Sscan(ref, &kind, &name); err != nil {
		t.Fatal(err)
	}
	if kind == "disk" {
		change(t, w.disks, name, func(o *disk) { fn(&o.Meta, o) })
	} else {
		change(t, w.machines, name, func(o *machine) { fn(&o.Meta, o) })
	}
}

func change[S any](t testing.TB, s *store.Store[S, struct{}], name string, fn func(o *store.Object[S, struct{}])) *store.Object[S, struct{}] {
	t.Helper()
	return must[*store.Object[S, struct{}]](t)(s.Mutate(t.Context(), store.Key{Name: name}, func(o *store.Object[S, struct{}]) error { fn(o); return nil }))
}

func drop[S any](t testing.TB, s *store.Store[S, struct{}], name string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := s.Delete(ctx, must[*store.Object[S, struct{}]](t)(s.Get(ctx, store.Key{Name: name}))); err != nil {
		t.Fatal(err)
	}
}
