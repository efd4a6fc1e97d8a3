package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/tendhq/tend/store"
)

// ErrBare says that a [Bare] kind does not write specs, because it knows neither the
// type, nor the defaults, nor the rules of the kind.
var ErrBare = errors.New("only metadata can be changed without the kind's type")

// raw is the JSON of a spec or status whose type is not known.
type raw struct{ data json.RawMessage }

func (r raw) Clone() raw                    { return raw{slices.Clone(r.data)} }
func (r raw) Equal(x raw) bool              { return string(r.data) == string(x.data) }
func (r *raw) UnmarshalJSON(d []byte) error { r.data = slices.Clone(d); return nil }

func (r raw) MarshalJSON() ([]byte, error) {
	if r.data == nil {
		return []byte("null"), nil
	}
	return r.data, nil
}

// Bare returns the objects of a kind on a backend of bytes,
// for a program that does not have the kind's types. Spec and status are shown only if
// showAll is set, with their secrets: which fields are secret is not known. Put is
// [ErrBare]. What is written keeps the version of the schema that it has.
func Bare(b store.Backend, name string, showAll bool) (Kind, error) {
	if _, err := rawStore(b, name, 1); err != nil {
		return nil, err
	}
	return bare{b, name, showAll}, nil
}

func rawStore(b store.Backend, name string, version int) (*store.Store[raw, raw], error) {
	return store.New(b, name, &store.Options[raw, raw]{Version: version})
}

type bare struct {
	backend store.Backend
	name    string
	showAll bool
}

// typed is the kind with a store that reads every version; at is the version that it
// writes.
func (k bare) typed(at int) *kind[raw, raw] {
	s, _ := rawStore(k.backend, k.name, at) // checked by Bare
	return &kind[raw, raw]{s, nil}
}

// writer is typed at the version of the stored object.
func (k bare) writer(ctx context.Context, key store.Key) (*kind[raw, raw], error) {
	r, err := k.backend.Get(ctx, k.name, key)
	if err != nil {
		return nil, err
	}
	data, err := r.Encode()
	if err != nil {
		return nil, err
	}
	var envelope struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(data, &envelope); err != nil || envelope.Schema < 1 {
		return nil, fmt.Errorf("%w: %s %s is not an object in JSON", store.ErrInvalid, k.name, key)
	}
	return k.typed(envelope.Schema), nil
}

func (k bare) hide(o Object) Object {
	if show := o.show; show != nil && !k.showAll {
		o.show = func() ([]byte, error) {
			data, err := show()
			if err != nil {
				return nil, err
			}
			var tree map[string]json.RawMessage
			if err := json.Unmarshal(data, &tree); err != nil {
				return nil, err
			}
			delete(tree, "spec")
			delete(tree, "status")
			return json.Marshal(tree)
		}
	}
	return o
}

func (k bare) Kind() string { return k.name }

func (k bare) Get(ctx context.Context, key store.Key) (Object, error) {
	o, err := k.typed(math.MaxInt32).Get(ctx, key)
	return k.hide(o), err
}

func (k bare) All(ctx context.Context, sel store.Selector) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for o, err := range k.typed(math.MaxInt32).All(ctx, sel) {
			if !yield(k.hide(o), err) {
				return
			}
		}
	}
}

func (k bare) Watch(ctx context.Context, after store.Revision) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range k.typed(math.MaxInt32).Watch(ctx, after) {
			e.Object = k.hide(e.Object)
			if !yield(e, err) {
				return
			}
		}
	}
}

func (k bare) Put(context.Context, store.Key, store.Revision, []byte) (Object, error) {
	return Object{}, fmt.Errorf("%s: %w", k.name, ErrBare)
}

func (k bare) Apply(context.Context, store.Key, string, bool, []byte) (Object, error) {
	return Object{}, fmt.Errorf("%s: %w", k.name, ErrBare)
}

func (k bare) Edit(ctx context.Context, key store.Key, at store.Revision, change func(*store.Meta) error) (Object, error) {
	w, err := k.writer(ctx, key)
	if err != nil {
		return Object{}, err
	}
	o, err := w.Edit(ctx, key, at, change)
	return k.hide(o), err
}

func (k bare) Delete(ctx context.Context, key store.Key, at store.Revision) error {
	w, err := k.writer(ctx, key)
	if err != nil {
		return err
	}
	return w.Delete(ctx, key, at)
}

func (k bare) RemoveFinalizer(ctx context.Context, key store.Key, name string) (Object, error) {
	w, err := k.writer(ctx, key)
	if err != nil {
		return Object{}, err
	}
	o, err := w.RemoveFinalizer(ctx, key, name)
	return k.hide(o), err
}

func (k bare) Answer(ctx context.Context, key store.Key, a Answer, externalName string) (Object, error) {
	w, err := k.writer(ctx, key)
	if err != nil {
		return Object{}, err
	}
	o, err := w.Answer(ctx, key, a, externalName)
	return k.hide(o), err
}

// compare orders objects by kind and key.
func compare(a, b Object) int {
	return strings.Compare(a.Kind+"\x00"+a.Key().String(), b.Kind+"\x00"+b.Key().String())
}
