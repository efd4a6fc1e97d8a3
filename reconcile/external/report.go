package external

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/wall"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// Report holds what a complete list of the cloud and all declarations come to,
// one against the other. Each finding is in one list.
//
// The list is older than the declarations. What this inventory's clients wrote since it
// was begun, or so shortly before that it had not settled ([InventoryOptions.Settle]),
// is a finding of nothing but Unsettled; so is a missing resource that anybody, by its
// Intent and by the clocks of its server and this one, created then. An update or a deletion by another server since then is not
// known here: until a newer list it may look Different, Unclaimed or Orphans.
type Report struct {
	Kind     string    `json:"kind"`
	Listed   time.Time `json:"listed"`   // when the list was begun
	Declared int       `json:"declared"` // objects, those in deletion included
	Present  int       `json:"present"`  // resources on the list
	Ours     int       `json:"ours"`     // of these, with our mark

	Missing    []Finding `json:"missing,omitempty"`    // declared, not there
	Different  []Finding `json:"different,omitempty"`  // there, ours, not as declared; or declared for another location since, see [ErrLocationChanged]
	Unclaimed  []Finding `json:"unclaimed,omitempty"`  // declared, or named by tend.adopt, and there, without our mark or with an earlier uid
	Duplicates []Finding `json:"duplicates,omitempty"` // carry the mark of an object whose resource is another
	Orphans    []Finding `json:"orphans,omitempty"`    // ours by their mark, not declared
	Unreadable []Finding `json:"unreadable,omitempty"` // on the list, and their details could not be read; they are nothing of the above
	Unsettled  []Finding `json:"unsettled,omitempty"`  // would be one of the above, but were written, or found gone, too late for the list to count
	// LetterCase differ from a declaration in case, or in space around, only: in their id or in their mark. They
	// are nothing of the above, and prunes are refused; see [InventoryOptions.Letters].
	LetterCase []Finding `json:"letterCase,omitempty"`
	Foreign    int       `json:"foreign"` // neither declared nor ours

	undecided int // resources of which it could not be decided whether they are orphans
	unsettled int // of these, the ones that would be
}

// String is the counts in one line: "12 declared, 16 listed, 14 of them ours: 0 missing, …".
// Of what was written, or found gone, since the list was begun, as on a first run everything was, the list
// says nothing.
func (r Report) String() string {
	var text string
	if n := len(r.Unsettled); n > 0 && n == r.Declared && len(r.Orphans) == 0 {
		text = fmt.Sprintf("all %d that are declared were written since, and nothing else there is ours", n)
	} else {
		text = fmt.Sprintf("%d declared, %d listed, %d of them ours: %d missing, %d different, %d declared and not ours, %d ours and not declared",
			r.Declared, r.Present, r.Ours, len(r.Missing), len(r.Different), len(r.Unclaimed), len(r.Orphans))
		if n > 0 {
			text += fmt.Sprintf("; %d were written since, and do not count yet", n)
		}
	}
	if n := len(r.LetterCase); n > 0 {
		text += fmt.Sprintf("; %d differ in case only", n)
	}
	if n := len(r.Unreadable); n > 0 {
		text += fmt.Sprintf("; of %d the owner may not be read", n)
	}
	return text
}

// clone is a report with lists and marks of its own.
func (r Report) clone() Report {
	for _, found := range []*[]Finding{&r.Missing, &r.Different, &r.Unclaimed, &r.Duplicates, &r.Orphans, &r.Unreadable, &r.Unsettled, &r.LetterCase} {
		*found = slices.Clone(*found)
		for i, f := range *found {
			if f.Mark != nil {
				(*found)[i].Mark = new(*f.Mark)
			}
		}
	}
	return r
}

// Finding is one resource, or the lack of one.
type Finding struct {
	Key  store.Key `json:"key"` // of the declaration; of an orphan: what its mark says
	ID   string    `json:"id,omitempty"`
	Mark *Mark     `json:"mark,omitempty"`
	Diff string    `json:"diff,omitempty"` // how it differs; of one that is unreadable: why
}

func (f Finding) String() string { return fmt.Sprintf("%s (%s)", f.ID, f.Key) }

