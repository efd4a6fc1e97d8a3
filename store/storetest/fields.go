package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tendhq/tend/store"
)

// shared is a spec that several write.
type (
	shared struct {
		A      string            `json:"a"`
		B      string            `json:"b,omitempty"`
		Sub    sharedPart        `json:"sub"`
		Ptr    *string           `json:"ptr,omitempty"`
		Map    map[string]string `json:"map,omitempty"`
		Secret string            `json:"secret" tend:"secret"`
		List   []sharedElem      `json:"list,omitempty" tend:"key=Name"`
	}
	sharedElem struct {
		Name  string `json:"name"`
		Value string `json:"value,omitempty"`
	}
	sharedPart struct {
		X string `json:"x"`
		Y string `json:"y"`
	}
	sharedObject = store.Object[shared, struct{}]
)

// sharedFields are the fields of a shared by their paths.
var sharedFields = map[string]struct {
	get func(s *shared) string
	set func(s *shared, v string)
}{
	"a":      {func(s *shared) string { return s.A }, func(s *shared, v string) { s.A = v }},
	"b":      {func(s *shared) string { return s.B }, func(s *shared, v string) { s.B = v }},
	"sub.x":  {func(s *shared) string { return s.Sub.X }, func(s *shared, v string) { s.Sub.X = v }},
	"sub.y":  {func(s *shared) string { return s.Sub.Y }, func(s *shared, v string) { s.Sub.Y = v }},
	"secret": {func(s *shared) string { return s.Secret }, func(s *shared, v string) { s.Secret = v }},
	"map.k":  {mapGet("k"), mapSet("k")},
	"map.~1": {mapGet("."), mapSet(".")},
	"map.~0": {mapGet("~"), mapSet("~")},
	"list.k": {elemGet("k"), elemSet("k")},
	"list.~": {elemGet("~."), elemSet("~.")},
	"ptr": {func(s *shared) string {
		if s.Ptr == nil {
			return ""
		}
		return *s.Ptr
	}, func(s *shared, v string) {
		if s.Ptr = nil; v != "" {
			s.Ptr = &v
		}
	}},
}

func elemGet(name string) func(s *shared) string {
	return func(s *shared) string {
		i := slices.IndexFunc(s.List, func(x sharedElem) bool { return x.Name == name })
		if i < 0 {
			return ""
		}
		return s.List[i].Value
	}
}

func elemSet(name string) func(s *shared, v string) {
	return func(s *shared, v string) {
		i := slices.IndexFunc(s.List, func(x sharedElem) bool { return x.Name == name })
		switch {
		case v == "" && i >= 0:
			s.List = slices.Delete(s.List, i, i+1)
		case v == "":
		case i >= 0:
			s.List[i].Value = v
		default:
			s.List = append(s.List, sharedElem{name, v})
		}
	}
}

func mapGet(k string) func(s *shared) string { return func(s *shared) string { return s.Map[k] } }

func mapSet(k string) func(s *shared, v string) {
	return func(s *shared, v string) {
		m := maps.Clone(s.Map)
		if m == nil {
			m = map[string]string{}
		}
		if m[k] = v; v == "" {
			delete(m, k)
		}
		s.Map = m
	}
}

func sharedOf(values map[string]string) (s shared) {
	for path, v := range values {
		sharedFields[path].set(&s, v)
	}
	return s
}

func valuesOf(s *shared) map[string]string {
	values := map[string]string{}
	for path, f := range sharedFields {
		if v := f.get(s); v != "" {
			values[path] = v
		}
	}
	return values
}

// fieldsModel says what several writers make of one object.
type fieldsModel struct {
	spec   map[string]string
	owners map[string][]string // of a path
	order  []string            // the kind's Precedence
}

// stands says how a declarer stands to the owners of a field in the order.
func (m *fieldsModel) stands(by string, others []string) (beforeAll, behindOne bool) {
	at := slices.Index(m.order, by)
	beforeAll = at >= 0
	for _, other := range others {
		i := slices.Index(m.order, other)
		beforeAll = beforeAll && i > at
		behindOne = behindOne || i >= 0 && at > i
	}
	return beforeAll, behindOne
}

