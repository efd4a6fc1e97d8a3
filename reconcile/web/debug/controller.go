package debug

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

func (h *handler) one(ctx context.Context, q url.Values) (*oneView, error) {
	c, ok := h.controller(q.Get("c"))
	if !ok {
		return nil, fmt.Errorf("%w: no controller of that name", errNoView)
	}
	f, err := readFilter(q)
	if err != nil {
		return nil, err
	}
	page, err := c.Keys(ctx, f.search, &f.query)
	if err != nil {
		return nil, err
	}
	snap := c.Snapshot()
	v := &oneView{
		Summary: summarise(snap, c.QueueStats()), History: h.history.view().one(c.Name()), Leases: c.Leases(),
		Running: []introspect.Run{}, Sources: append([]introspect.Source{}, snap.Sources...),
		Keys: keysView{Keys: make([]keyRow, 0, len(page.Entries)), Looked: page.Looked, filter: f},
	}
	for _, r := range snap.Running {
		v.Running = append(v.Running, fewKeys(r))
	}
	for _, k := range page.Entries {
		v.Keys.Keys = append(v.Keys.Keys, rowOf(k, snap))
	}
	if page.More {
		v.Keys.Next = text(f.at(page.Next).link())
	}
	if snap.Kind != "" && f.plain() {
		v.Events = h.eventsOf(snap.Kind, store.Key{}, fewRows)
	}
	return v, nil
}

func (p *printer) one(v *oneView) {
	name := v.Summary.Name
	p.here(name)
	p.head(v)
	s := section{Title: "Workers", Columns: []string{"key", "for", "attempt", "remarks"}, Empty: "nothing is running"}
	s.Note = fmt.Sprintf("%d of %d are busy", v.Summary.Active, v.Summary.Workers)
	for i, r := range v.Running {
		if i == pageRows {
			s.Note += fmt.Sprintf("; these are the %d longest", i)
			break
		}
		s.Rows = append(s.Rows, p.run(name, r))
	}
	p.add(s)
	p.historyCharts(v.History)
	p.keys(v)
	p.sources(v.Sources)
	if len(v.Leases) > 0 {
		s := section{Title: "Leases", Note: clean(v.Summary.Placement), Columns: []string{"shard", "lease", "here", "holder"}}
		for _, l := range v.Leases {
			s.Rows = append(s.Rows, p.lease(l))
		}
		p.add(s)
	}
	if v.Events != nil {
		p.events("Events", v.Events, true)
	}
}

func (p *printer) head(v *oneView) {
	c := v.Summary
	again := c.Runs.Requeue + c.Runs.RequeueAfter
	counts := fmt.Sprintf("%d succeeded, %d of them to run again at a time of their own; %d failed, %d given up, %d throttled, %d called off; %d panics, %d past their deadline",
		c.Runs.Success+again, again, c.Runs.Error, c.Runs.Terminal, c.Runs.Throttled, c.Runs.Canceled, c.Runs.Panic, c.Runs.Timeout)
	s := section{Rows: [][]cell{
		{plain("kind"), plain(cmp.Or(c.Kind, "–"))},
		{plain("runs on"), plain(fmt.Sprintf("%s; %d of %d shards here", c.Placement, c.Held, c.Shards))},
		{plain("keys"), number(c.Keys)},
		{plain("runs so far"), long(counts)},
	}}
	if r := p.remarks(c); r.Text != "" {
		s.Rows = append(s.Rows, []cell{plain("remarks"), r})
	}
	if p.may {
		pause := reconcile.ActionPause
		if c.Paused != "" {
			pause = reconcile.ActionResume
		}
		s.Actions = actions(c.Name, "", pause, actionWorkers, actionRetryFailed)
	}
	p.add(s)
}

func (p *printer) keys(v *oneView) {
	f := v.Keys.filter
	s := section{
		Title: "Keys", Columns: []string{"key", "state", "since", "attempts", "why it is not running", "last error"},
		Filter: f.form(), Empty: "there are none of that sort",
		Note: fmt.Sprintf("%d here, of %s that were looked at", len(v.Keys.Keys), grouped(strconv.Itoa(v.Keys.Looked))),
	}
	for _, k := range v.Keys.Keys {
		why := k.Because
		if len(k.Reasons) > 0 {
			why += "; added for: " + strings.Join(k.Reasons, ", ")
		}
		s.Rows = append(s.Rows, []cell{
			linked(k.Key, keyLink(v.Summary.Name, k.exact)), looks(stateLook(k), k.State), moment(k.Since, p.now), attempts(k), long(why), lastError(k),
		})
	}
	if f.from != "" {
		s.Links = append(s.Links, cell{Text: "first page", Link: f.first().link()})
	}
	if v.Keys.Next != "" {
		s.Links = append(s.Links, cell{Text: "next page", Link: string(v.Keys.Next)})
	}
	p.add(s)
}

func (f filter) form() *filterForm {
	form := &filterForm{Hidden: [][2]string{{"c", f.controller}}, Search: f.search, Hint: "key contains"}
	form.States = []choice{{"", "in any state", f.state == ""}, {failed, "whose last run failed", f.state == failed}}
	for _, s := range states() {
		form.States = append(form.States, choice{s.String(), s.String(), f.state == s.String()})
	}
	for _, o := range ordersByName {
		form.Orders = append(form.Orders, choice{o.name, o.title, f.order == o.name})
	}
	return form
}

func (p *printer) sources(all []introspect.Source) {
	s := section{Title: "Sources", Columns: []string{"source", "kind", "state", "synced", "restarts", "remarks"}, Empty: "it watches nothing"}
	for _, x := range all {
		synced := looks("good", "yes")
		if !x.Synced {
			synced = looks("bad", "not yet")
		}
		says := x.Error
		if x.Skipped > 0 {
			says = strings.TrimPrefix(fmt.Sprintf("%s; keys that were of no use: %d", says, x.Skipped), "; ")
		}
		s.Rows = append(s.Rows, []cell{plain(x.Name), plain(x.Kind), plain(x.State), synced, some(x.Restarts, "warn"), bad(says)})
	}
	p.add(s)
}
