package debug

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

func (h *handler) key(ctx context.Context, name, printed string) (*keyView, error) {
	c, ok := h.controller(name)
	if !ok {
		return nil, fmt.Errorf("%w: no controller of that name", errNoView)
	}
	snap := c.Snapshot()
	if k, err := store.ParseKey(printed); err == nil && snap.Kind != "" {
		printed = k.String() // of an object: "/a" is "a"
	}
	v := &keyView{Controller: name, Key: printed, exact: printed, Recent: c.RecentRuns(ctx, printed)}
	if k, ok := c.Key(ctx, printed); ok {
		row := rowOf(k, snap)
		v.State = &row
		if r, ok := runOf(printed, snap); ok {
			r = fewKeys(r)
			stack, _ := c.Stack(printed)
			v.Run, v.Stack = &r, text(stack)
		}
	} else if l, ok := c.LeaseOf(ctx, printed); ok && !l.Running {
		v.Elsewhere, v.Server = elsewhere(l, snap), l.Holder
	}
	if _, err := h.objectKind(snap.Kind); err == nil {
		if o, err := h.object(ctx, snap.Kind, printed); err == nil {
			o.Keys, o.Events = nil, nil // they are on this page
			v.Object = o
		}
	}
	if key, err := store.ParseKey(printed); err == nil && snap.Kind != "" {
		v.Events = h.eventsOf(snap.Kind, key, manyRows)
	}
	return v, nil
}

// elsewhere says which server runs the keys of a lease whose keys this one does not run; c is the
// controller.
func elsewhere(l introspect.Lease, c introspect.Controller) string {
	switch {
	case l.Held && slices.Contains(c.Loading, l.Shard):
		return fmt.Sprintf("This server holds the lease of this key, %s, and runs the key once cache %s has listed its shard. Until then no server does.", l.Name, c.LoadingFrom)
	case l.Held:
		return fmt.Sprintf("This server holds the lease of this key, %s, and does not run the key yet. Until then no server does.", l.Name)
	case l.Holder == "":
		return fmt.Sprintf("This server does not hold the lease of this key, %s, and has not heard of one that does.", l.Name)
	}
	return fmt.Sprintf("This server does not hold the lease of this key, %s: %s does, and runs the key.", l.Name, l.Holder)
}

// attempts is bad news unless the key only asked to be run again.
func attempts(k keyRow) cell {
	if !k.Failing {
		return some(k.Attempts, "")
	}
	return some(k.Attempts, "bad")
}

// failingSince is since when a key fails, if it does.
func failingSince(k keyRow, now time.Time) cell {
	if k.FailingSince.IsZero() {
		return cell{}
	}
	return moment(k.FailingSince, now)
}

// lastError is bad news unless the run was only asked to wait.
func lastError(k keyRow) cell {
	c := bad(k.Error)
	if !k.Failing {
		c.Look = "long warn"
	}
	return c
}

func stuckLook(r *introspect.Run) string {
	if r != nil && r.Stuck {
		return "long bad"
	}
	return "long"
}

// actions are links to the questions before actions on a key, or with an empty one
// on the controller.
func actions(controller, key string, do ...reconcile.Action) (links []cell) {
	for _, a := range do {
		links = append(links, cell{Text: actionTexts[a].button, Link: link("c", controller, "key", key, "ask", string(a))})
	}
	return links
}

func stateLook(k keyRow) string {
	switch {
	case k.State == "parked", k.State == "backing off" && k.Failing:
		return "bad"
	case k.State == "throttled", k.State == "held", k.Throttled:
		return "warn"
	}
	return ""
}

func (p *printer) key(v *keyView) {
	p.here(v.Key, linked(v.Controller, link("c", v.Controller)))
	s := section{Title: "State"}
	if k := v.State; k != nil {
		why := "why it is not running"
		if v.Run != nil {
			why = "how it runs"
		}
		s.Rows = [][]cell{
			{plain("state"), plain(k.State)},
			{plain(why), looks(stuckLook(v.Run), k.Because)},
			{plain("since"), moment(k.Since, p.now)},
			{plain("runs next"), moment(k.Next, p.now)},
			{plain("failures in a row"), attempts(*k)},
			{plain("failing since"), failingSince(*k, p.now)},
			{plain("last error"), lastError(*k)},
			{plain("added for"), long(strings.Join(k.Reasons, ", "))},
			{plain("priority"), looks("num", strconv.Itoa(k.Priority))},
		}
		s.Rows = append(s.Rows, []cell{plain("tenant"), plain(k.Tenant)})
		if !k.Failing {
			s.Rows[4][0].Text = "runs again in a row"
		}
		if k.Attempts == 0 {
			s.Rows[4][1] = cell{} // left out
		}
		s.Rows = slices.DeleteFunc(s.Rows, func(r []cell) bool { return r[1].Text == "" })
	} else if v.Elsewhere != "" {
		s.Note = v.Elsewhere
		if page := p.pages[v.Server]; page != "" && len(v.exact) <= linkBytes {
			s.Links = []cell{{Text: "this key on " + clean(v.Server), Link: page + keyLink(v.Controller, v.exact)}}
		}
	} else {
		s.Note = "The queue does not know this key: there is nothing to run for it, or it never was."
	}
	if p.may && v.exact != "" {
		do := []reconcile.Action{reconcile.ActionKick, reconcile.ActionPause, reconcile.ActionForget}
		if v.State == nil { // it may be paused all the same
			do = []reconcile.Action{reconcile.ActionKick, reconcile.ActionPause, reconcile.ActionResume}
		} else if v.State.State == queue.StateHeld.String() {
			do[1] = reconcile.ActionResume
		}
		s.Actions = actions(v.Controller, v.exact, do...)
	}
	p.add(s)
	p.strip(v.Recent)
	if v.Object != nil {
		p.objectSections(v.Object, false)
	}
	if v.Stack != "" {
		p.add(section{Title: "Where its run stands", Note: "the innermost call first", Pre: printable(string(v.Stack))})
	}
	if v.Events != nil {
		p.events("Events", v.Events, false)
	}
}
