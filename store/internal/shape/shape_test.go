package shape

import (
	"maps"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

type inner struct {
	Text string
	List []string
	Ptr  *int
}

type tree struct {
	Name string
	Kids []tree
	Next *tree
}

// cloner copies itself; without its method the hidden pointer would be refused.
type cloner struct{ hidden *int }

func (c cloner) Clone() cloner {
	if c.hidden == nil {
		return c
	}
	n := *c.hidden
	return cloner{&n}
}

// hook is compared by its own Equal, since functions cannot be.
type hook struct {
	name string
	f    func()
}

func (h hook) Clone() hook         { return h }
func (h hook) Equal(o hook) bool   { return h.name == o.name }
func (p *inner) Unrelated() *inner { return p }

type everything struct {
	B     bool
	I     int8
	U     uint64
	F     float64
	C     complex128
	S     string
	Named time.Duration
	Bytes []byte
	Strs  []string
	Ints  []int
	Deep  []inner
	Arr   [2]inner
	Plain [3]int
	Map   map[string]string
	Maps  map[string]map[string][]int
	ByNum map[[2]int]inner
	Ptr   *inner
	PtrP  **int
	At    time.Time
	Addr  netip.AddrPort
	Net   *netip.Prefix
	Tree  tree
	Own   cloner
	Owns  map[string]cloner
	Hook  hook
	inner // embedded, with an exported field or two

	note string
	spot struct{ x, y int }
}

func filled() everything {
	one, two := 1, 2
	pp := &two
	prefix := netip.MustParsePrefix("10.0.0.0/8")
	in := func() inner { n := one; return inner{"t", []string{"a", "b"}, &n} }
	ptr := in()
	return everything{
		B: true, I: -1, U: 1, F: math.NaN(), C: 1i, S: "s", Named: time.Second,
		Bytes: []byte("bytes"), Strs: []string{"x"}, Ints: []int{1, 2}, Deep: []inner{in(), in()}, Arr: [2]inner{in(), in()},
		Plain: [3]int{1, 2, 3}, Map: map[string]string{"k": "v"}, Maps: map[string]map[string][]int{"a": {"b": {1, 2}}},
		ByNum: map[[2]int]inner{{1, 2}: in()}, Ptr: &ptr, PtrP: &pp,
		At: time.Unix(1, 2), Addr: netip.MustParseAddrPort("[::1%eth0]:80"), Net: &prefix,
		Tree: tree{"root", []tree{{"kid", nil, nil}}, &tree{"next", nil, nil}},
		Own:  cloner{&one}, Owns: map[string]cloner{"c": {&two}}, Hook: hook{"h", func() {}}, inner: in(),
		note: "n", spot: struct{ x, y int }{1, 2},
	}
}

func TestCopyIsEqualAndSharesNothing(t *testing.T) {
	s, err := newShape[everything]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	orig := filled()
	var c everything
	s.Copy(&c, &orig)
	if !s.Equal(&orig, &c) {
		t.Fatalf("a copy differs:\n%+v\n%+v", orig, c)
	}
	var shared []string
	findShared(reflect.ValueOf(&orig).Elem(), reflect.ValueOf(&c).Elem(), "Spec", &shared)
	if len(shared) > 0 {
		t.Errorf("a copy shares memory at %v", shared)
	}
	var zero, z everything
	s.Copy(&z, &zero)
	if !s.Equal(&z, &zero) || s.Equal(&zero, &orig) || z.Ptr != nil || z.Map != nil || z.Strs != nil {
		t.Errorf("the copy of nothing is %+v", z)
	}
}

var allKinds = kinds()

// findShared walks two values that should be alike and notes where they point to
// the same memory.
func findShared(a, b reflect.Value, path string, shared *[]string) {
	if o, _ := allKinds.of(a.Type()); o.parts == nil {
		return
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		size := 1 // all that has none may have one address
		switch a.Kind() {
		case reflect.Slice:
			size = min(a.Cap(), b.Cap()) * int(a.Type().Elem().Size())
		case reflect.Pointer:
			size = int(a.Type().Elem().Size())
		}
		if !a.IsNil() && a.Pointer() == b.Pointer() && size > 0 {
			*shared = append(*shared, path)
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		if !a.IsNil() {
			findShared(a.Elem(), b.Elem(), path, shared)
		}
	case reflect.Slice, reflect.Array:
		for i := range a.Len() {
			findShared(a.Index(i), b.Index(i), path+"[]", shared)
		}
	case reflect.Map:
		for _, k := range a.MapKeys() {
			findShared(a.MapIndex(k), b.MapIndex(k), path+"[]", shared)
		}
	case reflect.Struct:
		for i := range a.NumField() {
			findShared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name, shared)
		}
	}
}

func TestEveryDifferenceIsSeen(t *testing.T) {
	s, err := newShape[everything]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	three := 3
	for name, change := range map[string]func(e *everything){
		"B":             func(e *everything) { e.B = false },
		"I":             func(e *everything) { e.I = 1 },
		"U":             func(e *everything) { e.U++ },
		"F":             func(e *everything) { e.F = 1 },
		"C":             func(e *everything) { e.C = 2 },
		"S":             func(e *everything) { e.S = "" },
		"Named":         func(e *everything) { e.Named = 0 },
		"Bytes":         func(e *everything) { e.Bytes[0] = 'x' },
		"Strs":          func(e *everything) { e.Strs = append(e.Strs, "") },
		"Ints":          func(e *everything) { e.Ints[1] = 9 },
		"Deep":          func(e *everything) { e.Deep[1].List[0] = "x" },
		"Deep.Ptr":      func(e *everything) { e.Deep[1].Ptr = nil },
		"Arr":           func(e *everything) { *e.Arr[0].Ptr = 5 },
		"Plain":         func(e *everything) { e.Plain[2] = 9 },
		"Map value":     func(e *everything) { e.Map["k"] = "w" },
		"Map key":       func(e *everything) { e.Map = map[string]string{"l": "v"} },
		"Maps":          func(e *everything) { e.Maps["a"]["b"][0] = 7 },
		"Maps nil":      func(e *everything) { e.Maps["a"] = nil },
		"ByNum":         func(e *everything) { e.ByNum[[2]int{3, 4}] = inner{} },
		"Ptr":           func(e *everything) { e.Ptr = nil },
		"PtrP":          func(e *everything) { **e.PtrP = 9 },
		"At":            func(e *everything) { e.At = e.At.Add(1) },
		"Addr":          func(e *everything) { e.Addr = netip.AddrPort{} },
		"Net":           func(e *everything) { *e.Net = netip.Prefix{} },
		"Tree.Kids":     func(e *everything) { e.Tree.Kids[0].Name = "x" },
		"Tree.Next":     func(e *everything) { e.Tree.Next.Next = &tree{} },
		"Own":           func(e *everything) { e.Own.hidden = &three },
		"Owns":          func(e *everything) { *e.Owns["c"].hidden = 3 },
		"Hook":          func(e *everything) { e.Hook.name = "x" },
		"embedded":      func(e *everything) { e.Text = "x" },
		"hidden":        func(e *everything) { e.note = "x" },
		"hidden struct": func(e *everything) { e.spot.y = 9 },
	} {
		orig, changed := filled(), filled()
		if !s.Equal(&orig, &changed) {
			t.Fatalf("two that are alike differ")
		}
		change(&changed)
		if s.Equal(&orig, &changed) || s.Equal(&changed, &orig) {
			t.Errorf("a change of %s is not seen", name)
		}
	}
	for name, same := range map[string]func(e *everything){
		"empty slice":  func(e *everything) { e.Ints, e.Deep = []int{}, []inner{} },
		"empty map":    func(e *everything) { e.Map, e.Maps = map[string]string{}, map[string]map[string][]int{} },
		"another zone": func(e *everything) { e.At = e.At.In(time.FixedZone("x", 3600)) },
	} {
		var orig everything
		changed := orig
		same(&changed)
		if !s.Equal(&orig, &changed) {
			t.Errorf("%s counts as a change", name)
		}
	}
}

func TestTypesThatCannotBeCopiedAreRefusedByPath(t *testing.T) {
	type deep[V any] struct {
		A struct{ List []map[string]V }
	}
	refused := map[string]error{
		"Spec.A.List[][]: interface":   shapeErr[deep[any]](),
		"Spec.A.List[][]: func":        shapeErr[deep[func()]](),
		"Spec.A.List[][]: chan":        shapeErr[deep[chan int]](),
		"Spec.A.List[][]: unsafe":      shapeErr[deep[unsafe.Pointer]](),
		"Spec.A.List[][]: sync.Mutex":  shapeErr[deep[sync.Mutex]](),
		"Spec.A.List[][]: error":       shapeErr[deep[error]](),
		"Spec.p: *int":                 shapeErr[struct{ p *int }](),
		"Spec.m: map[string]int":       shapeErr[struct{ m map[string]int }](),
		"Spec.A: map[*int]int":         shapeErr[struct{ A map[*int]int }](),
		"Spec.A.mu: sync.Mutex":        shapeErr[struct{ A struct{ mu sync.Mutex } }](),
		"Spec.A: shape.onlyClone":      shapeErr[struct{ A onlyClone }](),
		"Spec.a.P: *int":               shapeErr[struct{ a struct{ P *int } }](),
		"Spec.A.p: *int":               shapeErr[struct{ A cloneOfAnother }](),
		"Spec: func()":                 shapeErr[func()](),
		"Spec.A: interface { A() int ": shapeErr[struct{ A interface{ A() int } }](),
	}
	for path, err := range refused {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got error %v, want one that names %q", err, path)
		}
	}
	if err := shapeErr[tree](); err != nil {
		t.Errorf("a type that contains itself: %v", err)
	}
	if err := shapeErr[map[string][]*tree](); err != nil {
		t.Errorf("a spec that is a map: %v", err)
	}
}

