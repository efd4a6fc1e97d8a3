package children_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tendhq/tend/reconcile/children"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/storetest"
)

// model lets owners want random sets, on a store that fails, while children become Ready, cease to be, and go.
type model struct {
	*testing.T
	*world
	failing *world // the same on a store that fails
	r       *rand.Rand
	broken  bool
	plans   map[string]plan // by owner
	did     map[string]int
}

func newModel(t *testing.T, b store.Backend, seed uint64) *model {
	m := &model{T: t, r: rand.New(rand.NewPCG(seed, 48)), plans: map[string]plan{"a": nil, "b": nil}, did: map[string]int{}}
	dead := false // after its first failure the process is killed
	faulty := storetest.Faulty(b, func(c storetest.Call) storetest.Fault {
		if dead = dead && m.broken; dead {
			return storetest.Fault{Break: storetest.Refused}
		}
		if m.broken && m.r.IntN(6) == 0 {
			dead = true
			return storetest.Fault{Break: storetest.Break(1 + m.r.IntN(3))}
		}
		return storetest.Fault{}
	})
	o := &children.Options{MaxDelete: -1}
	m.world, m.failing = newWorld(t, b, o), newWorld(t, faulty, o)
	for _, owner := range slices.Sorted(maps.Keys(m.plans)) {
		m.newSite(t, owner)
	}
	return m
}

// newPlan is a random one: each child needs some of those before it.
func (m *model) newPlan(owner string) (p plan) {
	for _, i := range m.r.Perm(6)[:m.r.IntN(7)] {
		c := want{kind: []string{"disk", "machine"}[i%2], name: fmt.Sprint(owner, i), value: 1 + m.r.IntN(3), finalizer: i < 3}
		for _, before := range p {
			if m.r.IntN(3) == 0 {
				c.after = append(c.after, before.ref())
			}
		}
		p = append(p, c)
	}
	return p
}

func (m *model) step() {
	owner := []string{"a", "b"}[m.r.IntN(2)]
	switch m.r.IntN(6) {
	case 0:
		m.plans[owner] = m.newPlan(owner)
		change(m, m.sites, owner, func(o *site) { o.Spec.Round++ })
	case 1, 2, 3:
		m.apply(owner)
	case 4:
		for ref, c := range m.all(m) {
			if m.r.IntN(2) == 0 && (c.meta.Deleting() || !c.ready) {
				m.settle(m, ref)
			}
		}
	case 5:
		for ref, c := range m.all(m) {
			switch {
			case m.r.IntN(10) > 0 || c.meta.Deleting():
			case m.r.IntN(2) == 0:
				m.edit(m, ref, func(_ *store.Meta, o readier) { o.SetProgressing("Busy", "") })
			case strings.HasPrefix(ref, "disk"): // a person deletes it
				drop(m, m.disks, c.meta.Name)
			default:
				drop(m, m.machines, c.meta.Name)
			}
		}
	}
}

// apply applies the plan of an owner, and looks at what changed by that.
func (m *model) apply(owner string) {
	before := m.all(m)
	w := m.world
	if m.broken = m.r.IntN(2) == 0; m.broken {
		w = m.failing
	}
	state, err := w.set(m.site(m, owner), m.plans[owner]).Apply(m.Context())
	if m.broken = false; err != nil && !errors.Is(err, storetest.ErrInjected) && !errors.Is(err, store.ErrUnknownOutcome) {
		m.Fatalf("%v of %v", err, m.plans[owner])
	}
	m.did[fmt.Sprint("failed: ", err != nil)]++
	after := m.all(m)
	wanted := map[string]want{}
	for _, c := range m.plans[owner] {
		wanted[c.ref()] = c
	}
	for ref := range after {
		if _, was := before[ref]; !was {
			m.checkMade(ref, wanted, after)
		}
	}
	for ref, was := range before {
		is, there := after[ref]
		switch _, keep := wanted[ref]; {
		case !strings.HasPrefix(was.meta.Name, owner):
			if !there || is.meta.Revision != was.meta.Revision {
				m.Fatalf("%s of another was touched", ref)
			}
		case there && is.meta.UID != was.meta.UID:
			m.Fatalf("%s was made twice", ref)
		case !was.meta.Deleting() && (!there || is.meta.Deleting()):
			if m.did["deleted"]++; keep {
				m.Fatalf("%s was deleted, and is wanted by %v", ref, m.plans[owner])
			}
			m.checkOrder(ref, before, after)
		}
	}
	if err == nil && (state.Reason == "") != (state.Ready == state.Wanted && state.Surplus == 0) {
		m.Fatalf("the state is %+v", state)
	}
}