// leavesToOthers reports whether another declarer stands behind one in the order.
func (m *fieldsModel) leavesToOthers(by string) bool {
	at := slices.Index(m.order, by)
	return at >= 0 && slices.ContainsFunc(m.order[at+1:], func(name string) bool { return name != "edit" })
}

func (m *fieldsModel) copy() *fieldsModel {
	c := &fieldsModel{maps.Clone(m.spec), map[string][]string{}, m.order}
	for path, names := range m.owners {
		c.owners[path] = slices.Clone(names)
	}
	return c
}

func (m *fieldsModel) set(path, v string) {
	if m.spec[path] = v; v == "" {
		delete(m.spec, path)
	}
}

// declare reports whether a field was refused.
func (m *fieldsModel) declare(by string, want map[string]string, force bool) (refused bool) {
	for path := range sharedFields {
		others := slices.DeleteFunc(slices.Clone(m.owners[path]), func(name string) bool { return name == by })
		had := len(others) < len(m.owners[path])
		v, wanted := want[path]
		beforeAll, behindOne := m.stands(by, others)
		switch {
		case wanted && m.spec[path] == v:
			others = slices.DeleteFunc(others, func(name string) bool { return name == "edit" })
			m.owners[path] = append(others, by)
		case wanted && len(others) > 0 && !force && !beforeAll:
			m.owners[path], refused = others, refused || !behindOne
		case wanted:
			m.set(path, v)
			m.owners[path] = []string{by}
		case had:
			if m.owners[path] = others; len(others) == 0 && !m.leavesToOthers(by) {
				m.set(path, "")
			}
		}
	}
	return refused
}

func (m *fieldsModel) fillIn(path, v string) {
	if len(m.owners[path]) == 0 {
		m.set(path, v)
	}
}

func (m *fieldsModel) byHand(path, v string) {
	if m.spec[path] != v {
		m.set(path, v)
		m.owners[path] = []string{"edit"}
	}
}

// writers are several writers of one object, on a store that fails at times.
type writers struct {
	*env
	s       *store.Store[shared, struct{}]
	r       *rand.Rand
	broken  bool
	model   *fieldsModel
	paths   []string                     // that they write: few, so that they meet
	declare map[string]map[string]string // what each declarer declares
	did     map[string]int
}

var sharedKey = store.Key{Name: "shared"}

// declarers are those of a shared; the last one stands in no precedence.
var declarers = []string{"file", "scaler", "viewer"}

// orders are precedences of declarers.
var orders = [][]string{nil, {"scaler", "file", "edit"}, {"file", "edit", "scaler"}, {"edit", "scaler"}}

func newWriters(e *env, seed uint64, order []string) *writers {
	w := &writers{
		env: e, r: rand.New(rand.NewPCG(seed, 0)), model: &fieldsModel{map[string]string{}, map[string][]string{}, order},
		declare: map[string]map[string]string{}, did: map[string]int{},
	}
	for _, by := range declarers {
		w.declare[by] = map[string]string{}
	}
	paths := slices.Sorted(maps.Keys(sharedFields))
	for _, i := range w.r.Perm(len(paths))[:3] {
		w.paths = append(w.paths, paths[i])
	}
	b := Faulty(e.b, func(c Call) Fault {
		if !w.broken || c.Method != "Commit" {
			return Fault{}
		}
		return Fault{Break: Break(w.r.IntN(4))}
	})
	s, err := store.New(b, fmt.Sprint(kind, seed), &store.Options[shared, struct{}]{Precedence: order})
	if err != nil {
		e.Fatal(err)
	}
	w.s = s
	if err := w.apply("file", false); err != nil {
		e.Fatal(err)
	}
	return w
}

func (w *writers) stored() *sharedObject {
	w.Helper()
	o, err := w.s.Get(w.ctx, sharedKey)
	if err != nil {
		w.Fatal(err)
	}
	return o
}

