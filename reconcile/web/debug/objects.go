package debug

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// objectLine is one thing that an object needs, or that needs it.
type objectLine struct {
	Kind string    `json:"kind"`
	Key  store.Key `json:"key"`
	// Needed says that the other object needs this one; else this one needs it.
	Needed bool `json:"needed,omitempty"`
	// Missing says why the other object cannot be used yet. Empty: it can.
	Missing string `json:"missing,omitempty"`
}

// What the views of objects are made of.
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

	// fieldsView are the fields of a spec that one declarer set: its values stand.
	fieldsView struct {
		By     string `json:"by"`
		Fields string `json:"fields"`
	}

	objectView struct {
		objectRow
		UID      string          `json:"uid,omitempty"`
		Revision store.Revision  `json:"revision"`
		Owners   []store.Owner   `json:"owners,omitempty"`
		HeldUp   string          `json:"heldUp,omitempty"` // what its deletion waits for
		Fields   []fieldsView    `json:"fields,omitempty"`
		Links    []objectLine    `json:"links,omitempty"`
		Needs    *needsView      `json:"needs,omitempty"`  // the same over several steps
		RunsOn   string          `json:"runsOn,omitempty"` // the server that runs it, where that is another one
		Object   json.RawMessage `json:"object,omitempty"` // without its secrets
		Keys     []controllerKey `json:"keys,omitempty"`   // in the controllers of its kind
		Events   []eventView     `json:"events,omitempty"`
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

// object shows one object whole.
func (h *handler) object(ctx context.Context, kind, printed string) (*objectView, error) {
	k, err := h.objectKind(kind)
	if err != nil {
		return nil, err
	}
	key, err := store.ParseKey(printed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBadQuery, err)
	}
	printed = key.String() // "/a" is "a"
	o, err := k.Get(ctx, key)
	if broken, ok := errors.AsType[*store.DecodeError](err); ok {
		o, err = objects.Object{Kind: kind, Err: broken}, nil
		o.Namespace, o.Name, o.Revision = key.Namespace, key.Name, broken.Revision
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%w: there is no object of that key", errNoView)
	}
	if err != nil {
		return nil, err
	}
	v := &objectView{objectRow: rowOfObject(o, h.looker.StateOf(ctx, o)), UID: o.UID, Revision: o.Revision, Owners: slices.Clone(o.Owners), HeldUp: heldUp(o, time.Now())}
	if o.Err == nil {
		if v.Object, err = o.JSON(); err != nil {
			v.Error = err.Error() // the rest of it is known
		} else {
			v.Fields = fieldsOf(v.Object, o.Generation)
		}
	}
	v.Links, v.Needs = h.links(kind, key), h.needsAround(kind, key)
	for _, c := range h.controllers() {
		snap := c.Snapshot()
		if snap.Kind != kind {
			continue
		}
		row := keyRow{KeySnapshot: reconcile.KeySnapshot{Key: printed, State: "idle"}, Because: "there is nothing to run", exact: printed}
		if s, ok := c.Key(ctx, printed); ok {
			row = rowOf(s, snap)
		} else if l, ok := c.LeaseOf(ctx, printed); ok && !l.Running {
			row.Because = elsewhere(l, snap)
			if !l.Held {
				v.RunsOn = cmp.Or(l.Holder, noServer)
			}
		}
		v.Keys = append(v.Keys, controllerKey{c.Name(), row, c.RecentRuns(ctx, printed)})
	}
	v.Events = h.eventsOf(kind, key, manyRows)
	return v, nil
}

// noServer stands for the name of a server that is not known.
const noServer = "no server that is known here"

// silent reports whether nothing is stored about the object that says how it is.
func (r objectRow) silent() bool {
	return r.Error == "" && r.Phase == "" && r.Observed == 0 && len(r.Conditions) == 0
}

