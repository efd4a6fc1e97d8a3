package depend_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

func thing(name string) depend.Ref {
	return depend.Ref{Kind: "thing", Key: store.Key{Name: name}}
}

func secret(name string) depend.Ref {
	return depend.Ref{Kind: "secret", Key: store.Key{Name: name}}
}

// A graph lists the needs and owners of all objects, of a kind, and near one object, and
// what an object owns, in order and at most as many as asked for.
func TestGraphListsEdgesInOrderAndWithinABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph := depend.NewGraph()
		keys, watched := secrets(t)
		s := newSystem(t, setting{watched: watched, options: &depend.Options{Graph: graph}})
		defer s.start()()
		must(keys.Create(t.Context(), &Thing{Meta: store.Meta{Name: "password"}}))(t)
		s.declare("vpc")
		s.declare("subnet", "vpc")
		owner := s.store.OwnerOf(s.get("subnet"))
		must(s.store.Create(t.Context(), &Thing{
			Meta: store.Meta{Name: "machine", Owners: []store.Owner{owner}},
			Spec: Spec{Needs: []string{"subnet", "missing"}, Secret: "password"},
		}))(t)
		settle()
		want := []introspect.Link[depend.Ref]{
			{From: thing("machine"), To: secret("password"), As: introspect.Watched},
			{From: thing("machine"), To: thing("missing"), As: introspect.Needed, Unmet: depend.ReasonNotFound},
			{From: thing("machine"), To: thing("subnet"), As: introspect.Needed},
			{From: thing("machine"), To: thing("subnet"), As: introspect.Owner},
			{From: thing("subnet"), To: thing("vpc"), As: introspect.Needed},
		}
		for kind, want := range map[string][]introspect.Link[depend.Ref]{"": want, "thing": want, "secret": want[:1], "other": nil} {
			if got, hidden := graph.Edges(kind, 100); !slices.Equal(got, want) || hidden != 0 {
				t.Errorf("edges of kind %q: %v, and %d hidden, want %v", kind, got, hidden, want)
			}
		}
		for most := range want {
			if got, hidden := graph.Edges("", most); !slices.Equal(got, want[:most]) || hidden != len(want)-most {
				t.Errorf("the first %d edges: %v, and %d hidden", most, got, hidden)
			}
			if got, more := graph.Around(thing("vpc"), most); len(got) != most || !more {
				t.Errorf("%d edges around the VPC: %v, more %v", most, got, more)
			}
		}
		got, more := graph.Around(thing("vpc"), 100)
		if more || got[0] != want[4] {
			t.Errorf("around the VPC: %v, more %v; want the subnet's first", got, more)
		}
		slices.SortFunc(got, func(a, b introspect.Link[depend.Ref]) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		all := slices.SortedFunc(slices.Values(want), func(a, b introspect.Link[depend.Ref]) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		if !slices.Equal(got, all) {
			t.Errorf("around the VPC: %v, want %v", got, all)
		}
		for name, want := range map[string][]introspect.Link[depend.Ref]{"machine": {want[0], want[1], want[2], want[3]}, "vpc": {want[4]}} {
			got, hidden := graph.View(thing(name))
			slices.SortFunc(got, func(a, b introspect.Link[depend.Ref]) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			slices.SortFunc(want, func(a, b introspect.Link[depend.Ref]) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			if !slices.Equal(got, want) || hidden != 0 {
				t.Errorf("the edges of %s are %v, and %d more, want %v", name, got, hidden, want)
			}
		}
	})
}

// A list of edges that is longer than what is kept of it while it is read is still the first
// part of the whole, in order.
func TestFirstEdgesOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph := depend.NewGraph()
		s := newSystem(t, setting{options: &depend.Options{Graph: graph}})
		defer s.start()()
		s.declare("one")
		for n := range 500 {
			s.declare(fmt.Sprintf("user%03d", n), "one")
		}
		settle()
		edges, hidden := graph.Edges("thing", 20)
		if len(edges) != 20 || hidden != 480 {
			t.Fatalf("%d edges and %d hidden, want 20 and 480", len(edges), hidden)
		}
		for n, e := range edges {
			if want := fmt.Sprintf("user%03d", n); e.From.Key.Name != want {
				t.Errorf("edge %d is that of %s, want %s", n, e.From, want)
			}
		}
		if edges, more := graph.Around(thing("user007"), 1000); len(edges) < 100 || !more {
			t.Errorf("%d edges around one of 500 users, more %v: want those of a hundred users, and more", len(edges), more)
		}
	})
}

// Of a kind that only others need no tracker is there: the graph knows the owners of its objects all the same.
func TestGraphShowsTheOwnersOfAKindThatIsOnlyNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, graph := must(memory.New(nil))(t), depend.NewGraph()
		secrets, users := newHalf(t, b, "secret", newCloud()), newHalf(t, b, "thing", newCloud())
		must(depend.New(users.cache, depend.On(secrets.cache, secretOf, nil), &depend.Options{Graph: graph}))(t)
		of := store.Owner{Kind: "team", Key: store.Key{Name: "blue"}, UID: "u"}
		must(secrets.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: "key", Owners: []store.Owner{of}}}))(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- secrets.cache.Run(ctx) }() // ends at stop
		synctest.Wait()
		want := []introspect.Link[depend.Ref]{{From: secret("key"), To: depend.Ref{Kind: "team", Key: of.Key}, As: introspect.Owner}}
		if edges, hidden := graph.Edges("", 10); !slices.Equal(edges, want) || hidden != 0 {
			t.Errorf("all edges are %+v, want %+v", edges, want)
		}
		if edges, hidden := graph.View(secret("key")); !slices.Equal(edges, want) || hidden != 0 {
			t.Errorf("its edges are %+v, want %+v", edges, want)
		}
		stop()
		check(t, <-ended)
	})
}

// The Manager's graph says which kinds' objects are needed, watched, owned and owners.
func TestManagerDrawsWhatIsNeededAndWatched(t *testing.T) {
	_, watched := secrets(t)
	s := newSystem(t, setting{watched: watched})
	hosts := must(store.New[Spec, Status](s.store.Backend(), "host", nil))(t)
	check(t, s.ctrl.Watch(reconcile.Owners(must(cache.New(hosts, nil))(t), "thing")))
	var m reconcile.Manager
	check(t, m.Register(s.ctrl))
	want := `flowchart LR
  n0["thing"]
  n1(["thing"])
  n2(["host"])
  n3(["secret"])
  n1 --> n0
  n2 -->|owned| n0
  n3 -->|watched| n0
  n1 -->|needed| n0
`
	if got := m.Mermaid(); got != want {
		t.Errorf("the Manager draws\n%s\nwant\n%s", got, want)
	}
}
