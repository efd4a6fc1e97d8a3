package external_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// part is an object or a resource of a network, which may need others by their ids:
// "vpc/a".
type (
	partSpec struct{ Needs []string }
	part     = store.Object[partSpec, struct{}]
)

// network is a cloud of three kinds that refuses to delete what another resource needs,
// with an inventory of each kind. Each kind lies in a store of its own.
type network struct {
	t           *testing.T
	resources   map[string][]string // what they need, by id
	deleted     []string
	refused     int
	fails       string // this one cannot be deleted
	graph       *depend.Graph
	stores      map[string]*store.Store[partSpec, struct{}]
	inventories []external.Pruner // what is needed first
	manager     reconcile.Manager
}

var networkKinds = []string{"vpc", "subnet", "machine"}

func newNetwork(t *testing.T) *network {
	n := &network{
		t: t, resources: make(map[string][]string), graph: depend.NewGraph(),
		stores: make(map[string]*store.Store[partSpec, struct{}]),
	}
	caches := make(map[string]*cache.Cache[partSpec, struct{}])
	for i, kind := range networkKinds {
		s := must(store.New[partSpec, struct{}](must(memory.New(nil)), kind, nil))
		n.stores[kind], caches[kind] = s, must(cache.New(s, nil))
		n.inventories = append(n.inventories, must(external.NewInventory(new(n.options(kind)))))
		if i == 0 {
			continue
		}
		needed := networkKinds[i-1]
		tracker := must(depend.New(caches[kind], depend.On(caches[needed], func(o *part) (keys []store.Key) {
			for _, id := range o.Spec.Needs {
				if name, ok := strings.CutPrefix(id, needed+"/"); ok {
					keys = append(keys, store.Key{Name: name})
				}
			}
			return keys
		}, nil), &depend.Options{Graph: n.graph}))
		ctrl := must(reconcile.New(kind, reconcile.AsReconciler(caches[kind], tracker.Wrap(func(context.Context, *part) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})), &reconcile.Options[reconcile.Request]{Reads: tracker.Caches()}))
		if err := errors.Join(ctrl.Watch(reconcile.From(caches[kind]), tracker.Source()), n.manager.Register(ctrl)); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (n *network) options(kind string) external.InventoryOptions[partSpec, struct{}, string] {
	name := func(id string) (store.Key, bool) {
		name, ours := strings.CutPrefix(id, kind+"/")
		return store.Key{Name: name}, ours
	}
	return external.InventoryOptions[partSpec, struct{}, string]{
		Store: n.stores[kind], Installation: home,
		List: func(context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for _, id := range slices.Sorted(maps.Keys(n.resources)) {
					if _, ours := name(id); ours && !yield(id, nil) {
						return
					}
				}
			}
		},
		Get: func(_ context.Context, id string) (string, bool, error) {
			_, exists := n.resources[id]
			return id, exists, nil
		},
		ID:   func(id string) string { return id },
		IDOf: func(o *part) string { return kind + "/" + o.Name },
		Owner: func(id string) (external.Mark, bool) {
			key, ours := name(id)
			return external.Mark{Installation: home, Kind: kind, Key: key, UID: "uid of " + id}, ours
		},
		Compare: func(*part, string) external.Observation { return external.Observation{UpToDate: true} },
		Delete: func(_ context.Context, id string) error {
			for user, needs := range n.resources {
				if slices.Contains(needs, id) {
					n.refused++
					return fmt.Errorf("%w by %s", external.ErrInUse, user)
				}
			}
			if id == n.fails {
				return errors.New("the cloud is busy")
			}
			delete(n.resources, id)
			n.deleted = append(n.deleted, id)
			return nil
		},
	}
}

// declare declares a part that needs others, with its resource.
func (n *network) declare(kind, name string, needs ...string) {
	must(n.stores[kind].Create(n.t.Context(), &part{Meta: store.Meta{Name: name}, Spec: partSpec{needs}}))
	n.resources[kind+"/"+name] = needs
}

