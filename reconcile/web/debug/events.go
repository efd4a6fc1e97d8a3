package debug

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/tendhq/tend/store"
)

func (h *handler) events(q url.Values) (*eventsView, error) {
	if h.o.Events == nil {
		return nil, fmt.Errorf("%w: no events are kept", errNoView)
	}
	kind, of := q.Get("kind"), store.Key{}
	if text := q.Get("key"); text != "" {
		key, err := store.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBadQuery, err)
		}
		of = key
	}
	v := &eventsView{Kind: kind, Key: q.Get("key"), Contains: q.Get("q"), Type: q.Get("state"), Events: []eventView{}}
	if v.Type != "" && v.Type != warnings {
		return nil, fmt.Errorf("%w: state is %q or nothing", errBadQuery, warnings)
	}
	for _, e := range h.eventsOf(kind, of, 0) {
		if v.wants(e) && len(v.Events) < manyRows {
			v.Events = append(v.Events, e)
		}
	}
	return v, nil
}

// warnings is the one filter of events besides their text.
const warnings = "warnings"

func (v *eventsView) wants(e eventView) bool {
	return (v.Type == "" || e.Type == "Warning") &&
		strings.Contains(strings.Join([]string{e.Kind, e.Key, e.Reason, e.Message}, " "), v.Contains)
}

func (h *handler) eventsOf(kind string, key store.Key, limit int) []eventView {
	if h.o.Events == nil {
		return nil
	}
	events := h.o.Events.Events(kind, key, limit)
	rows := make([]eventView, 0, len(events))
	for _, e := range events {
		sort := "Normal"
		if e.Warning {
			sort = "Warning"
		}
		rows = append(rows, eventView{e.Time, sort, e.Reason, e.Message, e.Kind, e.Key.String(), e.Count})
	}
	return rows
}

// events shows events; about says to which key each belongs.
func (p *printer) events(title string, all []eventView, about bool) {
	s := section{Title: title, Columns: []string{"when", "reason", "times", "message"}, Empty: "none"}
	if about {
		s.Columns = []string{"when", "kind", "key", "reason", "times", "message"}
	}
	for _, e := range all {
		reason := plain(e.Reason)
		if e.Type == "Warning" {
			reason.Look = "bad"
		}
		row := []cell{moment(e.Time, p.now)}
		if about {
			row = append(row, plain(e.Kind), linked(e.Key, link("view", "events", "kind", e.Kind, "key", e.Key)))
		}
		s.Rows = append(s.Rows, append(row, reason, number(e.Count), long(e.Message)))
	}
	p.add(s)
}

func (p *printer) eventsPage(v *eventsView) {
	p.here(strings.TrimSpace("Events " + v.Kind + " " + v.Key))
	if v.Kind != "" || v.Key != "" {
		p.Trail = append(p.Trail, cell{Text: "Events", Link: link("view", "events")})
	}
	p.events("Events, the newest first", v.Events, true)
	s := &p.Sections[len(p.Sections)-1]
	s.Filter = &filterForm{
		Hidden: [][2]string{{"view", "events"}, {"kind", v.Kind}, {"key", v.Key}}, Search: v.Contains, Hint: "any text contains",
		States: []choice{{"", "all events", v.Type == ""}, {warnings, "warnings only", v.Type == warnings}},
	}
}
