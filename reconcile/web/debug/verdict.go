package debug

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/store"
)

// newLooker makes what the page opens with.
func (h *handler) newLooker() (*inspect.Looker, error) {
	return inspect.New(h.manager, &inspect.Options{Objects: h.o.Objects, Buckets: h.o.Buckets, Held: h.held, Needs: h.o.Needs})
}

// held says of each inventory why nothing of its kind is pruned.
func (h *handler) held() map[string]string {
	all := map[string]string{}
	for _, i := range h.o.Inventories {
		s := i.Snapshot()
		all[s.Kind] = s.Held
	}
	return all
}

// objectLooks are those of an object, the worst first.
var objectLooks = inspect.States()

const asDeclared = "ready"

// stateText is a state as the page names it.
func stateText(state string) string {
	if state == asDeclared {
		return "as declared"
	}
	return state
}

// stateTone is how bad a state is.
func stateTone(state string) string {
	switch state {
	case asDeclared:
		return "good"
	case "undecodable", "stuck", "given up", "failing":
		return "bad"
	case "paused", "deleting":
		return ""
	}
	return "warn"
}

func levelTone(level string) string {
	return map[string]string{inspect.Well: "good", inspect.UnderWay: "warn", inspect.NotWell: "bad"}[level]
}

// verdict adds what the page opens with: counts, causes, kinds, and what is underneath.
func (p *printer) verdict(v *inspect.Verdict, seen map[string]time.Time) {
	p.Says, p.Level, p.Tone = clean(v.Says), v.Level, levelTone(v.Level)
	p.add(section{Tiles: tiles(v), Note: clean(strings.Join(v.Notes, "; "))})
	p.causes(v)
	p.kinds(v, seen)
	s := section{Title: "Underneath", ID: "underneath"}
	for _, x := range v.Under {
		says := long(x.Says)
		says.Look = strings.TrimSpace("long " + levelTone(x.Level))
		s.Rows = append(s.Rows, []cell{plain(x.Name), says})
	}
	for _, name := range slices.Sorted(maps.Keys(p.pages)) {
		s.Links = append(s.Links, cell{Text: "server " + clean(name), Link: p.pages[name]})
	}
	if len(s.Rows) > 0 {
		p.add(s)
	}
}

// tiles are the counts of the objects by state.
func tiles(v *inspect.Verdict) (all []cell) {
	for _, state := range objectLooks {
		n := v.States[state]
		if n == 0 {
			continue
		}
		c := cell{Text: stateText(state), Lead: grouped(fmt.Sprint(n)), Look: stateTone(state), Link: "#objects"}
		of := slices.IndexFunc(v.Kinds, func(k inspect.Kind) bool { return k.States[state] > 0 })
		if v.Kinds[of].States[state] == n {
			c.Link = stateLink(v.Kinds[of].Kind, state)
		}
		all = append(all, c)
	}
	return all
}

// stateLink leads to the objects of a kind that are in a state.
func stateLink(kind, state string) string {
	return link("view", "objects", "kind", kind, "state", state)
}

func (p *printer) causes(v *inspect.Verdict) {
	if len(v.Causes) == 0 {
		return
	}
	s := section{Title: "What is wrong", ID: "causes", Of: "causes", Note: "gravest first, one line for each cause", Columns: []string{"what", "how many", "since", "for example", "what to do"}}
	if v.More > 0 {
		s.Note += fmt.Sprintf("; %d more are not shown", v.More)
	}
	for i := range v.Causes {
		c := &v.Causes[i]
		what := long(c.Why)
		what.Lead, what.Look = c.What, "long lead-warn"
		if c.Grave {
			what.Look = "long lead-bad"
		}
		many := c.Many()
		if holds := c.Holding(); holds != "" {
			many += ", " + holds
		}
		s.Rows = append(s.Rows, []cell{what, plain(many), p.sinceOf(c), exampleOf(c), p.todo(c)})
	}
	p.add(s)
}

// sinceOf is since when a cause lasts, and when its keys are tried again.
func (p *printer) sinceOf(c *inspect.Cause) cell {
	if c.Since.IsZero() {
		return cell{}
	}
	text := fmt.Sprintf("%s (%s)", strings.TrimPrefix(c.Since.UTC().Format("2006-01-02 15:04:05"), p.now.UTC().Format("2006-01-02 ")), shortest(p.now.Sub(c.Since)))
	if !c.Next.IsZero() {
		text += ", next " + when(c.Next, p.now)
	}
	return plain(text)
}

func exampleOf(c *inspect.Cause) cell {
	return linked(c.Example, exampleLink(c))
}

func exampleLink(c *inspect.Cause) string {
	switch {
	case c.Example == "" || len(c.Example) > linkBytes:
		return ""
	case c.Controller != "":
		return keyLink(c.Controller, c.Example)
	}
	if key, err := store.ParseKey(c.Example); err == nil {
		return objectLink(c.Kind, key)
	}
	return ""
}

// todo is what an operator can do about a cause.
func (p *printer) todo(c *inspect.Cause) cell {
	var all []cell
	for _, do := range c.Do {
		if x := p.doing(do, c); x.Text != "" {
			all = append(all, x)
		}
	}
	texts := make([]string, len(all))
	for i, x := range all {
		texts[i] = x.Text
	}
	return cell{Text: strings.Join(texts, "; "), Parts: all}
}