// Report compares the cloud with the declarations. It lists the cloud, unless a
// list is recent enough, reads every declaration and, one after the other, the
// details that are not known. An error on either side is an error: a report is
// never about half of something. Only details that cannot be read are a finding,
// since those of others may be closed to us for ever.
func (v *Inventory[S, T, R]) Report(ctx context.Context) (Report, error) {
	list, end, err := v.complete(ctx)
	if err != nil {
		return Report{}, err
	}
	defer end()
	// The declarations are read after the cloud: a resource on the list was
	// declared before it was created, so its declaration is there by now. The
	// other way round, what was declared and created in between would look like
	// an orphan.
	d, err := v.declared(ctx)
	if err != nil {
		return Report{}, err
	}
	last := v.lastSign(d.byKey)
	s := Report{Kind: v.o.Store.Kind(), Listed: list.begun, Declared: len(d.byKey), Present: len(list.byID), LetterCase: d.same}
	gone := map[ident]bool{} // since they were listed
	for _, id := range slices.Sorted(maps.Keys(list.byID)) {
		r, exists, err := v.complement(ctx, id, list.byID[id])
		switch {
		case ctx.Err() != nil:
			return Report{}, fmt.Errorf("external: inventory: %w", context.Cause(ctx))
		case err != nil:
			s.Unreadable = append(s.Unreadable, v.unreadable(v.o.ID(list.byID[id]), d.byID[id], err))
			if d.byID[id] == nil {
				s.undecided++
			}
		case exists:
			v.place(&s, list, r, d)
		default:
			gone[id] = true
			s.Present--
		}
	}
	v.placeMissing(&s, d, func(id ident) bool { _, there := list.byID[id]; return there && !gone[id] })
	for _, found := range [][]Finding{s.Missing, s.Different, s.Unsettled} {
		slices.SortFunc(found, func(a, b Finding) int {
			return cmp.Or(strings.Compare(a.Key.String(), b.Key.String()), strings.Compare(a.ID, b.ID))
		})
	}
	if s.Declared > 0 { // else the declarations may not be there yet, and nothing is pruned anyway
		if err := v.noteOrphans(ctx, s, last); err != nil {
			return Report{}, err
		}
	}
	v.mu.Lock()
	newest := s.clone()
	v.last = &newest
	v.mu.Unlock()
	if v.o.Found != nil {
		if err := contain.Call(func() error { v.o.Found(ctx, s.clone()); return nil }); err != nil {
			return Report{}, fmt.Errorf("external: inventory: InventoryOptions.Found: %w", err)
		}
	}
	return s, nil
}

// placeMissing puts those declarations where they belong that no resource is there for.
func (v *Inventory[S, T, R]) placeMissing(s *Report, d *declarations[S, T], there func(ident) bool) {
	found := map[store.Key]bool{}
	for _, f := range slices.Concat(s.Different, s.LetterCase) {
		found[v.o.Letters.key(f.Key)] = true
	}
	for key, o := range d.byKey {
		id := v.idOf(o)
		if there(v.o.Letters.id(id)) || o.Deleting() || found[key] {
			continue
		}
		where, f := &s.Missing, Finding{Key: o.Key(), ID: id}
		if diff, moved := movedAway(o); moved { // and is not created here
			where, f.Diff = &s.Different, diff
		}
		v.find(s, where, f, v.begotten(o, s.Listed))
	}
}

// idOf is the id of a declaration's resource, or of the one that it is to take over; empty: it has none yet.
func (v *Inventory[S, T, R]) idOf(o *store.Object[S, T]) string {
	id := v.o.IDOf(o)
	if id == "" && !o.Deleting() {
		id = o.Annotations[store.AnnotationAdopt]
	}
	return id
}

// complement adds to a listed resource what the list does not show.
func (v *Inventory[S, T, R]) complement(ctx context.Context, id ident, listed R) (R, bool, error) {
	if v.o.Detail == nil {
		return listed, true, nil
	}
	v.mu.Lock()
	d, known := v.detail[id]
	known = known && v.usableLocked(id, d.begun, v.o.DetailFresh, time.Now()) && reflect.DeepEqual(v.list.byID[id], listed)
	v.mu.Unlock()
	if known {
		return d.r, true, nil
	}
	return v.look(ctx, listed)
}

