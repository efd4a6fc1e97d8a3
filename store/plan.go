package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"
)

// shape copies and compares values of one type by a plan that is made once.
type shape[V any] struct {
	name  string // "Spec" or "Status"
	form  *form
	top   *plan
	clone bool // V has Clone() V: call it without reflection
}

func newShape[V any](name string) (shape[V], error) {
	t := reflect.TypeFor[V]()
	b := builder{done: make(map[reflect.Type]*plan)}
	top, err := b.build(t, name, false)
	_, clone := any(*new(V)).(interface{ Clone() V })
	return shape[V]{name: name, top: top, clone: clone && t.Kind() != reflect.Pointer}, err // of a pointer, the plan asks whether it is nil
}

// copyTo makes *dst equal to *src, sharing nothing that could be modified.
func (s *shape[V]) copyTo(dst, src *V) {
	if s.clone {
		*dst = any(*src).(interface{ Clone() V }).Clone()
		return
	}
	*dst = *src
	if s.top.fix != nil {
		s.top.fix(reflect.ValueOf(dst).Elem())
	}
}

func (s *shape[V]) equal(a, b *V) bool {
	return s.top.equal(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

// plan is how values of one type are copied and compared. A copy begins as a
// plain assignment; fix then replaces what it shares with the original. A nil
// fix means that the assignment was all.
type plan struct {
	fix   func(v reflect.Value)
	equal func(a, b reflect.Value) bool
}

// builder makes plans; done breaks the recursion of types that contain
// themselves.
type builder struct {
	done map[reflect.Type]*plan
}

// immutable types may be shared although they hold pointers.
var immutable = map[reflect.Type]func(a, b reflect.Value) bool{
	reflect.TypeFor[time.Time]():      equalBy(time.Time.Equal),
	reflect.TypeFor[netip.Addr]():     equalBy(func(a, b netip.Addr) bool { return a == b }),
	reflect.TypeFor[netip.AddrPort](): equalBy(func(a, b netip.AddrPort) bool { return a == b }),
	reflect.TypeFor[netip.Prefix]():   equalBy(func(a, b netip.Prefix) bool { return a == b }),
}

func equalBy[V any](eq func(a, b V) bool) func(a, b reflect.Value) bool {
	return func(a, b reflect.Value) bool {
		return eq(*a.Addr().Interface().(*V), *b.Addr().Interface().(*V))
	}
}

// build returns the plan for t; path says where it was met. In a hidden
// (unexported) field only what needs no fixing is accepted, because reflection
// may read it but not write it.
func (b *builder) build(t reflect.Type, path string, hidden bool) (*plan, error) {
	if eq, ok := immutable[t]; ok {
		if hidden {
			eq = reflect.Value.Equal
		}
		return &plan{equal: eq}, nil
	}
	if p, ok := b.done[t]; ok && !hidden {
		return p, nil
	}
	p := new(plan)
	if !hidden {
		b.done[t] = p
	}
	if err := b.fill(p, t, path, hidden); err != nil {
		return nil, err
	}
	if hidden && p.fix != nil {
		return nil, refuse(path, t, "is unexported and refers to memory that a copy would share")
	}
	return p, nil
}

func (b *builder) fill(p *plan, t reflect.Type, path string, hidden bool) error {
	if t.PkgPath() == "sync" || t.PkgPath() == "sync/atomic" {
		return refuse(path, t, "must not be copied")
	}
	if m, ok := ownMethod(t, "Clone", 0, t); ok && !hidden {
		return b.fillCloner(p, t, m, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.fillStruct(p, t, path, hidden)
	case reflect.Pointer:
		return b.fillPointer(p, t, path)
	case reflect.Slice:
		return b.fillSlice(p, t, path)
	case reflect.Map:
		return b.fillMap(p, t, path)
	case reflect.Array:
		return b.fillArray(p, t, path, hidden)
	case reflect.Interface:
		return refuse(path, t, "cannot be copied safely; json.RawMessage holds JSON of any form")
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return refuse(path, t, "cannot be copied safely")
	}
	p.equal = equalBasic(t.Kind())
	return nil
}

func refuse(path string, t reflect.Type, why string) error {
	return fmt.Errorf("%w: field %s: %v %s (a type of its own with a method Clone would help)", ErrInvalid, path, t, why)
}

// equalBasic compares plain values. NaN equals itself here: a spec holding one
// would otherwise change with every write.
func equalBasic(k reflect.Kind) func(a, b reflect.Value) bool {
	switch k {
	case reflect.String:
		return func(a, b reflect.Value) bool { return a.String() == b.String() }
	case reflect.Bool:
		return func(a, b reflect.Value) bool { return a.Bool() == b.Bool() }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(a, b reflect.Value) bool { return a.Int() == b.Int() }
	case reflect.Float32, reflect.Float64:
		return func(a, b reflect.Value) bool {
			x, y := a.Float(), b.Float()
			return x == y || x != x && y != y
		}
	case reflect.Complex64, reflect.Complex128:
		return func(a, b reflect.Value) bool { return a.Complex() == b.Complex() }
	}
	return func(a, b reflect.Value) bool { return a.Uint() == b.Uint() }
}

// ownMethod finds a method of t that takes in extra arguments of type t and
// returns out.
func ownMethod(t reflect.Type, name string, in int, out reflect.Type) (reflect.Method, bool) {
	m, ok := t.MethodByName(name)
	if !ok || t.Kind() == reflect.Interface || m.Type.NumIn() != in+1 || m.Type.NumOut() != 1 || m.Type.Out(0) != out {
		return m, false
	}
	for i := 1; i <= in; i++ {
		ok = ok && m.Type.In(i) == t
	}
	return m, ok
}

// fillCloner trusts the type's own Clone. It is compared by its own Equal if it
// has one, else field by field.
func (b *builder) fillCloner(p *plan, t reflect.Type, m reflect.Method, path string) error {
	p.fix = func(v reflect.Value) {
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return
		}
		v.Set(v.Method(m.Index).Call(nil)[0])
	}
	if eq, ok := ownMethod(t, "Equal", 1, reflect.TypeFor[bool]()); ok {
		p.equal = func(a, b reflect.Value) bool {
			if a.Kind() == reflect.Pointer && (a.IsNil() || b.IsNil()) {
				return a.IsNil() && b.IsNil()
			}
			return a.Method(eq.Index).Call([]reflect.Value{b})[0].Bool()
		}
		return nil
	}
	eq, err := compare(t, path)
	p.equal = eq
	return err
}

// compare makes an equal function for a type that copies itself: reading is
// allowed everywhere, so hidden fields are no obstacle.
func compare(t reflect.Type, path string) (func(a, b reflect.Value) bool, error) {
	if !comparesWhole(t, make(map[reflect.Type]bool)) {
		return nil, fmt.Errorf("%w: field %s: %v has a Clone but cannot be compared; give it a method Equal too", ErrInvalid, path, t)
	}
	return equalDeep, nil
}

// comparesWhole reports whether equalDeep is right for t.
func comparesWhole(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return true
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Interface:
		return false
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return comparesWhole(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if !comparesWhole(f.Type, seen) {
				return false
			}
		}
	}
	return true
}

func equalDeep(a, b reflect.Value) bool {
	if eq, ok := immutable[a.Type()]; ok && a.CanInterface() {
		return eq(a, b)
	}
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		return equalDeep(a.Elem(), b.Elem())
	case reflect.Slice, reflect.Array:
		return equalElems(a, b, equalDeep)
	case reflect.Map:
		return equalMaps(a, b, equalDeep)
	case reflect.Struct:
		for i := range a.NumField() {
			if !equalDeep(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return equalBasic(a.Kind())(a, b)
}

func (b *builder) fillStruct(p *plan, t reflect.Type, path string, hidden bool) error {
	type step struct {
		index int
		plan  *plan
	}
	var steps []step
	for i := range t.NumField() {
		f := t.Field(i)
		fp, err := b.build(f.Type, path+"."+f.Name, hidden || !writable(f))
		if err != nil {
			return err
		}
		steps = append(steps, step{i, fp})
	}
	p.equal = func(x, y reflect.Value) bool {
		for _, s := range steps {
			if !s.plan.equal(x.Field(s.index), y.Field(s.index)) {
				return false
			}
		}
		return true
	}
	// A field whose type is still being built (it contains this one) has no
	// fix yet but will: only a type with references can contain itself.
	fixes := slices.DeleteFunc(slices.Clone(steps), func(s step) bool {
		return s.plan.fix == nil && s.plan.equal != nil
	})
	if len(fixes) == 0 {
		return nil
	}
	p.fix = func(v reflect.Value) {
		for _, s := range fixes {
			s.plan.fix(v.Field(s.index))
		}
	}
	return nil
}

// writable reports whether reflection may write the field, or at least the
// exported fields in it: those of an embedded struct are promoted whatever the
// name of its type.
func writable(f reflect.StructField) bool {
	if f.IsExported() {
		return true
	}
	_, clones := ownMethod(f.Type, "Clone", 0, f.Type)
	return f.Anonymous && f.Type.Kind() == reflect.Struct && !clones
}

func (b *builder) fillPointer(p *plan, t reflect.Type, path string) error {
	elem, err := b.build(t.Elem(), path, false)
	if err != nil {
		return err
	}
	p.fix = func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		fresh := reflect.New(t.Elem())
		fresh.Elem().Set(v.Elem())
		if elem.fix != nil {
			elem.fix(fresh.Elem())
		}
		v.Set(fresh)
	}
	p.equal = func(x, y reflect.Value) bool {
		if x.IsNil() || y.IsNil() {
			return x.IsNil() && y.IsNil()
		}
		return elem.equal(x.Elem(), y.Elem())
	}
	return nil
}

func (b *builder) fillSlice(p *plan, t reflect.Type, path string) error {
	elem, err := b.build(t.Elem(), path+"[]", false)
	if err != nil {
		return err
	}
	p.equal = func(x, y reflect.Value) bool { return equalElems(x, y, elem.equal) }
	if t == reflect.TypeFor[[]string]() {
		p.fix = func(v reflect.Value) {
			list := v.Addr().Interface().(*[]string)
			*list = slices.Clone(*list)
		}
		return nil
	}
	if t.Elem().Kind() == reflect.Uint8 {
		p.fix = func(v reflect.Value) { v.SetBytes(bytes.Clone(v.Bytes())) }
		if t == reflect.TypeFor[json.RawMessage]() {
			p.equal = equalBy(equalRaw)
		}
		return nil
	}
	p.fix = func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		fresh := reflect.MakeSlice(t, v.Len(), v.Len())
		reflect.Copy(fresh, v)
		for i := 0; elem.fix != nil && i < fresh.Len(); i++ {
			elem.fix(fresh.Index(i))
		}
		v.Set(fresh)
	}
	return nil
}

// equalRaw compares what is read back: JSON takes blanks out, and nil is null.
func equalRaw(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// equalElems takes nil and empty for the same: an encoding may turn one into the
// other, and a spec must not change by that.
func equalElems(x, y reflect.Value, equal func(a, b reflect.Value) bool) bool {
	if x.Len() != y.Len() {
		return false
	}
	for i := range x.Len() {
		if !equal(x.Index(i), y.Index(i)) {
			return false
		}
	}
	return true
}

func (b *builder) fillArray(p *plan, t reflect.Type, path string, hidden bool) error {
	elem, err := b.build(t.Elem(), path+"[]", hidden)
	if err != nil {
		return err
	}
	p.equal = func(x, y reflect.Value) bool { return equalElems(x, y, elem.equal) }
	if elem.fix != nil || elem.equal == nil { // it is still being built: see fillStruct
		p.fix = func(v reflect.Value) {
			for i := range v.Len() {
				elem.fix(v.Index(i))
			}
		}
	}
	return nil
}

func (b *builder) fillMap(p *plan, t reflect.Type, path string) error {
	if key, err := b.build(t.Key(), path+"[key]", true); err != nil || key.fix != nil {
		return refuse(path, t, "has keys that refer to memory")
	}
	if t == reflect.TypeFor[map[string]string]() {
		p.fix = func(v reflect.Value) {
			m := v.Addr().Interface().(*map[string]string)
			*m = maps.Clone(*m)
		}
		p.equal = equalBy(maps.Equal[map[string]string])
		return nil
	}
	elem, err := b.build(t.Elem(), path+"[]", false)
	if err != nil {
		return err
	}
	p.fix = func(v reflect.Value) { fixMap(v, t, elem) }
	p.equal = func(x, y reflect.Value) bool { return equalMaps(x, y, elem.equal) }
	return nil
}

func fixMap(v reflect.Value, t reflect.Type, elem *plan) {
	if v.IsNil() {
		return
	}
	fresh := reflect.MakeMapWithSize(t, v.Len())
	for it := v.MapRange(); it.Next(); {
		x := reflect.New(t.Elem()).Elem()
		x.Set(it.Value())
		if elem.fix != nil {
			elem.fix(x)
		}
		fresh.SetMapIndex(it.Key(), x)
	}
	v.Set(fresh)
}

// equalMaps compares through addressable copies of the elements, because the
// elements of a map have no address and some comparisons want one.
func equalMaps(x, y reflect.Value, equal func(a, b reflect.Value) bool) bool {
	if x.Len() != y.Len() {
		return false
	}
	for it := x.MapRange(); it.Next(); {
		other := y.MapIndex(it.Key())
		if !other.IsValid() || !equal(addressable(it.Value()), addressable(other)) {
			return false
		}
	}
	return true
}

func addressable(v reflect.Value) reflect.Value {
	if !v.CanInterface() { // read from a hidden field; equalDeep wants no address
		return v
	}
	a := reflect.New(v.Type()).Elem()
	a.Set(v)
	return a
}
