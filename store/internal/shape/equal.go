package shape

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"
)

// equalFloat takes NaN for the same as NaN: a spec holding one would otherwise change with
// every write.
func equalFloat(_ *node, x, y reflect.Value) bool {
	a, b := x.Float(), y.Float()
	return a == b || a != a && b != b
}

func equalText(_ *node, x, y reflect.Value) bool { return x.String() == y.String() }

// equalNever is of what has no values that are compared.
func equalNever(*node, reflect.Value, reflect.Value) bool { return false }

func equalPointer(n *node, x, y reflect.Value) bool {
	if x.IsNil() || y.IsNil() {
		return x.IsNil() && y.IsNil()
	}
	return n.elem.equal(n.elem, x.Elem(), y.Elem())
}

// equalElems takes nil and empty for the same: an encoding may turn one into the
// other, and a spec must not change by that.
func equalElems(n *node, x, y reflect.Value) bool {
	if x.Len() != y.Len() {
		return false
	}
	for i := range x.Len() {
		if !n.elem.equal(n.elem, x.Index(i), y.Index(i)) {
			return false
		}
	}
	return true
}

// equalRaw compares what is read back: JSON takes blanks out, and nil is null.
func equalRaw(_ *node, x, y reflect.Value) bool {
	if bytes.Equal(x.Bytes(), y.Bytes()) {
		return true
	}
	a, errA := json.Marshal(json.RawMessage(x.Bytes()))
	b, errB := json.Marshal(json.RawMessage(y.Bytes()))
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// equalMap compares through copies of the elements, because those of a map have no address
// and some comparisons want one.
func equalMap(n *node, x, y reflect.Value) bool {
	if x.Len() != y.Len() {
		return false
	}
	if n.key.Type == reflect.TypeFor[time.Time]() {
		x, y = byInstant(x), byInstant(y)
	}
	for it := x.MapRange(); it.Next(); {
		other := y.MapIndex(it.Key())
		if !other.IsValid() || !n.elem.equal(n.elem, addressable(it.Value()), addressable(other)) {
			return false
		}
	}
	return true
}

// byInstant is a map with its times as texts: as a key, a time has its location too, and one that
// is read back has another. Of two times of one instant the texts have the zones.
func byInstant(m reflect.Value) reflect.Value {
	for _, in := range []func(time.Time) time.Time{time.Time.UTC, func(t time.Time) time.Time { return t }} {
		texts := reflect.MakeMapWithSize(reflect.MapOf(reflect.TypeFor[string](), m.Type().Elem()), m.Len())
		for it := m.MapRange(); it.Next(); {
			texts.SetMapIndex(reflect.ValueOf(in(it.Key().Interface().(time.Time)).Format(time.RFC3339Nano)), it.Value())
		}
		if texts.Len() == m.Len() {
			return texts
		}
	}
	return m
}

func equalStruct(n *node, x, y reflect.Value) bool {
	for _, f := range n.fields {
		if !f.node.equal(f.node, f.of(x), f.of(y)) {
			return false
		}
	}
	return true
}
