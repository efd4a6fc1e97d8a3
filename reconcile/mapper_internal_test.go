package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// A shard is gained while an object changes. What is mapped is the newest all the same, from
// what was mapped last, and for every shard.
//
// Negative control: with the later of two steps deciding what is mapped, what the
// object refers to since its change was woken in the shard that was gained alone.
func TestListingAgainDoesNotHideAChange(t *testing.T) {
	type object = store.Object[int, int]
	v1, v2 := &object{Meta: store.Meta{Revision: 1}}, &object{Meta: store.Meta{Revision: 2}}
	name := func(o *object) string { return map[*object]string{v1: "v1", v2: "v2", nil: "nothing"}[o] }
	type steps = []step[int, int]
	change := step[int, int]{old: v1, now: v2, at: 2}
	gone := step[int, int]{old: v1, at: 2}
	listed := func(o *object, shard int) step[int, int] {
		return step[int, int]{old: o, now: o, initial: true, only: []int{shard}}
	}
	for what, c := range map[string]struct {
		steps steps
		now   *object
		only  []int
	}{
		"listed after":            {steps{change, listed(v2, 3)}, v2, nil},
		"listed before":           {steps{listed(v1, 3), change}, v2, nil},
		"listed, and gone":        {steps{listed(v1, 3), gone}, nil, nil},
		"listed twice":            {steps{listed(v1, 3), listed(v1, 4)}, v1, []int{3, 4}},
		"listed before and after": {steps{listed(v1, 3), change, listed(v2, 4)}, v2, nil},
		"listed twice after":      {steps{change, listed(v2, 3), listed(v2, 4)}, v2, nil},
	} {
		t.Run(what, func(t *testing.T) {
			q, err := queue.New(&queue.Options[store.Key]{Name: "test"})
			if err != nil {
				t.Fatal(err)
			}
			p := &mapping[store.Key, int, int]{q: q, todo: make(map[store.Key]step[int, int])}
			key := store.Key{Name: "a"}
			for _, s := range c.steps {
				if err := p.note(key, s); err != nil {
					t.Fatal(err)
				}
			}
			got := p.todo[key]
			if got.old != v1 || got.now != c.now || !slices.Equal(got.only, c.only) {
				t.Errorf("maps %v for shards %v, want %v for %v", name(got.now), got.only, name(c.now), c.only)
			}
		})
	}
}

