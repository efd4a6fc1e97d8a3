package depend

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// link says what one object is to another.
type link = introspect.Link[Ref]

func compareEdges(a, b link) int {
	return cmp.Or(compareRefs(a.From, b.From), compareRefs(a.To, b.To), cmp.Compare(a.As, b.As))
}

// maxRead is how many objects one call of Edges reads at most of each cache.
const maxRead = 100_000

// family is a cache whose objects may have owners.
type family struct {
	kind   string
	all    iter.Seq[*store.Meta] // at most maxRead
	owners func(key store.Key) []store.Owner
}

func familyOf[S, T any](c *cache.Cache[S, T]) family {
	return family{
		kind: c.Kind(),
		all: func(yield func(*store.Meta) bool) {
			read := 0
			for o := range c.All() {
				if read++; read > maxRead || !yield(&o.Meta) {
					return
				}
			}
		},
		owners: func(key store.Key) []store.Owner {
			if o, ok := c.Get(key); ok {
				return o.Owners
			}
			return nil
		},
	}
}

// Edges are the needs and the owners of all objects, as far as this process knows them:
// with a kind those from and to objects of the kind, with an empty one all. An edge leads From an
// object To one that it needs, watches or is owned by (As: "needed", "watched" or "owner"), and
// has Unmet, one of the reasons, if that may not be used. At most as many
// as most are returned, the first ones in the order of their objects; hidden is how many
// there are beside those. Of a kind with more than 100,000 objects only so many are read.
// The call copies what it returns and may take a tenth of a second for so many.
func (g *Graph) Edges(kind string, most int) (edges []introspect.Link[Ref], hidden int) {
	most = max(most, 0)
	take := func(e link) {
		if kind != "" && e.From.Kind != kind && e.To.Kind != kind {
			return
		}
		if edges = append(edges, e); len(edges) >= 2*most+100 {
			edges, hidden = first(edges, most, hidden)
		}
	}
	trackers := g.all()
	for _, f := range g.families(trackers) {
		for m := range f.all {
			from := Ref{f.kind, m.Key()}
			if t := trackers[f.kind]; t != nil {
				for _, e := range t.edges(from.Key) {
					take(e)
				}
			}
			for _, o := range m.Owners {
				take(link{From: from, To: Ref{o.Kind, o.Key}, As: introspect.Owner})
			}
		}
	}
	return first(edges, most, hidden)
}

// first keeps the first edges, and counts the others.
func first(edges []link, most, hidden int) ([]link, int) {
	slices.SortFunc(edges, compareEdges)
	if len(edges) > most {
		hidden += len(edges) - most
		edges = edges[:most]
	}
	return edges, hidden
}

// Around are the edges near an object: its own, in both directions, then those of the
// objects that they lead to, and so on, the nearest first, at most as many as most; more
// says that there are others. Of the users of one object a hundred of each kind count, and
// of owners only those of the objects that are reached.
func (g *Graph) Around(r Ref, most int) (edges []introspect.Link[Ref], more bool) {
	reached, seen := map[Ref]bool{r: true}, make(map[link]bool)
	for next := []Ref{r}; len(next) > 0; next = next[1:] {
		near, hidden := g.View(next[0])
		more = more || hidden > 0
		for _, e := range near {
			switch {
			case seen[e]:
				continue
			case len(edges) == most:
				return edges, true
			}
			seen[e] = true
			edges = append(edges, e)
			for _, end := range [2]Ref{e.From, e.To} {
				if !reached[end] {
					reached[end] = true
					next = append(next, end)
				}
			}
		}
	}
	return edges, more
}

// all are the trackers at this moment.
func (g *Graph) all() map[string]linked {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.trackers)
}

// families gives each kind that a tracker knows once: those of the trackers first, both parts in order.
func (g *Graph) families(trackers map[string]linked) (all []family) {
	var others []family
	for _, kind := range slices.Sorted(maps.Keys(trackers)) {
		own, needed := trackers[kind].families()
		all, others = append(all, own), append(others, needed...)
	}
	slices.SortStableFunc(others, func(a, b family) int { return strings.Compare(a.kind, b.kind) })
	for _, f := range others {
		if !slices.ContainsFunc(all, func(known family) bool { return known.kind == f.kind }) {
			all = append(all, f)
		}
	}
	return all
}

// ownersOf are the owners of an object, from the first cache of the kind.
func (g *Graph) ownersOf(r Ref) (refs []Ref) {
	for _, f := range g.families(g.all()) {
		if f.kind == r.Kind {
			for _, o := range f.owners(r.Key) {
				refs = append(refs, Ref{o.Kind, o.Key})
			}
		}
	}
	return refs
}
