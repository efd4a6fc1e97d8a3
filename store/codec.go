package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/tendhq/tend/store/internal/shape"
)

// encodeJSON is the stored form of an object, for backends that keep bytes. It neither writes
// nor reads what is nested more than [MaxDepth] deep.
func encodeJSON(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err == nil && tooDeep(data) {
		return nil, fmt.Errorf("%w: nested more than %d deep", ErrInvalid, MaxDepth)
	}
	return data, err
}

func decodeJSON(data []byte, v any) error {
	if tooDeep(data) {
		return fmt.Errorf("nested more than %d deep", MaxDepth)
	}
	return json.Unmarshal(data, v)
}

// tooDeep reports whether lists and objects lie in each other more than
// [MaxDepth] deep. encoding/json stops at 10,000, where what walks an object
// level by level, as keepJSON does, takes minutes for one of a megabyte. The bytes
// need not be JSON.
func tooDeep(data []byte) bool { return shape.Deeper(data, MaxDepth) }

// keepJSON carries over what a program does not know: stored is what lies in the store, known is
// the same after this program decoded and encoded it, next is the new version. The result is next
// with every field added that is in stored and not in known, at any depth but not inside lists,
// whose elements cannot be told apart.
func keepJSON(stored, known, next []byte) ([]byte, error) {
	if bytes.Equal(stored, known) {
		return next, nil // nothing unknown: by far the most common case
	}
	merged, err := keepFields(stored, known, next)
	if err != nil {
		return nil, fmt.Errorf("keep unknown fields: %w", err)
	}
	return merged, nil
}

// keepFields merges three objects; if one of them is no object, next wins whole. What nothing
// is added to stays as it is, byte by byte: a json.RawMessage would come back with its keys in
// another order, differ from what is declared, and be written again for ever.
func keepFields(stored, known, next json.RawMessage) (json.RawMessage, error) {
	if !isObject(stored) || !isObject(known) || !isObject(next) {
		return next, nil
	}
	var s, k, n map[string]json.RawMessage
	for _, x := range []struct {
		data json.RawMessage
		into *map[string]json.RawMessage
	}{{stored, &s}, {known, &k}, {next, &n}} {
		if err := json.Unmarshal(x.data, x.into); err != nil {
			return nil, err
		}
	}
	ours := foldedNames(k, n)
	changed := false
	for name, old := range s {
		kept, err := keepField(n, name, old, k, ours)
		if err != nil {
			return nil, err
		}
		changed = changed || kept
	}
	if !changed {
		return next, nil
	}
	return json.Marshal(n)
}

// keepField decides about one field of the stored object, and reports whether it changed next.
// One that we know and that is missing from next was removed on purpose.
func keepField(next map[string]json.RawMessage, name string, old json.RawMessage, known map[string]json.RawMessage, ours map[string]bool) (changed bool, err error) {
	now, present := next[name]
	same, isKnown := known[name]
	switch {
	case present:
		if !isKnown { // it was left out, because all that we know of it was empty
			same = json.RawMessage("{}")
		}
		next[name], err = keepFields(old, same, now)
		return !bytes.Equal(next[name], now), err
	case !isKnown && !ours[folded(name)]:
		next[name] = old
		return true, nil
	}
	return false, nil
}

// foldedNames are the names of the fields that we know, without their case.
func foldedNames(known, next map[string]json.RawMessage) map[string]bool {
	ours := make(map[string]bool, len(known))
	for _, fields := range []map[string]json.RawMessage{known, next} {
		for name := range fields {
			ours[folded(name)] = true
		}
	}
	return ours
}

// folded is a name without its case: encoding/json reads "userId" into a field "userID". Kept
// beside that, the old value could be read in its place.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, name)
}

func isObject(data json.RawMessage) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && data[0] == '{'
}