// A change that comes while the mapper fails with the one before is not lost: the retry
// maps from what was mapped last to the newest object.
//
// promise R1. Negative control: with the failed step put back over the newer one, the
// retry mapped the object of before.
func TestChangeDuringAFailedMappingIsMappedByTheRetry(t *testing.T) {
	type object = store.Object[int, int]
	v1, v2, v3 := &object{Meta: store.Meta{Revision: 1}}, &object{Meta: store.Meta{Revision: 2}}, &object{Meta: store.Meta{Revision: 3}}
	q, err := queue.New(&queue.Options[store.Key]{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	key := store.Key{Name: "a"}
	p := &mapping[store.Key, int, int]{q: q, to: new(strange[store.Key]), todo: make(map[store.Key]step[int, int])}
	calls := 0
	p.mapper = func(_ context.Context, old, now *object) ([]store.Key, error) {
		if calls++; calls == 1 {
			return nil, errors.Join(errors.New("not yet"), p.note(key, step[int, int]{old: v2, now: v3, at: 3}))
		}
		if old != v1 || now != v3 {
			t.Errorf("the retry maps from revision %d to %d, want from 1 to 3", old.Revision, now.Revision)
		}
		return nil, nil
	}
	if err := p.note(key, step[int, int]{old: v1, now: v2, at: 2}); err != nil {
		t.Fatal(err)
	}
	if err := p.mapOne(t.Context(), key); err == nil {
		t.Error("the first mapping succeeded")
	}
	if err := p.mapOne(t.Context(), key); err != nil || calls != 2 {
		t.Errorf("the retry returned %v after %d calls", err, calls)
	}
}

// mappingModel is what a Map source must do: for each change of an object, the keys are
// added that it referred to when it was last mapped and those that it refers to now, and
// for a shard that was gained, those of its keys that objects refer to. Objects change in
// the cache first; the source hears of a change later, of several at once if it is behind.
// A list is what the source has heard of.
type mappingModel struct {
	*testing.T
	rand   *rand.Rand
	c      *machine[store.Key]
	p      *mapping[store.Key, refs, int]
	cache  [3]modelObject
	gained []int    // shards that were, and are not listed
	lists  []func() // what the source hears next: the changes before a list, and the list
	maps   bool     // the mapper is at work: a source has one
	over   bool     // nothing else happens
	calls  int      // of the mapper
}

// refs is a spec: the keys that an object refers to.
type refs []store.Key

// modelObject is one object of the cache.
type modelObject struct {
	is     *store.Object[refs, int]
	heard  *store.Object[refs, int] // what the source last heard of
	mapped *store.Object[refs, int] // what was last mapped for all shards
	listed map[store.Key]bool       // keys that were run since then because a list named them
	must   map[store.Key]string     // keys that are to be added because of it
}

// shardedPlacement has shards; the test holds them itself.
type shardedPlacement struct{ lease.Placement }

func (shardedPlacement) Shards() int { return modelShards }

const (
	modelShards = 3
	modelKeys   = 6
)

var modelNames = []string{"a", "b", "c"}

func (m *mappingModel) holds(shard int) *atomic.Pointer[hold] { return &m.c.k.view.Load().holds[shard] }

// require notes that keys are to be added: those in a shard, or all that are held (-1).
func (m *mappingModel) require(o *modelObject, keys []store.Key, shard int, why string) {
	for _, k := range keys {
		if of, _ := m.c.k.shardOf(k); m.holds(of).Load() != nil && (shard < 0 || shard == of) {
			o.must[k] = why
		}
	}
}

func refsOf(o *store.Object[refs, int]) []store.Key {
	if o == nil {
		return nil
	}
	return o.Spec
}

// write changes an object in the cache: it is edited, deleted, created, or restored from
// a backup with a lower revision.
func (m *mappingModel) write(n int) {
	o := &m.cache[n]
	if o.is != nil && m.rand.IntN(4) == 0 {
		o.is = nil
		return
	}
	next := &store.Object[refs, int]{Meta: store.Meta{Name: modelNames[n], Revision: store.Revision(1 + m.rand.IntN(1000))}}
	for range m.rand.IntN(3) {
		next.Spec = append(next.Spec, store.Key{Name: fmt.Sprint("key", m.rand.IntN(modelKeys))})
	}
	o.is = next
}

// take takes from the cache what the source has not heard of an object; nil: nothing. What
// the object referred to in between, and was not mapped, needs no run.
func (m *mappingModel) take(n int) (hear func()) {
	o := &m.cache[n]
	was, is := o.heard, o.is
	if was == is {
		return nil
	}
	o.heard = is
	return func() {
		o.must = make(map[store.Key]string)
		m.require(o, refsOf(o.mapped), -1, "was referred to")
		m.require(o, slices.Collect(maps.Keys(o.listed)), -1, "was referred to when a shard was gained")
		m.require(o, refsOf(is), -1, "is referred to")
		m.note(n, step[refs, int]{old: was, now: is, at: 1})
	}
}

// hear has the source hear of what changed, unless it is about to hear a list.
func (m *mappingModel) hear(n int) {
	if len(m.lists) > 0 {
		return
	}
	if hear := m.take(n); hear != nil {
		hear()
	}
}

func (m *mappingModel) note(n int, s step[refs, int]) {
	if err := m.p.note(store.Key{Name: modelNames[n]}, s); err != nil {
		m.Fatal(err)
	}
}

// gain loses a shard, or gains it, which asks for a list.
func (m *mappingModel) gain(shard int) {
	if m.holds(shard).Load() == nil {
		m.holds(shard).Store(&hold{shard: shard})
		m.gained = append(m.gained, shard)
		return
	}
	m.holds(shard).Store(nil)
	for _, o := range m.cache {
		maps.DeleteFunc(o.must, func(k store.Key, _ string) bool { of, _ := m.c.k.shardOf(k); return of == shard })
	}
}

// list begins the list that was asked for. Each change before it, and each of its objects,
// comes to the source later.
func (m *mappingModel) list() {
	if len(m.gained) == 0 || len(m.lists) > 0 {
		return
	}
	for n := range m.cache {
		if hear := m.take(n); hear != nil {
			m.lists = append(m.lists, hear)
		}
	}
	gained := m.gained
	m.gained = nil
	for n := range m.cache {
		o, is := &m.cache[n], m.cache[n].is
		if is == nil {
			continue
		}
		m.lists = append(m.lists, func() {
			for _, shard := range gained {
				m.require(o, is.Spec, shard, "is referred to, and its shard was gained")
			}
			m.note(n, step[refs, int]{old: is, now: is, initial: true, only: gained})
		})
	}
}

// mapNext maps an object that waits, if one does. What it adds needs not be added any more.
func (m *mappingModel) mapNext() {
	keys := slices.SortedFunc(maps.Keys(m.p.todo), func(a, b store.Key) int { return strings.Compare(a.Name, b.Name) })
	if len(keys) == 0 {
		return
	}
	key := keys[m.rand.IntN(len(keys))]
	s := m.p.todo[key]
	o := &m.cache[slices.Index(modelNames, key.Name)]
	switch err := m.p.mapOne(m.Context(), key); {
	case err == nil && s.only == nil:
		o.mapped, o.listed = s.now, make(map[store.Key]bool)
	case err == nil:
		for _, k := range s.now.Spec {
			o.listed[k] = true
		}
	}
	for e := range m.c.k.q.Snapshot() {
		for _, o := range m.cache {
			delete(o.must, e.Key)
		}
		m.c.k.q.Remove(e.Key)
	}
}

// mapper is the program's: it fails now and then, and things happen while it works.
func (m *mappingModel) mapper(_ context.Context, old, now *store.Object[refs, int]) (keys []store.Key, err error) {
	m.calls++
	m.maps = true
	defer func() { m.maps = false }()
	for n := m.rand.IntN(3); n > 0 && !m.over; n-- {
		m.step()
	}
	for _, o := range []*store.Object[refs, int]{old, now} {
		if o != nil {
			keys = append(keys, o.Spec...)
		}
	}
	if m.rand.IntN(3) == 0 {
		err = errors.New("not yet")
	}
	return keys, err
}

func (m *mappingModel) step() {
	switch n := m.rand.IntN(len(m.cache)); m.rand.IntN(7) {
	case 0, 1:
		m.write(n)
	case 2:
		m.hear(n)
	case 3:
		m.gain(m.rand.IntN(modelShards))
	case 4, 5:
		m.list()
		m.say()
	default:
		if !m.maps {
			m.mapNext()
		}
	}
}

// say brings what is next of a list to the source.
func (m *mappingModel) say() {
	if len(m.lists) > 0 {
		next := m.lists[0]
		m.lists = m.lists[1:]
		next()
	}
}

// What an object refers to, and what it referred to before, runs after each change of it,
// whatever else comes to the source: lists for shards that were gained; further changes;
// mappings that fail. A list that was read beside the changes, and so could be ahead of them,
// was seen to break it.
//
// promise R1. Negative control: mutant "a list that is ahead of a change hides what was
// referred to".
func TestMappingsModelRandomly(t *testing.T) {
	calls := 0
	defer func() { t.Logf("campaign: %d mappings", calls) }()
	for seed := range campaign.Seeds(t, 400, campaign.Length()) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			never := Func[store.Key](func(context.Context, store.Key) (Result, error) { return Result{}, nil })
			c, err := New("model", never, &Options[store.Key]{Placement: shardedPlacement{}})
			if err != nil {
				t.Fatal(err)
			}
			q, err := queue.New(&queue.Options[store.Key]{Name: "test"})
			if err != nil {
				t.Fatal(err)
			}
			m := &mappingModel{T: t, rand: rand.New(rand.NewPCG(seed, 0)), c: inside(c)}
			for n := range m.cache {
				m.cache[n].must, m.cache[n].listed = make(map[store.Key]string), make(map[store.Key]bool)
			}
			m.p = &mapping[store.Key, refs, int]{
				mapper: m.mapper, to: outletOf[store.Key](&feed[store.Key]{of: inside(c).sources}), q: q, todo: make(map[store.Key]step[refs, int]),
			}
			for range 60 {
				m.step()
			}
			m.over = true
			for len(m.lists)+len(m.gained) > 0 {
				m.list()
				m.say()
			}
			for n := range m.cache {
				m.hear(n)
			}
			for len(m.p.todo) > 0 {
				m.mapNext()
			}
			calls += m.calls
			for n, o := range m.cache {
				for key, why := range o.must {
					t.Errorf("%v was not added: it %s by %s", key, why, modelNames[n])
				}
			}
		})
	}
}
