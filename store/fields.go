package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tendhq/tend/store/internal/shape"
)

// FieldOwners records the declarers of the fields of a spec, see [Store.Apply]. It has paths and no values. It is empty
// for an object without a declaration, and for one of a program that keeps no such record.
type FieldOwners string

// ownersField has the record in the stored object.
const ownersField = "fieldOwners"

// editOwner is the name under which [Store.UpdateByHand] owns what it changes.
const editOwner = "edit"

// ErrOwned says that fields were not written because another declarer, or a person by an
// edit, has set them to another value.
var ErrOwned = errors.New("store: a field is another's")

// ownersRecord is the form of a FieldOwners.
type ownersRecord struct {
	// At is the generation of the spec that it is about. It says nothing of another: a program
	// that does not know the record has changed the spec.
	At int64              `json:"at,omitempty"`
	By map[string]ownedBy `json:"by"`
}

// ownedBy is what one has: the fields that are listed, or where none are, all that say something but some.
type ownedBy struct {
	Fields []string `json:"fields,omitempty"`
	But    []string `json:"but,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (f FieldOwners) MarshalJSON() ([]byte, error) {
	if f == "" {
		return []byte("null"), nil
	}
	return []byte(f), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (f *FieldOwners) UnmarshalJSON(data []byte) error {
	*f = ""
	if string(data) != "null" {
		*f = FieldOwners(data)
	}
	return nil
}

// All yields each owner of fields of a spec at a generation, in the order of their names, with the paths of its
// fields, which have dots between the names; or with "all" and "but" in front of each path that is not its.
func (f FieldOwners) All(generation int64) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		r := f.record()
		if r.At != generation {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(r.By)) {
			by := r.By[name]
			fields := by.Fields
			if len(fields) == 0 {
				fields = []string{"all"}
				for _, path := range by.But {
					fields = append(fields, "but "+path)
				}
			}
			if !yield(name, fields) {
				return
			}
		}
	}
}

func (f FieldOwners) record() (r ownersRecord) {
	if f == "" || json.Unmarshal([]byte(f), &r) != nil {
		return ownersRecord{}
	}
	return r
}

// declaredEmpty is the record of a text that was parsed, of what the parsed object cannot show: the fields that
// the text has without a value.
func declaredEmpty(paths []string) FieldOwners {
	return owners{"": paths}.record(0, nil)
}

// owners are the paths of the fields that each owner has.
type owners map[string][]string

// of returns the owners of the fields of a spec at a generation, whose lists with keys have the orders.
func (f FieldOwners) of(generation int64, spec any, orders shape.Orders) owners {
	r := f.record()
	if r.At != generation || len(r.By) == 0 {
		return owners{}
	}
	all := make(owners, len(r.By))
	filled := sync.OnceValue(func() []string { return leaves(spec) })
	for name, by := range r.By {
		all[name] = by.paths(filled, orders)
	}
	return all
}

// paths are the paths that an owner has. An owner of all, or of a list that was one field before it had keys, owns that the elements are there.
func (by ownedBy) paths(filled func() []string, orders shape.Orders) (all []string) {
	lists := make(map[string]bool)
	for _, path := range by.Fields {
		if len(orders[path]) > 0 {
			lists[path] = true
		} else {
			all = append(all, path)
		}
	}
	if len(by.Fields) > 0 && len(lists) == 0 {
		return all
	}
	elements, there := orders.Elements(), make(map[string]bool)
	for _, path := range filled() {
		if len(by.Fields) > 0 && !slices.ContainsFunc(upwards(path), func(p string) bool { return lists[p] }) ||
			slices.ContainsFunc(by.But, func(but string) bool { return within(path, but) }) {
			continue
		}
		all = append(all, path)
		for _, p := range upwards(path) {
			if elements[p] {
				there[p] = true
			}
		}
	}
	for _, but := range by.But { // such an element is another's, or has parts with no owner
		for _, p := range upwards(but) {
			delete(there, p)
		}
	}
	for p := range there {
		all = append(all, shape.PathOfItself(p))
	}
	return all
}

// upwards are a path and those above it.
func upwards(path string) (all []string) {
	for at := len(path); at > 0; at = strings.LastIndexByte(path[:at], '.') {
		all = append(all, path[:at])
	}
	return all
}

// record is the shorter of the two forms of each.
func (o owners) record(generation int64, spec any) FieldOwners {
	r := ownersRecord{At: generation, By: make(map[string]ownedBy, len(o))}
	filled := leaves(spec)
	slices.Sort(filled)
	for name, fields := range o {
		fields = slices.Clone(fields)
		slices.Sort(fields)
		if fields = slices.Compact(fields); len(fields) == 0 {
			continue
		}
		but, only := []string{}, 0
		for _, path := range filled {
			if _, is := slices.BinarySearch(fields, path); !is {
				but = append(but, path)
			} else {
				only++
			}
		}
		if only == len(fields) && len(but) < len(fields) {
			r.By[name] = ownedBy{But: but}
		} else {
			r.By[name] = ownedBy{Fields: fields}
		}
	}
	if len(r.By) == 0 {
		return ""
	}
	return r.text()
}

func (r ownersRecord) text() FieldOwners {
	data, _ := json.Marshal(r) // it has strings only
	return FieldOwners(data)
}

// others are those that have a field at the path, above or below it, but one of them.
func (o owners) others(path, but string) (names []string) {
	for name, fields := range o {
		if name != but && slices.ContainsFunc(fields, func(f string) bool { return overlap(f, path) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// take takes what overlaps the path from an owner.
func (o owners) take(path, from string) {
	left := slices.DeleteFunc(slices.Clone(o[from]), func(f string) bool { return overlap(f, path) })
	if o[from] = left; len(left) == 0 {
		delete(o, from)
	}
}

// within reports whether a path is another one or below it.
func within(path, other string) bool {
	return other == "" || path == other || strings.HasPrefix(path, other+".")
}

func overlap(a, b string) bool { return within(a, b) || within(b, a) }

// leaves are the paths of what says something in decoded JSON. A list is one.
func leaves(tree any) []string { return leavesBelow(tree, "", nil) }

func leavesBelow(tree any, path string, all []string) []string {
	if parts, ok := tree.(map[string]any); ok {
		for name, x := range parts {
			all = leavesBelow(x, shape.Join(path, name), all)
		}
		return all
	}
	if shape.SaysNothing(tree) {
		return all
	}
	return append(all, path)
}

// changedPaths are the paths at which b has another value than a. What comes, or goes, does so part by part, and what
// goes also as itself; so does what comes and holds nothing that JSON has.
func (s *core) changedPaths(a, b object, before, now any) []string {
	paths, was := changedBelow(before, now, "", nil), make(map[string]bool)
	for _, path := range s.spec.Set(a.parts().spec) {
		was[path] = true
	}
	all := slices.Clip(paths)
	empty := func(path string) {
		of, is := shape.CutItself(path)
		if is && !slices.ContainsFunc(paths, func(p string) bool { return within(p, of) }) {
			all = append(all, path)
		}
	}
	for _, path := range s.spec.Set(b.parts().spec) {
		if !was[path] {
			empty(path)
		}
		delete(was, path)
	}
	for path := range was {
		empty(path)
	}
	return all
}

func changedBelow(a, b any, path string, all []string) []string {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if !isX && a != nil || !isY && b != nil || len(x) == 0 && len(y) == 0 {
		if !sameJSON(a, b) {
			all = append(all, path)
		}
		return all
	}
	if isX && !isY {
		all = append(all, shape.PathOfItself(path))
	}
	for name := range y {
		all = changedBelow(x[name], y[name], shape.Join(path, name), all)
	}
	for name := range x {
		if _, is := y[name]; !is {
			all = changedBelow(x[name], nil, shape.Join(path, name), all)
		}
	}
	return all
}

// valueAt is what decoded JSON has at a path. That an object is there whatever its parts are is true; and that a list is, what
// is like no other and not like none.
func valueAt(tree any, path string) any {
	for _, name := range shape.SplitPath(path) {
		parts, ok := tree.(map[string]any)
		if name == shape.Itself {
			switch {
			case ok:
				return true
			case tree != nil:
				return [1]any{tree}
			}
			return nil
		}
		tree = parts[name]
	}
	return tree
}

// edits are the paths of a spec that get the values that a given JSON has there, or none.
type edits []struct {
	path  string
	taken bool // out
}

func (e *edits) add(path string, taken bool) {
	*e = append(*e, struct {
		path  string
		taken bool
	}{path, taken})
}

// of makes the edits of the JSON of a spec, with values of another. What is not edited stays as it is written.
func (e edits) of(spec, values json.RawMessage) (_ json.RawMessage, err error) {
	for _, x := range e {
		names := shape.SplitPath(x.path)
		var value json.RawMessage
		if !x.taken {
			if value, err = rawAt(values, names); err != nil {
				return nil, err
			}
		}
		if n := len(names); n > 0 && names[n-1] == shape.Itself {
			names = names[:n-1]
			if is, err := rawAt(spec, names); err != nil {
				return nil, err
			} else if !x.taken && isObject(is) {
				continue
			}
		}
		if spec, err = withRaw(spec, names, value); err != nil {
			return nil, err
		}
	}
	return spec, nil
}

// rawAt is what JSON has at a path; nil: nothing.
func rawAt(data json.RawMessage, names []string) (json.RawMessage, error) {
	for _, name := range names {
		if name == shape.Itself || !isObject(data) {
			return data, nil
		}
		var parts map[string]json.RawMessage
		if err := json.Unmarshal(data, &parts); err != nil {
			return nil, err
		}
		data = parts[name]
	}
	return data, nil
}

// withRaw puts a value into JSON; nil takes out what is there.
func withRaw(data json.RawMessage, names []string, value json.RawMessage) (json.RawMessage, error) {
	if len(names) == 0 {
		return value, nil
	}
	parts := map[string]json.RawMessage{}
	if isObject(data) {
		if err := json.Unmarshal(data, &parts); err != nil {
			return nil, err
		}
	} else if value == nil {
		return data, nil
	}
	next, err := withRaw(parts[names[0]], names[1:], value)
	if err != nil {
		return nil, err
	}
	if parts[names[0]] = next; next == nil {
		delete(parts, names[0])
	}
	return json.Marshal(parts)
}

// precedence is [Options].Precedence.
type precedence []string

func (p precedence) check(kind string) error {
	for i, name := range p {
		if checkOwner(name) != nil || slices.Contains(p[:i], name) {
			return fmt.Errorf("%w: kind %s: %.32q in the precedence is no owner, or stands there twice", ErrInvalid, kind, name)
		}
	}
	return nil
}

// before reports whether a declarer stands before another one: persons do not declare again.
func (p precedence) before(by string) bool {
	i := slices.Index(p, by)
	return i >= 0 && slices.ContainsFunc(p[i+1:], func(behind string) bool { return behind != editOwner })
}

// against reports whether a declarer takes a field over that others own, or leaves it to them, which counts more.
func (p precedence) against(by string, others []string) (wins, yields bool) {
	mine := slices.Index(p, by)
	wins = mine >= 0
	for _, other := range others {
		i := slices.Index(p, other)
		wins = wins && i > mine
		yields = yields || i >= 0 && i < mine
	}
	return wins, yields
}

// fieldsDeclared is a declaration of fields: the paths that it has, and a spec with their values.
type fieldsDeclared struct {
	by    string
	paths []string
	spec  specJSON
	force bool
	order precedence
}

// owned is a field that a declaration did not get.
type owned struct {
	path string
	by   []string
}

// over returns how the declaration changes a stored spec, and changes the owners.
func (d fieldsDeclared) over(stored any, o owners) (e edits, refused []owned) {
	mine := o[d.by]
	var has []string
	for _, path := range d.paths {
		value := valueAt(d.spec.plain, path)
		others := o.others(path, d.by)
		same := sameJSON(valueAt(stored, path), value)
		if there := shape.PathOfItself(path); same && value != nil && empty(value) && slices.Contains(d.paths, there) {
			same = sameJSON(valueAt(stored, there), valueAt(d.spec.plain, there)) // it encodes itself to what is like nothing
		}
		if itself, is := shape.CutItself(path); is && slices.ContainsFunc(refused, func(r owned) bool { return r.path == itself }) {
			continue // with the whole, which was refused
		}
		if !same && len(others) > 0 && !d.force {
			if wins, yields := d.order.against(d.by, others); yields {
				continue
			} else if !wins {
				refused = append(refused, owned{path, others})
				continue
			}
		}
		for _, other := range others {
			if !same || other == editOwner { // an edit is not made again
				o.take(path, other)
			}
		}
		if has = append(has, path); !same {
			e.add(path, false)
		}
	}
	for _, path := range mine {
		if slices.ContainsFunc(d.paths, func(p string) bool { return overlap(p, path) }) {
			continue
		}
		if d.order.before(d.by) {
			continue // a declarer behind takes it as it is, and not as zero
		}
		itself, isItself := shape.CutItself(path)
		if len(o.others(itself, d.by)) == 0 && (!isItself || !slices.ContainsFunc(d.paths, func(p string) bool { return within(p, itself) })) {
			e.add(path, valueAt(d.spec.plain, path) == nil) // of a struct's field it is the zero value
		}
	}
	if o[d.by] = has; len(has) == 0 {
		delete(o, d.by)
	}
	return e, refused
}

// change reports whether the edits change a spec, with values of another.
func (e edits) change(spec, values any) bool {
	for _, x := range e {
		value := valueAt(values, x.path)
		if x.taken {
			value = nil
		}
		if !sameJSON(valueAt(spec, x.path), value) {
			return true
		}
	}
	return false
}
