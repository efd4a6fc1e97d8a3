package debug

import (
	"slices"
	"strings"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
)

// needsView is what needs what: by kind, or around one object.
type needsView struct {
	Edges []introspect.Link[depend.Ref] `json:"edges"`
	More  bool                          `json:"more,omitempty"` // there are edges beside those
	// Order is that of creation; deletion goes the other way.
	Order []depend.Ref `json:"order"`
	Cycle []depend.Ref `json:"cycle,omitempty"` // from a member back to itself
}

// maxEdges is how many lines a drawing has at most: more are of no use.
const maxEdges = 30

// needsAround is what an object needs and what needs it, over several steps.
func (h *handler) needsAround(kind string, key store.Key) *needsView {
	if h.o.Needs == nil {
		return nil
	}
	edges, more := h.o.Needs.Around(depend.Ref{Kind: kind, Key: key}, maxEdges)
	return newNeeds(edges, more)
}

// kindsThatNeed is what needs what by kind, with the name of the kind in place of a key.
func (h *handler) kindsThatNeed() *needsView {
	if h.o.Needs == nil {
		return nil
	}
	all, hidden := h.o.Needs.Edges("", 10_000)
	var edges []introspect.Link[depend.Ref]
	for _, e := range all {
		e = introspect.Link[depend.Ref]{From: depend.Ref{Kind: e.From.Kind}, To: depend.Ref{Kind: e.To.Kind}, As: e.As}
		if !slices.Contains(edges, e) {
			edges = append(edges, e)
		}
	}
	return newNeeds(edges, hidden > 0)
}

// links are the needs and the users of the object itself.
func (h *handler) links(kind string, key store.Key) (all []objectLine) {
	if h.o.Needs == nil {
		return nil
	}
	of := depend.Ref{Kind: kind, Key: key}
	edges, _ := h.o.Needs.View(of)
	for _, e := range edges {
		line := objectLine{Kind: e.To.Kind, Key: e.To.Key, Missing: e.Unmet}
		if e.From != of {
			line = objectLine{Kind: e.From.Kind, Key: e.From.Key, Needed: true}
		}
		if e.As != introspect.Owner && !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all
}

func newNeeds(edges []introspect.Link[depend.Ref], more bool) *needsView {
	if len(edges) == 0 {
		return nil
	}
	v := &needsView{Edges: edges, More: more}
	var refs []depend.Ref
	needs := map[depend.Ref][]depend.Ref{}
	for _, e := range edges {
		for _, r := range []depend.Ref{e.To, e.From} {
			if !slices.Contains(refs, r) {
				refs = append(refs, r)
			}
		}
		if e.As == introspect.Needed {
			needs[e.From] = append(needs[e.From], e.To)
		}
	}
	v.Order, v.Cycle = depend.Order(refs, func(r depend.Ref) []depend.Ref { return needs[r] })
	return v
}

// refName is a reference as people read it.
func refName(r depend.Ref) string {
	if r.Key == (store.Key{}) {
		return r.Kind
	}
	return r.Kind + " " + r.Key.String()
}

func refLink(r depend.Ref) string {
	if r.Key == (store.Key{}) {
		return link("view", "objects", "kind", r.Kind)
	}
	return objectLink(r.Kind, r.Key)
}

// needs draws what needs what from left to right, in the order of creation.
func (p *printer) needs(v *needsView) {
	if v == nil {
		return
	}
	s := section{Title: "What needs what", Columns: []string{"what", "does", "of what", "why it cannot be used yet"}}
	s.Note = "created from left to right, deleted from right to left; dashed: owned or watched, not waited for"
	if v.More {
		s.Note += "; not all is drawn"
	}
	if len(v.Cycle) > 0 {
		var names []string
		for _, r := range v.Cycle {
			names = append(names, refName(r))
		}
		s.Bad, s.Note = true, clean("they wait for each other in a circle, so that none of them is created: "+strings.Join(names, " needs "))
	}
	g := drawing{title: "What needs what, in the order of creation; the same as a table follows"}
	place := map[depend.Ref]int{}
	for i, r := range v.Order {
		place[r] = i
		g.nodes = append(g.nodes, drawnNode{name: refName(r), link: refLink(r), square: true})
	}
	for _, e := range v.Edges {
		says := map[introspect.Role]string{introspect.Needed: "needs", introspect.Watched: "watches", introspect.Owner: "is owned by"}[e.As]
		s.Rows = append(s.Rows, []cell{linked(refName(e.From), refLink(e.From)), plain(says), linked(refName(e.To), refLink(e.To)), bad(e.Unmet)})
		inCycle := e.As == introspect.Needed && follows(v.Cycle, e.From, e.To)
		g.edges = append(g.edges, drawnEdge{from: place[e.To], to: place[e.From], dashed: e.As != introspect.Needed, bad: inCycle || e.Unmet != ""})
	}
	if len(g.nodes) <= maxBoxes {
		s.Picture = g.draw()
	}
	p.add(s)
}

// follows reports whether b comes right after a.
func follows(all []depend.Ref, a, b depend.Ref) bool {
	for i := range max(len(all)-1, 0) {
		if all[i] == a && all[i+1] == b {
			return true
		}
	}
	return false
}
