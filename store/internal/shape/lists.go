package shape

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Lists says where the JSON of a type has lists whose elements are known by a field of theirs, tagged
// tend:"key=Name". It is a tree of the names on the way to them. In front of paths such a list is an object: its
// elements by their keys.
//
//	[{"name":"a","size":1}, {"name":"b"}]  ◀─ Unkey ── Key ─▶  {"a":{"name":"a","size":1}, "b":{"name":"b"}}
//
// A list in a list without a key has none, and one in what is secret is not among them.
type Lists struct {
	Key   string            `json:"key,omitempty"` // the name in JSON of the field; empty: this is no such list
	Each  *Lists            `json:"each,omitempty"`
	Parts map[string]*Lists `json:"parts,omitempty"`
}

// Lists is what of V has keys; nil: nothing.
func (s *Shape) Lists() *Lists { return s.lists }

// keyTag is the name of the field that a tag says elements are known by.
func keyTag(sf reflect.StructField) string {
	for option := range strings.SplitSeq(sf.Tag.Get("tend"), ",") {
		if name, is := strings.CutPrefix(option, "key="); is {
			return name
		}
	}
	return ""
}

// lister finds the Lists of a type.
type lister struct {
	in  []*node
	err error
}

func (l *lister) of(n *node, path string) *Lists {
	for n.Kind() == reflect.Pointer && !n.encodes {
		n = n.elem
	}
	list := (n.Kind() == reflect.Slice || n.Kind() == reflect.Array) && !n.encodes
	if !n.parted() && !list {
		return nil
	}
	if i := slices.Index(l.in, n); i >= 0 {
		for _, outer := range l.in[i:] {
			if slices.ContainsFunc(outer.fields, func(f *field) bool { return f.key != "" }) {
				l.err = fmt.Errorf("field %s: keys of elements in a type that holds itself", path)
			}
		}
		return nil
	}
	l.in = append(l.in, n)
	defer func() { l.in = l.in[:len(l.in)-1] }()
	if list {
		if n.elem != nil && l.of(n.elem, path) != nil {
			l.err = fmt.Errorf("field %s: a list without a key, whose elements have lists with keys", path)
		}
		return nil
	}
	if n.Kind() == reflect.Map {
		if each := l.of(n.elem, path); each != nil {
			return &Lists{Each: each}
		}
		return nil
	}
	all := &Lists{Parts: make(map[string]*Lists)}
	for _, f := range n.fields {
		l.field(f, path+f.label, all)
	}
	if len(all.Parts) == 0 {
		return nil
	}
	return all
}

func (l *lister) field(f *field, path string, all *Lists) {
	switch {
	case !f.kept || f.tagged:
	case f.inner != nil:
		if inner := l.of(f.node, path); inner != nil {
			maps.Copy(all.Parts, inner.Parts)
		}
	case f.key == "":
		if below := l.of(f.node, path); below != nil {
			all.Parts[f.name] = below
		}
	default:
		if f.by = keyField(f); f.by == nil {
			l.err = fmt.Errorf(`field %s: tagged tend:"key=%s", and is no list of structs with such a field of type string that is no secret and not quoted`, path, f.key)
			return
		}
		all.Parts[f.name] = &Lists{Key: f.by.name, Each: l.of(f.node.elem, path)}
	}
}

// keyField is the field by which the elements of a list are known; nil: it cannot be.
func keyField(f *field) *field {
	if f.node.Kind() != reflect.Slice || f.node.encodes || f.node.elem.Kind() != reflect.Struct || f.node.elem.encodes {
		return nil
	}
	for _, x := range f.node.elem.fields {
		if x.Name == f.key && x.kept && !x.tagged && x.inner == nil && !x.quoted && x.node.Kind() == reflect.String && !x.node.encodes {
			return x
		}
	}
	return nil
}

// CheckKeys is an error if two elements of a list of *v have one key.
func (s *Shape) CheckKeys(v any) error {
	if s.lists == nil {
		return nil
	}
	return s.top.checkKeys(reflect.ValueOf(v).Elem(), "")
}