type onlyClone struct{ f func() }

// A method of that name with other parameters or results is not the copy that is meant.
type (
	cloneOfAnother  struct{ p *int } //nolint:unused // New looks at it
	cloneWithError  struct{ List []int }
	cloneOfArgument struct{ List []int }
	cloneToAny      struct{ List []int }
	equalToAny      struct{ List []int }
	cloneOfNothing  struct{ List []int }
)

func (cloneOfAnother) Clone() *cloneOfAnother                 { panic("called") }
func (cloneWithError) Clone() (cloneWithError, error)         { panic("called") }
func (cloneOfArgument) Clone(cloneOfArgument) cloneOfArgument { panic("called") }
func (cloneToAny) Clone() any                                 { panic("called") }
func (cloneOfNothing) Clone()                                 { panic("called") }
func (e equalToAny) Clone() equalToAny                        { return equalToAny{append([]int(nil), e.List...)} }
func (equalToAny) Equal(any) bool                             { panic("called") }

func TestMethodsOfOtherFormsAreNotCalled(t *testing.T) {
	type all struct {
		A cloneWithError
		B cloneOfArgument
		C cloneToAny
		D cloneOfNothing
		E equalToAny
	}
	s, err := newShape[all]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	one := []int{1, 2}
	a := all{cloneWithError{one}, cloneOfArgument{one}, cloneToAny{one}, cloneOfNothing{one}, equalToAny{one}}
	var b all
	if s.Copy(&b, &a); !s.Equal(&a, &b) {
		t.Errorf("the copy is %v", b)
	}
	if one[1] = 3; s.Equal(&a, &b) {
		t.Error("the copy shares memory")
	}
	for _, list := range [][]int{b.A.List, b.B.List, b.C.List, b.D.List, b.E.List} {
		if list[1] != 2 {
			t.Errorf("the copy is %v", b)
		}
	}
}

