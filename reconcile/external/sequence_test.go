package external_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// layered are the names of what object i of many needs: the three before it.
func layered(i int) (keys []store.Key) {
	for j := max(0, i-3); j < i; j++ {
		keys = append(keys, store.Key{Namespace: "t", Name: fmt.Sprintf("d%05d", j)})
	}
	return keys
}

// layeredPlan is a plan of n creates and, of another kind, of n deletions, each with three
// references, given in the wrong order.
func layeredPlan(n int) []external.Plan {
	plans := []external.Plan{
		{Kind: "Disk", Needs: map[store.Key][]depend.Ref{}}, {Kind: "Old", Needs: map[store.Key][]depend.Ref{}},
	}
	for p, action := range []string{"create", "delete"} {
		for i := n - 1; i >= 0; i-- {
			k := store.Key{Namespace: "t", Name: fmt.Sprintf("d%05d", i)}
			plans[p].Steps = append(plans[p].Steps, external.Step{Action: action, Key: k})
			for _, needed := range layered(i) {
				plans[p].Needs[k] = append(plans[p].Needs[k], depend.Ref{Kind: plans[p].Kind, Key: needed})
			}
		}
	}
	return plans
}

// A plan of ten thousand objects with 30,000 references asks of each object once what it
// needs, looks at each resource once and allocates no more for each than a small one does,
// and puts each step after those that it needs.
func TestPlanOfManyReferencesIsLinearAndInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := 10 * campaign.Sized(1000, 200)
		asked := 0
		disks := must(cache.New(w.store, nil))
		w.o.Depends = must(depend.New(disks, depend.On(disks, func(o *disk) []store.Key {
			asked++
			var i int
			must(fmt.Sscanf(o.Name, "d%d", &i))
			var keys []store.Key // those after it: the order of needs is not that of keys
			for j := i + 1; j < min(i+4, n); j++ {
				keys = append(keys, store.Key{Namespace: "t", Name: fmt.Sprintf("d%05d", j)})
			}
			return keys
		}, nil), nil))
		w.restart(nil)
		for i := range n { // nothing of it exists
			must(w.store.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "t", Name: fmt.Sprintf("d%05d", i)}, Spec: diskSpec{Size: "1"}}))
		}
		p := must(w.rec.Plan(t.Context()))
		references, place := 0, map[store.Key]int{}
		for i, s := range p.Steps {
			place[s.Key] = i + 1
			for _, needed := range p.Needs[s.Key] {
				if references++; place[needed.Key] == 0 {
					t.Fatalf("%s comes before %s, which it needs", s.Key, needed.Key)
				}
			}
		}
		if len(p.Steps) != n || references != 3*n-6 || asked != n || w.cloud.Calls("Get") > n {
			t.Errorf("%d steps with %d references, asked %d times what one needs, %d looks: want %d, %d, %d and at most %d",
				len(p.Steps), references, asked, w.cloud.Calls("Get"), n, 3*n-6, n, n)
		}
	})
	size := campaign.Sized(1000, 200)
	few, many := layeredPlan(size), layeredPlan(10*size)
	allocated := func(plans []external.Plan) float64 {
		return testing.AllocsPerRun(1, func() { external.Sequence(plans...) })
	}
	if a, b := allocated(few), allocated(many); b > 20*a {
		t.Errorf("a sequence of ten times as many steps allocates %.0f times, and not %.0f", b, 10*a)
	}
	steps, place := external.Sequence(many...), map[depend.Ref]int{}
	for i, s := range steps {
		place[depend.Ref{Kind: s.Kind, Key: s.Key}] = i
	}
	for kind, p := range many {
		for _, s := range p.Steps {
			for _, needed := range p.Needs[s.Key] {
				user := depend.Ref{Kind: p.Kind, Key: s.Key}
				if deletes := kind == 1; place[user] < place[needed] != deletes {
					t.Fatalf("%s is step %d, and %s, which it needs, is step %d", user, place[user], needed, place[needed])
				}
			}
		}
	}
}

// BenchmarkSequence puts 10,000 steps with 30,000 references in order.
func BenchmarkSequence(b *testing.B) {
	plans := layeredPlan(10_000)[:1]
	b.ReportAllocs()
	for b.Loop() {
		external.Sequence(plans...)
	}
}

// What is created or changed comes first, then what is deleted, then the orphans, by kind in
// the reverse order of the plans; and each step once.
func TestSequenceEndsWithTheOrphans(t *testing.T) {
	plan := func(kind string, steps ...string) external.Plan { // of an action and a name
		p := external.Plan{Kind: kind}
		for _, s := range steps {
			action, name, _ := strings.Cut(s, " ")
			p.Steps = append(p.Steps, external.Step{Action: action, Key: store.Key{Name: name}})
		}
		return p
	}
	var got []string
	for _, s := range external.Sequence(
		plan("VPC", "create a", "delete b", "prune c", "prune a", "delete d"), plan("Subnet"), plan("Disk", "prune e", "update a", "wait f", "delete g"),
	) {
		got = append(got, s.Action+" "+s.Kind+"/"+s.Key.Name)
	}
	wantSlice(t, "the sequence", got, []string{
		"create VPC/a", "update Disk/a", "wait Disk/f", "delete Disk/g", "delete VPC/d", "delete VPC/b", "prune Disk/e", "prune VPC/c", "prune VPC/a",
	})
}
