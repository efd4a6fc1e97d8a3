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
		w.accept(&thing{Meta: store.Meta{Name: "k"}, Spec: wanted{turn}, Status: done{"x", token}})
	}
	for name, c := range map[string]struct {
		do   func(w *witness)
		want string // "": it passes
	}{
		"one server after the other": {func(*witness) {}, ""},
		"the second runs the key while the first does": {func(w *witness) {
			w.hear("a", "run k 5 1900 2050 1")
		}, "by a and b at once"},
		"a long run and short ones of its server before": {func(w *witness) {
			w.hear("a", "run k 5 1500 2550 1")
			w.hear("a", "run k 5 1600 1700 1")
		}, "by a and b at once"},
		"a run without trust": {func(w *witness) {
			w.hear("a", "run k 5 2900 2900 1")
		}, "by b and a at once"},
		"a write under an older token":  {func(w *witness) { accept(w, 5, 2) }, "accepted after"},
		"an object of another's shard":  {func(w *witness) { w.hear("a", "stranger k is shown by a") }, "stranger"},
		"a run of what the cache lacks": {func(w *witness) { w.hear("a", "forgotten k is run under 5") }, "forgotten"},
	} {
		w := newWitness(1)
		w.hear("a", "hold 0 5 900")
		w.hear("a", "run k 5 1000 2000 1")
		accept(w, 5, 1)
		w.hear("b", "hold 0 9 2000")
		w.hear("b", "run k 9 2001 3000 1")
		w.hear("b", "run k 9 2500 2600 1")
		accept(w, 9, 1)
		c.do(w)
		got := strings.Join(w.problems(), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A key is behind until the holder of its shard has run the last change.
func TestWitnessSeesAChangeThatIsNotRun(t *testing.T) {
	w := newWitness(1)
	behind := func(want bool, when string) {
		t.Helper()
		if got := w.behind(); (len(got) > 0) != want {
			t.Errorf("%s: behind are %q, want any: %v", when, got, want)
		}
	}
	w.hear("a", "hold 0 5 900")
	w.changed("k", 1)
	behind(true, "nothing was run")
	w.hear("a", "run k 5 1000 2000 1")
	behind(false, "the change was run")
	w.accept(&thing{Meta: store.Meta{Name: "k"}, Spec: wanted{2}, Status: done{"a", 5}})
	behind(true, "a change was accepted of which the answer was lost")
	w.hear("a", "run k 5 2000 2100 2")
	behind(false, "it was run")
	w.hear("b", "hold 0 9 3000")
	behind(true, "the shard moved")
	if w.settled(1) {
		t.Error("settled with a shard whose new holder has written nothing")
	}
	w.hear("b", "run k 9 3000 3100 1")
	behind(true, "the new holder ran an older change")
	w.hear("b", "run k 9 3100 3200 2")
	behind(false, "it ran the last one")
	w.accept(&thing{Meta: store.Meta{Name: "k"}, Spec: wanted{2}, Status: done{"b", 9}})
	if w.stop("b", true); w.settled(1) {
		t.Error("settled with a shard of a server that was stopped")
	}
	if w.stop("b", false); !w.settled(1, "b") || w.settled(1, "a") {
		t.Error("b has all shards: settled with b, not with a")
	}
}