func (p *printer) doing(do string, c *inspect.Cause) cell {
	may := func(text string, a reconcile.Action) cell {
		if !p.may {
			return cell{}
		}
		return cell{Text: text, Link: link("c", c.Controller, "ask", string(a))}
	}
	command := cell{Text: clean(c.Command(do))}
	switch do {
	case "why":
		if c.What == "stuck" {
			return cell{Text: "where it stands", Link: exampleLink(c)}
		}
		return cell{Text: "look", Link: exampleLink(c)}
	case "kick":
		if p.may && c.Controller != "" {
			return may("retry all that failed", actionRetryFailed)
		}
		return command
	case "edit":
		return cell{Text: "change the declaration"}
	case "restart":
		return cell{Text: "only a restart frees it"}
	case "resume":
		return may("resume", reconcile.ActionResume)
	case "set workers":
		return may("set workers", actionWorkers)
	case "release prune":
		if !p.may {
			return cell{Text: "look at what is not declared, then release it"}
		}
		return cell{Text: "release prune", Link: link("ask", string(releasePrune), "kind", c.Kind)}
	}
	if strings.Contains(do, " ") { // in words
		return cell{Text: do}
	}
	return command
}

// kinds adds a line with a bar for each kind, and a cell for each object where there are few.
func (p *printer) kinds(v *inspect.Verdict, seen map[string]time.Time) {
	if len(v.Kinds) == 0 {
		return
	}
	s := section{Title: "Objects", ID: "objects", Of: "kinds", Columns: append([]string{"kind", "objects"}, objectLooks...)}
	s.Columns[len(s.Columns)-1] = stateText(asDeclared)
	s.Columns = append(s.Columns, "last seen", "bar")
	cells := section{Title: "One by one", ID: "cells", Fold: true}
	for _, k := range v.Kinds {
		row := []cell{linked(k.Kind, link("view", "objects", "kind", k.Kind)), number(k.Total)}
		for _, state := range objectLooks {
			c := some(k.States[state], stateTone(state))
			if k.States[state] > 0 {
				c.Link = stateLink(k.Kind, state)
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
		last, old := p.seen(v, k.Kind, seen[k.Kind])
		bar := barOf(k)
		if old {
			bar.Look += " old"
		}
		s.Rows = append(s.Rows, append(row, last, bar))
		if len(k.Cells) > 0 {
			cells.Field = append(cells.Field, fieldRow{clean(k.Kind), cellsOf(k)})
		}
	}
	p.add(s)
	if len(cells.Field) > 0 {
		cells.Legend = legend(v)
		p.later(cells)
	}
}

// seen says when a run of a kind last succeeded, and whether what is shown of the kind is from
// before something failed that has not worked since.
func (p *printer) seen(v *inspect.Verdict, kind string, at time.Time) (says cell, old bool) {
	for i := range v.Causes {
		c := &v.Causes[i]
		switch {
		case c.What == "store" && (at.IsZero() || c.Since.Before(at)):
			at, old = c.Since, true
		case c.What == "store":
			old = true
		case c.Kind == kind && (c.What == "fails" || c.What == "panics") && !at.IsZero() && at.Before(c.Since.Add(introspect.SampleEvery)):
			old = true
		}
	}
	if at.IsZero() {
		return cell{}, old
	}
	says = plain(shortest(p.now.Sub(at)) + " ago")
	if old {
		says.Text, says.Look = "not for "+shortest(p.now.Sub(at)), "warn"
	}
	return says, old
}

func legend(v *inspect.Verdict) (all []cell) {
	for _, state := range objectLooks {
		if v.States[state] > 0 {
			all = append(all, cell{Text: stateText(state), Look: cellLook(state)})
		}
	}
	return all
}

// barWide is the width of a bar in its own units.
const barWide = 1000

// barOf is a bar of the states of a kind's objects. The least state is a line that is seen.
func barOf(k inspect.Kind) cell {
	c := cell{Text: "", Look: "bar"}
	x := 0
	left := k.Total
	for i, state := range objectLooks {
		n := k.States[state]
		if n == 0 {
			continue
		}
		width := max(n*barWide/max(k.Total, 1), 6)
		if left -= n; left == 0 || i == len(objectLooks)-1 {
			width = max(barWide-x, 6)
		}
		c.Bar = append(c.Bar, barPart{cellLook(state), x, max(width-2, 4)})
		x += width
		c.Text = strings.TrimPrefix(c.Text+", "+grouped(fmt.Sprint(n))+" "+stateText(state), ", ")
	}
	return c
}

// barPart is one state in the bar of a kind.
type barPart struct {
	Look     string
	X, Width int
}

// cellsOf are the objects of a kind, each a cell that leads to it.
func cellsOf(k inspect.Kind) (all []cell) {
	for _, c := range k.Cells {
		all = append(all, cell{Text: clean(c.Key.String()) + ": " + c.State, Link: objectLink(k.Kind, c.Key), Look: cellLook(c.State)})
	}
	return all
}

func cellLook(state string) string {
	return "s-" + strings.ReplaceAll(cmp.Or(state, "waiting"), " ", "-")
}

// fieldRow is a kind's part of the picture.
type fieldRow struct {
	Kind  string
	Cells []cell
}
