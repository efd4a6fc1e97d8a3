package store

import "fmt"

// value is an object as a backend holds it. It is not modified after the commit
// that stored it, so a backend of Go values, lists and caches share it.
type value[S, T any] struct {
	Object[S, T]
	store  *Store[S, T]
	schema int
	// stored is the encoding that this value replaces, decrypted, for its unknown
	// fields; nil where the backend keeps Go values.
	stored []byte
	// full allows all of [MaxValue] and not only [MaxObject].
	full bool
}

// envelope is the encoded form.
type envelope[S, T any] struct {
	Schema int `json:"schema"`
	*Object[S, T]
}

// Stamp implements [Stamper].
func (v *value[S, T]) Stamp(r Revision) { v.Revision = r }

// Encode implements [Value].
func (v *value[S, T]) Encode() ([]byte, error) {
	var data []byte
	if err := v.store.accept(&v.Object, func() (err error) {
		if data, err = v.store.encode(&v.Object, v.schema); err == nil && v.stored != nil {
			data, err = v.store.keepUnknown(v.stored, data)
		}
		return err
	}); err != nil {
		return nil, err
	}
	most := MaxObject
	if v.full || v.Deleting() {
		most = MaxValue
	}
	// What was stored by a version without this bound can still be edited.
	if most = min(max(most, len(v.stored)), MaxValue-v.store.crypt.overhead()); len(data) > most {
		return nil, fmt.Errorf("%w: %s %s: %d bytes encoded, at most %d", ErrInvalid, v.store.kind, v.Key(), len(data), most)
	}
	return v.store.crypt.seal(v.store.kind, v.Key(), data), nil
}

// MaxObject is the longest encoding of an object that is created or edited, in bytes.
// The rest of [MaxValue] is left for what is added to any object: the time of its
// deletion, its generation, the record of a create ([Store.UpdateIntent]), and what
// its status says while it is being deleted. A backend that never encodes does not
// measure.
const MaxObject = MaxValue - 4<<10

func (s *Store[S, T]) encode(o *Object[S, T], schema int) ([]byte, error) {
	stored := *o
	stored.Revision, stored.Newer = 0, false // the backend keeps the one beside the object; the schema says the other
	data, err := encodeJSON(envelope[S, T]{schema, &stored})
	return data, s.RedactError(err, o)
}

// keepUnknown adds to next the fields of stored that this program does not know.
func (s *Store[S, T]) keepUnknown(stored, next []byte) ([]byte, error) {
	var o Object[S, T]
	env := envelope[S, T]{Object: &o}
	if err := decodeJSON(stored, &env); err != nil {
		return nil, s.hideDecode(err)
	}
	known, err := s.encode(&o, env.Schema)
	if err != nil {
		return nil, err
	}
	return keepJSON(stored, known, next)
}

// found is a decoded record.
type found[S, T any] struct {
	*Object[S, T]
	schema int
	shared bool // others hold the object too
	stale  bool // it is stored in an earlier form, or under an earlier key
	record Record
}

// decode reads a record. The errors are [*DecodeError].
func (s *Store[S, T]) decode(r Record) (found[S, T], error) {
	f := found[S, T]{schema: s.version, shared: true, record: r}
	if v, ok := r.Value.(*value[S, T]); ok {
		f.Object, f.schema, f.stale = &v.Object, v.schema, v.schema < s.version
		newer := v.schema > s.version
		if v.Revision != r.Revision || newer { // a deletion: the last object at the revision of its end
			last := v.Object
			last.Revision, last.Newer = r.Revision, newer
			f.Object = &last
		}
		return f, nil
	}
	return s.decodeEncoded(r)
}

func (s *Store[S, T]) decodeEncoded(r Record) (found[S, T], error) {
	f := found[S, T]{schema: s.version, record: r}
	if err := s.call(func() error { return s.decodeBytes(&f, r) }); err != nil {
		return f, s.undecodable(r, err)
	}
	return f, nil
}

// decodeBytes does not trust the bytes: the store may have other writers. Where
// the record lies decides its name, and limits hold as for a write.
func (s *Store[S, T]) decodeBytes(f *found[S, T], r Record) error {
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
	data, converted, err := s.toThisVersion(data)
	if err != nil {
		return err
	}
	if r.Bytes != nil {
		f.record.Bytes = data
	}
	o := new(Object[S, T])
	env := envelope[S, T]{Object: o}
	if err := decodeJSON(data, &env); err != nil {
		return s.hideDecode(err)
	}
	if env.Object != o { // a JSON null in its place
		return fmt.Errorf("not an object")
	}
	o.Namespace, o.Name, o.Revision, o.Newer = r.Key.Namespace, r.Key.Name, r.Revision, env.Schema > s.version
	f.Object, f.schema = o, env.Schema
	f.stale = f.stale || converted || env.Schema < s.version
	return checkMeta(&o.Meta)
}
