package debug

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// What the list of a kind's objects is made of.
type (
	objectsView struct {
		Kind    string         `json:"kind"`
		Total   int            `json:"total"`
		States  map[string]int `json:"states"`            // how many are in which
		Partial bool           `json:"partial,omitempty"` // they are those of this server's shards

		Contains string      `json:"contains,omitempty"`
		State    string      `json:"state,omitempty"`
		Objects  []objectRow `json:"objects"`
		Next     text        `json:"next,omitempty"` // the query of the next page
	}

	objectRow struct {
		Kind        string            `json:"kind"`
		Key         string            `json:"key"`
		Phase       string            `json:"phase,omitempty"`
		Generation  int64             `json:"generation"`
		Observed    int64             `json:"observedGeneration"`
		Created     time.Time         `json:"created,omitzero"`
		Deleted     time.Time         `json:"deleted,omitzero"`
		Paused      bool              `json:"paused,omitempty"`
		PausedSince time.Time         `json:"pausedSince,omitzero"`
		Finalizers  []string          `json:"finalizers,omitempty"`
		Conditions  []store.Condition `json:"conditions,omitempty"`
		Error       string            `json:"error,omitempty"`     // it cannot be decoded
		State       string            `json:"state"`               // one of inspect.States
		LastError   string            `json:"lastError,omitempty"` // of its keys on this server, where it is not as declared
		exact       store.Key
		object      objects.Object
	}
)

// notReady is the one filter of objects that is no state.
const notReady = "not ready"

// The states that objects can be filtered by.
var objectStates = append([]string{notReady}, inspect.States()...)

func (h *handler) objectKind(name string) (objects.Kind, error) {
	for _, k := range h.o.Objects {
		if k.Kind() == name {
			return k, nil
		}
	}
	return nil, fmt.Errorf("%w: the objects of that kind are not shown here", errNoView)
}

func rowOfObject(o objects.Object, state string) objectRow {
	r := objectRow{
		State: state,
		Kind:  o.Kind, Key: o.Key().String(), Phase: string(o.Phase), Generation: o.Generation, Observed: o.ObservedGeneration,
		Created: o.Created, Deleted: o.Deleted, Paused: o.Paused, PausedSince: o.PausedSince, Finalizers: slices.Clone(o.Finalizers), Conditions: slices.Clone(o.Conditions),
		exact: o.Key(), object: o,
	}
	if o.Err != nil {
		r.Error = o.Err.Error()
	}
	return r
}

// in reports whether the object is in one of objectStates; every one is in "".
func (r objectRow) in(state string) bool {
	if state == notReady {
		return r.State != asDeclared && r.Error == ""
	}
	return state == "" || r.State == state
}

// objectPage looks at all objects of a kind and shows some, in the order of their keys.
func (h *handler) objectPage(ctx context.Context, q url.Values) (*objectsView, error) {
	k, err := h.objectKind(q.Get("kind"))
	if err != nil {
		return nil, err
	}
	v := &objectsView{Kind: k.Kind(), Partial: objects.Partial(k), Contains: q.Get("q"), State: q.Get("state")}
	if v.State != "" && !slices.Contains(objectStates, v.State) {
		return nil, fmt.Errorf("%w: no state of that name", errBadQuery)
	}
	state, err := h.looker.States(ctx, k.Kind())
	if err != nil {
		return nil, err
	}
	rows, err := v.read(ctx, k, state, q.Get("after"))
	if err != nil {
		return nil, err
	}
	if len(rows) > pageRows {
		rows = rows[:pageRows]
		v.Next = text(link("view", "objects", "kind", v.Kind, "q", v.Contains, "state", v.State, "after", rows[pageRows-1].Key))
	}
	if err := addTexts(ctx, rows); err != nil {
		return nil, err
	}
	h.addErrors(ctx, v.Kind, rows)
	v.Objects = rows
	return v, nil
}

// read counts all objects, and returns the first of those that are wanted after a key:
// one more than fit, if there are more.
func (v *objectsView) read(ctx context.Context, k objects.Kind, state func(objects.Object) string, after string) ([]objectRow, error) {
	v.States = map[string]int{}
	rows := make([]objectRow, 0, 2*pageRows)
	for o, err := range objects.States(ctx, k, store.Selector{}) {
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		r := rowOfObject(o, state(o))
		v.Total++
		v.States[r.State]++
		if r.Key <= after || !strings.Contains(r.Key, v.Contains) || !r.in(v.State) {
			continue
		}
		if rows = append(rows, r); len(rows) == cap(rows) {
			rows = firstRows(rows)
		}
	}
	return firstRows(rows), nil
}

// firstRows sorts, and keeps a page and one more.
func firstRows(rows []objectRow) []objectRow {
	slices.SortFunc(rows, func(a, b objectRow) int { return strings.Compare(a.Key, b.Key) })
	return rows[:min(len(rows), pageRows+1)]
}

// addTexts adds the reasons and messages of conditions to the rows that are shown.
func addTexts(ctx context.Context, rows []objectRow) error {
	for i := range rows {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rows[i].Conditions = slices.Clone(rows[i].object.WithTexts().Conditions)
	}
	return nil
}

