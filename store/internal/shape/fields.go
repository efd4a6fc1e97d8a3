package shape

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// A field of a struct, as encoding/json sees it.
type field struct {
	reflect.StructField
	node     *node
	index    int
	label    string       // of it in the path of an error
	name     string       // in JSON
	inner    reflect.Type // of the struct whose fields JSON puts among those around it; else nil
	kept     bool         // JSON has it
	tagged   bool         // it is secret
	key      string       // the name of the field of its elements by which these are known; empty: none
	by       *field       // that is it
	deeper   int          // how many levels of JSON its values lie below the struct
	noEmpty  bool         // omitempty
	quoted   bool         // by the option string, where its type has no method that JSON calls
	isZero   func(v reflect.Value) bool
	tellsOwn bool // it is left out with values that are not its zero value
}

func newField(sf reflect.StructField, index int) *field {
	f := &field{StructField: sf, index: index, label: "." + sf.Name, deeper: 1}
	f.tagged = slices.Contains(strings.Split(sf.Tag.Get("tend"), ","), "secret")
	f.name, _ = jsonName(sf)
	f.key = keyTag(sf)
	inner, embedded := inlined(sf)
	f.kept = sf.IsExported() || embedded && sf.Type.Kind() == reflect.Struct
	if embedded {
		f.inner, f.deeper, f.tellsOwn = inner, 0, sf.Type.Kind() == reflect.Pointer
		return f
	}
	_, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
	list := strings.Split(options, ",")
	if f.noEmpty = slices.Contains(list, "omitempty"); f.noEmpty {
		f.tellsOwn = sf.Type.Kind() == reflect.Slice || sf.Type.Kind() == reflect.Map
	}
	f.quoted = slices.Contains(list, "string")
	if slices.Contains(list, "omitzero") {
		f.isZero = reflect.Value.IsZero
		if t := sf.Type; t.Implements(isZeroer) || reflect.PointerTo(t).Implements(isZeroer) {
			f.isZero, f.tellsOwn = callIsZero, true
		}
	}
	return f
}

func (f *field) traits() (t traits) {
	t = f.node.traits
	if f.tagged {
		t |= secret
	}
	if f.tellsOwn && f.kept && !f.node.opaque {
		t |= checked
	}
	return t
}

// of is the field of a value that has an address. One that is not exported is read through its
// address: reflection would hand it to no method, not to that of a time.
func (f *field) of(v reflect.Value) reflect.Value {
	x := v.Field(f.index)
	if !x.CanInterface() {
		x = reflect.NewAt(f.Type, x.Addr().UnsafePointer()).Elem()
	}
	return x
}

// unread reports whether JSON cannot read what it writes: it writes by the method of the type, and
// reads what the option string would have written.
func (f *field) unread() bool {
	t := f.Type
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		t = t.Elem()
	}
	k, p := t.Kind(), reflect.PointerTo(t)
	scalar := k == reflect.String || k >= reflect.Bool && k <= reflect.Float64
	return f.quoted && scalar && (marshals(t) || p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler))
}

var isZeroer = reflect.TypeFor[interface{ IsZero() bool }]()

func callIsZero(v reflect.Value) bool {
	if v.Kind() != reflect.Pointer {
		v = addressable(v).Addr()
	}
	return v.IsNil() || v.Interface().(interface{ IsZero() bool }).IsZero()
}

// omits reports whether JSON leaves the field out, so that it is read back as its zero value.
func (f *field) omits(v reflect.Value) bool {
	if f.inner != nil {
		return v.Kind() == reflect.Pointer && (v.IsNil() || omitsAll(f.node.elem, v.Elem()))
	}
	if f.isZero != nil && f.isZero(v) {
		return true
	}
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return f.noEmpty && v.Len() == 0
	case reflect.Struct:
		return false
	}
	return f.noEmpty && v.IsZero()
}

// omitsAll reports whether JSON leaves every field of a struct out.
func omitsAll(n *node, v reflect.Value) bool {
	for _, f := range n.fields {
		switch x := v.Field(f.index); {
		case !f.kept:
		case f.inner != nil && x.Kind() == reflect.Struct:
			if !omitsAll(f.node, x) {
				return false
			}
		case !f.omits(x):
			return false
		}
	}
	return true
}

// settable reports whether reflection may write the field, or at least the
// exported fields in it: those of an embedded struct are promoted whatever the
// name of its type.
func settable(f reflect.StructField) bool {
	if f.IsExported() {
		return true
	}
	_, clones := ownMethod(f.Type, "Clone", 0, f.Type)
	return f.Anonymous && f.Type.Kind() == reflect.Struct && !clones
}

// checkNames refuses fields that JSON does not keep. Names has the fields met so far,
// also those of the structs that embed this one, by their names in JSON.
func checkNames(t reflect.Type, path string, names map[string]string, outer ...reflect.Type) error {
	for field := range t.Fields() {
		at := path + "." + field.Name
		inner, embedded := inlined(field)
		switch {
		case field.Name == "_":
			continue
		case field.Tag.Get("json") == "-":
			return refusal(at, field.Type, `is tagged json:"-" and would not be kept`)
		case embedded && (inner == t || slices.Contains(outer, inner)):
			return refusal(at, field.Type, "is embedded in itself and would not be kept")
		case embedded && marshals(inner):
			return refusal(at, field.Type, "is embedded, and would not be encoded by its own method")
		case embedded && !field.IsExported() && field.Type.Kind() == reflect.Pointer:
			return refusal(at, field.Type, "is unexported and would not be kept")
		case embedded:
			if err := checkNames(inner, at, names, append(outer, t)...); err != nil {
				return err
			}
			continue
		case !field.IsExported():
			return refusal(at, field.Type, "is unexported and would not be kept")
		}
		name, _ := jsonName(field)
		if other, taken := names[name]; taken {
			return refusal(at, field.Type, fmt.Sprintf("has the name %q in JSON, as %s has", name, other))
		}
		names[name] = at
	}
	return nil
}

// inlined returns the struct whose fields JSON puts among those of the outer one, if the
// field is such a struct.
func inlined(field reflect.StructField) (inner reflect.Type, ok bool) {
	inner = field.Type
	if inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	_, named := jsonName(field)
	return inner, field.Anonymous && !named && inner.Kind() == reflect.Struct
}

// jsonName is a field's name in JSON, and whether its tag gives it.
func jsonName(field reflect.StructField) (name string, tagged bool) {
	name, _, _ = strings.Cut(field.Tag.Get("json"), ",")
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
	}
	if name == "" || strings.ContainsFunc(name, odd) {
		return field.Name, false
	}
	return name, true
}
