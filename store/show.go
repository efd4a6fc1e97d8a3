package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tendhq/tend/store/internal/shape"
)

// Show returns the JSON of an object without its secrets: "(secret)" ([Redacted]) stands
// in place of each field tagged tend:"secret" that is not empty, and where the value of
// one stands in other fields of spec and status, in conditions, labels and annotations
// (all of these whole, where [Store.Redact] would give up its search).
// It is the form in which people and programs read and edit objects; [Store.Parse]
// reads it.
func (s *Store[S, T]) Show(o *Object[S, T]) ([]byte, error) { return s.core.shown(o) }

func (s *core) shown(o object) ([]byte, error) {
	if o.meta() == nil {
		return nil, s.noObject()
	}
	var data []byte
	err := s.call(func() (err error) {
		data, err = s.show(o)
		return err
	})
	if failed(err) {
		err = fmt.Errorf("%s: %w", s.kind, s.redactError(err, o))
	}
	return data, err
}

func (s *core) show(o object) ([]byte, error) {
	data, err := json.Marshal(o)
	if err != nil || !s.hides(o) {
		return data, s.redactError(err, o)
	}
	tree, err := readTree(data)
	if err != nil {
		return nil, s.hideDecode(err)
	}
	s.hide(tree, o)
	return json.Marshal(tree)
}

// hide takes the secrets of o out of its JSON.
func (s *core) hide(tree map[string]any, o object) {
	p := o.parts()
	tree["spec"] = s.spec.Hide(p.spec, tree["spec"], Redacted)
	tree["status"] = s.status.Hide(p.status, tree["status"], Redacted)
	v := s.secretsIn(textsOf(tree, nil), o)
	tree["spec"], tree["status"] = v.redactTree(tree["spec"]), v.redactTree(tree["status"])
	conditions, _ := tree["conditions"].([]any)
	for _, c := range conditions {
		for _, name := range []string{"reason", "message"} {
			if text, ok := asMap(c)[name].(string); ok {
				asMap(c)[name] = v.redact(text)
			}
		}
	}
	if x, ok := tree[ownersField]; ok {
		tree[ownersField] = v.redactTree(x)
	}
	meta := asMap(tree["meta"])
	for _, name := range []string{"labels", "annotations"} {
		if x, ok := meta[name]; ok {
			meta[name] = v.redactTree(x)
		}
	}
}

// textsOf appends every text and number of decoded JSON.
func textsOf(x any, texts []string) []string {
	switch x := x.(type) {
	case string:
		return append(texts, x)
	case json.Number:
		return append(texts, x.String())
	case []any:
		for _, v := range x {
			texts = textsOf(v, texts)
		}
	case map[string]any:
		for k, v := range x {
			texts = textsOf(v, append(texts, k))
		}
	}
	return texts
}

// redactTree takes the secrets out of every text and number of decoded JSON.
func (c *secrets) redactTree(x any) any {
	switch x := x.(type) {
	case string:
		return c.redact(x)
	case json.Number:
		if c.redact(x.String()) != x.String() {
			return Redacted
		}
	case []any:
		for i := range x {
			x[i] = c.redactTree(x[i])
		}
	case map[string]any:
		if c.Enough() { // not by key: all would be one, and hold one of the values
			return map[string]any{Redacted: Redacted}
		}
		clean := make(map[string]any, len(x))
		for _, k := range slices.Sorted(maps.Keys(x)) { // two keys may become one
			clean[c.redact(k)] = c.redactTree(x[k])
		}
		return clean
	}
	return x
}

// SpecChange names the first field that differs between the specs of two objects, by the
// names that it has in JSON, and gives its values as [Store.Show] has them, clipped
// ([Clip]); "unset" where there is none. A list is one field. All are empty if the JSON of
// the specs is the same. It fails if a spec cannot be marshalled.
func (s *Store[S, T]) SpecChange(old, now *Object[S, T]) (field, was, is string, err error) {
	return s.core.specChange(old, now)
}

func (s *core) specChange(old, now object) (field, was, is string, err error) {
	var plain, shown [2]any
	for i, o := range []object{old, now} {
		if plain[i], err = treeOf(json.Marshal(o.parts().spec)); err == nil {
			shown[i], err = treeOf(s.shown(o))
		}
		if err != nil {
			return "", "", "", s.redactError(err, old, now)
		}
		shown[i] = asMap(shown[i])["spec"]
	}
	path, differ := changedPath(plain[0], plain[1])
	if !differ {
		return "", "", "", nil
	}
	at := ""
	for _, name := range path {
		at = shape.Join(at, name)
	}
	return Clip(s.redact(strings.Join(path, "."), old, now)), s.textAt(shown[0], at, old, now), s.textAt(shown[1], at, old, now), nil
}

// treeOf decodes JSON, unless err says that there is none.
func treeOf(data []byte, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var tree any
	err = d.Decode(&tree) // apart: a return may read tree before it makes the call
	return tree, err
}

