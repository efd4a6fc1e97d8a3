package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// promise S1, S3
//
// Random writes, made with an object read some time before, against the
// simplest store there is. After each step every object, and at the end a new
// watch, must agree with it. Negative controls: the mutants of this test.
func TestStoreBehavesLikeItsModel(t *testing.T) {
	for name, o := range map[string]*memory.Options{"values": nil, "bytes": {Encode: true}} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) { runModel(t, r, newBuckets(t, newMemory(t, o), nil)) })
		})
	}
}

// modelObject is what the model keeps of an object.
type modelObject struct {
	region, arn, team string
	finalizers        []string
	generation        int64
	deleting          bool
	revision          store.Revision
	uid               string
}

type model struct {
	t       *testing.T
	r       *rapid.T
	s       *buckets
	objects map[string]*modelObject
	read    map[string]*bucket // objects read at some time
}

func runModel(t *testing.T, r *rapid.T, s *buckets) {
	m := &model{t: t, r: r, s: s, objects: map[string]*modelObject{}, read: map[string]*bucket{}}
	r.Repeat(map[string]func(*rapid.T){
		"create": func(*rapid.T) { m.create(m.name()) },
		"read":   func(*rapid.T) { m.reread(m.name()) },
		"update": func(*rapid.T) { m.write(m.name(), m.s.Update, m.applySpec) },
		"status": func(*rapid.T) { m.write(m.name(), m.s.UpdateStatus, m.applyStatus) },
		"delete": func(*rapid.T) { m.delete(m.name()) },
		"":       func(*rapid.T) { m.compare() },
	})
	m.compareWatch()
}

func (m *model) name() string { return rapid.SampledFrom([]string{"a", "b"}).Draw(m.r, "name") }

func (m *model) pick(what string, from ...string) string {
	return rapid.SampledFrom(from).Draw(m.r, what)
}

func (m *model) finalizers() []string {
	n := rapid.IntRange(0, 2).Draw(m.r, "finalizers")
	return []string{"f1", "f2"}[:n]
}

func (m *model) edit(o *bucket) {
	o.Spec.Region = m.pick("region", "x", "y")
	o.Status.ARN = m.pick("arn", "x", "y")
	o.Labels = map[string]string{"team": m.pick("team", "x", "y")}
	o.Finalizers = m.finalizers()
}

func (m *model) create(name string) {
	o := named(name)
	m.edit(o)
	got, err := m.s.Create(m.t.Context(), o)
	if m.objects[name] != nil {
		m.want(err, store.ErrExists)
		return
	}
	m.want(err, nil)
	m.objects[name] = &modelObject{
		region: o.Spec.Region, arn: o.Status.ARN, team: o.Labels["team"],
		finalizers: o.Finalizers, generation: 1, revision: got.Revision, uid: got.UID,
	}
	m.read[name] = got
}

func (m *model) reread(name string) {
	if o, err := m.s.Get(m.t.Context(), named(name).Key()); err == nil {
		m.read[name] = o
	}
}

func (m *model) want(err, want error) {
	m.r.Helper()
	if !errors.Is(err, want) {
		m.r.Fatalf("got error %v, want %v", err, want)
	}
}

// write makes a write with whatever was read last and says what it must do.
func (m *model) write(name string, write func(ctx context.Context, o *bucket) (*bucket, error), apply func(o *modelObject, from *bucket) (changed, legal bool)) {
	o := m.read[name]
	if o == nil {
		return
	}
	o = m.s.Clone(o)
	m.edit(o)
	got, err := write(m.t.Context(), o)
	there := m.objects[name]
	switch {
	case there == nil:
		m.want(err, store.ErrNotFound)
		return
	case there.revision != o.Revision:
		m.want(err, store.ErrConflict)
		return
	}
	next := *there
	changed, legal := apply(&next, o)
	if !legal {
		m.want(err, store.ErrInvalid)
		return
	}
	m.want(err, nil)
	if changed != (got.Revision != there.revision) {
		m.r.Fatalf("changed is %v, revision went from %d to %d", changed, there.revision, got.Revision)
	}
	next.revision = got.Revision
	m.objects[name] = &next
	if next.deleting && len(next.finalizers) == 0 {
		delete(m.objects, name)
	}
}

func (m *model) applySpec(next *modelObject, from *bucket) (changed, legal bool) {
	for _, f := range from.Finalizers {
		if next.deleting && !slices.Contains(next.finalizers, f) {
			return false, false
		}
	}
	before := fmt.Sprint(*next)
	if next.region != from.Spec.Region {
		next.generation++
	}
	next.region, next.team, next.finalizers = from.Spec.Region, from.Labels["team"], from.Finalizers
	return fmt.Sprint(*next) != before, true
}

func (m *model) applyStatus(next *modelObject, from *bucket) (changed, legal bool) {
	changed = next.arn != from.Status.ARN
	next.arn = from.Status.ARN
	return changed, true
}

func (m *model) delete(name string) {
	o := m.read[name]
	if o == nil {
		return
	}
	err := m.s.Delete(m.t.Context(), o)
	there := m.objects[name]
	switch {
	case there == nil:
		m.want(err, store.ErrNotFound)
	case there.deleting && there.uid == o.UID:
		m.want(err, nil)
	case there.revision != o.Revision:
		m.want(err, store.ErrConflict)
	case len(there.finalizers) == 0:
		m.want(err, nil)
		delete(m.objects, name)
	default:
		m.want(err, nil)
		there.deleting = true
		there.generation++
		there.revision, err = m.s.Backend().Commit(m.t.Context(), store.Txn{})
		m.want(err, nil)
	}
}

func (m *model) compare() {
	for _, name := range []string{"a", "b"} {
		got, err := m.s.Get(m.t.Context(), named(name).Key())
		want := m.objects[name]
		if want == nil {
			m.want(err, store.ErrNotFound)
			continue
		}
		m.want(err, nil)
		if g, w := fmt.Sprint(*seen(got)), fmt.Sprint(*want); g != w {
			m.r.Fatalf("%s:\n got %s\nwant %s", name, g, w)
		}
	}
}

func seen(o *bucket) *modelObject {
	return &modelObject{
		region: o.Spec.Region, arn: o.Status.ARN, team: o.Labels["team"], finalizers: o.Finalizers,
		generation: o.Generation, deleting: o.Deleting(), revision: o.Revision, uid: o.UID,
	}
}

// compareWatch follows all changes from the first one on.
func (m *model) compareWatch() {
	mark := must[*bucket](m.t)(m.s.Create(m.t.Context(), named("mark")))
	state := map[string]*modelObject{}
	for e, err := range m.s.Watch(m.t.Context(), 0) {
		if err != nil {
			m.r.Fatal(err)
		}
		if e.Object != nil && !e.Deleted {
			state[e.Key.Name] = seen(e.Object)
		}
		if e.Kind == store.BatchSnapshotEnd {
			break
		}
	}
	delete(state, "mark")
	if !maps.EqualFunc(state, m.objects, func(a, b *modelObject) bool { return fmt.Sprint(*a) == fmt.Sprint(*b) }) {
		m.r.Fatalf("the watch up to %d ends with %v, want %v", mark.Revision, state, m.objects)
	}
}