func (w *writers) apply(by string, force bool) error {
	o := &sharedObject{Meta: store.Meta{Name: sharedKey.Name}, Spec: sharedOf(w.declare[by])}
	if by == "file" && !force { // it owns that the object is there
		_, err := w.s.Apply(w.ctx, []*sharedObject{o}, by, 0)
		return err
	}
	_, err := w.s.ApplyFields(w.ctx, o, by, force)
	return err
}

// step is one write by one of them. The model takes it over if it was made.
func (w *writers) step() {
	w.Helper()
	path, v := w.paths[w.r.IntN(len(w.paths))], []string{"", "1", "2"}[w.r.IntN(3)]
	by := declarers[w.r.IntN(len(declarers))]
	before, next := w.stored(), w.model.copy()
	now := w.s.Clone(before)
	var err error
	var what string
	refused := false
	switch n := w.r.IntN(8); n {
	case 0, 1, 2, 3, 4:
		if delete(w.declare[by], path); v != "" {
			w.declare[by][path] = v
		}
		if n == 0 {
			return // it is applied later, with others
		}
		force := w.r.IntN(4) == 0
		if what = "apply"; force {
			what = "forced apply"
		}
		refused, err = next.declare(by, w.declare[by], force), w.apply(by, force)
	case 5:
		what = "program"
		next.set(path, v)
		sharedFields[path].set(&now.Spec, v)
		_, err = w.s.Update(w.ctx, now)
	case 6:
		what = "edit"
		next.byHand(path, v)
		sharedFields[path].set(&now.Spec, v)
		_, err = w.s.UpdateByHand(w.ctx, now)
	case 7:
		what = "fill"
		next.fillIn(path, v)
		filled := w.s.Clone(before)
		sharedFields[path].set(&filled.Spec, v)
		if err = w.s.FillIn(now, filled); err == nil {
			_, err = w.s.Update(w.ctx, now)
		}
	}
	w.took(what, before, next, refused, err)
}

// took compares what is stored with what is to be.
func (w *writers) took(what string, before *sharedObject, next *fieldsModel, refused bool, err error) {
	w.Helper()
	made := err == nil || errors.Is(err, store.ErrOwned)
	after := w.stored()
	if errors.Is(err, store.ErrUnknownOutcome) {
		made = after.Revision != before.Revision || maps.Equal(next.spec, w.model.spec)
		what += " of unknown outcome"
	} else if made && refused != errors.Is(err, store.ErrOwned) {
		w.Errorf("%s: %v, want a conflict: %v", what, err, refused)
	}
	if made && errors.Is(err, store.ErrUnknownOutcome) && after.Revision == before.Revision {
		made = false // it was not made: the owners have not changed either
	}
	if w.did[what]++; made {
		w.model = next
	}
	if got := valuesOf(&after.Spec); !maps.Equal(got, w.model.spec) {
		w.Fatalf("%s made %v of %v, want %v; owners %s before, %s now; want %v", what, got, valuesOf(&before.Spec), w.model.spec, before.FieldOwners, after.FieldOwners, w.model.owners)
	}
}

// rest lets each declare until nothing is written any more.
func (w *writers) rest() {
	w.Helper()
	quiet := 0
	for round := 0; quiet < 2; round++ {
		if round > 4 {
			w.Fatalf("they do not come to rest: %+v", w.stored())
		}
		before := w.stored().Revision
		for _, i := range w.r.Perm(len(declarers)) {
			by := declarers[i]
			refused := w.model.declare(by, w.declare[by], false)
			if err := w.apply(by, false); errors.Is(err, store.ErrOwned) != refused || err != nil && !refused {
				w.Fatalf("%s: %v, want a conflict: %v", by, err, refused)
			}
		}
		if quiet++; w.stored().Revision != before {
			quiet = 0
		}
	}
	if got := valuesOf(&w.stored().Spec); !maps.Equal(got, w.model.spec) {
		w.Fatalf("at rest it is %v, want %v", got, w.model.spec)
	}
}

