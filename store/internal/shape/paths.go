package shape

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// A path names a part of a value by its names in JSON, with dots between. Its last name is ~ for
// an entry of a map, or what a pointer points to, that has parts of its own or nothing in it: that it is there.

// itself is the last name of the path of what is there, whatever its parts are. A name that is written so is ~0.
const itself = "~"

// Itself is what [SplitPath] makes of it: no name in JSON, which is UTF-8.
const Itself = "\xff~"

var pathName = strings.NewReplacer("~", "~0", ".", "~1")

// Join is the path of a part of what has the path base; that of a whole value is empty.
func Join(base, name string) string {
	if name = pathName.Replace(name); name == "" {
		name = "~2"
	}
	return below(base, name)
}

// PathOfItself is the path of what is there, whatever its parts are.
func PathOfItself(path string) string { return below(path, itself) }

func below(base, name string) string {
	if base == "" {
		return name
	}
	return base + "." + name
}

// CutItself is what a path of [PathOfItself] was made of.
func CutItself(path string) (of string, is bool) { return strings.CutSuffix(path, "."+itself) }

// SplitPath is the names of a path.
func SplitPath(path string) []string {
	if path == "" {
		return nil
	}
	names := strings.Split(path, ".")
	for i, name := range names {
		switch {
		case name == "~2":
			names[i] = ""
		case name == itself:
			names[i] = Itself
		default:
			names[i] = strings.NewReplacer("~0", "~", "~1", ".").Replace(name)
		}
	}
	return names
}

// Set returns the paths of the parts of *v that are not zero. Structs and maps have parts; a list, what
// encodes itself and what is tagged as secret is one. What an entry of a map or a pointer holds is set,
// also if it is zero.
func (s *Shape) Set(v any) []string {
	var paths []string
	s.top.set(reflect.ValueOf(v).Elem(), "", false, func(path string) { paths = append(paths, path) })
	return paths
}

// parted reports whether values of n have parts with paths.
func (n *node) parted() bool {
	switch n.Kind() {
	case reflect.Struct:
		return !n.encodes && len(n.fields) > 0
	case reflect.Map:
		return !n.encodes && !n.key.has(secret)
	}
	return false
}

// empty reports whether what has no parts is a struct without fields or a list without elements: all that it says is
// that it is there.
func (n *node) empty(v reflect.Value) bool {
	switch {
	case n.encodes:
		return false
	case n.Kind() == reflect.Struct:
		return len(n.fields) == 0
	}
	return n.Kind() == reflect.Slice && v.Len() == 0
}

// selfMade is the JSON that a value makes of itself; empty: it makes none, or only texts and numbers.
func (n *node) selfMade(v reflect.Value) string {
	if !n.encodes || encoder(n.Type) == textMarshaler {
		return ""
	}
	data, err := n.encode(v)
	if err != nil {
		return ""
	}
	return string(data)
}

func (n *node) set(v reflect.Value, path string, present bool, yield func(string)) {
	switch {
	case n.Kind() == reflect.Pointer && !n.encodes:
		if !v.IsNil() {
			n.elem.set(v.Elem(), path, true, yield)
		}
		return
	case !n.parted():
		if present && n.empty(v) {
			yield(PathOfItself(path))
		} else if present || !unset(v) {
			yield(path)
			if text := n.selfMade(v); text == "{}" || text == "[]" { // like none in JSON, and there all the same
				yield(PathOfItself(path))
			}
		}
		return
	case present:
		yield(PathOfItself(path))
	}
	n.eachPart(v, path, func(part *node, v reflect.Value, path string, present, whole bool) {
		if !whole {
			part.set(v, path, present, yield)
		} else if present || !unset(v) {
			yield(path)
		}
	})
}

// eachPart calls f for the fields or the entries of a value; whole tells that a part has no parts here.
func (n *node) eachPart(v reflect.Value, path string, f func(part *node, v reflect.Value, path string, present, whole bool)) {
	if n.Kind() == reflect.Map {
		for it := v.MapRange(); it.Next(); {
			if name, err := keyName(it.Key()); err == nil {
				f(n.elem, addressable(it.Value()), Join(path, name), true, false)
			}
		}
		return
	}
	for _, x := range n.fields {
		switch {
		case !x.kept:
		case x.by != nil:
			list, at := x.of(v), Join(path, x.name)
			for i := range list.Len() {
				f(x.node.elem, list.Index(i), Join(at, list.Index(i).Field(x.by.index).String()), true, false)
			}
		case x.inner == nil:
			f(x.node, x.of(v), Join(path, x.name), false, x.tagged)
		default:
			inner, of := reflect.Indirect(x.of(v)), x.node
			if of.Kind() == reflect.Pointer {
				of = of.elem
			}
			if inner.IsValid() {
				of.eachPart(inner, path, f)
			}
		}
	}
}

