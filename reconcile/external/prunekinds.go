package external

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
)

// Pruner is one kind for [PruneKinds]: an [Inventory].
type Pruner interface {
	kind() string
	letters() Letters
	prune(ctx context.Context, most Cap, used func(store.Key) bool) (done []Finding, undecided int, err error)
}

func (v *Inventory[S, T, R]) kind() string     { return v.o.Store.Kind() }
func (v *Inventory[S, T, R]) letters() Letters { return v.o.Letters }

// prunedKind is how the prune of one inventory ended.
type prunedKind struct {
	kind string
	err  error // of its Prune, or why it was not pruned
}

// PruneKinds prunes several kinds, which may lie in several stores, in the order of their
// needs: each kind after those whose objects need it, so that the orphaned machines go
// before their orphaned subnets. Of each it does what [Inventory.Prune] does, with the same
// refusals, and besides:
//
//   - a kind is not pruned if one that needs it was not pruned to the end, be it that a
//     resource of that one was written too lately, or could not be read;
//   - an orphan that a declared object refers to, as far as the graph knows, is in use and
//     stays ([ErrInUse]). The graph knows what the sources of its trackers have read: prune
//     when they have synced, and with caches of the whole kinds, not of shards.
//
// Most is the cap for each kind, as in Prune. Kinds that the graph does not know come
// first, in the given order. It returns what was deleted, each with its mark, which names the
// kind; the error joins those of the kinds. Kinds that need each other in a circle have no order:
// that is a [depend.ErrCycle], and nothing is pruned.
func PruneKinds(ctx context.Context, g *depend.Graph, most Cap, inventories ...Pruner) (deleted []Finding, err error) {
	if g == nil {
		return nil, errors.New("external: PruneKinds: no graph")
	}
	if slices.ContainsFunc(inventories, func(v Pruner) bool { return v == nil }) {
		return nil, errors.New("external: PruneKinds: a nil inventory")
	}
	order, err := g.Kinds()
	if err != nil {
		return nil, fmt.Errorf("external: PruneKinds: %w", err)
	}
	inventories = slices.Clone(inventories)
	slices.SortStableFunc(inventories, func(a, b Pruner) int {
		return place(order, b.kind()) - place(order, a.kind())
	})
	var all []prunedKind
	var errs []error
	for _, v := range inventories {
		p := prunedKind{kind: v.kind()}
		if user := leftover(g, all, p.kind); user != "" {
			p.err = fmt.Errorf("external: kind %q is not pruned: it is needed by kind %q, of which not all orphans have gone", p.kind, user)
		} else {
			done, undecided, err := v.prune(ctx, most, usedBy(g, v))
			if deleted, p.err = append(deleted, done...), err; undecided > 0 {
				p.err = errors.Join(err, fmt.Errorf("external: prune kind %q: of %d resources it could not be decided whether they are orphans", p.kind, undecided))
			}
		}
		all, errs = append(all, p), append(errs, p.err)
	}
	return deleted, errors.Join(errs...)
}

// usedBy says whether a declared object refers to a key, or may do so: to one that differs in case only.
func usedBy(g *depend.Graph, v Pruner) func(store.Key) bool {
	folded := sync.OnceValues(func() (map[store.Key]bool, int) {
		needed := map[store.Key]bool{}
		edges, hidden := g.Edges(v.kind(), maxEdges)
		for _, e := range edges {
			if e.To.Kind == v.kind() && e.As != introspect.Owner {
				needed[foldKey(e.To.Key)] = true
			}
		}
		return needed, hidden
	})
	return func(key store.Key) bool {
		of := depend.Ref{Kind: v.kind(), Key: key}
		edges, _ := g.View(of)
		if slices.ContainsFunc(edges, func(e introspect.Link[depend.Ref]) bool { return e.To == of && e.As != introspect.Owner }) {
			return true
		}
		if v.letters() == LettersKeep {
			return false
		}
		needed, hidden := folded()
		return hidden > 0 || needed[foldKey(key)]
	}
}

// maxEdges bounds how many references PruneKinds reads of a kind.
const maxEdges = 1 << 20

// place is where a kind comes; those that the graph does not know come before all others.
func place(order []string, kind string) int {
	if i := slices.Index(order, kind); i >= 0 {
		return i
	}
	return len(order)
}

// leftover is a kind that needs this one and was not pruned to the end.
func leftover(g *depend.Graph, all []prunedKind, kind string) string {
	for _, p := range all {
		if p.err != nil && p.kind != kind && g.Needs(p.kind, kind) {
			return p.kind
		}
	}
	return ""
}
