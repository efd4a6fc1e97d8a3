package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"

	"github.com/tendhq/tend/store/internal/shape"
)

// Declaration is an object as declared, encoded, for backends that apply it later than
// it was declared and without knowing its type. [Store.Declaration] makes it.
type Declaration struct {
	Kind  string
	Key   Key
	Value []byte // what Create would store, and a mark: see Stored
}

// ErrDeleting says that the object is being deleted: a declaration has to wait until it
// is gone.
var ErrDeleting = errors.New("store: being deleted")

// Declaration returns o as Create would store it, after the same checks. Only what is
// declared counts later: fields of the spec, labels and annotations, and finalizers and
// owners where the object does not exist yet. The declarer is the label [LabelOwner] of o; without one
// it is "declaration".
func (s *Store[S, T]) Declaration(o *Object[S, T]) (Declaration, error) { return s.core.declaration(o) }

func (s *core) declaration(o object) (Declaration, error) {
	want, err := s.asWritten(o)
	if err != nil {
		return Declaration{}, err
	}
	d := declaring{s: s, want: want, by: cmp.Or(o.meta().Labels[LabelOwner], declarationOwner)}
	v, err := d.fresh()
	if err != nil {
		return Declaration{}, err
	}
	return s.encodedDeclaration(v, d.by)
}

func (s *core) encodedDeclaration(v typedValue, by string) (Declaration, error) {
	o, _ := v.parts()
	if p := o.parts(); *p.owners == "" { // it declares no field, and is one by its record
		spec, err := s.trees(o)
		if err != nil {
			return Declaration{}, err
		}
		*p.owners = ownersRecord{1, map[string]ownedBy{by: {But: leaves(spec.hidden)}}}.text()
	}
	key := o.meta().Key()
	data, err := v.Encode()
	if err != nil {
		return Declaration{}, err
	}
	d := Declaration{Kind: s.kind, Key: key, Value: data}
	if s.crypt != nil {
		return Declaration{}, fmt.Errorf("%w: declaration of %s %s: the kind is encrypted", ErrInvalid, s.kind, key)
	}
	marked := map[string]any{}
	if s.convert != nil {
		marked[convertsMark] = true
	}
	if lists := s.spec.Lists(); lists != nil {
		marked[listsMark] = lists
	}
	if len(s.precedence) > 0 {
		marked[precedenceMark] = s.precedence
	}
	if len(marked) == 0 {
		return d, nil
	}
	doc, err := readEnvelope(data)
	if err == nil {
		maps.Copy(doc.all, marked)
		d.Value, err = json.Marshal(doc.all)
	}
	return d, err
}

// declarationOwner owns the fields of a declaration without the label [LabelOwner].
const declarationOwner = "declaration"

// convertsMark is a field of the declarations of a kind with [Options].Convert.
const convertsMark = "converts"

// listsMark is a field of the declarations of a kind with lists whose elements have keys, which it describes.
const listsMark = "keyedLists"

// precedenceMark is a field of the declarations of a kind with [Options].Precedence, which it has.
const precedenceMark = "precedence"

var marks = []string{convertsMark, listsMark, precedenceMark}

// Stored returns what is to be stored where no object is.
func (d Declaration) Stored() ([]byte, error) {
	if !slices.ContainsFunc(marks, func(mark string) bool { return bytes.Contains(d.Value, []byte(mark)) }) {
		return d.Value, nil
	}
	declared, err := readEnvelope(d.Value)
	if err != nil {
		return nil, fmt.Errorf("%w: declaration of %s %s: %w", ErrDecode, d.Kind, d.Key, err)
	}
	for _, mark := range marks {
		delete(declared.all, mark)
	}
	return json.Marshal(declared.all)
}

