package depend_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// A graph shows what an object needs and what uses it, why it waits, and the order of the
// kinds; kinds that need each other in a circle have none.
func TestGraphShowsBothDirectionsAndTheOrderOfKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph := depend.NewGraph()
		s := newSystem(t, setting{options: &depend.Options{Graph: graph}})
		defer s.start()()
		s.declare("vpc")
		s.declare("subnet", "vpc", "route")
		settle()
		ref := func(name string) depend.Ref { return depend.Ref{Kind: "thing", Key: store.Key{Name: name}} }
		uses := introspect.Link[depend.Ref]{From: ref("subnet"), To: ref("vpc"), As: introspect.Needed}
		want := []introspect.Link[depend.Ref]{uses, {From: ref("subnet"), To: ref("route"), As: introspect.Needed, Unmet: depend.ReasonNotFound}}
		if edges, hidden := graph.View(ref("subnet")); !slices.Equal(edges, want) || hidden != 0 {
			t.Errorf("its edges are %+v, want %+v", edges, want)
		}
		if edges, hidden := graph.View(ref("vpc")); !slices.Equal(edges, []introspect.Link[depend.Ref]{uses}) || hidden != 0 {
			t.Errorf("its edges are %+v, want that of its user", edges)
		}
		if _, err := depend.New(s.cache, depend.On(s.cache, needed, nil), &depend.Options{Graph: graph}); err == nil {
			t.Error("a second tracker of the kind is taken")
		}
	})
	kind := func(name string) *cache.Cache[Spec, Status] {
		return must(cache.New(must(store.New[Spec, Status](must(memory.New(nil))(t), name, nil))(t), nil))(t)
	}
	vpc, subnet, machine := kind("vpc"), kind("subnet"), kind("machine")
	o := &depend.Options{Graph: depend.NewGraph()}
	must(depend.New(machine, depend.All(depend.On(subnet, needed, nil), depend.Watching(kind("secret"), needed, nil)), o))(t)
	must(depend.New(subnet, depend.All(depend.On(vpc, needed, nil), depend.On(subnet, needed, nil)), o))(t)
	if kinds, err := o.Graph.Kinds(); err != nil || !slices.Equal(kinds, []string{"vpc", "subnet", "machine"}) {
		t.Errorf("the kinds are %v, %v", kinds, err)
	}
	for _, c := range []struct {
		kind, other string
		want        bool
	}{
		{"machine", "subnet", true},
		{"machine", "vpc", true},
		{"subnet", "subnet", true},
		{"machine", "secret", false},
		{"machine", "machine", false},
		{"vpc", "machine", false},
		{"secret", "vpc", false},
	} {
		if got := o.Graph.Needs(c.kind, c.other); got != c.want {
			t.Errorf("%s needs %s: %v, want %v", c.kind, c.other, got, c.want)
		}
	}
	must(depend.New(vpc, depend.On(machine, needed, nil), o))(t)
	if kinds, err := o.Graph.Kinds(); !errors.Is(err, depend.ErrCycle) {
		t.Errorf("the kinds of a circle are %v, %v", kinds, err)
	}
}

// The zero value is a graph without trackers, as NewGraph's is.
func TestZeroGraphTakesTrackers(t *testing.T) {
	c := must(cache.New(must(store.New[Spec, Status](must(memory.New(nil))(t), "thing", nil))(t), nil))(t)
	var graph depend.Graph
	must(depend.New(c, depend.On(c, needed, nil), &depend.Options{Graph: &graph}))(t)
	if kinds, err := graph.Kinds(); err != nil || !slices.Equal(kinds, []string{"thing"}) {
		t.Errorf("the kinds are %v, %v; want one", kinds, err)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	c := must(cache.New(must(store.New[Spec, Status](must(memory.New(nil))(t), "thing", nil))(t), nil))(t)
	good := depend.On(c, needed, nil)
	elsewhere := must(cache.New(must(store.New[Spec, Status](must(memory.New(nil))(t), "thing", nil))(t), nil))(t)
	guarded := must(cache.New(must(store.New(must(memory.New(nil))(t), "thing", &store.Options[Spec, Status]{RequireGuard: true}))(t), nil))(t)
	if _, err := depend.New(c, depend.Watching(guarded, needed, nil), nil); err != nil {
		t.Errorf("what is only watched is not written, and refused: %v", err)
	}
	if err := errorOf(depend.New(c, depend.On(guarded, needed, nil), nil)); err == nil || !strings.Contains(err.Error(), "store.Unguarded()") {
		t.Errorf("the refusal of a store with RequireGuard names no cure: %v", err) // seen without it in the text
	}
	for name, err := range map[string]error{
		"a guarded store":    errorOf(depend.New(c, depend.On(guarded, needed, nil), nil)),
		"two backends":       errorOf(depend.New(c, depend.All(good, depend.On(elsewhere, needed, nil)), nil)),
		"no users":           errorOf(depend.New(nil, good, nil)),
		"no needs":           errorOf(depend.New[Spec, Status](c, depend.Needs[Spec, Status]{}, nil)),
		"no cache":           errorOf(depend.New(c, depend.On[Spec, Status, Spec, Status](nil, needed, nil), nil)),
		"no keys":            errorOf(depend.New(c, depend.On[Spec, Status](c, nil, nil), nil)),
		"a negative Burst":   errorOf(depend.New(c, good, (&depend.Options{}).SetBurst(-1))),
		"a negative pace":    errorOf(depend.New(c, good, (&depend.Options{}).SetPerSecond(-1))),
		"a negative Fresh":   errorOf(depend.New(c, good, (&depend.Options{}).SetFresh(-1))),
		"a zero Needs value": errorOf(depend.New(c, depend.Needs[Spec, Status]{}, nil)),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func errorOf(_ *depend.Tracker[Spec, Status], err error) error { return err }