func (o onlyClone) Clone() onlyClone { return onlyClone{o.f} }

// newShape is New of what can be copied, whether or not JSON keeps it.
func newShape[V any](name string) (Shape, error) {
	s, b := build[V](name)
	return s, b.uncopied
}

func shapeErr[V any]() error {
	_, err := newShape[V]("Spec")
	return err
}

// whole copies itself as a spec, and counts.
type whole struct {
	list   []int
	clones *int
}

func (w whole) Clone() whole {
	*w.clones++
	return whole{append([]int(nil), w.list...), w.clones}
}

func TestASpecsOwnCloneIsUsed(t *testing.T) {
	s, err := newShape[whole]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	clones := 0
	a := whole{list: []int{1}, clones: &clones}
	var b whole
	s.Copy(&b, &a)
	if clones != 1 || !s.Equal(&a, &b) {
		t.Errorf("%d calls of Clone, equal %v", clones, s.Equal(&a, &b))
	}
	if b.list[0] = 2; a.list[0] != 1 || s.Equal(&a, &b) {
		t.Errorf("the original became %v", a)
	}
}

// Made by reflection: go vet would find it in a struct that is written down.
func TestTwoFieldsOfOneNameInJSONAreRefused(t *testing.T) {
	twice := reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`}, {Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x,omitempty"`},
	})
	if _, b := nodeOf(place{Type: twice}, "Spec"); b.unkept == nil || !strings.Contains(b.unkept.Error(), "Spec.B") {
		t.Errorf("got error %v, want one that names the field", b.unkept)
	}
}