func (n *node) checkKeys(v reflect.Value, path string) (err error) {
	for n.Kind() == reflect.Pointer && !n.encodes {
		if v.IsNil() {
			return nil
		}
		n, v = n.elem, v.Elem()
	}
	if !n.parted() {
		return nil
	}
	seen := make(map[string]bool)
	n.eachPart(v, path, func(part *node, v reflect.Value, path string, _, whole bool) {
		switch {
		case err != nil:
		case seen[path]:
			err = fmt.Errorf("two elements of the key %s", path)
		case !whole:
			err = part.checkKeys(v, path)
		}
		seen[path] = true
	})
	return err
}

// Orders has the keys of lists by their paths, in the order of the elements.
type Orders map[string][]string

// Elements are the paths of the elements.
func (o Orders) Elements() map[string]bool {
	all := make(map[string]bool)
	for path, keys := range o {
		for _, key := range keys {
			all[Join(path, key)] = true
		}
	}
	return all
}

// Keyed returns decoded JSON with objects in place of lists, and the order of their elements. The tree that is given
// stays as it is. A list with elements that cannot be told apart stays a list, and is an error beside the tree.
func (l *Lists) Keyed(tree any) (any, Orders, error) {
	if l == nil {
		return tree, nil, nil
	}
	k := keying{orders: make(Orders)}
	tree = k.of(l, tree, "")
	return tree, k.orders, k.clash
}

// keying is one call of Keyed.
type keying struct {
	orders Orders
	clash  error
}

func (k *keying) of(l *Lists, tree any, path string) any {
	if list, is := tree.([]any); is && l != nil && l.Key != "" {
		object, order := make(map[string]any, len(list)), make([]string, 0, len(list))
		for _, x := range list {
			parts, _ := x.(map[string]any)
			key, ok := parts[l.Key].(string)
			if _, twice := object[key]; parts == nil || twice || !ok && parts[l.Key] != nil {
				k.clash = fmt.Errorf("the elements of %s cannot be told apart by %s", path, l.Key)
				return tree
			}
			object[key] = k.of(l.Each, x, Join(path, key))
			order = append(order, key)
		}
		k.orders[path] = order
		return object
	}
	return l.eachPart(tree, func(below *Lists, name string, x any) any { return k.of(below, x, Join(path, name)) })
}

// eachPart is a tree with the parts that f makes of those that may have keys below.
func (l *Lists) eachPart(tree any, f func(below *Lists, name string, x any) any) any {
	parts, is := tree.(map[string]any)
	if !is || l == nil {
		return tree
	}
	parts = maps.Clone(parts)
	for name, x := range parts {
		below := l.Each
		if l.Parts != nil {
			below = l.Parts[name]
		}
		if below != nil {
			parts[name] = f(below, name, x)
		}
	}
	return parts
}

// Unkeyed is the inverse of Keyed. The elements of a list are in the order of the first of the orders that has
// them, and those of a later one behind them.
func (l *Lists) Unkeyed(tree any, orders ...Orders) any {
	if l == nil {
		return tree
	}
	return l.unkeyed(tree, "", orders)
}

func (l *Lists) unkeyed(tree any, path string, orders []Orders) any {
	tree = l.eachPart(tree, func(below *Lists, name string, x any) any { return below.unkeyed(x, Join(path, name), orders) })
	object, is := tree.(map[string]any)
	if !is || l.Key == "" {
		return tree
	}
	var order []string
	for _, o := range orders {
		order = append(order, o[path]...)
	}
	list, taken := make([]any, 0, len(object)), make(map[string]bool)
	for _, key := range slices.Concat(order, slices.Sorted(maps.Keys(object))) {
		if x, there := object[key]; there && !taken[key] {
			parts := maps.Clone(asObject(x))
			taken[key], parts[l.Key] = true, key // whatever the edits of its parts have left of it
			list = append(list, parts)
		}
	}
	return list
}

func asObject(x any) map[string]any {
	parts, _ := x.(map[string]any)
	if parts == nil {
		parts = make(map[string]any, 1)
	}
	return parts
}