// Over returns what is to be stored where stored is: stored with the declared labels, annotations and fields of
// the spec, merged as [Store.Apply] merges them. Other labels and annotations stay.
// The generation grows if the spec changed; lists and objects without elements are equal
// to absent ones. It returns nil if nothing changes. The errors: [ErrDeleting]; [ErrNewer]; [ErrOwned] if another owns
// one of the fields with another value, and then nothing of it is to be stored;
// [ErrInvalid] if the result is too long, or if the object was stored by an earlier version of
// a kind with conversions, which only a [Store] has: call [Rewrite] first; what is wrong with
// the bytes.
func (d Declaration) Over(stored []byte) ([]byte, error) {
	old, err := readEnvelope(stored)
	if err != nil {
		return nil, fmt.Errorf("%w: %s %s: %w", ErrDecode, d.Kind, d.Key, err)
	}
	declared, err := readEnvelope(d.Value)
	if err != nil {
		return nil, fmt.Errorf("%w: declaration of %s %s: %w", ErrDecode, d.Kind, d.Key, err)
	}
	switch {
	case old.schema > declared.schema:
		return nil, fmt.Errorf("%w: %s %s has schema version %d, the declaration %d", ErrNewer, d.Kind, d.Key, old.schema, declared.schema)
	case old.schema < declared.schema && declared.all[convertsMark] == true:
		return nil, fmt.Errorf("%w: %s %s has schema version %d and has to be converted to %d first (store.Rewrite)",
			ErrInvalid, d.Kind, d.Key, old.schema, declared.schema)
	case !empty(old.meta["deleted"]):
		return nil, fmt.Errorf("%w: %s %s", ErrDeleting, d.Kind, d.Key)
	}
	changed, err := d.fieldsOver(old, declared)
	if err != nil {
		return nil, err
	}
	for _, field := range []string{"labels", "annotations"} {
		next := map[string]any{}
		maps.Copy(next, asMap(old.meta[field]))
		maps.Copy(next, asMap(declared.meta[field]))
		if !sameJSON(old.meta[field], any(next)) {
			old.meta[field], changed = next, true
		}
	}
	if !changed {
		return nil, nil
	}
	old.all["schema"] = declared.all["schema"]
	data, err := json.Marshal(old.all)
	if most := min(max(MaxObject, len(stored)), MaxValue); err == nil && len(data) > most {
		err = fmt.Errorf("%w: %s %s: %d bytes encoded, at most %d", ErrInvalid, d.Kind, d.Key, len(data), most)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// fieldsOver merges the declared spec into the stored one, and reports whether something has changed. A declaration
// without a record, as an earlier version made it, replaces the spec.
func (d Declaration) fieldsOver(old, declared document) (changed bool, err error) {
	generation, err := old.generation()
	if err != nil {
		return false, fmt.Errorf("%w: %s %s: %w", ErrDecode, d.Kind, d.Key, err)
	}
	lists, err := declared.lists()
	if err != nil {
		return false, fmt.Errorf("%w: %s %s: %w", ErrDecode, d.Kind, d.Key, err)
	}
	stored, before, clash := lists.Keyed(old.all["spec"])
	wanted, after, _ := lists.Keyed(declared.all["spec"])
	if clash != nil {
		return false, fmt.Errorf("%w: %s %s: %w", ErrInvalid, d.Kind, d.Key, clash)
	}
	spec, record := stored, FieldOwners("")
	of := old.owners().of(generation, spec, before)
	by := declared.owners().of(1, wanted, after)
	for name := range declared.owners().record().By {
		if _, is := by[name]; !is {
			by[name] = nil // it declares nothing
		}
	}
	if len(by) == 0 {
		spec, changed = wanted, !sameJSON(stored, wanted)
	}
	for name, paths := range by { // there is one
		merged, edited, refused, err := fieldsDeclared{by: name, paths: paths, spec: specJSON{plain: wanted}, order: declared.precedence()}.onto(spec, of)
		if err != nil {
			return false, fmt.Errorf("%w: %s %s: %w", ErrDecode, d.Kind, d.Key, err)
		}
		if len(refused) > 0 {
			return false, fmt.Errorf("%w: %s %s: %s: %v has another value than %s declares", ErrOwned, d.Kind, d.Key, refused[0].path, refused[0].by, name)
		}
		spec, changed = merged, changed || edited
	}
	if changed {
		generation++
		old.all["spec"], old.meta["generation"] = lists.Unkeyed(spec, before, after), generation
	}
	if len(by) > 0 {
		record = of.record(generation, spec)
	}
	if record != old.owners() && (changed || len(by) > 0) {
		if changed = true; record == "" {
			delete(old.all, ownersField)
		} else {
			old.all[ownersField] = record
		}
	}
	return changed, nil
}

// onto is over of decoded JSON: it returns the merged spec, and leaves the stored one as it is.
func (d fieldsDeclared) onto(stored any, o owners) (merged any, changed bool, refused []owned, err error) {
	e, refused := d.over(stored, o)
	if !e.change(stored, d.spec.plain) {
		return stored, false, refused, nil
	}
	spec, err := json.Marshal(stored)
	if err != nil {
		return nil, false, nil, err
	}
	values, err := json.Marshal(d.spec.plain)
	if err != nil {
		return nil, false, nil, err
	}
	data, err := e.of(spec, values)
	merged, err = treeOf(data, err)
	return merged, true, refused, err
}

// document is an encoded object, of which only the outer fields are known.
type document struct {
	schema int64
	all    map[string]any
	meta   map[string]any // of all
}

func readEnvelope(data []byte) (document, error) {
	var d document
	if tooDeep(data) {
		return d, fmt.Errorf("nested more than %d deep", MaxDepth)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // floats would lose digits
	if err := dec.Decode(&d.all); err != nil {
		return d, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return d, errors.New("more than one object")
	}
	number, ok := d.all["schema"].(json.Number)
	d.meta = asMap(d.all["meta"])
	if !ok || d.meta == nil {
		return d, errors.New("no object of a store")
	}
	var err error
	d.schema, err = number.Int64()
	return d, err
}

func (d document) generation() (int64, error) {
	number, _ := d.meta["generation"].(json.Number)
	return number.Int64()
}

// lists describes the lists of a declaration.
func (d document) lists() (lists *shape.Lists, err error) {
	if d.all[listsMark] == nil {
		return nil, nil
	}
	data, err := json.Marshal(d.all[listsMark])
	if err == nil {
		err = json.Unmarshal(data, &lists)
	}
	return lists, err
}

// precedence is that of the kind of a declaration.
func (d document) precedence() (all precedence) {
	names, _ := d.all[precedenceMark].([]any)
	for _, name := range names {
		if name, is := name.(string); is {
			all = append(all, name)
		}
	}
	return all
}

// owners is the record of the owners of fields.
func (d document) owners() FieldOwners {
	if d.all[ownersField] == nil {
		return ""
	}
	data, _ := json.Marshal(d.all[ownersField]) // it was decoded
	return FieldOwners(data)
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// sameJSON compares values as they are decoded. What has no elements is equal to what is
// absent.
func sameJSON(a, b any) bool {
	if empty(a) && empty(b) {
		return true
	}
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return false
		}
		for k := range x {
			if !sameJSON(x[k], y[k]) {
				return false
			}
		}
		for k := range y {
			if _, known := x[k]; !known && !empty(y[k]) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !sameJSON(x[i], y[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

func empty(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(x) == 0
	case []any:
		return len(x) == 0
	}
	return false
}