// strange changes a stored spec as a program without a record of owners does.
func (w *writers) strange(path, v string) {
	w.Helper()
	at := w.s.Kind()
	r, err := w.b.Get(w.ctx, at, sharedKey)
	if err != nil {
		w.Fatal(err)
	}
	data, err := r.Encode()
	var tree map[string]any
	if err == nil {
		err = json.Unmarshal(data, &tree)
	}
	if err != nil {
		w.Fatal(err)
	}
	o := w.stored()
	sharedFields[path].set(&o.Spec, v)
	tree["spec"] = o.Spec
	tree["meta"].(map[string]any)["generation"] = o.Generation + 1
	if data, err = json.Marshal(tree); err != nil {
		w.Fatal(err)
	}
	if _, err := w.b.Commit(w.ctx, store.Txn{Ops: []store.Op{{Kind: at, Key: sharedKey, Put: store.Bytes(data)}}}); err != nil {
		w.Fatal(err)
	}
	w.model = &fieldsModel{valuesOf(&o.Spec), map[string][]string{}, w.model.order}
}

// fieldChecks are about several writers of one object.
var fieldChecks = []check{
	{"Store/writers of one object come to rest in one state", func(e *env) {
		did, seeds := map[string]int{}, uint64(5)
		if e.o.Bubble { // it is in memory
			seeds = 40
		}
		for seed := range seeds {
			w := newWriters(e, seed, orders[seed%uint64(len(orders))])
			for i := range 60 {
				w.broken = w.r.IntN(3) == 0
				w.step()
				if w.broken = false; i == 39 {
					path := slices.Sorted(maps.Keys(sharedFields))[w.r.IntN(len(sharedFields))]
					w.strange(path, "3")
				}
			}
			w.rest()
			for what, n := range w.did {
				did[what] += n
			}
		}
		e.Logf("%v", did)
		for _, what := range []string{"apply", "forced apply", "program", "edit", "fill"} {
			if did[what] == 0 || did[what+" of unknown outcome"] == 0 {
				e.Errorf("%s: %d, and %d of unknown outcome", what, did[what], did[what+" of unknown outcome"])
			}
		}
	}},
	{"Store/what is filled in stays, and what is declared no longer goes", func(e *env) {
		w := newWriters(e, 1, nil)
		w.declare["file"] = map[string]string{"a": "1", "b": "1"}
		if err := w.apply("file", false); err != nil {
			e.Fatal(err)
		}
		o := w.stored()
		filled := w.s.Clone(o)
		filled.Spec.Sub.X, filled.Spec.A = "late", "late"
		if err := w.s.FillIn(o, filled); err != nil {
			e.Fatal(err)
		}
		if _, err := w.s.Update(e.ctx, o); err != nil {
			e.Fatal(err)
		}
		delete(w.declare["file"], "b")
		for range 2 {
			if err := w.apply("file", false); err != nil {
				e.Fatal(err)
			}
		}
		o = w.stored()
		if got, want := valuesOf(&o.Spec), (map[string]string{"a": "1", "sub.x": "late"}); !maps.Equal(got, want) || o.Generation != 4 {
			e.Errorf("it is %v in generation %d, want %v in 4", got, o.Generation, want)
		}
	}},
	{"Store/a field of another is named, and not written", func(e *env) {
		w := newWriters(e, 2, nil)
		w.declare["file"] = map[string]string{"a": "1", "b": "1", "secret": "hunter2"}
		w.declare["scaler"] = map[string]string{"a": "2", "sub.x": "1", "secret": "hunter3"}
		if err := w.apply("file", false); err != nil {
			e.Fatal(err)
		}
		err := w.apply("scaler", false)
		for _, want := range []string{`a: file has "1", scaler declares "2"`, `secret: file has "(secret)", scaler declares "(secret)"`} {
			if !errors.Is(err, store.ErrOwned) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter") {
				e.Errorf("%v, want %q in it and no secret", err, want)
			}
		}
		if got := valuesOf(&w.stored().Spec); got["a"] != "1" || got["sub.x"] != "1" || got["secret"] != "hunter2" {
			e.Errorf("it is %v", got)
		}
		if err := w.apply("scaler", true); err != nil {
			e.Error(err)
		}
		if err := w.apply("file", false); !errors.Is(err, store.ErrOwned) || w.stored().Spec.A != "2" {
			e.Errorf("the former owner: %v, %+v", err, w.stored().Spec)
		}
	}},
}
