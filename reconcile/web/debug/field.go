package debug

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tendhq/tend/internal/declared"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// The field is one cell for each object, by kind: where to look first.
type (
	fieldView struct {
		Kinds []fieldKind `json:"kinds"`
		// Each is how many objects one cell stands for: 1, unless there are too many.
		Each int `json:"each"`
	}

	fieldKind struct {
		Kind   string         `json:"kind"`
		Total  int            `json:"total"`
		States map[string]int `json:"states"`
		// Declared counts those that are as declared; those that are paused may be.
		Declared int    `json:"declared"`
		Error    string `json:"error,omitempty"` // they cannot be listed
		// StandsOff counts, by the condition's reason, objects that runs leave alone without failing.
		StandsOff map[string]int `json:"standsOff,omitempty"`
		// Partial: they are those of this server's shards, and there may be others.
		Partial bool        `json:"partial,omitempty"`
		rows    []fieldCell // if Each is 1, by key
	}

	fieldCell struct {
		State, Key string
		exact      store.Key
	}
)

// fieldStates are the states of a cell, the worst first. An object is in one of them.
var fieldStates = []string{"undecodable", "failing", "deleting", "paused", "waiting", "ready"}

// maxCells is how many cells a field has at most, about.
const maxCells = 2000

// fieldState is the state of an object that its cell shows.
func (r objectRow) fieldState() string {
	for _, state := range fieldStates {
		if r.in(state) {
			return state
		}
	}
	return "waiting"
}

// failing reports whether the last reconcile of the object could not do its work. A run that
// panics may have written nothing: the key in the queue tells.
func (r objectRow) failing() bool {
	return declared.Failing(&r.object.Meta, r.Conditions, r.keyFails)
}

// declared reports whether the object is as declared.
func (r objectRow) declared() bool {
	return r.Error == "" && declared.Is(&r.object.Meta, r.Conditions, r.Generation, r.keyFails)
}

// failingKeys are the printed keys of a kind whose last run failed on this server.
func (h *handler) failingKeys(ctx context.Context, kind string) (map[string]bool, error) {
	keys := map[string]bool{}
	for _, c := range h.controllers() {
		if c.Snapshot().Kind != kind {
			continue
		}
		q := reconcile.KeyQuery{Failed: true, Limit: 1000}
		for more := true; more; {
			page, err := c.Keys(ctx, q)
			if err != nil {
				return nil, err
			}
			for _, k := range page.Keys {
				keys[k.Key] = true
			}
			q.From, more = page.Next, page.More
		}
	}
	return keys, nil
}

// field counts all objects, and keeps their keys as long as there are few enough.
func (h *handler) field(ctx context.Context) *fieldView {
	v := &fieldView{Each: 1}
	kept := 0
	for _, k := range h.o.Objects {
		one := fieldKind{Kind: k.Kind(), States: map[string]int{}, StandsOff: map[string]int{}, Partial: objects.Partial(k)}
		fails, err := h.failingKeys(ctx, k.Kind())
		if err == nil {
			err = one.read(ctx, k, fails, &kept)
		}
		if err != nil {
			one.Error = err.Error()
		}
		v.Kinds = append(v.Kinds, one)
	}
	total := 0
	for i := range v.Kinds {
		k := &v.Kinds[i]
		total += k.Total
		slices.SortFunc(k.rows, func(a, b fieldCell) int { return strings.Compare(a.Key, b.Key) })
	}
	if total > maxCells {
		v.Each = (total + maxCells - 1) / maxCells
	}
	return v
}

func (f *fieldKind) read(ctx context.Context, k objects.Kind, fails map[string]bool, kept *int) error {
	for o, err := range objects.States(ctx, k, store.Selector{}) {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		f.Total++
		r := stateRow(o, len(fails) > 0 && fails[o.Key().String()])
		state := r.fieldState()
		f.States[state]++
		if r.declared() {
			f.Declared++
		}
		if why := standsOff(o, state); why != "" && !fails[o.Key().String()] {
			f.StandsOff[why]++
		}
		if *kept++; *kept <= maxCells {
			f.rows = append(f.rows, fieldCell{state, o.Key().String(), o.Key()})
		}
	}
	return nil
}

// standsOff says why the runs of an object do nothing for it although none fails; empty: they do, or
// the object waits for its turn, or its kind has secrets, for which a reason would have to be searched.
func standsOff(o objects.Object, state string) string {
	if state != "failing" {
		return ""
	}
	for _, c := range o.Conditions {
		if c.Type == store.ConditionSynced && c.Status == store.False {
			return c.Reason
		}
	}
	return ""
}

// stateRow is what the states of an object go by, without a copy of its slices: there may be a million.
func stateRow(o objects.Object, keyFails bool) objectRow {
	return objectRow{
		Generation: o.Generation, Deleted: o.Deleted, Paused: o.Paused, Conditions: o.Conditions, Error: errorText(o.Err),
		object: objects.Object{Meta: o.Meta}, keyFails: keyFails,
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return "it cannot be decoded"
}

// cells are the cells of a kind: one for each object, or for several of one state.
func (f *fieldKind) cells(each int) (all []cell) {
	if each == 1 {
		for _, r := range f.rows {
			all = append(all, cell{Text: clean(r.Key) + ": " + r.State, Link: objectLink(f.Kind, r.exact), Look: cellLook(r.State)})
		}
		return all
	}
	for _, state := range fieldStates {
		n := f.States[state]
		c := cell{Text: fmt.Sprintf("%s of %s", grouped(fmt.Sprint(n)), state), Link: f.link(state), Look: cellLook(state)}
		for range (n + each - 1) / each {
			all = append(all, c)
		}
	}
	return all
}

// link leads to the objects of a state.
func (f *fieldKind) link(state string) string {
	return link("view", "objects", "kind", f.Kind, "state", state)
}

func cellLook(state string) string { return "s-" + strings.ReplaceAll(state, " ", "-") }

// field adds the picture of all objects, and the table that says the same.
func (p *printer) field(v *fieldView) {
	if len(v.Kinds) == 0 {
		return
	}
	s := section{Title: "Objects", Columns: append([]string{"kind", "objects"}, fieldStates...)}
	if v.Each > 1 {
		s.Note = fmt.Sprintf("a cell stands for %d objects of one state", v.Each)
	}
	for _, state := range fieldStates {
		if slices.ContainsFunc(v.Kinds, func(k fieldKind) bool { return k.States[state] > 0 }) {
			s.Legend = append(s.Legend, cell{Text: state, Look: cellLook(state)})
		}
	}
	for _, k := range v.Kinds {
		row := []cell{linked(k.Kind, link("view", "objects", "kind", k.Kind)), number(k.Total)}
		for _, state := range fieldStates {
			c := some(k.States[state], map[string]string{"undecodable": "bad", "failing": "bad", "deleting": "warn", "waiting": "warn", "paused": "warn"}[state])
			if k.States[state] > 0 {
				c.Link = k.link(state)
			} else {
				c = cell{}
			}
			row = append(row, c)
		}
		if k.Partial {
			row[1] = looks("num", grouped(fmt.Sprint(k.Total))+" of this server's shards")
		}
		if k.Error != "" {
			row[1] = bad(k.Error)
		}
		s.Rows = append(s.Rows, row)
		if k.Total > 0 {
			s.Field = append(s.Field, fieldRow{clean(k.Kind), k.cells(v.Each)})
		}
	}
	p.add(s)
}

// fieldRow is a kind's part of the picture.
type fieldRow struct {
	Kind  string
	Cells []cell
}
