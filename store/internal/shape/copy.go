package shape

import (
	"bytes"
	"reflect"
)

// A copy begins as a plain assignment; these replace what it shares with the original.

func fixPointer(n *node, v reflect.Value) {
	if v.IsNil() {
		return
	}
	fresh := reflect.New(n.elem.Type)
	fresh.Elem().Set(v.Elem())
	if n.elem.has(refers) {
		n.elem.fix(n.elem, fresh.Elem())
	}
	v.Set(fresh)
}

func fixBytes(_ *node, v reflect.Value) { v.SetBytes(bytes.Clone(v.Bytes())) }

func fixSlice(n *node, v reflect.Value) {
	if v.IsNil() {
		return
	}
	fresh := reflect.MakeSlice(n.Type, v.Len(), v.Len())
	reflect.Copy(fresh, v)
	fixElems(n, fresh)
	v.Set(fresh)
}

func fixElems(n *node, v reflect.Value) {
	for i := 0; n.elem.has(refers) && i < v.Len(); i++ {
		n.elem.fix(n.elem, v.Index(i))
	}
}

func fixMap(n *node, v reflect.Value) {
	if v.IsNil() {
		return
	}
	fresh := reflect.MakeMapWithSize(n.Type, v.Len())
	for it := v.MapRange(); it.Next(); {
		x := addressable(it.Value())
		if n.elem.has(refers) {
			n.elem.fix(n.elem, x)
		}
		fresh.SetMapIndex(it.Key(), x)
	}
	v.Set(fresh)
}

func fixStruct(n *node, v reflect.Value) {
	for _, f := range n.copied {
		f.node.fix(f.node, v.Field(f.index))
	}
}

// addressable is a copy of v, which lies in a map.
func addressable(v reflect.Value) reflect.Value {
	a := reflect.New(v.Type()).Elem()
	a.Set(v)
	return a
}
