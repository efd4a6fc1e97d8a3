package leasetest

import (
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
)

// What the witness of the campaigns etcd-shards and postgres-shards lets pass, and what it does
// not: their negative control.
func TestWitnessRejectsWhatServersMustNotDo(t *testing.T) {
	accept := func(w *witness, token uint64, turn int) {
		w.accept(&thing{Meta: store.Meta{Name: "k"}, Spec: wanted{Turn: turn}, Status: done{"x", token}})
	}
	for name, c := range map[string]struct {
		do   func(w *witness)
		want string // "": it passes
	}{
		"one server after the other": {func(*witness) {}, ""},
		"the second runs the key while the first does": {func(w *witness) {
			w.hear("a", "run k 5 1900 2050 1 1 1")
		}, "by a and b at once"},
		"a long run and short ones of its server before": {func(w *witness) {
			w.hear("a", "run k 5 1500 2550 1 1 1")
			w.hear("a", "run k 5 1600 1700 1 1 1")
		}, "by a and b at once"},
		"a run without trust": {func(w *witness) {
			w.hear("a", "run k 5 2900 2900 1 1 1")
		}, "by b and a at once"},
		"a write under an older token":  {func(w *witness) { accept(w, 5, 2) }, "accepted after"},
		"an object of another's shard":  {func(w *witness) { w.hear("a", "stranger k is shown by a") }, "stranger"},
		"a run of what the cache lacks": {func(w *witness) { w.hear("a", "forgotten k is run under 5") }, "forgotten"},
	} {
		w := newWitness(1)
		w.hear("a", "hold 0 5 900")
		w.hear("a", "run k 5 1000 2000 1 1 1")
		accept(w, 5, 1)
		w.hear("b", "hold 0 9 2000")
		w.hear("b", "run k 9 2001 3000 1 1 1")
		w.hear("b", "run k 9 2500 2600 1 1 1")
		accept(w, 9, 1)
		c.do(w)
		got := strings.Join(w.problems(), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A key is behind until the holder of its shard has run it as it, its base and its part were last
// changed, and while its part is missing or that of a thing that has gone.
func TestWitnessSeesAChangeThatIsNotRun(t *testing.T) {
	w := newWitness(1)
	object := func(turn int) *thing {
		return &thing{Meta: store.Meta{Name: "k", UID: "1"}, Spec: wanted{Turn: turn, Base: "b"}}
	}
	part := func(turn int) *thing {
		return &thing{Meta: store.Meta{Name: "k", Owners: []store.Owner{{UID: "1"}}}, Spec: wanted{Turn: turn}}
	}
	all := world{
		things: map[string]*thing{"k": object(2)}, bases: map[string]*thing{"b": object(2)}, parts: map[string]*thing{"k": part(2)},
	}
	behind := func(want bool, when string) {
		t.Helper()
		if got := w.behind(all); (len(got) > 0) != want {
			t.Errorf("%s: behind are %q, want any: %v", when, got, want)
		}
	}
	w.hear("a", "hold 0 5 900")
	behind(true, "nothing was run")
	w.hear("a", "run k 5 1000 2000 1 2 2")
	behind(true, "the key has changed since")
	w.hear("a", "run k 5 1000 2000 2 1 2")
	behind(true, "its base has changed since")
	w.hear("a", "run k 5 1000 2000 2 2 1")
	behind(true, "its part has changed since")
	w.hear("a", "run k 5 1000 2000 2 2 2")
	behind(false, "the changes were run")
	delete(all.parts, "k")
	behind(true, "the part was deleted")
	all.parts["k"] = part(2)
	all.things["k"].UID = "2"
	behind(true, "the part is that of a thing of the same name")
	delete(all.things, "k")
	behind(true, "the thing has gone, and its part is left")
	all.things["k"] = object(2)
	behind(false, "all is back")

	w.hear("b", "hold 0 9 3000")
	behind(true, "the shard moved")
	if all.things["k"].Status.Token = 5; w.settled(all) {
		t.Error("settled with a shard whose new holder has written nothing")
	}
	w.hear("b", "run k 9 3100 3200 2 2 2")
	behind(false, "the new holder ran it")
	all.things["k"].Status.Token = 9
	if w.stop("b", true); w.settled(all) {
		t.Error("settled with a shard of a server that was stopped")
	}
	if w.stop("b", false); !w.settled(all, "b") || w.settled(all, "a") {
		t.Error("b has all shards: settled with b, not with a")
	}
}