// stateOfObject is its state, as far as this server knows it.
func stateOfObject(v *objectView) cell {
	c := looks(stateTone(v.State), stateText(v.State))
	switch {
	case v.RunsOn == "":
	case v.silent() && v.State == "waiting":
		c = looks("warn", "not known here: "+v.RunsOn+" runs it")
	default:
		c.Text += " by what is stored: " + clean(v.RunsOn) + " runs it"
	}
	return c
}

// fieldsOf reads from an object's JSON whose its fields are.
func fieldsOf(object []byte, generation int64) (all []fieldsView) {
	var has struct {
		FieldOwners json.RawMessage `json:"fieldOwners"`
	}
	if json.Unmarshal(object, &has) != nil {
		return nil
	}
	for by, fields := range store.FieldOwners(has.FieldOwners).All(generation) {
		all = append(all, fieldsView{by, strings.Join(fields, ", ")})
	}
	return all
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

// heldUp says what the deletion of an object waits for.
func heldUp(o objects.Object, now time.Time) string {
	if !o.Deleting() {
		return ""
	}
	text := fmt.Sprintf("its deletion was asked for %s ago", short(now.Sub(o.Deleted)))
	if len(o.Finalizers) == 0 {
		return text
	}
	return text + ", and waits until these finalizers are removed: " + strings.Join(o.Finalizers, ", ")
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

func objectLink(kind string, key store.Key) string {
	if printed := key.String(); len(printed) <= linkBytes {
		return link("view", "object", "kind", kind, "key", printed)
	}
	return ""
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

func (p *printer) object(v *objectView) {
	p.here(v.Key, cell{Text: "Objects: " + clean(v.Kind), Link: link("view", "objects", "kind", v.Kind)})
	p.objectSections(v, true)
	if v.Events != nil {
		p.events("Events", v.Events, false)
	}
	p.byForce(v.objectRow)
}

// objectSections show an object, also on the page of its key.
func (p *printer) objectSections(v *objectView, whole bool) {
	s := section{Title: "Object"}
	pair := func(name string, c cell) {
		if c.Text != "" {
			s.Rows = append(s.Rows, []cell{plain(name), c})
		}
	}
	pair("cannot be decoded", bad(v.Error))
	pair("state", stateOfObject(v))
	pair("phase", phase(v.objectRow))
	pair("deletion", bad(v.HeldUp))
	if v.Paused {
		says := "on every server, until it is resumed"
		if since := pausedFor(v.objectRow, p.now); since != "" {
			says = since + ", " + says
		}
		pair("paused", looks("warn", says))
	}
	pair("age", age(v.Created, p.now))
	pair("generation", plain(fmt.Sprintf("%d; reconciled: %d", v.Generation, v.Observed)))
	pair("revision", number(uint64(v.Revision)))
	pair("uid", plain(v.UID))
	pair("finalizers", plain(strings.Join(v.Finalizers, ", ")))
	var owners []string
	for _, o := range v.Owners {
		owners = append(owners, o.Kind+" "+o.Key.String())
	}
	pair("owners", plain(strings.Join(owners, ", ")))
	for _, f := range v.Fields {
		pair("fields of "+f.By, plain(f.Fields))
	}
	if !whole {
		s.Links = []cell{{Text: "the whole object", Link: objectLink(v.Kind, v.exact)}}
	}
	if p.may && v.Error == "" {
		s.Actions = objectActions(v.objectRow)
	}
	p.add(s)
	p.conditionTable(v.Conditions)
	for _, k := range v.Keys {
		there := cell{Text: "its key", Link: keyLink(k.Controller, k.exact)}
		if page := p.pages[v.RunsOn]; page != "" && there.Link != "" {
			there = cell{Text: "this key on " + clean(v.RunsOn), Link: page + there.Link}
		}
		s := section{
			Title: "In the queue of " + clean(k.Controller),
			Rows: [][]cell{
				{plain("state"), looks(stateLook(k.keyRow), k.State)},
				{plain("why"), long(k.Because)},
				{plain("failing since"), failingSince(k.keyRow, p.now)},
				{plain("last error"), lastError(k.keyRow)},
			},
			Links: []cell{there},
		}
		s.Rows = slices.DeleteFunc(s.Rows, func(r []cell) bool { return r[1].Text == "" })
		p.add(s)
		p.strip(k.Recent)
	}
	if whole {
		p.needs(v.Needs)
	}
	p.links(v.Links)
	if whole && len(v.Object) > 0 {
		var b bytes.Buffer
		if json.Indent(&b, v.Object, "", "  ") == nil {
			p.add(section{Title: "All of it", Note: "secrets are not shown", Pre: printable(b.String()) + "\n"})
		}
	}
}

func (p *printer) conditionTable(all []store.Condition) {
	if len(all) == 0 {
		return
	}
	s := section{Title: "Conditions", Columns: []string{"condition", "status", "since", "reason", "generation", "message"}}
	for _, c := range all {
		status := plain(string(c.Status))
		switch c.Status {
		case store.True:
			status.Look = "good"
		case store.False:
			status.Look = "bad"
		}
		s.Rows = append(s.Rows, []cell{plain(c.Type), status, moment(c.Since, p.now), plain(c.Reason), number(c.ObservedGeneration), long(c.Message)})
	}
	p.add(s)
}

func (p *printer) links(all []objectLine) {
	for _, needed := range []bool{false, true} {
		s := section{Title: "Needs", Columns: []string{"kind", "key", "why it cannot be used yet"}}
		if needed {
			s.Title = "Needed by"
		}
		for _, l := range all {
			if l.Needed == needed {
				s.Rows = append(s.Rows, []cell{plain(l.Kind), linked(l.Key.String(), objectLink(l.Kind, l.Key)), bad(l.Missing)})
			}
		}
		if len(s.Rows) > 0 {
			p.add(s)
		}
	}
}

// objectActions are links to the questions before actions on an object.
func objectActions(r objectRow) (links []cell) {
	if len(r.Key) > linkBytes {
		return nil
	}
	pause := objectPause
	if r.Paused {
		pause = objectResume
	}
	for _, a := range []reconcile.Action{objectReconcile, pause} {
		links = append(links, cell{Text: actionTexts[a].button, Link: link("ask", string(a), "kind", r.Kind, "key", r.Key)})
	}
	return links
}

// byForce adds what an operator does to an object when nothing else helps: below all else, so that
// it is not clicked in passing.
func (p *printer) byForce(r objectRow) {
	if !p.may || r.Error != "" || len(r.Finalizers) == 0 || len(r.Key) > linkBytes {
		return
	}
	s := section{Title: "By force", Note: "What a finalizer protects, such as a resource in a cloud, is left behind."}
	for _, f := range r.Finalizers {
		s.Actions = append(s.Actions, cell{
			Text: actionTexts[removeFinalizer].button + " " + clean(f) + " …", Look: "danger", Link: link("ask", string(removeFinalizer), "kind", r.Kind, "key", r.Key, "finalizer", f),
		})
	}
	p.add(s)
}

// carryOutOn does an action on an object, or on the inventory of a kind.
func (h *handler) carryOutOn(ctx context.Context, a Action) error {
	if a.Do == releasePrune {
		for _, i := range h.o.Inventories {
			r, ok := i.(interface{ Release(context.Context) error })
			if ok && i.Snapshot().Kind == a.Kind {
				return r.Release(ctx)
			}
		}
		return fmt.Errorf("%w: no inventory of that kind can be released", errNoView)
	}
	k, err := h.objectKind(a.Kind)
	if err != nil {
		return err
	}
	key, err := store.ParseKey(a.Key)
	if err != nil {
		return fmt.Errorf("%w: %w", errBadQuery, err)
	}
	if a.Do == removeFinalizer {
		_, err = k.RemoveFinalizer(ctx, key, a.Finalizer)
	} else {
		_, err = objects.Do(ctx, k, key, strings.TrimPrefix(string(a.Do), "object-"))
	}
	return err
}