// changedPath is the path of the first value that differs between two trees; differ is false
// if none does.
func changedPath(a, b any) (path []string, differ bool) {
	x, ok := a.(map[string]any)
	y, too := b.(map[string]any)
	if !ok || !too {
		return nil, !reflect.DeepEqual(a, b)
	}
	names := slices.Concat(slices.Collect(maps.Keys(x)), slices.Collect(maps.Keys(y)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if below, differ := changedPath(x[name], y[name]); differ {
			return append([]string{name}, below...), true
		}
	}
	return nil, false
}

// Parse reads the JSON of an object of this kind. "(secret)" where [Store.Show] has
// put it keeps the value of stored, the object that is to be replaced; in a list the
// element around it must be unchanged, and in a key of a map the whole map. Stored is nil for an object that is to be
// created. A field that the kind does not have, and "(secret)" where no secret is
// stored, are [ErrInvalid].
func (s *Store[S, T]) Parse(data []byte, stored *Object[S, T]) (*Object[S, T], error) {
	return typed[S, T](s.core.parsed(data, stored))
}

func (s *core) parsed(data []byte, stored object) (o object, err error) {
	err = s.call(func() (err error) {
		o, err = s.parse(data, stored)
		return err
	})
	if failed(err) {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, s.kind, s.hideDecode(err))
	}
	return o, err
}

func (s *core) parse(data []byte, stored object) (object, error) {
	data, err := s.reveal(data, stored)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, s.kind, err)
	}
	if tooDeep(data) {
		return nil, fmt.Errorf("%w: %s: nested more than %d deep", ErrInvalid, s.kind, MaxDepth)
	}
	if string(bytes.TrimSpace(data)) == "null" {
		return nil, fmt.Errorf("%w: %s: null is no object", ErrInvalid, s.kind)
	}
	o := s.none.fresh()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(o); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, s.kind, s.hideDecode(err))
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: %s: more than one object", ErrInvalid, s.kind)
	}
	tree, err := readTree(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, s.kind, s.hideDecode(err))
	}
	*o.parts().owners = declaredEmpty(s.spec.Empty(tree["spec"]))
	return o, nil
}

// reveal puts the stored secrets where [Redacted] stands.
func (s *core) reveal(data []byte, stored object) ([]byte, error) {
	if !s.hides(stored) || !json.Valid(data) { // what is not valid cannot be decoded either
		return data, nil
	}
	tree, err := readTree(data)
	if err != nil {
		return nil, errHidden
	}
	if !mentionsSecret(tree) { // of the tree: in the bytes it may be written with escapes
		return data, nil
	}
	var shown, full map[string]any
	if stored.meta() != nil {
		text, err := json.Marshal(stored)
		if err != nil {
			return nil, errHidden
		}
		full, _ = readTree(text)
		shown, _ = readTree(text)
		s.hide(shown, stored)
	}
	delete(tree, "status") // it is not taken
	delete(tree, "conditions")
	if err := revealIn(tree, shown, full, ""); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

func revealIn(tree, shown, full map[string]any, path string) (err error) {
	for k, x := range tree {
		if strings.Contains(k, Redacted) {
			return fmt.Errorf("field %s: %w", strings.TrimPrefix(path+"."+k, "."), errNoSecret)
		}
		if tree[k], err = revealed(x, shown[k], full[k], path+"."+k); err != nil {
			return err
		}
	}
	return nil
}

var errNoSecret = errors.New(Redacted + ` stands where no secret is stored, or in an element of a list or the name of a field that has changed: write the value`)

// revealed gives x with the secrets of full, of which shown is what is shown.
func revealed(x, shown, full any, path string) (any, error) {
	if !mentionsSecret(x) {
		return x, nil
	}
	if reflect.DeepEqual(x, shown) {
		return full, nil
	}
	switch x := x.(type) {
	case map[string]any:
		return x, revealIn(x, asMap(shown), asMap(full), path)
	case []any:
		had, _ := shown.([]any)
		values, _ := full.([]any)
		at := map[string][]int{} // the places of the stored elements by what is shown of them
		for j, h := range had {
			text := jsonOf(h)
			at[text] = append(at[text], j)
		}
		for i := range x {
			if !mentionsSecret(x[i]) {
				continue
			}
			j := at[jsonOf(x[i])]
			if len(j) != 1 || j[0] >= len(values) {
				return nil, fmt.Errorf("field %s[%d]: %w", strings.TrimPrefix(path, "."), i, errNoSecret)
			}
			x[i] = values[j[0]]
		}
		return x, nil
	}
	return nil, fmt.Errorf("field %s: %w", strings.TrimPrefix(path, "."), errNoSecret)
}

// jsonOf is decoded JSON as a text, to compare it.
func jsonOf(x any) string {
	text, _ := json.Marshal(x) // what was decoded can be encoded
	return string(text)
}

// mentionsSecret reports whether [Redacted] stands somewhere in decoded JSON.
func mentionsSecret(x any) bool {
	switch x := x.(type) {
	case string:
		return strings.Contains(x, Redacted)
	case []any:
		return slices.ContainsFunc(x, mentionsSecret)
	case map[string]any:
		for k, v := range x {
			if mentionsSecret(k) || mentionsSecret(v) {
				return true
			}
		}
	}
	return false
}

func readTree(data []byte) (tree map[string]any, err error) {
	if tooDeep(data) {
		return nil, fmt.Errorf("nested more than %d deep", MaxDepth)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&tree)
	return tree, err
}
