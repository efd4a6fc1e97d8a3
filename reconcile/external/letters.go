package external

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tendhq/tend/store"
)

// Letters says what a cloud makes of the case of letters, and of space around, in the ids of
// its resources and in the values that marks are kept in.
type Letters uint8

const (
	// lettersUnknown, the zero value: ids and marks are compared letter by letter. A
	// resource and a declaration that differ in case or in space around only (Unicode's simple
	// folding) may be one, so [Report.LetterCase] names them, prunes are refused, nothing is
	// created on the ground that the one is not the other, and the object's condition says
	// so (reason LetterCase).
	lettersUnknown Letters = iota
	// LettersKeep declares that the cloud tells them apart: "Web" and "web" are two resources.
	LettersKeep
	// LettersFold declares that the cloud does not: "Web" and "web" are one resource, under
	// whichever spelling it shows it, and whichever one Get is asked for.
	LettersFold

	lastLetters = LettersFold
)

// ident is an id in the spelling in which it is compared.
type ident string

// fold is the one spelling of all texts that differ in case or in space around only. Two
// trimmed texts have the same one exactly if [strings.EqualFold] says so.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && !unicode.IsLower(r) {
			return r
		}
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, strings.TrimSpace(s))
}

func foldKey(k store.Key) store.Key {
	return store.Key{Namespace: fold(k.Namespace), Name: fold(k.Name)}
}

func foldMark(m Mark) Mark {
	m.Installation, m.Kind, m.Key, m.UID = fold(m.Installation), fold(m.Kind), foldKey(m.Key), fold(m.UID)
	return m
}

func (l Letters) id(id string) ident {
	if l == LettersFold {
		id = fold(id)
	}
	return ident(id)
}

func (l Letters) key(k store.Key) store.Key {
	if l == LettersFold {
		k = foldKey(k)
	}
	return k
}

func (l Letters) mark(m Mark) Mark {
	if l == LettersFold {
		m = foldMark(m)
	}
	return m
}

// compare is [Mark.Compare] by these letters. caseOnly says that it would be otherwise, if they
// folded, and that it is not known whether they do.
func (l Letters) compare(want, found Mark, marked bool) (w Ownership, caseOnly bool) {
	w = l.mark(want).Compare(l.mark(found), marked)
	return w, l == lettersUnknown && w != foldMark(want).Compare(foldMark(found), marked)
}

// id is by what the resource is known here.
func (v *Inventory[S, T, R]) id(r R) ident { return v.o.Letters.id(v.o.ID(r)) }

// markFor is the mark that the resource of o has to carry.
func (v *Inventory[S, T, R]) markFor(o *store.Object[S, T]) Mark {
	return NewMark(v.o.Installation, v.o.Store.Kind(), o)
}

// ours says whether a mark is of our installation and for this kind.
func (v *Inventory[S, T, R]) ours(m Mark) bool {
	m = v.o.Letters.mark(m)
	want := v.o.Letters.mark(Mark{Installation: v.o.Installation, Kind: v.o.Store.Kind()})
	return m.Installation == want.Installation && m.Kind == want.Kind
}

// errLetterCase is a look that found out nothing: what it found may be what was looked for.
var errLetterCase = errors.New("external: inventory: a difference in case only")

// askLetters is what an operator is told to do about a difference in case only.
const askLetters = "; if the cloud takes both for one, set InventoryOptions.Letters to LettersFold, else to LettersKeep"

// folded is what a list shows, by spellings in which case makes no difference.
type folded struct {
	ids   map[string]string // the last id of each
	marks map[Mark]string   // the last id of each, without UID and Declared
}

func (v *Inventory[S, T, R]) fold(byID map[ident]R) folded {
	f := folded{make(map[string]string, len(byID)), map[Mark]string{}}
	for _, r := range byID {
		id := v.o.ID(r)
		f.ids[fold(id)] = id
		if mark, marked := v.o.Owner(r); marked {
			mark.UID, mark.Declared = "", 0
			f.marks[foldMark(mark)] = id
		}
	}
	return f
}