func (v *Inventory[S, T, R]) unreadable(id string, declared *store.Object[S, T], err error) Finding {
	f := Finding{ID: id, Diff: store.Clip(v.o.Store.Redact(err.Error(), declared))}
	if declared != nil {
		f.Key = declared.Key()
	}
	return f
}

// place puts one resource where it belongs.
func (v *Inventory[S, T, R]) place(s *Report, list snapshot[R], r R, d *declarations[S, T]) {
	mark, marked := v.o.Owner(r)
	ours := marked && v.ours(mark)
	f := Finding{ID: v.o.ID(r)}
	if marked {
		f.Key, f.Mark = mark.Key, &mark
	}
	if ours {
		s.Ours++
	}
	declared, holder := d.byID[v.id(r)], d.byKey[v.o.Letters.key(mark.Key)]
	moved, isMoved := movedAway(holder)
	if o, says := v.spelt(list, r, declared, d); o != nil {
		f.Key, f.Diff = o.Key(), says
		s.LetterCase = append(s.LetterCase, f)
		return
	}
	switch {
	case declared != nil:
		v.placeDeclared(s, f, r, declared)
	case !ours && d.adopt[v.id(r)] != nil:
		v.placeDeclared(s, f, r, d.adopt[v.id(r)])
	case !ours:
		s.Foreign++
	case v.orphaned(f.ID, mark, holder):
		v.find(s, &s.Orphans, f, false)
	case isMoved && v.o.Letters.mark(mark).UID == v.o.Letters.mark(v.markFor(holder)).UID:
		f.Diff = moved
		v.find(s, &s.Different, f, false)
	case !v.mayBecome(holder):
		v.find(s, &s.Duplicates, f, false)
	}
}

// spelt is the object that a resource would be of, but for case, and what says so; nil: there is none,
// or it is known what the cloud makes of letters. Declared is the object whose id it has, or nil.
func (v *Inventory[S, T, R]) spelt(list snapshot[R], r R, declared *store.Object[S, T], d *declarations[S, T]) (*store.Object[S, T], string) {
	if v.o.Letters != lettersUnknown {
		return nil, ""
	}
	mark, marked := v.o.Owner(r)
	for _, o := range []*store.Object[S, T]{declared, d.foldedKey[foldKey(mark.Key)]} {
		if o == nil || !marked {
			continue
		}
		if says, owned := v.caseOnly(o, "", r); owned {
			return o, says
		}
	}
	if o := d.foldedID[fold(v.o.ID(r))]; o != nil && declared == nil {
		if _, there := list.byID[ident(v.o.IDOf(o))]; !there || marked && v.ours(mark) {
			return o, fmt.Sprintf("the list shows %q where %q is declared", v.o.ID(r), v.o.IDOf(o))
		}
	}
	return nil, ""
}

// find puts a finding where it belongs, unless the list does not count for its
// resource: then it says so.
func (v *Inventory[S, T, R]) find(s *Report, where *[]Finding, f Finding, begotten bool) {
	v.mu.Lock()
	settled := v.settledLocked(v.o.Letters.id(f.ID), s.Listed)
	v.mu.Unlock()
	if begotten || !settled {
		if where == &s.Orphans {
			s.undecided++
			s.unsettled++
		}
		where = &s.Unsettled
	}
	*where = append(*where, f)
}

// begotten says whether a resource was created, or began to be, too late for a list
// begun at that time to show it. It may have been done by another process, so this
// compares its clock with ours: where they differ, or jump, a missing resource is
// called Unsettled and not Missing, or the other way round. Nothing is created or
// deleted by either list.
func (v *Inventory[S, T, R]) begotten(o *store.Object[S, T], listed time.Time) bool {
	ph, since := phaseOf(o.Intent)
	return (ph == pending || ph == succeeded) && wall.At(listed).Before(since.Add(v.o.Settle))
}

// orphaned says whether a resource with our mark belongs to no object any more. O
// is the object that has the mark's key now, or nil. If there is one, the
// resource is an orphan only if it was made for an earlier object of that key
// and this one has another: what an object may still take over, or what cannot
// be told apart from its own, is left to it.
//
// It is none either as long as a run has not found that the spec is as it was when a location was
// recorded: it may be the one that the object had taken over there.
func (v *Inventory[S, T, R]) orphaned(id string, mark Mark, o *store.Object[S, T]) bool {
	if o == nil {
		return true
	}
	c, _ := o.Condition(store.ConditionSynced)
	held := o.Intent.Location != "" && (c.Status != store.True || c.ObservedGeneration != o.Generation)
	former := v.o.Letters.mark(mark).UID != v.o.Letters.mark(v.markFor(o)).UID
	return mark.UID != "" && former && !held && !v.mayBecome(o) && v.o.Letters.id(v.o.IDOf(o)) != v.o.Letters.id(id)
}

