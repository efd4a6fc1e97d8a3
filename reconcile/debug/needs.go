package debug

import (
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
)

// LinksOf returns an Options.Links that tells what a graph of dependencies knows.
func LinksOf(g *depend.Graph) func(kind string, key store.Key) []Link {
	return func(kind string, key store.Key) (links []Link) {
		v := g.View(depend.Ref{Kind: kind, Key: key})
		for _, l := range v.Needs {
			links = append(links, Link{Kind: l.Ref.Kind, Key: l.Ref.Key, Missing: l.Unmet})
		}
		for _, r := range v.Users {
			links = append(links, Link{Kind: r.Kind, Key: r.Key, Needed: true})
		}
		return links
	}
}
