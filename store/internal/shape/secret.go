package shape

import (
	"encoding"
	"fmt"
	"reflect"
)

// A field tagged tend:"secret" is secret with everything below it.

// search gives what is secret in v to f.
func (n *node) search(v reflect.Value, tagged bool, depth int, f Finder) {
	if depth > MaxDepth || f.Enough() || !tagged && !n.has(secret) {
		return
	}
	if tagged {
		printed(v, f)
	}
	if n.look != nil {
		n.look(n, v, tagged, depth+1, f)
	}
}

// printed gives how a value prints itself.
func printed(v reflect.Value, f Finder) {
	if !v.CanInterface() || v.IsZero() {
		return
	}
	if p, ok := reflect.TypeAssert[fmt.Stringer](v); ok {
		f.Text(fmt.Sprint(p)) // survives a String that panics
	}
	if p, ok := reflect.TypeAssert[encoding.TextMarshaler](v); ok {
		if text, err := p.MarshalText(); err == nil {
			f.Text(string(text))
		}
	}
}

func lookText(_ *node, v reflect.Value, _ bool, _ int, f Finder) { f.Text(v.String()) }

func lookNumber(_ *node, v reflect.Value, _ bool, _ int, f Finder) {
	if !v.IsZero() {
		f.Number(fmt.Sprint(v))
	}
}

func lookBytes(n *node, v reflect.Value, tagged bool, depth int, f Finder) {
	if !tagged {
		lookElems(n, v, tagged, depth, f)
		return
	}
	f.Text(string(v.Bytes()))
}

func lookPointer(n *node, v reflect.Value, tagged bool, depth int, f Finder) {
	if !v.IsNil() {
		n.elem.search(v.Elem(), tagged, depth, f)
	}
}

func lookInterface(_ *node, v reflect.Value, tagged bool, depth int, f Finder) {
	if v.IsNil() {
		return
	}
	n, _ := nodeOf(place{Type: v.Elem().Type(), opaque: true}, "")
	n.search(addressable(v.Elem()), tagged, depth, f)
}

func lookElems(n *node, v reflect.Value, tagged bool, depth int, f Finder) {
	for i := range v.Len() {
		n.elem.search(v.Index(i), tagged, depth, f)
	}
}

func lookMap(n *node, v reflect.Value, tagged bool, depth int, f Finder) {
	for it := v.MapRange(); it.Next(); {
		n.key.search(addressable(it.Key()), tagged, depth, f)
		n.elem.search(addressable(it.Value()), tagged, depth, f)
	}
}

func lookStruct(n *node, v reflect.Value, tagged bool, depth int, f Finder) {
	for _, x := range n.fields {
		x.node.search(x.of(v), tagged || x.tagged, depth, f)
	}
}

// hidden is the decoded JSON of v with mask in place of the tagged fields.
func (n *node) hidden(v reflect.Value, tree any, mask string) any {
	if tree == nil || !n.has(secret) {
		return tree
	}
	return n.hide(n, v, tree, mask)
}

// hideWhole is for what JSON has in a form in which a field is not found.
func hideWhole(_ *node, _ reflect.Value, _ any, mask string) any { return mask }

func hidePointer(n *node, v reflect.Value, tree any, mask string) any {
	if v.IsNil() {
		return tree
	}
	return n.elem.hidden(v.Elem(), tree, mask)
}

func hideElems(n *node, v reflect.Value, tree any, mask string) any {
	list, _ := tree.([]any)
	if len(list) != v.Len() {
		return mask
	}
	for i := range list {
		list[i] = n.elem.hidden(v.Index(i), list[i], mask)
	}
	return list
}

func hideMap(n *node, v reflect.Value, tree any, mask string) any {
	fields, ok := tree.(map[string]any)
	if !ok || n.key.has(secret) {
		return mask
	}
	for it := v.MapRange(); it.Next(); {
		name, err := keyName(it.Key())
		x, present := fields[name]
		if err != nil || !present {
			return mask
		}
		fields[name] = n.elem.hidden(it.Value(), x, mask)
	}
	return fields
}

func hideStruct(n *node, v reflect.Value, tree any, mask string) any {
	fields, ok := tree.(map[string]any)
	if !ok {
		return mask
	}
	hideFields(n, v, false, fields, mask)
	return fields
}

// hideFields hides the tagged fields of v, or all of them if v itself is.
func hideFields(n *node, v reflect.Value, all bool, tree map[string]any, mask string) {
	for _, f := range n.fields {
		hidden := all || f.tagged
		if f.inner != nil {
			inner, of := reflect.Indirect(v.Field(f.index)), f.node
			if of.elem != nil {
				of = of.elem
			}
			if inner.IsValid() {
				hideFields(of, inner, hidden, tree, mask)
			}
			continue
		}
		x, present := tree[f.name]
		switch {
		case !present || !f.kept:
		case !hidden:
			tree[f.name] = f.node.hidden(v.Field(f.index), x, mask)
		case !empty(x):
			tree[f.name] = mask
		}
	}
}

// empty reports whether decoded JSON holds nothing.
func empty(x any) bool {
	switch x := x.(type) {
	case nil:
		return true
	case string:
		return x == ""
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return false
}
