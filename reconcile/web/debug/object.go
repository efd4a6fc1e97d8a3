package debug

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/reconcile"
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

// What the page of an object is made of.
type (
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

func objectLink(kind string, key store.Key) string {
	if printed := key.String(); len(printed) <= linkBytes {
		return link("view", "object", "kind", kind, "key", printed)
	}
	return ""
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