// byPointer copies and compares itself by its pointer.
type byPointer struct{ n []int }

func (p *byPointer) Clone() *byPointer       { return &byPointer{append([]int(nil), p.n...)} }
func (p *byPointer) Equal(o *byPointer) bool { return len(p.n) == len(o.n) }

// A nil pointer is equal to a nil one alone, and is copied as one; its methods are not called.
func TestNilPointersWithMethodsOfTheirOwn(t *testing.T) {
	s, err := newShape[*byPointer]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	one := func() *byPointer { return &byPointer{[]int{1}} }
	for _, c := range []struct {
		a, b  *byPointer
		equal bool
	}{{nil, nil, true}, {one(), nil, false}, {nil, one(), false}, {one(), one(), true}, {one(), &byPointer{}, false}} {
		if got := s.Equal(&c.a, &c.b); got != c.equal {
			t.Errorf("%v and %v are equal: %v, want %v", c.a, c.b, got, c.equal)
		}
		type holder struct{ P *byPointer }
		h, err := newShape[holder]("Spec")
		if err != nil {
			t.Fatal(err)
		}
		var whole *byPointer
		if s.Copy(&whole, &c.a); (whole == nil) != (c.a == nil) || c.a != nil && whole == c.a {
			t.Errorf("the copy of a whole spec %v is %v", c.a, whole)
		}
		from, to := holder{c.a}, holder{}
		if h.Copy(&to, &from); (to.P == nil) != (c.a == nil) || c.a != nil && (to.P == c.a || !h.Equal(&to, &from)) {
			t.Errorf("the copy of %v is %v", c.a, to.P)
		}
	}
}

// twins contains itself through an array.
type twins struct {
	Name string
	Both *[2]twins
}

// Negative control: mutant "an array of what contains it is shared".
func TestTypeThatContainsItselfThroughAnArrayIsCopied(t *testing.T) {
	s, err := newShape[twins]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	leaves := &[2]twins{{Name: "leaf"}}
	from, to := twins{Both: &[2]twins{{Both: leaves}}}, twins{}
	s.Copy(&to, &from)
	if to.Both[0].Both == leaves || to.Both[0].Both[0].Name != "leaf" {
		t.Errorf("the copy has %p, the original %p", to.Both[0].Both, leaves)
	}
}