// keyName is the name in JSON of a key of a map.
func keyName(k reflect.Value) (string, error) {
	if k.Kind() == reflect.String {
		return k.String(), nil
	}
	if m, ok := reflect.TypeAssert[encoding.TextMarshaler](k); ok {
		text, err := m.MarshalText()
		return string(text), err
	}
	return fmt.Sprint(k), nil
}

// unset reports whether v says nothing. A list without elements is the same as none.
func unset(v reflect.Value) bool {
	if k := v.Kind(); k == reflect.Slice || k == reflect.Map {
		return v.Len() == 0
	}
	return v.IsZero()
}

// null reports whether v is null in JSON, which an Apply adds to nothing.
func (n *node) null(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		if v.IsNil() {
			return true
		}
	}
	return n.selfMade(v) == "null"
}

// Covers reports whether *b has each part that is set in *a, with its value.
func (s *Shape) Covers(b, a any) bool {
	return s.top.covers(reflect.ValueOf(b).Elem(), reflect.ValueOf(a).Elem(), false)
}

func (n *node) covers(b, a reflect.Value, present bool) bool {
	switch {
	case !present && unset(a):
		return true
	case n.equal(n, b, a):
		return true
	case !present && unset(b) && n.null(a):
		return true
	case n.Kind() == reflect.Pointer && !n.encodes:
		return !b.IsNil() && n.elem.covers(b.Elem(), a.Elem(), true)
	case !n.parted():
		return false
	}
	if n.Kind() == reflect.Map {
		for it := a.MapRange(); it.Next(); {
			there, x := b.MapIndex(it.Key()), addressable(it.Value())
			if !there.IsValid() && n.elem.null(x) {
				continue
			}
			if !there.IsValid() || !n.elem.covers(addressable(there), x, true) {
				return false
			}
		}
		return true
	}
	for _, f := range n.fields {
		if f.by != nil {
			if !f.coversByKey(f.of(b), f.of(a)) {
				return false
			}
		} else if !f.node.covers(f.of(b), f.of(a), false) {
			return false
		}
	}
	return true
}

// coversByKey is covers of lists whose elements have keys.
func (f *field) coversByKey(b, a reflect.Value) bool {
	at := make(map[string]int, b.Len())
	for i := range b.Len() {
		at[b.Index(i).Field(f.by.index).String()] = i
	}
	for i := range a.Len() {
		x := a.Index(i)
		if there, is := at[x.Field(f.by.index).String()]; !is || !f.node.elem.covers(b.Index(there), x, true) {
			return false
		}
	}
	return true
}

// Empty returns the paths at which the decoded JSON of a value has something that says nothing, such as
// zero or an empty list. JSON may have spelt the names of fields in another case.
func (s *Shape) Empty(tree any) []string {
	var paths []string
	s.top.emptyIn(tree, "", func(path string) { paths = append(paths, path) })
	return paths
}

func (n *node) emptyIn(tree any, path string, yield func(string)) {
	for n.Kind() == reflect.Pointer && !n.encodes {
		n = n.elem
	}
	parts, ok := tree.(map[string]any)
	switch {
	case SaysNothing(tree) && (!ok || !n.parted()):
		yield(path)
	case !ok || !n.parted():
	case n.Kind() == reflect.Map:
		for name, x := range parts {
			n.elem.emptyIn(x, Join(path, name), yield)
		}
	default:
		for name, x := range parts {
			f := n.named(name)
			list, _ := x.([]any)
			switch {
			case f == nil:
			case f.by == nil || len(list) == 0:
				f.node.emptyIn(x, Join(path, f.name), yield)
			default:
				f.emptyByKey(list, Join(path, f.name), yield)
			}
		}
	}
}

// emptyByKey is emptyIn of a list whose elements have keys.
func (f *field) emptyByKey(list []any, path string, yield func(string)) {
	for _, x := range list {
		key := ""
		for name, x := range x.(map[string]any) { // it was decoded into a struct
			if f.node.elem.named(name) == f.by {
				key, _ = x.(string)
			}
		}
		f.node.elem.emptyIn(x, Join(path, key), yield)
	}
}

// named is the field that JSON reads what has the name into.
func (n *node) named(name string) (found *field) {
	for _, f := range n.fields {
		var is *field
		switch {
		case !f.kept:
		case f.inner != nil:
			of := f.node
			if of.Kind() == reflect.Pointer {
				of = of.elem
			}
			is = of.named(name)
		case f.name == name || strings.EqualFold(f.name, name):
			is = f
		}
		if is != nil && (found == nil || is.name == name) {
			found = is
		}
	}
	return found
}

// SaysNothing reports whether decoded JSON is null, false, zero, or has no elements.
func SaysNothing(tree any) bool {
	switch x := tree.(type) {
	case bool:
		return !x
	case json.Number:
		f, err := x.Float64()
		return err == nil && f == 0
	}
	return empty(tree)
}
