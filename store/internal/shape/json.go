package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"
	"unicode/utf8"
)

// What JSON cannot carry would read as something else than was written, be written
// again by the next run, and never settle. So find looks for values that are refused, and
// for those that JSON reads back in another form, which mend gives a copy.

// Deeper reports whether lists and objects lie in each other more than most deep. The bytes
// need not be JSON.
func Deeper(data []byte, most int) bool {
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) <= most {
		return false // the common case, and a fast one
	}
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++ // JSON has none outside strings
		case '"':
			quoted = !quoted
		case '{', '[':
			if !quoted {
				depth++
			}
		case '}', ']':
			if !quoted {
				depth--
			}
		}
		if depth > most {
			return true
		}
	}
	return false
}

// ValidText replaces what is not UTF-8, as encoding/json does.
func ValidText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

func findText(_ *node, v reflect.Value, _ int, r *report) {
	if !utf8.ValidString(v.String()) {
		r.notUTF8(errNotUTF8)
	}
}

func mendText(_ *node, v reflect.Value, text bool) {
	if text {
		v.SetString(ValidText(v.String()))
	}
}

func findFloat(_ *node, v reflect.Value, _ int, r *report) {
	if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
		r.refuse("is %v, which JSON has no number for", x)
	}
}

func findNumber(_ *node, v reflect.Value, _ int, r *report) {
	if _, err := json.Marshal(v.Interface()); err != nil || v.Len() == 0 {
		r.refuse("is not a number")
	}
}

// findTime wants what RFC 3339 can say. What is read back is in UTC, in the local zone, or in
// one without a name, and has no monotonic clock.
func findTime(_ *node, v reflect.Value, _ int, r *report) {
	t := v.Interface().(time.Time)
	if y := t.Year(); y < 0 || y > 9999 {
		r.refuse("is a time in the year %d, which RFC 3339 has no form for", y)
	}
	r.other = r.other || t != t.Round(0).UTC()
}

func mendTime(_ *node, v reflect.Value, _ bool) {
	t := v.Interface().(time.Time)
	if t == t.Round(0).UTC() { //nolint:staticcheck // the form is asked for, and not the instant
		return
	}
	if _, offset := t.Zone(); offset%60 != 0 || offset <= -24*3600 || offset >= 24*3600 {
		t = t.UTC()
	}
	again := t // which is refused if it has no text: in UTC the year may be another
	if text, err := t.MarshalText(); err == nil {
		_ = again.UnmarshalText(text)
	}
	v.Set(reflect.ValueOf(again))
}

// findAddress wants an address, with a port or a prefix, that its text can say: that of an
// invalid prefix cannot be read, and with it the whole object.
func findAddress(n *node, v reflect.Value, _ int, r *report) {
	data, err := json.Marshal(v.Interface())
	if err == nil {
		var again reflect.Value
		if again, err = n.decode(data); err == nil && again.Equal(v) {
			return
		}
	}
	r.refuse("is a %v that has no text", n.Type)
}

func findPointer(n *node, v reflect.Value, depth int, r *report) {
	switch {
	case v.IsNil():
	case depth > MaxDepth:
		r.refuse("is nested more than %d deep", MaxDepth)
	case n.elem.isNull(v.Elem()):
		r.other = true // both are null in JSON
	default:
		if n.elem.Kind() == reflect.Pointer {
			depth++ // a type may be a pointer to itself
		}
		r.in("", n.elem, v.Elem(), depth)
	}
}

func mendPointer(n *node, v reflect.Value, text bool) {
	if v.IsNil() {
		return
	}
	if n.elem.has(checked) {
		n.elem.mend(n.elem, v.Elem(), text)
	}
	if n.elem.isNull(v.Elem()) {
		v.SetZero()
	}
}

func findElems(n *node, v reflect.Value, depth int, r *report) {
	if depth > MaxDepth && v.Len() > 0 {
		r.refuse("is nested more than %d deep", MaxDepth)
	}
	for i := 0; i < v.Len() && r.refused == nil; i++ {
		r.in("[]", n.elem, v.Index(i), depth+1)
	}
}

func mendElems(n *node, v reflect.Value, text bool) {
	for i := 0; n.elem.has(checked) && i < v.Len(); i++ {
		n.elem.mend(n.elem, v.Index(i), text)
	}
}