// addErrors adds why the runs of those that are not as declared failed last.
func (h *handler) addErrors(ctx context.Context, kind string, rows []objectRow) {
	for _, c := range h.controllers() {
		if c.Snapshot().Kind != kind {
			continue
		}
		for i := range rows {
			r := &rows[i]
			if r.State == asDeclared || r.LastError != "" {
				continue
			}
			if k, ok := c.Key(ctx, r.Key); ok {
				r.LastError = k.Error
			}
		}
	}
}

// searchObjects finds objects of every kind by their keys. A kind that cannot be listed keeps
// nothing from those that look for another.
func (h *handler) searchObjects(ctx context.Context, v *searchView) {
	for _, k := range h.o.Objects {
		page := &objectsView{Contains: v.Contains}
		rows, err := page.read(ctx, k, inspect.StateOf, "")
		if err != nil {
			v.Unlisted = append(v.Unlisted, fmt.Sprintf("%s (%v)", k.Kind(), err))
			continue
		}
		if len(rows) > someRows {
			rows = rows[:someRows]
			v.MoreKinds = append(v.MoreKinds, k.Kind())
		}
		if addTexts(ctx, rows) != nil {
			return // the page as a whole is too late
		}
		v.Objects = append(v.Objects, rows...)
	}
}

func (p *printer) objectsPage(v *objectsView) {
	p.here("Objects: " + v.Kind)
	form := &filterForm{Hidden: [][2]string{{"view", "objects"}, {"kind", v.Kind}}, Search: v.Contains, Hint: "key contains"}
	form.States = []choice{{"", "in any state", v.State == ""}}
	for _, s := range objectStates {
		form.States = append(form.States, choice{s, stateText(s), v.State == s})
	}
	of := "in all"
	if v.Partial {
		of = "of this server's shards; others have the rest"
	}
	note := fmt.Sprintf("%s %s", grouped(fmt.Sprint(v.Total)), of)
	var states []string
	for _, state := range slices.DeleteFunc(inspect.States(), func(s string) bool { return v.States[s] == 0 }) {
		states = append(states, grouped(fmt.Sprint(v.States[state]))+" "+stateText(state))
	}
	if len(states) > 0 {
		note += ": " + strings.Join(states, ", ")
	}
	s := p.objectTable(v.Objects, false)
	s.Filter, s.Note, s.Empty = form, note, "there are none of that sort"
	if v.Next != "" {
		s.Links = append(s.Links, cell{Text: "next page", Link: string(v.Next)})
	}
	p.add(s)
}

func (p *printer) objectTable(rows []objectRow, kinds bool) section {
	s := section{Columns: []string{"kind", "key", "state", "phase", "age", "generation", "seen", "conditions", "finalizers", "remarks"}}
	for _, r := range rows {
		kind := cell{}
		if kinds {
			kind = linked(r.Kind, link("view", "objects", "kind", r.Kind))
		}
		s.Rows = append(s.Rows, []cell{
			kind, linked(r.Key, objectLink(r.Kind, r.exact)), looks(stateTone(r.State), stateText(r.State)), phase(r), age(r.Created, p.now), number(r.Generation), seen(r),
			long(conditions(r.Conditions)), plain(strings.Join(r.Finalizers, ", ")), remarksOf(r, p.now),
		})
	}
	return s
}

func phase(r objectRow) cell {
	c := looks("", cmp.Or(r.Phase, "not reconciled yet"))
	if r.Error != "" || r.silent() && r.State == asDeclared { // its runs store nothing
		return cell{}
	}
	return c
}

// seen is the generation that the phase is about.
func seen(r objectRow) cell {
	c := number(r.Observed)
	if r.Observed != r.Generation {
		c.Look += " warn"
	}
	return c
}

func age(t, now time.Time) cell {
	if t.IsZero() {
		return cell{}
	}
	return plain(short(now.Sub(t)))
}

// conditions lists those that say more than that all is well.
func conditions(all []store.Condition) string {
	var says []string
	for _, c := range all {
		text := fmt.Sprintf("%s is %s", c.Type, c.Status)
		if c.Reason != "" {
			text += " (" + c.Reason + ")"
		}
		says = append(says, text)
	}
	return strings.Join(says, ", ")
}

func remarksOf(r objectRow, now time.Time) cell {
	var says []string
	if r.Error != "" {
		says = append(says, r.Error)
	}
	if !r.Deleted.IsZero() {
		says = append(says, "in deletion for "+short(now.Sub(r.Deleted)))
	}
	if r.Paused {
		says = append(says, strings.TrimSpace("paused "+pausedFor(r, now)))
	}
	if r.LastError != "" {
		says = append(says, r.LastError)
	}
	if len(says) == 0 {
		return cell{}
	}
	return bad(strings.Join(says, "; "))
}

// pausedFor says for how long an object is paused; empty: that is not recorded.
func pausedFor(r objectRow, now time.Time) string {
	if r.PausedSince.IsZero() {
		return ""
	}
	return "for " + short(now.Sub(r.PausedSince))
}