// movedAway says whether the last run found that the spec says another location than that of the
// resource, and what it said of it; o may be nil.
func movedAway[S, T any](o *store.Object[S, T]) (says string, moved bool) {
	if o == nil {
		return "", false
	}
	c, _ := o.Condition(store.ConditionSynced)
	return c.Message, c.Reason == reasonLocationChanged
}

func (v *Inventory[S, T, R]) placeDeclared(s *Report, f Finding, r R, o *store.Object[S, T]) {
	f.Key = o.Key()
	seen := v.compare(o, r)
	f.Diff = seen.Diff
	switch {
	case seen.Owner != Ours:
		v.find(s, &s.Unclaimed, f, false)
	case !seen.UpToDate:
		v.find(s, &s.Different, f, false)
	}
}

// mayBecome says whether a resource that carries the key of an object, but not
// its id, may yet turn out to be its: as long as the object knows no id, or its
// create is not over.
func (v *Inventory[S, T, R]) mayBecome(o *store.Object[S, T]) bool {
	ph, _ := phaseOf(o.Intent)
	return v.o.IDOf(o) == "" || ph == pending
}

// complete is a list that is complete and recent. Until end is called, what was
// written since that list was begun is not forgotten, though a newer one come meanwhile.
func (v *Inventory[S, T, R]) complete(ctx context.Context) (list snapshot[R], end func(), err error) {
	if err := v.refresh(ctx, time.Now()); err != nil {
		return snapshot[R]{}, nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	list = v.list // its map is replaced, never edited
	v.compared[list.begun]++
	return list, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.compared[list.begun]--; v.compared[list.begun] == 0 {
			delete(v.compared, list.begun)
		}
	}, nil
}

// declarations are all objects of a store.
type declarations[S, T any] struct {
	byID  map[ident]*store.Object[S, T]
	byKey map[store.Key]*store.Object[S, T] // by the spelling in which keys are compared
	same  []Finding                         // those that marks cannot tell from another
	adopt map[ident]*store.Object[S, T]     // that have no id yet, by the one that they are to take over
	// As far as it is not known whether letters fold: by folded spellings.
	foldedID  map[string]*store.Object[S, T]
	foldedKey map[store.Key]*store.Object[S, T]
}

func (v *Inventory[S, T, R]) declared(ctx context.Context) (*declarations[S, T], error) {
	if err := v.noteStore(ctx); err != nil {
		return nil, err
	}
	d := &declarations[S, T]{
		byID: map[ident]*store.Object[S, T]{}, byKey: map[store.Key]*store.Object[S, T]{}, adopt: map[ident]*store.Object[S, T]{},
		foldedID: map[string]*store.Object[S, T]{}, foldedKey: map[store.Key]*store.Object[S, T]{},
	}
	for o, err := range v.o.Store.All(ctx, store.Selector{}) {
		if err != nil {
			return nil, fmt.Errorf("external: inventory: read the declarations: %w", err)
		}
		if o.Newer { // its id, and what it wants, may be in what this program does not know
			return nil, fmt.Errorf("external: inventory: the declarations: %w", reconcile.CheckNewer(&o.Meta))
		}
		key, id := v.o.Letters.key(o.Key()), v.o.IDOf(o)
		if other := d.byKey[key]; other != nil {
			d.same = append(d.same, Finding{Key: o.Key(), ID: id, Diff: fmt.Sprintf("declared beside %s", other.Key())})
		}
		d.byKey[key] = o
		if id != "" {
			d.byID[v.o.Letters.id(id)] = o
		} else if adopts := v.idOf(o); adopts != "" {
			d.adopt[v.o.Letters.id(adopts)] = o
		}
		if v.o.Letters == lettersUnknown {
			d.foldedKey[foldKey(o.Key())] = o
			if id != "" {
				d.foldedID[fold(id)] = o
			}
		}
	}
	return d, nil
}
