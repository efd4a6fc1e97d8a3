package shape

import (
	"cmp"
	"fmt"
	"reflect"
)

// A node is what is known of one type in one place.
type node struct {
	place
	ops
	traits   traits
	building bool
	encodes  bool     // JSON calls a method of it here
	elem     *node    // of a pointer, list, array or map
	key      *node    // of a map
	fields   []*field // of a struct, in the order of the type
	copied   []*field // those that a copy has to fix
	checks   []*field // those that find looks at
}

// A place is where values of a type lie.
type place struct {
	reflect.Type
	inMap   bool // JSON meets it without an address, and calls no method that wants a pointer
	private bool // in an unexported field: it is read, and never written
	copies  copies
	opaque  bool // JSON does not look into it: it is in what encodes itself, or dropped
}

// copies says how a place is copied.
type copies uint8

const (
	byParts copies = iota
	byClone        // by the Clone of what it is in; it is compared by parts
	byOwner        // that has its own Equal too
)

// traits of a part are those of the whole.
type traits uint8

const (
	refers  traits = 1 << iota // an assignment would share memory
	checked                    // some values are not carried by JSON as they are
	secret                     // a field in it is tagged tend:"secret"
)

func (n *node) has(t traits) bool { return n.traits&t != 0 }

// ops are what is done with values of one kind of type. Values have an address, but for find
// and hide of what lies in a map.
type ops struct {
	own   traits
	parts func(b *builder, n *node, path string)
	fix   func(n *node, v reflect.Value)
	equal func(n *node, x, y reflect.Value) bool
	find  func(n *node, v reflect.Value, depth int, r *report)
	mend  func(n *node, v reflect.Value, text bool)
	hide  func(n *node, v reflect.Value, tree any, mask string) any
	look  func(n *node, v reflect.Value, tagged bool, depth int, f Finder)
}

// builder makes nodes, and keeps the first reason against copying and keeping them.
type builder struct {
	kinds            table
	nodes            map[place]*node
	all              []*node
	uncopied, unkept error
	incomparable     bool // in a type that copies itself
	code             bool
}

// nodeOf returns the node for t, and what was learned of it; path begins that of its parts.
func nodeOf(t place, path string) (*node, *builder) {
	b := &builder{kinds: kinds(), nodes: make(map[place]*node)}
	n := b.node(t, path)
	b.settle()
	return n, b
}

// node returns the node for t; path says where it was met.
func (b *builder) node(t place, path string) *node {
	if t.opaque {
		t.inMap = false
	}
	if n, ok := b.nodes[t]; ok {
		if n.building && !t.opaque {
			n.traits |= checked // it contains itself: its depth has no bound
		}
		return n
	}
	ops, known := b.kinds.of(t.Type)
	n := &node{place: t, ops: ops, traits: ops.own, building: true}
	b.nodes[t] = n
	b.all = append(b.all, n)
	if t.opaque {
		n.traits &^= checked
	}
	switch pkg := t.PkgPath(); {
	case pkg == "sync" || pkg == "sync/atomic":
		b.uncopy(path, t.Type, "must not be copied")
	case known:
		b.part(n, path)
	default:
		b.methods(n, path)
	}
	n.building = false
	return n
}

func (b *builder) part(n *node, path string) {
	switch {
	case n.private && n.copies == byParts && n.has(refers):
		b.uncopy(path, n.Type, "is unexported and refers to memory that a copy would share")
	case n.parts != nil:
		n.parts(b, n, path)
	}
}

// inner is a place in n.
func (n *node) inner(t reflect.Type) place {
	return place{Type: t, copies: n.copies, opaque: n.opaque || n.encodes}
}

// settle gives each node the traits of its parts, which may contain it.
func (b *builder) settle() {
	for changed := true; changed; {
		changed = false
		for _, n := range b.all {
			t := n.traits
			for _, part := range []*node{n.elem, n.key} {
				if part != nil {
					t |= part.traits
				}
			}
			for _, f := range n.fields {
				t |= f.traits()
			}
			changed = changed || t != n.traits
			n.traits = t
		}
	}
	for _, n := range b.all {
		for _, f := range n.fields {
			if f.node.has(refers) {
				n.copied = append(n.copied, f)
			}
			if f.traits()&checked != 0 {
				n.checks = append(n.checks, f)
			}
		}
	}
}

// uncopy says that values of a type cannot be copied.
func (b *builder) uncopy(path string, t reflect.Type, why string) {
	b.uncopied = cmp.Or(b.uncopied, refusal(path, t, why))
}

// unkeep says that JSON would not keep values of a type.
func (b *builder) unkeep(path string, t reflect.Type, why string) {
	b.unkept = cmp.Or(b.unkept, refusal(path, t, why))
}

func refusal(path string, t reflect.Type, why string) error {
	return fmt.Errorf("field %s: %v %s (a type of its own with a method Clone would help)", path, t, why)
}