// span copies itself, and has no Equal.
type span struct {
	From  time.Time
	Until map[string]time.Time
}

func (s span) Clone() span { return span{s.From, maps.Clone(s.Until)} }

// Times are equal when they are the same instant, also within a type that copies itself.
//
// Negative control: mutant "times of a type that copies itself are compared by their zones".
func TestTimesOfATypeThatCopiesItselfAreComparedAsInstants(t *testing.T) {
	type spec struct{ S span }
	s, err := newShape[spec]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	there := now.In(time.FixedZone("there", 3600)).Round(0)
	a, b := spec{span{now, map[string]time.Time{"a": now}}}, spec{span{there, map[string]time.Time{"a": there}}}
	if !s.Equal(&a, &b) {
		t.Errorf("%v and %v differ", a, b)
	}
	if b.S.Until["a"] = now.Add(1); s.Equal(&a, &b) {
		t.Errorf("%v and %v are equal", a, b)
	}
}

// hiddenMap copies itself, and is compared by its hidden map.
type hiddenMap struct{ m map[string][]int }

func (h hiddenMap) Clone() hiddenMap { return hiddenMap{maps.Clone(h.m)} }

func TestHiddenMapsAreCompared(t *testing.T) {
	s, err := newShape[struct{ H hiddenMap }]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	a := struct{ H hiddenMap }{hiddenMap{map[string][]int{"x": {1}, "y": nil}}}
	for want, m := range map[string]map[string][]int{"equal": {"x": {1}, "y": {}}, "another value": {"x": {2}, "y": nil}, "another key": {"x": {1}, "z": nil}} {
		b := struct{ H hiddenMap }{hiddenMap{m}}
		if got := s.Equal(&a, &b); got != (want == "equal") {
			t.Errorf("%v and %v are equal: %v", a, b, got)
		}
	}
}

// Maps with times as keys are compared by the instants, and two times of one instant also by their zones:
// a map that is read back is the same, and one with the values of two such times exchanged is another.
//
// Seen to fail: two times of one instant were keys by the address of their zones, so that each write was
// a change; and with the monotonic clock in the keys.
func TestTimesAsKeysAreComparedAsInstants(t *testing.T) {
	type logs struct{ At map[time.Time]string }
	s, err := newShape[logs]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	zone := func() time.Time { return now.In(time.FixedZone("", 9000)) } // package time shares zones of whole hours
	for what, x := range map[string]struct {
		a, b map[time.Time]string
		same bool
	}{
		"the monotonic clock":         {map[time.Time]string{now: "a"}, map[time.Time]string{now.Round(0): "a"}, true},
		"another zone":                {map[time.Time]string{now: "a"}, map[time.Time]string{zone(): "a"}, true},
		"another instant":             {map[time.Time]string{now: "a"}, map[time.Time]string{now.Add(1): "a"}, false},
		"two zones, read back":        {map[time.Time]string{now.UTC(): "a", zone(): "b"}, map[time.Time]string{now.UTC(): "a", zone(): "b"}, true},
		"two zones, values exchanged": {map[time.Time]string{now.UTC(): "a", zone(): "b"}, map[time.Time]string{now.UTC(): "b", zone(): "a"}, false},
		"two zones, and two instants": {map[time.Time]string{now.UTC(): "a", zone(): "b"}, map[time.Time]string{now.UTC(): "a", now.Add(1): "b"}, false},
	} {
		a, b := logs{x.a}, logs{x.b}
		if s.Equal(&a, &b) != x.same || s.Equal(&b, &a) != x.same {
			t.Errorf("%s: %v and %v are the same: %v", what, a, b, !x.same)
		}
	}
}
