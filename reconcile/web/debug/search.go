package debug

import (
	"context"
	"strings"

	"github.com/tendhq/tend/queue"
)

// search looks for keys in all controllers.
func (h *handler) search(ctx context.Context, contains string) (*searchView, error) {
	v := &searchView{Contains: contains, Keys: []controllerKey{}}
	if contains == "" {
		return v, nil
	}
	for _, c := range h.controllers() {
		page, err := c.Keys(ctx, contains, &queue.PageOptions{Limit: someRows})
		if err != nil {
			return nil, err
		}
		snap := c.Snapshot()
		for _, k := range page.Entries {
			v.Keys = append(v.Keys, controllerKey{Controller: c.Name(), keyRow: rowOf(k, snap)})
		}
		if page.More {
			v.More = append(v.More, c.Name())
		}
	}
	h.searchObjects(ctx, v)
	return v, nil
}

func searchForm(contains string) *filterForm {
	return &filterForm{Hidden: [][2]string{{"view", "search"}}, Search: contains, Hint: "any key contains"}
}

func (p *printer) search(v *searchView) {
	p.here("Search")
	s := section{
		Filter: searchForm(v.Contains), Columns: []string{"key", "controller", "state", "why it is not running", "last error"},
		Empty: "no key that a queue knows contains this text",
	}
	for _, k := range v.Keys {
		s.Rows = append(s.Rows, []cell{
			linked(k.Key, keyLink(k.Controller, k.exact)), linked(k.Controller, link("c", k.Controller)),
			looks(stateLook(k.keyRow), k.State), long(k.Because), lastError(k.keyRow),
		})
	}
	for _, c := range v.More {
		s.Links = append(s.Links, cell{Text: "more of " + clean(c), Link: filter{controller: c, search: v.Contains}.link()})
	}
	p.add(s)
	if len(v.Objects)+len(v.Unlisted) == 0 {
		return
	}
	s = p.objectTable(v.Objects, true)
	s.Title = "Objects"
	if len(v.Unlisted) > 0 {
		s.Note, s.Bad = clean("not looked through: "+strings.Join(v.Unlisted, "; ")), true
	}
	for _, kind := range v.MoreKinds {
		s.Links = append(s.Links, cell{Text: "more of " + clean(kind), Link: link("view", "objects", "kind", kind, "q", v.Contains)})
	}
	p.add(s)
}