// prune prunes all kinds, after what was written has settled.
func (n *network) prune() ([]external.Finding, error) {
	time.Sleep(2 * time.Minute)
	return external.PruneKinds(n.t.Context(), n.graph, external.Cap{Count: 100, Percent: 100}, n.inventories...)
}

// Orphans of three kinds in three stores go in the order of their needs, users first,
// whatever the order in which the kinds are given: the cloud refuses nothing. What a
// declared object needs stays.
//
// promise E2
func TestKindsArePrunedAfterThoseThatNeedThem(t *testing.T) {
	for _, given := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t)
			for _, kind := range networkKinds {
				n.declare(kind, "kept")
			}
			n.declare("machine", "user", "subnet/lost") // its subnet's declaration is lost, and the cloud does not know of the need
			n.resources["machine/user"] = nil
			n.resources["subnet/lost"] = nil
			for i := range 3 {
				n.resources[fmt.Sprint("vpc/", i)] = nil
				n.resources[fmt.Sprint("subnet/", i)] = []string{fmt.Sprint("vpc/", i)}
				n.resources[fmt.Sprint("machine/", i)] = []string{fmt.Sprint("subnet/", i)}
			}
			ctx, stop := context.WithCancel(t.Context())
			defer synctest.Wait()
			defer stop()
			go func() { _ = n.manager.Run(ctx) }()
			synctest.Wait() // the graph knows what is declared
			first := slices.Clone(n.inventories)
			for i, g := range given {
				n.inventories[i] = first[g]
			}
			before := slices.Clone(n.inventories)
			all, err := n.prune()
			if !slices.Equal(n.inventories, before) {
				t.Error("the inventories that it was given are in another order")
			}
			if !errors.Is(err, external.ErrInUse) || !strings.Contains(err.Error(), "an object needs it that is declared") {
				t.Errorf("the error is %v; want a word about subnet/lost", err)
			}
			var found []string
			for _, f := range all {
				found = append(found, f.ID)
				if kind, _, _ := strings.Cut(f.ID, "/"); f.Mark == nil || f.Mark.Kind != kind {
					t.Errorf("of %s it says the mark %+v", f.ID, f.Mark)
				}
			}
			if !slices.Equal(found, n.deleted) {
				t.Errorf("it says that it deleted %v, and did %v", found, n.deleted)
			}
			if want := []string{"machine/0", "machine/1", "machine/2", "subnet/0", "subnet/1", "subnet/2"}; !slices.Equal(n.deleted, want) || n.refused > 0 {
				t.Errorf("deleted %v, want %v; %d were refused", n.deleted, want, n.refused)
			}
			if !strings.Contains(err.Error(), `kind "vpc" is not pruned: it is needed by kind "subnet"`) {
				t.Errorf("of the VPCs: %v; want none, because a subnet is left", err)
			}
			n.declare("subnet", "lost")
			if _, err := n.prune(); err != nil || len(n.deleted) != 9 {
				t.Errorf("once it is declared again: deleted %v, %v", n.deleted, err)
			}
		})
	}
}

// A kind that could not be pruned to the end keeps those that it needs, by way of other
// kinds too.
//
// promise E2
func TestKindIsNotPrunedWhileOrphansOfItsUsersAreLeft(t *testing.T) {
	synctest.Test(t, kindIsNotPruned)
}

func kindIsNotPruned(t *testing.T) {
	n := newNetwork(t)
	for _, kind := range networkKinds {
		n.declare(kind, "kept")
		n.resources[kind+"/orphan"] = nil
	}
	n.fails = "machine/orphan"
	all, err := n.prune()
	if err == nil || len(n.deleted) > 0 || len(all) > 0 {
		t.Errorf("deleted %v, %+v, %v; want nothing", n.deleted, all, err)
	}
	n.fails = ""
	if all, err := external.PruneKinds(t.Context(), n.graph, external.Cap{}, n.inventories...); err == nil || len(n.deleted) > 0 {
		t.Errorf("deleted %v, %+v; want nothing while it is not known how the deletion of the machine ended", n.deleted, all)
	}
	if _, err := n.prune(); err != nil || !slices.Equal(n.deleted, []string{"machine/orphan", "subnet/orphan", "vpc/orphan"}) {
		t.Errorf("deleted %v, %v", n.deleted, err)
	}
	if _, err := external.PruneKinds(t.Context(), nil, external.Cap{}); err == nil {
		t.Error("no graph is taken for one")
	}
}