// twin says what the newest list shows in place of a resource that is not on it; empty: nothing,
// or it is known what the cloud makes of letters. Byte for byte equal ids are no twins.
func (v *Inventory[S, T, R]) twin(id string) string {
	list, ok := v.listOfUnknownLetters()
	if !ok || id == "" {
		return ""
	}
	if other, on := list.folded().ids[fold(id)]; on && other != id {
		return fmt.Sprintf("the list shows %q where %q is declared", other, id)
	}
	return ""
}

// markTwin is twin for a resource that is looked for by its mark.
func (v *Inventory[S, T, R]) markTwin(o *store.Object[S, T]) string {
	list, ok := v.listOfUnknownLetters()
	if !ok {
		return ""
	}
	mark := v.markFor(o)
	mark.UID, mark.Declared = "", 0
	id, on := list.folded().marks[foldMark(mark)]
	if !on || len(list.marks()[mark]) > 0 {
		return ""
	}
	return fmt.Sprintf("the list shows %q with the mark of %s", id, o.Key())
}

func (v *Inventory[S, T, R]) listOfUnknownLetters() (snapshot[R], bool) {
	if v.o.Letters != lettersUnknown {
		return snapshot[R]{}, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.list, !v.list.begun.IsZero()
}

// caseOnly says how a resource that was found for an object differs from it in case only. Owned: in its
// mark, so that it is not known whose it is.
func (v *Inventory[S, T, R]) caseOnly(o *store.Object[S, T], id string, r R) (says string, owned bool) {
	if v.o.Letters != lettersUnknown {
		return "", false
	}
	mark, marked := v.o.Owner(r)
	if _, only := v.o.Letters.compare(v.markFor(o), mark, marked); only {
		return fmt.Sprintf("%q carries the mark %q where %q is wanted", v.o.ID(r), mark, v.markFor(o)), true
	}
	if is := v.o.ID(r); id != "" && is != id && fold(is) == fold(id) {
		return fmt.Sprintf("the cloud calls it %q where %q is declared", is, id), false
	}
	return "", false
}

// letterCase says how what was found for an object, or would be missing, differs from it in case only.
// Unclear: so that it is not known whether it is the object's.
func (v *Inventory[S, T, R]) letterCase(o *store.Object[S, T], id string, r R, exists, byMark, last bool) (says string, unclear bool) {
	if exists {
		return v.caseOnly(o, id, r)
	}
	if !last { // else no create follows
		says = v.twin(id)
	}
	if says == "" && byMark {
		says = v.markTwin(o)
	}
	return says, says != ""
}

// declaration is the object of a mark's key, or nil.
func (v *Inventory[S, T, R]) declaration(ctx context.Context, key store.Key) (*store.Object[S, T], error) {
	if v.o.Letters != LettersFold {
		o, err := v.o.Store.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil
		}
		return o, err
	}
	for o, err := range v.o.Store.All(ctx, store.Selector{}) {
		if err != nil || foldKey(o.Key()) == foldKey(key) {
			return o, err
		}
	}
	return nil, nil
}

// declaredKeys is the keys of marks as they are declared. Those of which that cannot be read stay away:
// the objects are looked at by their polls.
func (v *Inventory[S, T, R]) declaredKeys(ctx context.Context, marked map[store.Key]bool) map[store.Key]bool {
	if v.o.Letters != LettersFold {
		return marked
	}
	folded := map[store.Key]bool{}
	for key := range marked {
		folded[foldKey(key)] = true
	}
	declared := map[store.Key]bool{}
	for o, err := range v.o.Store.All(ctx, store.Selector{}) {
		if err == nil && folded[foldKey(o.Key())] {
			declared[o.Key()] = true
		}
	}
	return declared
}