func findMap(n *node, v reflect.Value, depth int, r *report) {
	if depth > MaxDepth && v.Len() > 0 {
		r.refuse("is nested more than %d deep", MaxDepth)
	}
	if k := n.key.Type; ownKeys(k) || k.Kind() == reflect.String {
		n.findKeys(v, r)
	}
	for it := v.MapRange(); n.elem.has(checked) && r.refused == nil && it.Next(); {
		r.in("[]", n.elem, it.Value(), depth+1)
	}
}

func mendMap(n *node, v reflect.Value, text bool) {
	if v.IsNil() {
		return
	}
	fresh := reflect.MakeMapWithSize(n.Type, v.Len())
	for it := v.MapRange(); it.Next(); {
		key, x := addressable(it.Key()), addressable(it.Value())
		if n.elem.has(checked) {
			n.elem.mend(n.elem, x, text)
		}
		switch {
		case n.key.Type == reflect.TypeFor[time.Time]():
			mendTime(n.key, key, text)
		case key.Kind() == reflect.String:
			mendText(n.key, key, text)
		}
		fresh.SetMapIndex(key, x)
	}
	v.Set(fresh)
}

// ownKeys reports whether JSON writes or reads keys of type k by their own methods. It writes
// a string as it is, and reads it by its method.
func ownKeys(k reflect.Type) bool {
	return k.Kind() != reflect.String && k.Implements(textMarshaler) || reflect.PointerTo(k).Implements(textUnmarshaler)
}

// findKeys refuses maps of which JSON reads other keys back.
func (n *node) findKeys(v reflect.Value, r *report) {
	k := n.key.Type
	same := func(key reflect.Value) bool { return k.Kind() != reflect.String || utf8.ValidString(key.String()) }
	valid := true
	for it := v.MapRange(); valid && it.Next(); {
		valid = same(it.Key())
	}
	if !valid {
		r.notUTF8(fmt.Errorf("has a key that %w", errNotUTF8))
	}
	if valid && !ownKeys(k) || v.Len() == 0 {
		return
	}
	keys, read := reflect.MakeMap(reflect.MapOf(k, nothing)), reflect.New(reflect.MapOf(k, nothing))
	for it := v.MapRange(); it.Next(); {
		keys.SetMapIndex(it.Key(), reflect.Zero(nothing))
	}
	data, err := json.Marshal(keys.Interface())
	if err == nil {
		err = json.Unmarshal(data, read.Interface())
	}
	if err != nil {
		r.refuse("has a key that cannot be encoded and read: %w", err)
		return
	}
	if read.Elem().Len() < v.Len() {
		r.refuse("has two keys that are one in JSON")
	}
	for it := v.MapRange(); it.Next(); {
		switch {
		case !same(it.Key()) || read.Elem().MapIndex(it.Key()).IsValid():
		case k == reflect.TypeFor[time.Time](): // one time may be two keys, by its location or its monotonic clock
			r.other = true
		default:
			r.refuse("has a key that JSON reads back as another")
		}
	}
}

var nothing = reflect.TypeFor[struct{}]()

func findStruct(n *node, v reflect.Value, depth int, r *report) {
	if depth > MaxDepth {
		r.refuse("is nested more than %d deep", MaxDepth)
	}
	for _, f := range n.checks {
		x := v.Field(f.index)
		if f.omits(x) {
			r.other = r.other || !blank(x)
			continue
		}
		r.in(f.label, f.node, x, depth+f.deeper)
	}
}

// blank reports whether a value is the zero value. For reflection a negative zero is too.
func blank(v reflect.Value) bool {
	if !v.IsZero() || v.Type() == reflect.TypeFor[time.Time]() {
		return v.IsZero()
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		return !math.Signbit(v.Float())
	case reflect.Struct:
		for _, f := range v.Fields() {
			if !blank(f) {
				return false
			}
		}
	case reflect.Array:
		if k := v.Type().Elem().Kind(); k < reflect.Float32 || k == reflect.String {
			return true
		}
		for i := range v.Len() {
			if !blank(v.Index(i)) {
				return false
			}
		}
	}
	return true
}

func mendStruct(n *node, v reflect.Value, text bool) {
	for _, f := range n.checks {
		x := v.Field(f.index)
		if f.node.has(checked) && !f.omits(x) {
			f.node.mend(f.node, x, text)
		}
		if f.omits(x) {
			x.SetZero()
		}
	}
}
