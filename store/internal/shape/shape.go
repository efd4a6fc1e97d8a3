// Package shape knows a Go type once, and copies, compares, checks, mends and hides its
// values by that.
//
//	New ── builder.node, for each type in each place
//	         │  the table of kinds (kinds.go) gives it its functions,
//	         │  its methods replace some of them (methods.go),
//	         │  and its parts are nodes again (a cycle ends at a node that is being built)
//	       builder.settle: a trait of a part is one of the whole
//
//	Copy      fix    replaces what an assignment shares        copy.go
//	Equal     equal  whether two values are the same           equal.go
//	Writable  find   what JSON would read back as another, or not at all   json.go
//	          mend   gives a copy the form that is read back, then find again
//	Hide      hide   takes what is secret out of decoded JSON  secret.go
//	Secrets   look   hands out the texts that are secret
//
// Each of these is a function of one kind of type, and calls that of the parts. A kind that
// Go gets, or a type that needs care, is one entry of the table.
//
// The place of a node says what reaches it: JSON calls no method with a pointer receiver of
// what lies in a map; an unexported field is compared and never written; what copies itself
// is not copied by parts; what encodes itself is not looked into by JSON. The fields of a
// struct are those of the type, each with its name and its options in encoding/json.
package shape

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// MaxDepth is how deep lists and objects may lie in each other in JSON. A spec or status is
// the second of them.
const MaxDepth = 64

const firstDepth = 2

// Shape copies, compares, checks and hides values of one type, V. Values are given to it by
// pointers of type *V. It is safe for concurrent use.
// Its methods call those of the types in V (MarshalJSON, Clone, Equal, String and so on),
// and panic if these do.
type Shape struct {
	name   string
	top    *node
	clone  func(v any) // nil unless V has Clone() V: it is called without reflection
	code   bool
	secret bool
	lists  *Lists
}

// New returns the shape of V; name begins the path of a field in errors. A type that cannot
// be copied or compared, or that JSON does not keep whole, is an error that names the field.
func New[V any](name string) (Shape, error) {
	s, b := build[V](name)
	return s, cmp.Or(b.uncopied, b.unkept)
}

func build[V any](name string) (Shape, *builder) {
	t := reflect.TypeFor[V]()
	top, b := nodeOf(place{Type: t}, name)
	find := lister{}
	s := Shape{name: name, top: top, code: b.code, secret: top.has(secret), lists: find.of(top, name)}
	b.unkept = cmp.Or(b.unkept, find.err)
	if _, ok := any(*new(V)).(interface{ Clone() V }); ok && t.Kind() != reflect.Pointer { // of a pointer, the node asks whether it is nil
		s.clone = func(v any) { *v.(*V) = any(*v.(*V)).(interface{ Clone() V }).Clone() }
	}
	return s, b
}

// Code reports whether a type has a method somewhere that is called by JSON, or to copy,
// compare or print it.
func (s *Shape) Code() bool { return s.code }

// Secret reports whether V has a field tagged tend:"secret".
func (s *Shape) Secret() bool { return s.secret }

// Copy makes *dst equal to *src, sharing nothing that could be modified.
func (s *Shape) Copy(dst, src any) {
	s.Assign(dst, src)
	s.Unshare(dst)
}

// Unshare makes *v, which was assigned, a copy.
func (s *Shape) Unshare(v any) {
	switch {
	case s.clone != nil:
		s.clone(v)
	case s.top.has(refers):
		s.top.fix(s.top, reflect.ValueOf(v).Elem())
	}
}

// Assign is *dst = *src.
func (s *Shape) Assign(dst, src any) { reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(src).Elem()) }

// Equal reports whether the values are the same. Nil and empty lists and maps are, and times
// of one instant.
func (s *Shape) Equal(a, b any) bool {
	return s.top.equal(s.top, reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

// Writable returns given, or a copy in the form in which JSON reads it back. Text that is
// not UTF-8 is mended if mendText is set, and else an error, as is what JSON cannot carry.
func (s *Shape) Writable(given any, mendText bool) (any, error) {
	if !s.top.has(checked) {
		return given, nil
	}
	v := reflect.ValueOf(given).Elem()
	mend, err := s.top.check(s.name, v, mendText)
	if err != nil || !mend {
		return given, err
	}
	mended := reflect.New(v.Type())
	s.Copy(mended.Interface(), given)
	return mended.Interface(), s.top.mended(s.name, mended.Elem(), mendText)
}

// check finds what JSON does not carry in v; mend if it can be mended.
func (n *node) check(name string, v reflect.Value, mendText bool) (mend bool, err error) {
	r := reports.Get().(*report)
	*r = report{path: r.path[:0]}
	defer reports.Put(r)
	r.in(name, n, v, firstDepth)
	if r.refused != nil || r.text != nil && !mendText {
		return false, cmp.Or(r.refused, r.text)
	}
	return r.other || r.text != nil, nil
}

// mended mends v, and refuses what is not mended by that.
func (n *node) mended(name string, v reflect.Value, text bool) error {
	n.mend(n, v, text)
	_, err := n.check(name, v, false)
	return err
}

// reports are those of values that were looked through: every write looks through one.
var reports = sync.Pool{New: func() any { return new(report) }}

// report is what find found: what is refused, what can be mended, and where.
type report struct {
	path    []string
	refused error
	text    error // a string that is not UTF-8
	other   bool  // JSON reads it back in another form
}

func (r *report) refuse(format string, args ...any) {
	if r.refused == nil {
		r.refused = r.at(fmt.Errorf(format, args...))
	}
}

func (r *report) notUTF8(why error) {
	if r.text == nil {
		r.text = r.at(why)
	}
}

func (r *report) at(why error) error {
	return fmt.Errorf("field %s %w", strings.Join(r.path, ""), why)
}

// in looks at a part of the value.
func (r *report) in(name string, n *node, v reflect.Value, depth int) {
	if !n.has(checked) || r.refused != nil {
		return
	}
	r.path = append(r.path, name)
	n.find(n, v, depth, r)
	r.path = r.path[:len(r.path)-1]
}

// Hide replaces the fields of v that are tagged in its decoded JSON by mask.
func (s *Shape) Hide(v, tree any, mask string) any {
	return s.top.hidden(reflect.ValueOf(v).Elem(), tree, mask)
}

// Secrets gives what is tagged in v to f, and what such a value prints.
func (s *Shape) Secrets(v any, f Finder) {
	s.top.search(reflect.ValueOf(v).Elem(), false, 0, f)
}

// Finder is what [Shape.Secrets] tells.
type Finder interface {
	Text(string)
	Number(string)
	Enough() bool // nothing more is needed
}
