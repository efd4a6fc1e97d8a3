package depend

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tendhq/tend/store"
)

// Ref names one object of one kind.
type Ref struct {
	Kind string    `json:"kind"`
	Key  store.Key `json:"key"`
}

// String is the kind and the key, as in "subnet prod/a".
func (r Ref) String() string { return r.Kind + " " + r.Key.String() }

// finalizerPrefix begins the finalizer that keeps a needed object while objects of
// another kind use it: the kind of the users follows, see [Finalizer].
const finalizerPrefix = "tend.needed-by."

// Finalizer is the finalizer of the objects that objects of a kind use. It is put on a
// needed object before the first use and removed when the object is in deletion and no
// object of the kind holds it any more.
func Finalizer(users string) string { return finalizerPrefix + users }

// UserKinds are the kinds whose objects use the object that carries the finalizers.
func UserKinds(finalizers []string) (kinds []string) {
	for _, f := range finalizers {
		if kind, ok := strings.CutPrefix(f, finalizerPrefix); ok {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// InUse says in words that objects of other kinds still use an object in deletion;
// empty: none does.
func InUse(finalizers []string) string {
	kinds := UserKinds(finalizers)
	if len(kinds) == 0 {
		return ""
	}
	return "waiting until no " + strings.Join(kinds, " and no ") + " uses it"
}

// HoldsAnnotation is the record of what an object may use: a JSON list of texts, one for
// each needed object. "=kind/key" is a hold: a run may have used the object. "?kind/key"
// is a hold that is being taken: no run has used the object yet. Do not edit it, but for
// breaking a deadlock; see docs/DEPENDENCIES.md.
const HoldsAnnotation = "tend.holds"

// holds is the record of one object.
type holds []hold

type hold struct {
	ref  Ref
	firm bool // a run may have used it
}

// readHolds reads the record of an object. One that cannot be read is an error: what it
// held is not known.
func readHolds(m *store.Meta) (holds, error) {
	text, ok := m.Annotations[HoldsAnnotation]
	if !ok {
		return nil, nil
	}
	var texts []string
	if err := json.Unmarshal([]byte(text), &texts); err != nil {
		return nil, fmt.Errorf("depend: annotation %s of %s: %w", HoldsAnnotation, m.Key(), err)
	}
	h := make(holds, 0, len(texts))
	for _, t := range texts {
		kind, name, ok := strings.Cut(t, "/")
		key, err := store.ParseKey(name)
		if !ok || err != nil || kind == "" || kind[0] != '=' && kind[0] != '?' {
			return nil, fmt.Errorf("depend: annotation %s of %s: %q is no hold", HoldsAnnotation, m.Key(), t)
		}
		h = append(h, hold{Ref{kind[1:], key}, kind[0] == '='})
	}
	return h, nil
}

// write puts the record on an object.
func (h holds) write(m *store.Meta) {
	if len(h) == 0 {
		delete(m.Annotations, HoldsAnnotation)
		return
	}
	texts := make([]string, 0, len(h))
	for _, x := range h {
		mark := "?"
		if x.firm {
			mark = "="
		}
		texts = append(texts, mark+x.ref.Kind+"/"+x.ref.Key.String())
	}
	text, _ := json.Marshal(texts) // strings only
	if m.Annotations == nil {
		m.Annotations = make(map[string]string, 1)
	}
	m.Annotations[HoldsAnnotation] = string(text)
}

// find gives what finds the place of a ref in the record, or -1. A long record is not
// searched again for each: one object may need ten thousand.
func (h holds) find() func(Ref) int {
	if len(h) <= 16 {
		return func(r Ref) int { return slices.IndexFunc(h, func(x hold) bool { return x.ref == r }) }
	}
	at := make(map[Ref]int, len(h))
	for i, x := range h {
		at[x.ref] = i
	}
	return func(r Ref) int {
		if i, ok := at[r]; ok {
			return i
		}
		return -1
	}
}

// distinct removes repetitions from refs: two references of an object may lead to one.
func distinct(refs []Ref) []Ref {
	seen := make(map[Ref]struct{}, len(refs))
	return slices.DeleteFunc(refs, func(r Ref) bool {
		_, twice := seen[r]
		seen[r] = struct{}{}
		return twice
	})
}

// add is the record with a hold on each of refs, none of which is given twice. A hold that
// is there becomes firm with firm, and stays as it is without.
func (h holds) add(refs []Ref, firm bool) holds {
	find := h.find()
	h = slices.Clone(h)
	for _, r := range refs {
		switch i := find(r); {
		case i < 0:
			h = append(h, hold{r, firm})
		case firm:
			h[i].firm = true
		}
	}
	return h
}

// settled is the record without the holds that are being taken.
func (h holds) settled() holds {
	return slices.DeleteFunc(slices.Clone(h), func(x hold) bool { return !x.firm })
}

// only is the record with nothing but the holds on refs.
func (h holds) only(refs []Ref) holds {
	wanted := holds(nil).add(refs, true).find()
	return slices.DeleteFunc(slices.Clone(h), func(x hold) bool { return wanted(x.ref) < 0 })
}
