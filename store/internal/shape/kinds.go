package shape

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"
)

// A table has the kinds of types, and the types that are a kind of their own.
type table struct {
	kinds map[reflect.Kind]ops
	types map[reflect.Type]ops
}

// of returns the entry of a type; known if it is a type's own, for which no method counts.
func (t table) of(typ reflect.Type) (o ops, known bool) {
	o, known = t.types[typ]
	if !known {
		o = t.kinds[typ.Kind()]
	}
	if o.hide == nil {
		o.hide = hideWhole
	}
	if o.mend == nil {
		o.mend = func(*node, reflect.Value, bool) {} // it is as it is read back, or refused
	}
	return o, known && typ != rawMessage // it encodes itself like others
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

// kinds is the table of kinds, made at the first use: it is read for each value of an interface.
func kinds() table {
	tableOnce.Do(func() { theTable = newTable() })
	return theTable
}

var (
	tableOnce sync.Once // no OnceValue: newTable refers to kinds, by way of lookInterface
	theTable  table
)

// newTable returns the table of kinds. A function that is not given does nothing: a value without fix
// is copied by an assignment, one without find is always carried by JSON. Hide is for what
// may have a tagged field in it.
func newTable() table {
	boolean := ops{equal: func(_ *node, x, y reflect.Value) bool { return x.Bool() == y.Bool() }}
	integer := ops{equal: func(_ *node, x, y reflect.Value) bool { return x.Int() == y.Int() }, look: lookNumber}
	natural := ops{equal: func(_ *node, x, y reflect.Value) bool { return x.Uint() == y.Uint() }, look: lookNumber}
	float := ops{own: checked, equal: equalFloat, find: findFloat, look: lookNumber}
	complexes := ops{parts: noJSON, equal: func(_ *node, x, y reflect.Value) bool { return x.Complex() == y.Complex() }}
	text := ops{own: checked, equal: equalText, find: findText, mend: mendText, look: lookText}
	number := text
	number.find, number.mend = findNumber, nil

	pointer := ops{own: refers, parts: pointerParts, fix: fixPointer, equal: equalPointer, find: findPointer, mend: mendPointer, hide: hidePointer, look: lookPointer}
	array := ops{parts: arrayParts, fix: fixElems, equal: equalElems, find: findElems, mend: mendElems, hide: hideElems, look: lookElems}
	list := array
	list.own, list.parts, list.fix = refers, listParts, fixSlice
	dict := ops{own: refers, parts: mapParts, fix: fixMap, equal: equalMap, find: findMap, mend: mendMap, hide: hideMap, look: lookMap}
	structure := ops{parts: structParts, fix: fixStruct, equal: equalStruct, find: findStruct, mend: mendStruct, hide: hideStruct, look: lookStruct}
	dynamic := ops{own: checked, parts: refuseInterface, equal: equalNever, find: findEncoded, mend: mendEncoded, look: lookInterface}
	refused := ops{parts: refuseAll, equal: equalNever}

	raw, texts, labels := list, list, dict
	raw.equal = equalRaw
	texts.fix = fixBy(slices.Clone[[]string])
	labels.fix, labels.equal = fixBy(maps.Clone[map[string]string]), equalBy(maps.Equal[map[string]string])
	instant := ops{own: checked, equal: equalBy(time.Time.Equal), find: findTime, mend: mendTime}
	t := table{
		kinds: map[reflect.Kind]ops{
			reflect.Bool: boolean, reflect.String: text, reflect.Pointer: pointer, reflect.Slice: list, reflect.Array: array,
			reflect.Map: dict, reflect.Struct: structure, reflect.Interface: dynamic,
			reflect.Func: refused, reflect.Chan: refused, reflect.UnsafePointer: refused,
		},
		types: map[reflect.Type]ops{
			reflect.TypeFor[time.Time](): instant, reflect.TypeFor[json.Number](): number, rawMessage: raw,
			reflect.TypeFor[[]string](): texts, reflect.TypeFor[map[string]string](): labels,
			// These may be shared although they hold pointers.
			reflect.TypeFor[netip.Addr]():     address[netip.Addr](),
			reflect.TypeFor[netip.AddrPort](): address[netip.AddrPort](),
			reflect.TypeFor[netip.Prefix]():   address[netip.Prefix](),
		},
	}
	for k := reflect.Int; k <= reflect.Int64; k++ {
		t.kinds[k] = integer
	}
	for k := reflect.Uint; k <= reflect.Uintptr; k++ {
		t.kinds[k] = natural
	}
	t.kinds[reflect.Float32], t.kinds[reflect.Float64] = float, float
	t.kinds[reflect.Complex64], t.kinds[reflect.Complex128] = complexes, complexes
	return t
}

func address[V comparable]() ops {
	return ops{own: checked, equal: equalBy(func(x, y V) bool { return x == y }), find: findAddress}
}

func fixBy[V any](clone func(V) V) func(*node, reflect.Value) {
	return func(_ *node, v reflect.Value) {
		p := v.Addr().Interface().(*V)
		*p = clone(*p)
	}
}

func equalBy[V any](equal func(x, y V) bool) func(_ *node, x, y reflect.Value) bool {
	return func(_ *node, x, y reflect.Value) bool {
		return equal(*x.Addr().Interface().(*V), *y.Addr().Interface().(*V))
	}
}

// refuseInterface and refuseAll say that no copy of a value is safe, unless its owner makes it.
func refuseInterface(b *builder, n *node, path string) {
	b.refused(n, path, "cannot be copied safely; json.RawMessage holds JSON of any form")
}

func refuseAll(b *builder, n *node, path string) {
	b.refused(n, path, "cannot be copied safely")
	noJSON(b, n, path)
}

func (b *builder) refused(n *node, path, why string) {
	switch n.copies {
	case byParts:
		b.uncopy(path, n.Type, why)
	case byClone:
		b.incomparable = true
	}
}

func noJSON(b *builder, n *node, path string) {
	if !n.opaque {
		b.unkeep(path, n.Type, "has no form in JSON")
	}
}

func pointerParts(b *builder, n *node, path string) {
	n.elem = b.node(n.inner(n.Type.Elem()), path)
	if k := n.elem.Kind(); !n.opaque && (k == reflect.Pointer || k == reflect.Slice || k == reflect.Map) {
		n.traits |= checked // both may be null in JSON
	}
}

func listParts(b *builder, n *node, path string) {
	n.elem = b.node(n.inner(n.Type.Elem()), path+"[]")
	if n.Type.Elem().Kind() == reflect.Uint8 && !marshals(n.Type.Elem()) {
		n.fix = fixBytes
		n.look = lookBytes
	}
}

func arrayParts(b *builder, n *node, path string) {
	elem := n.inner(n.Type.Elem())
	elem.inMap, elem.private = n.inMap, n.private
	n.elem = b.node(elem, path+"[]")
	if n.Type.Elem().Kind() == reflect.Uint8 {
		n.look = lookBytes
	}
}

func mapParts(b *builder, n *node, path string) {
	key, elem := n.inner(n.Type.Key()), n.inner(n.Type.Elem())
	key.private, key.opaque, elem.inMap = true, true, true
	before := b.uncopied
	n.key = b.node(key, path+"[key]")
	if before == nil && b.uncopied != nil && n.copies == byParts {
		b.uncopied = refusal(path, n.Type, "has keys that refer to memory")
	}
	n.elem = b.node(elem, path+"[]")
	switch k := n.Type.Key(); {
	case n.opaque:
	case ownKeys(k), k.Kind() == reflect.String:
		n.traits |= checked
	case k.Kind() < reflect.Int || k.Kind() > reflect.Uintptr:
		b.unkeep(path, n.Type, "has keys that JSON cannot have")
	}
}

func structParts(b *builder, n *node, path string) {
	if !n.opaque && !n.encodes {
		b.unkept = cmp.Or(b.unkept, checkNames(n.Type, path, make(map[string]string)), checkPromoted(n.Type, path))
	}
	for i := range n.NumField() {
		f := newField(n.Type.Field(i), i)
		if f.kept && !n.opaque && !n.encodes && f.unread() {
			b.unkeep(path+"."+f.Name, f.Type, "has a method that encodes it, and the option string, with which JSON does not read what that wrote")
		}
		p := n.inner(f.Type)
		p.inMap, p.private, p.opaque = n.inMap, n.private || !settable(f.StructField), p.opaque || !f.kept
		f.node = b.node(p, path+"."+f.Name)
		n.fields = append(n.fields, f)
	}
}
