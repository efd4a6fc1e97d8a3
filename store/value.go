package store

import (
	"fmt"
	"reflect"
)

// value is an object as a backend holds it. It is not modified after the commit
// that stored it, so a backend of Go values, lists and caches share it.
type value[S, T any] struct {
	object Object[S, T]
	encoder
}

// typedValue is a value of any types.
type typedValue interface {
	Value
	Stamper
	parts() (object, *encoder)
}

// Stamp implements [Stamper].
func (v *value[S, T]) Stamp(r Revision) { v.object.Revision = r }

// Encode implements [Value].
func (v *value[S, T]) Encode() ([]byte, error) { return v.encode(&v.object) }

func (v *value[S, T]) parts() (object, *encoder) { return &v.object, &v.encoder }

// encoder is what a value has besides its object.
type encoder struct {
	core *core
	// stored is the encoding that the value replaces, decrypted, for its unknown
	// fields; nil where the backend keeps Go values.
	stored []byte
	// full allows all of [MaxValue] and not only [MaxObject].
	full bool
}

func (e *encoder) encode(o object) ([]byte, error) {
	s, m := e.core, o.meta()
	var data []byte
	if err := s.accept(o, func() (err error) {
		if data, err = s.encode(o, s.version); err == nil && e.stored != nil {
			data, err = s.keepUnknown(e.stored, data)
		}
		return err
	}); err != nil {
		return nil, err
	}
	most := MaxObject
	if e.full || m.Deleting() {
		most = MaxValue
	}
	// What was stored by a version without this bound can still be edited.
	if most = min(max(most, len(e.stored)), MaxValue-s.crypt.overhead()); len(data) > most {
		return nil, fmt.Errorf("%w: %s %s: %d bytes encoded, at most %d", ErrInvalid, s.kind, m.Key(), len(data), most)
	}
	return s.crypt.seal(s.kind, m.Key(), data), nil
}

// MaxObject is the longest encoding of an object that is created or edited, in bytes.
// The rest of [MaxValue] is left for what is added to any object: the time of its
// deletion, its generation, the record of a create ([Store.UpdateIntent]), and what
// its status says while it is being deleted. A backend that never encodes does not
// measure.
const MaxObject = MaxValue - 4<<10

// envelope is the encoded form.
type envelope struct {
	Schema int `json:"schema"`
	fields
}

// fields are those of [Object], without its types.
type fields struct {
	Meta               Meta          `json:"meta"`
	Spec               any           `json:"spec"`
	Status             any           `json:"status"`
	Conditions         []Condition   `json:"conditions,omitempty"`
	Phase              Phase         `json:"phase,omitempty"`
	ObservedGeneration int64         `json:"observedGeneration,omitempty"`
	FieldOwners        FieldOwners   `json:"fieldOwners,omitzero"`
	Outputs            storedOutputs `json:"outputs,omitzero"`
}

func (s *core) encode(o object, schema int) ([]byte, error) {
	p := o.parts()
	e := envelope{schema, fields{*p.Meta, p.spec, p.status, *p.conditions, *p.phase, *p.observed, *p.owners, storedOutputs(p.Intent.Outputs)}}
	e.Meta.Revision, e.Meta.Newer = 0, false // the backend keeps the one beside the object; the schema says the other
	data, err := encodeJSON(&e)
	return data, s.redactError(err, o)
}

// keepUnknown adds to next the fields of stored that this program does not know.
func (s *core) keepUnknown(stored, next []byte) ([]byte, error) {
	o := s.none.fresh()
	schema, err := s.schemaOf(stored)
	if err == nil {
		err = decodeObject(stored, o)
	}
	if err != nil {
		return nil, s.hideDecode(err)
	}
	known, err := s.encode(o, schema)
	if err != nil {
		return nil, err
	}
	return keepJSON(stored, known, next)
}

// found is a decoded record.
type found struct {
	object object
	*Meta  // of object
	schema int
	shared bool // others hold the object too
	stale  bool // it is stored in an earlier form, or under an earlier key
	record Record
}

// decode reads a record. The errors are [*DecodeError].
func (s *core) decode(r Record) (found, error) {
	f := found{schema: s.version, shared: true, record: r}
	if v, ok := r.Value.(typedValue); ok {
		o, e := v.parts()
		if reflect.TypeOf(o) == reflect.TypeOf(s.none) {
			f.object, f.Meta, f.schema, f.stale = o, o.meta(), e.core.version, e.core.version < s.version
			newer := f.schema > s.version
			if f.Revision != r.Revision || newer { // a deletion: the last object at the revision of its end
				f.object = o.copied()
				f.Meta = f.object.meta()
				f.Revision, f.Newer = r.Revision, newer
			}
			return f, nil
		}
	}
	return s.decodeEncoded(r)
}

func (s *core) decodeEncoded(r Record) (found, error) {
	f := found{schema: s.version, record: r}
	if err := s.call(func() error { return s.decodeBytes(&f, r) }); err != nil {
		return found{}, s.undecodable(r, err)
	}
	return f, nil
}

// decodeBytes does not trust the bytes: the store may have other writers. Where
// the record lies decides its name, and limits hold as for a write.
func (s *core) decodeBytes(f *found, r Record) error {
	data, err := r.Encode()
	if err != nil {
		return err
	}
	if len(data) > MaxValue {
		return fmt.Errorf("%d bytes, at most %d", len(data), MaxValue)
	}
	if data, f.stale, err = s.crypt.open(s.kind, r.Key, data); err != nil {
		return err
	}
	data, schema, converted, err := s.toThisVersion(data)
	if err != nil {
		return err
	}
	if r.Bytes != nil {
		f.record.Bytes = data
	}
	o := s.none.fresh()
	if err := decodeObject(data, o); err != nil {
		return s.hideDecode(err)
	}
	f.object, f.Meta, f.schema = o, o.meta(), schema
	f.Namespace, f.Name, f.Revision, f.Newer = r.Key.Namespace, r.Key.Name, r.Revision, schema > s.version
	f.stale = f.stale || converted || schema < s.version
	return checkMeta(f.Meta)
}
