package shape

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"unicode/utf8"
)

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// methods gives n what its type has methods for, and its parts.
func (b *builder) methods(n *node, path string) {
	for _, name := range []string{"MarshalJSON", "MarshalText", "UnmarshalJSON", "UnmarshalText", "Clone", "Equal", "String", "IsZero"} {
		_, ok := methodOf(n.Type, name)
		b.code = b.code || ok && n.Type != rawMessage
	}
	p, itself := reflect.PointerTo(n.Type), marshals(n.Type)
	n.encodes = n.Kind() == reflect.Interface || itself && (!n.inMap || encoder(n.Type) != nil)
	switch {
	case n.opaque:
	case n.inMap && itself && encoder(n.Type) != encoder(p) && (p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler)):
		b.unkeep(path, n.Type, "is in a map, where JSON does not call its method, which wants a pointer; keep pointers")
	case n.encodes:
		n.traits |= checked
		n.find, n.mend = findEncoded, mendEncoded
		b.unkept = cmp.Or(b.unkept, checkPromoted(n.Type, path))
	}
	if itself {
		n.hide = hideWhole
	}
	if clone, ok := ownMethod(n.Type, "Clone", 0, n.Type); ok && !n.private && n.copies == byParts {
		b.cloner(n, clone, path)
		return
	}
	b.part(n, path)
}

// cloner trusts the type's own Clone. It is compared by its own Equal if it has one, else by
// its parts.
func (b *builder) cloner(n *node, clone reflect.Method, path string) {
	eq, equals := ownMethod(n.Type, "Equal", 1, reflect.TypeFor[bool]())
	n.copies, b.incomparable = byClone, false
	if equals {
		n.copies = byOwner
	}
	b.part(n, path)
	if b.incomparable {
		b.uncopied = cmp.Or(b.uncopied, fmt.Errorf("field %s: %v has a Clone but cannot be compared; give it a method Equal too", path, n.Type))
	}
	n.traits |= refers
	n.fix = func(_ *node, v reflect.Value) {
		if v.Kind() != reflect.Pointer || !v.IsNil() {
			v.Set(v.Method(clone.Index).Call(nil)[0])
		}
	}
	if equals {
		n.equal = func(_ *node, x, y reflect.Value) bool {
			if x.Kind() == reflect.Pointer && (x.IsNil() || y.IsNil()) {
				return x.IsNil() && y.IsNil()
			}
			return x.Method(eq.Index).Call([]reflect.Value{y})[0].Bool()
		}
	}
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

// marshals reports whether values of t encode themselves.
func marshals(t reflect.Type) bool {
	return t.Kind() != reflect.Pointer && encoder(reflect.PointerTo(t)) != nil
}

// encoder is the interface by which JSON encodes values of t, nil if by none.
func encoder(t reflect.Type) reflect.Type {
	for _, i := range []reflect.Type{jsonMarshaler, textMarshaler} {
		if t.Implements(i) {
			return i
		}
	}
	return nil
}

// encode calls the method of v as JSON does where n is.
func (n *node) encode(v reflect.Value) ([]byte, error) {
	if v.CanAddr() && !n.inMap {
		v = v.Addr()
	}
	return json.Marshal(v.Interface())
}

func (n *node) decode(data []byte) (reflect.Value, error) {
	v := reflect.New(n.Type)
	err := json.Unmarshal(data, v.Interface())
	return v.Elem(), err
}

// findEncoded asks what encodes itself; what it makes of its values is its own affair, as
// long as it is JSON that can be stored and read.
func findEncoded(n *node, v reflect.Value, depth int, r *report) {
	data, err := n.encode(v)
	switch {
	case err != nil:
		r.refuse("cannot be encoded: %w", err)
	case Deeper(data, MaxDepth-depth+1): // its outermost list or object lies at depth
		r.refuse("is nested more than %d deep", MaxDepth)
	case !utf8.Valid(data):
		r.notUTF8(errNotUTF8)
	case n.Type == rawMessage:
		r.other = r.other || !bytes.Equal(data, v.Bytes())
	default:
		again, err := n.decode(data)
		if err != nil {
			r.refuse("is encoded as what cannot be decoded: %w", err)
			return
		}
		r.other = r.other || !reflect.DeepEqual(again.Interface(), v.Interface())
	}
}

// mendEncoded gives v what is read back of it: the null of a nil json.RawMessage, or what
// an encoding leaves out.
func mendEncoded(n *node, v reflect.Value, text bool) {
	if text && n.Type == rawMessage && !utf8.Valid(v.Bytes()) { // other text has a form of its own
		v.SetBytes([]byte(ValidText(string(v.Bytes()))))
	}
	data, err := n.encode(v)
	if err != nil || !utf8.Valid(data) {
		return // it is refused
	}
	if again, err := n.decode(data); err == nil {
		v.Set(again)
	}
}

var errNotUTF8 = errors.New("is not UTF-8")

// isNull reports whether JSON writes null for v, so that a pointer to it is read back as nil.
func (n *node) isNull(v reflect.Value) bool {
	switch k := n.Kind(); {
	case n.encodes:
		data, err := n.encode(v)
		return err == nil && string(data) == "null"
	case k == reflect.Pointer, k == reflect.Slice, k == reflect.Map:
		return v.IsNil()
	}
	return false
}

// checkPromoted refuses a struct that JSON encodes or decodes by the method of a field that
// is embedded in it: that knows nothing of the fields beside it, and panics if it is nil.
func checkPromoted(t reflect.Type, path string) error {
	for _, methods := range [][]string{{"MarshalJSON", "MarshalText"}, {"UnmarshalJSON", "UnmarshalText"}} {
		for _, name := range methods { // JSON calls the first that there is
			m, ok := methodOf(t, name)
			if !ok {
				continue
			}
			if err := checkMethod(t, m, path); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

func checkMethod(t reflect.Type, m reflect.Method, path string) error {
	if isDeclared(m) || t.Kind() != reflect.Struct {
		return nil
	}
	var from reflect.StructField
	fields := 0
	for field := range t.Fields() {
		if field.Name == "_" {
			continue
		}
		fields++
		if _, ok := methodOf(field.Type, m.Name); ok && field.Anonymous {
			from = field
		}
	}
	if from.Type == nil {
		return nil
	}
	path += "." + from.Name
	kind := from.Type.Kind()
	switch {
	case fields > 1:
		return refusal(path, from.Type, fmt.Sprintf("is embedded, and its %s would be that of all of %v", m.Name, t))
	case kind == reflect.Pointer, kind == reflect.Interface:
		_, format, _ := strings.Cut(m.Name, "arshal")
		if reads, ok := methodOf(t, "Unmarshal"+format); ok && isDeclared(reads) {
			return nil // which makes what is embedded
		}
		return refusal(path, from.Type, fmt.Sprintf("is embedded, and may be nil when %s of %v is called", m.Name, t))
	}
	m, _ = methodOf(from.Type, m.Name)
	return checkMethod(from.Type, m, path)
}

// isDeclared reports whether a method is not that of an embedded field.
func isDeclared(m reflect.Method) bool {
	code := m.Func.Pointer()
	file, _ := runtime.FuncForPC(code).FileLine(code)
	return file != "<autogenerated>"
}

// methodOf finds a method of t or of a pointer to it.
func methodOf(t reflect.Type, name string) (reflect.Method, bool) {
	if m, ok := t.MethodByName(name); ok || t.Kind() == reflect.Pointer {
		return m, ok
	}
	return reflect.PointerTo(t).MethodByName(name)
}
