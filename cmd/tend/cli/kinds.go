package cli

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
)

// kindNames are the kinds of the service, of the host's program, or that the store has.
func (r *command) kindNames(ctx context.Context) (names []string, err error) {
	if r.client != nil {
		return r.client.Kinds(ctx)
	}
	if r.Kinds != nil {
		for _, k := range r.kinds {
			names = append(names, k.Kind())
		}
		return names, nil
	}
	counts, err := r.stored(ctx)
	return slices.Sorted(maps.Keys(counts)), err
}

// stored is how many records the store has of each kind.
func (r *command) stored(ctx context.Context) (map[string]int, error) {
	if b, ok := r.backend.(interface {
		Kinds(ctx context.Context) (map[string]int, error)
	}); ok {
		return b.Kinds(ctx)
	}
	return nil, errNoKinds
}

// kindLine is what kinds shows of one. What is not known is nil.
type kindLine struct {
	Kind     string         `json:"kind"`
	Objects  *int           `json:"objects,omitempty"`
	Declared *int           `json:"asDeclared,omitempty"` // of a service, which says it
	States   map[string]int `json:"states,omitempty"`
	Partial  bool           `json:"partial,omitempty"` // they are those of the shards of the server that was asked
}

func (r *command) listKinds(ctx context.Context, _ []string) error {
	names, err := r.kindNames(ctx)
	if err != nil {
		return err
	}
	counted, err := r.countKinds(ctx)
	if err != nil {
		fmt.Fprintf(r.Stderr, "%s: how many there are is not known: %s\n", r.Name, printable(err.Error()))
	}
	lines := []kindLine{}
	for _, name := range names {
		line := counted[name]
		line.Kind = name
		lines = append(lines, line)
	}
	if r.output != "table" {
		return r.print(lines)
	}
	t := table{screen: r.screen, at: 2}
	t.add("", "KIND", "OBJECTS", "AS DECLARED")
	text := func(n *int) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	for _, l := range lines {
		look := ""
		if l.Declared != nil && *l.Declared < *l.Objects {
			look = bad
		}
		t.add(look, word(l.Kind), text(l.Objects), text(l.Declared))
	}
	t.write(r.Stdout)
	return nil
}

// countKinds counts the objects of each kind.
func (r *command) countKinds(ctx context.Context) (map[string]kindLine, error) {
	all := map[string]kindLine{}
	if r.client == nil {
		counts, err := r.stored(ctx)
		for kind, n := range counts {
			all[kind] = kindLine{Objects: &n}
		}
		return all, err
	}
	var page statusPage
	if err := r.askPage(ctx, url.Values{"view": {"status"}}, &page); err != nil || page.Verdict == nil {
		return nil, err
	}
	for _, k := range page.Verdict.Kinds {
		if declared := k.States[ready]; k.Error == "" {
			all[k.Kind] = kindLine{Objects: &k.Total, Declared: &declared, States: k.States, Partial: k.Partial}
		}
		if k.Partial {
			r.notePart(k.Kind, page.Servers)
		}
	}
	return all, nil
}