func (m *model) checkMade(ref string, wanted map[string]want, all map[string]there) {
	c, is := wanted[ref]
	if m.did["made"]++; !is {
		m.Fatalf("%s was made, and is not wanted", ref)
	}
	for _, need := range c.after {
		if !all[need].ready {
			m.Fatalf("%s was made before %s was ready", ref, need)
		}
	}
}

// needs are the children that one needs, by what is stored.
func needs(c there) (refs []string) {
	_ = json.Unmarshal([]byte(c.meta.Annotations["tend.after"]), &refs)
	return refs
}

// checkOrder fails if a child that is there needs the one that was deleted, unless they need each other.
func (m *model) checkOrder(ref string, before, after map[string]there) {
	all := maps.Clone(before) // of the circle others may have gone, too
	maps.Copy(all, after)
	for other, c := range after {
		if other == ref || !slices.Contains(needs(c), ref) {
			continue
		}
		if was, is := before[other]; is && was.meta.Deleting() || !inCircle(ref, all) {
			m.Fatalf("%s was deleted, and %s, which needs it, is there", ref, other)
		}
	}
}

// inCircle reports whether those that need a child lead back to it.
func inCircle(ref string, all map[string]there) bool {
	seen, todo := map[string]bool{}, []string{ref}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		for other, c := range all {
			if slices.Contains(needs(c), at) && !seen[other] {
				seen[other] = true
				todo = append(todo, other)
			}
		}
	}
	return seen[ref]
}

// rest lets all come to rest, and checks what is there.
func (m *model) rest() {
	for range 20 {
		for owner, p := range m.plans {
			m.applied(m, owner, p)
		}
		m.settle(m)
	}
	before, all := m.all(m), 0
	for owner, p := range m.plans {
		expectState(m.T, m.applied(m, owner, p), children.State{Wanted: len(p), Ready: len(p)})
		for _, c := range p {
			all++
			is, there := before[c.ref()]
			if slices.Sort(c.after); !there || is.value != fmt.Sprint(c.value) || !slices.Equal(needs(is), c.after) {
				m.Errorf("%s is %+v, want %+v", c.ref(), is, c)
			}
		}
	}
	after := m.all(m)
	if len(after) != all {
		m.Errorf("there are %d, want %d", len(after), all)
	}
	for ref, is := range after {
		if is.meta.Revision != before[ref].meta.Revision {
			m.Errorf("at rest %s was written", ref)
		}
	}
}

// Owners that want random sets get them, in order, whatever fails, and touch nothing of each other's.
//
// promise E2
func TestModelOfChildren(t *testing.T) {
	for name, of := range map[string]struct {
		seeds uint64
		open  func(t *testing.T) store.Backend
	}{
		"memory": {100, func(t *testing.T) store.Backend { return newMemory(t) }},
		"file": {2, func(t *testing.T) store.Backend {
			b := must[store.FullBackend](t)(file.Open(filepath.Join(t.TempDir(), "f")))
			t.Cleanup(func() { b.Close() })
			return b
		}},
	} {
		t.Run(name, func(t *testing.T) {
			did := map[string]int{}
			for seed := range of.seeds {
				m := newModel(t, of.open(t), seed)
				for range 60 {
					m.step()
				}
				if m.rest(); t.Failed() {
					t.Fatalf("seed %d", seed)
				}
				for what, n := range m.did {
					did[what] += n
				}
			}
			for _, what := range []string{"made", "deleted", "failed: true", "failed: false"} {
				if did[what] == 0 {
					t.Errorf("%s: never", what)
				}
			}
			t.Log(did)
		})
	}
}
