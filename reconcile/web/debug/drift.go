package debug

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile/external"
)

// The lists of a report, in the order in which they matter.
var lists = []string{"orphans", "different", "missing", "unclaimed", "duplicates", "letter case", "unreadable", "unsettled"}

func findings(r *external.Report, list string) ([]external.Finding, bool) {
	switch list {
	case "orphans":
		return r.Orphans, true
	case "different":
		return r.Different, true
	case "missing":
		return r.Missing, true
	case "unclaimed":
		return r.Unclaimed, true
	case "duplicates":
		return r.Duplicates, true
	case "letter case":
		return r.LetterCase, true
	case "unreadable":
		return r.Unreadable, true
	case "unsettled":
		return r.Unsettled, true
	}
	return nil, false
}

func inventoryOf(s introspect.Inventory[external.Report]) inventoryView {
	v := inventoryView{Kind: s.Kind, Listed: s.Listed, Held: s.Held, Findings: map[string]int{}}
	if r := s.Report; r != nil {
		v.At, v.Declared, v.Ours, v.Foreign = r.Listed, r.Declared, r.Ours, r.Foreign
		for _, list := range lists {
			found, _ := findings(r, list)
			v.Findings[list] = len(found)
		}
	}
	return v
}

func (h *handler) drift(q url.Values) (*driftView, error) {
	v := &driftView{Kind: q.Get("kind"), List: q.Get("list"), Findings: []findingView{}}
	skip, err := strconv.Atoi(cmp.Or(q.Get("skip"), "0"))
	if err != nil || skip < 0 {
		return nil, fmt.Errorf("%w: skip", errBadQuery)
	}
	for _, i := range h.o.Inventories {
		s := i.Snapshot()
		if s.Kind != v.Kind || s.Report == nil {
			continue
		}
		found, ok := findings(s.Report, v.List)
		if !ok {
			return nil, fmt.Errorf("%w: no list of that name", errNoView)
		}
		v.Total, v.Skip = len(found), min(skip, len(found))
		found = found[v.Skip:]
		if len(found) > pageRows {
			found = found[:pageRows]
			v.Next = text(link("view", "drift", "kind", v.Kind, "list", v.List, "skip", strconv.Itoa(v.Skip+pageRows)))
		}
		for _, f := range found {
			v.Findings = append(v.Findings, findingOf(f))
		}
		return v, nil
	}
	return nil, fmt.Errorf("%w: no report about that kind", errNoView)
}

func findingOf(f external.Finding) findingView {
	v := findingView{Key: f.Key.String(), ID: f.ID, Diff: f.Diff}
	if f.Mark != nil {
		v.Mark = fmt.Sprintf("%s/%s %s %s", f.Mark.Installation, f.Mark.Kind, f.Mark.Key, f.Mark.UID)
	}
	return v
}

func (p *printer) inventories(all []inventoryView) {
	for _, v := range all {
		s := section{Title: "Drift and orphans: " + clean(v.Kind)}
		switch {
		case v.At.IsZero():
			s.Note = "there has been no report yet"
			if v.Listed > 0 {
				s.Note = fmt.Sprintf("%d resources are listed; %s", v.Listed, s.Note)
			}
		default:
			s.Note = fmt.Sprintf("%d declared, %d ours, %d of others; listed %s", v.Declared, v.Ours, v.Foreign, moment(v.At, p.now).Text)
			if len(slices.DeleteFunc(slices.Collect(maps.Values(v.Findings)), func(n int) bool { return n == 0 })) == 0 {
				s.Empty = "all is as declared, and nothing is left over"
				break
			}
			s.Columns = lists
			var row []cell
			for _, list := range lists {
				c := some(v.Findings[list], "warn")
				if v.Findings[list] > 0 {
					c.Link = link("view", "drift", "kind", v.Kind, "list", list)
				}
				row = append(row, c)
			}
			s.Rows = [][]cell{row}
		}
		if v.Held != "" {
			s.Note, s.Bad = s.Note+"; nothing is pruned: "+clean(v.Held), true
			if p.may {
				s.Actions = []cell{{Text: actionTexts[releasePrune].button, Link: link("ask", string(releasePrune), "kind", v.Kind)}}
			}
		}
		p.add(s)
	}
}

func (p *printer) drift(v *driftView) {
	p.here(v.Kind + ": " + v.List)
	s := section{
		Title: fmt.Sprintf("%s %s", grouped(strconv.Itoa(v.Total)), clean(v.List)), Note: driftNotes[v.List],
		Columns: []string{"key", "id", "mark", "difference"}, Empty: "none",
	}
	for _, f := range v.Findings {
		s.Rows = append(s.Rows, []cell{plain(f.Key), plain(f.ID), plain(f.Mark), long(f.Diff)})
	}
	if v.Next != "" {
		s.Links = append(s.Links, cell{Text: "next page", Link: string(v.Next)})
	}
	p.add(s)
}

var driftNotes = map[string]string{
	"orphans":     "ours by their mark, and not declared",
	"different":   "there, ours, and not as declared",
	"missing":     "declared, and not there",
	"unclaimed":   "declared and there, without our mark or with an earlier one",
	"duplicates":  "carry the mark of an object whose resource is another",
	"letter case": "differ from a declaration in case only: set InventoryOptions.Letters; until then nothing is pruned",
	"unreadable":  "are on the list, and their details could not be read",
	"unsettled":   "written since the list was begun, or shortly before: it does not tell how they are",
}