// A kind that was not pruned to the end keeps those that it needs, whatever was pruned after
// it: as here the same kind of another account.
//
// promise E2. Negative control: mutant "only the kind pruned just before can keep a kind from being pruned".
func TestKindThatIsLeftKeepsWhatItNeedsWhateverComesBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		for _, kind := range networkKinds {
			n.declare(kind, "kept")
			n.resources[kind+"/orphan"] = nil
		}
		n.fails = "machine/orphan"
		other := n.options("machine")
		other.List = func(context.Context) iter.Seq2[string, error] { return func(func(string, error) bool) {} }
		n.inventories = append(n.inventories, must(external.NewInventory(&other)))
		all, err := n.prune()
		// One error of a kind: of the first account's machines, none of the other's, and of what they need.
		if err == nil || len(n.deleted) > 0 || len(all) > 0 || len(strings.Split(err.Error(), "\n")) != 3 ||
			!strings.Contains(err.Error(), `kind "subnet" is not pruned: it is needed by kind "machine"`) {
			t.Errorf("deleted %v, %+v, %v; want nothing, and an error of the first account's machines", n.deleted, all, err)
		}
	})
}

// Orphans of one kind that need each other go too: what is in use is tried again after
// others have gone.
func TestOrphansThatNeedEachOtherArePruned(t *testing.T) {
	synctest.Test(t, orphansOfOneKind)
}

func orphansOfOneKind(t *testing.T) {
	n := newNetwork(t)
	n.declare("vpc", "kept")
	for i := range 5 {
		n.resources[fmt.Sprint("vpc/", i)] = []string{fmt.Sprint("vpc/", i+1)}
	}
	n.resources["vpc/5"] = []string{"vpc/5"} // never
	_, err := n.prune()
	if want := []string{"vpc/0", "vpc/1", "vpc/2", "vpc/3", "vpc/4"}; !slices.Equal(n.deleted, want) || !errors.Is(err, external.ErrInUse) {
		t.Errorf("deleted %v, %v; want %v, and a word about vpc/5", n.deleted, err, want)
	}
	n.resources["vpc/8"], n.resources["vpc/9"], n.deleted = []string{"vpc/kept"}, []string{"vpc/8"}, nil
	if _, err := n.prune(); !slices.Equal(n.deleted, []string{"vpc/9", "vpc/8"}) {
		t.Errorf("deleted %v, %v; want the user first", n.deleted, err)
	}
}

// A resource that cannot be read may be an orphan, unless it is declared: until it can be, what
// its kind needs is not pruned.
//
// promise E2. Negative control: mutant "a resource that cannot be read is no orphan".
func TestResourceThatCannotBeReadKeepsWhatItsKindNeeds(t *testing.T) {
	for closed, want := range map[string][]string{
		"machine/orphan": nil,
		"machine/kept":   {"machine/orphan", "subnet/orphan", "vpc/orphan"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t)
			for _, kind := range networkKinds {
				n.declare(kind, "kept")
				n.resources[kind+"/orphan"] = nil
			}
			o := n.options("machine")
			o.Detail = func(_ context.Context, id string) (string, bool, error) {
				if id == closed {
					return "", false, errors.New("access denied")
				}
				return id, true, nil
			}
			n.inventories[2] = must(external.NewInventory(&o))
			if _, err := n.prune(); !slices.Equal(n.deleted, want) || (err == nil) != (want != nil) {
				t.Errorf("%s cannot be read: deleted %v, %v; want %v", closed, n.deleted, err, want)
			}
		})
	}
}
