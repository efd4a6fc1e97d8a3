package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

func TestSearchForAKeyIsSearchInItsPrintedForm(t *testing.T) {
	for _, k := range []store.Key{
		{Name: "a"}, {Name: "a/b"}, {Namespace: "n", Name: "a"}, {Namespace: "n", Name: "a/b"}, {Namespace: "na", Name: "b"}, {Name: "/"}, {Name: "/a"},
	} {
		for _, text := range []string{"a", "n", "/", "a/b", "n/a", "/a", "/b", "a/", "n/", "n/a/b", "//", "na/b", "b/a", "an"} {
			if got, want := keyContains(k, text), strings.Contains(k.String(), text); got != want {
				t.Errorf("%q in %q: %t, want %t", text, k, got, want)
			}
		}
	}
}

type pair struct{ A, B int }

func still[K comparable](t *testing.T, name string, o *Options[K]) *Controller[K] {
	t.Helper()
	c, err := New(name, Func[K](func(context.Context, K) (Result, error) { return Result{}, nil }), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func inspectionOf(t *testing.T, r Runner) Inspection {
	t.Helper()
	i, ok := Inspect(r)
	if !ok {
		t.Fatalf("%T cannot be inspected", r)
	}
	return i
}

// What is no controller, or one that no constructor made, cannot be inspected.
func TestInspectRefusesWhatIsNoController(t *testing.T) {
	var none *Controller[string]
	for _, r := range []Runner{nil, none, new(Controller[string]), new(Manager)} {
		if i, ok := Inspect(r); ok || i != nil {
			t.Errorf("Inspect(%T) = %v, %t", r, i, ok)
		}
	}
}

// Keys of every type can be found by how they are printed.
func TestActionsFindKeysByTheirPrintedForm(t *testing.T) {
	pairs := still[pair](t, "pairs", nil)
	byKey, byText, byPair := inspectionOf(t, still[Request](t, "keys", nil)), inspectionOf(t, still[string](t, "texts", nil)), inspectionOf(t, pairs)
	if err := byKey.Do(t.Context(), ActionKick, "ns/name", ""); err != nil {
		t.Error(err)
	}
	if err := byText.Do(t.Context(), ActionKick, "ns/name", ""); err != nil {
		t.Error(err)
	}
	if err := byPair.Do(t.Context(), ActionKick, "{1 2}", ""); !errors.Is(err, ErrNoKey) {
		t.Errorf("a key that cannot be read and is not there: %v", err)
	}
	if err := pairs.Add(pair{1, 2}); err != nil {
		t.Fatal(err)
	}
	if err := byPair.Do(t.Context(), ActionPause, "{1 2}", "for a look"); err != nil {
		t.Error(err)
	}
	for _, c := range []Inspection{byKey, byText, byPair} {
		p, err := c.Keys(t.Context(), "n", &queue.PageOptions{})
		if c == byPair {
			p, err = c.Keys(t.Context(), "1 2", &queue.PageOptions{})
		}
		if err != nil || len(p.Entries) != 1 {
			t.Fatalf("%+v, %v", p, err)
		}
		if k, ok := c.Key(t.Context(), p.Entries[0].Key); !ok || k.State == "" {
			t.Errorf("%s: %+v, %t", p.Entries[0].Key, k, ok)
		}
	}
	if k, ok := byText.Key(t.Context(), "none"); ok || k.State != "" {
		t.Errorf("a key that is not there: %+v, %t; want the zero value", k, ok)
	}
	if k, _ := byPair.Key(t.Context(), "{1 2}"); k.State != "held" || !strings.Contains(k.Why, "for a look") {
		t.Errorf("paused: %+v", k)
	}
	for _, a := range []Action{ActionResume, ActionForget} {
		if err := byPair.Do(t.Context(), a, "{1 2}", ""); err != nil {
			t.Error(err)
		}
		if err := byPair.Do(t.Context(), a, "{1 2}", ""); err == nil {
			t.Errorf("%s twice was taken", a)
		}
	}
	for _, a := range []Action{ActionKick, ActionForget, "explode"} {
		if err := byText.Do(t.Context(), a, "", ""); err == nil {
			t.Errorf("%s of the whole controller was taken", a)
		}
	}
	if err := byText.Do(t.Context(), "explode", "x", ""); err == nil {
		t.Error("an unknown action was taken")
	}
	if _, err := byText.Keys(t.Context(), "", &queue.PageOptions{Limit: -1}); err == nil {
		t.Error("a negative limit was taken")
	}
}

// name is a key with two texts: that of UnmarshalText and that of fmt.
type name struct{ First, Last string }

func (n *name) UnmarshalText(text []byte) error {
	n.First, n.Last, _ = strings.Cut(string(text), "/")
	return nil
}

// A host allows actions by comparing the key with what is printed; another text of it is none.
//
// Negative control: mutant "a controller takes other texts of its keys".
func TestKeyHasNoOtherTextThanThePrinted(t *testing.T) {
	names := still[name](t, "names", nil)
	if err := names.Add(name{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	for text, i := range map[string]Inspection{"a/b": inspectionOf(t, names), "/a": inspectionOf(t, still[Request](t, "keys", nil))} {
		if err := i.Do(t.Context(), ActionKick, text, ""); !errors.Is(err, ErrNoKey) {
			t.Errorf("a kick of %q: %v", text, err)
		}
	}
	if err := inspectionOf(t, names).Do(t.Context(), ActionKick, "{a b}", ""); err != nil {
		t.Errorf("a kick of the printed key: %v", err)
	}
}

type loud struct{}

func (loud) Error() string { panic("an Error method that panics") }

func TestErrorThatCannotBePrintedIsShownAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := still[string](t, "texts", nil)
		if err := c.Add("a"); err != nil {
			t.Fatal(err)
		}
		item, err := inside(c).k.q.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		item.Park(loud{})
		k, _ := inspectionOf(t, c).Key(t.Context(), "a")
		if k.State != queue.StateParked.String() || !strings.Contains(k.Error, "PANIC") {
			t.Errorf("%+v", k)
		}
	})
}

// Every server names the holder of a lease, also one that does not hold it; where no lease is needed
// a key runs under none.
//
// Negative control: the mutant "a key is looked for among the leases of a controller that has none".
func TestLeasesNameTheirHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		var servers []Inspection
		var stops []func()
		for _, name := range []string{"one", "two"} {
			p, err := lease.NewSharded(backend, "keys", 4, &lease.Options{Server: name})
			if err != nil {
				t.Fatal(err)
			}
			c := still[Request](t, "keys", &Options[Request]{Placement: p})
			for _, l := range inspectionOf(t, c).Leases() {
				if l.Held || l.Running || l.Holder != "" {
					t.Errorf("before it runs: %+v", l)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- c.Run(ctx) }() // ended and waited for by its stop
			stops = append(stops, func() { cancel(); <-done })
			servers = append(servers, inspectionOf(t, c))
		}
		time.Sleep(time.Minute)
		held := map[string]int{}
		for i, l := range servers[0].Leases() {
			other := servers[1].Leases()[i]
			if l.Holder == "" || l.Holder != other.Holder || l.Held == other.Held || l.Held != l.Running || l.Held != (l.Holder == "one") {
				t.Errorf("shard %d: %+v and %+v", i, l, other)
			}
			held[l.Holder]++
		}
		if held["one"] == 0 || held["two"] == 0 {
			t.Errorf("held %v", held)
		}
		for _, stop := range stops {
			stop()
		}
		without := inspectionOf(t, still[Request](t, "keys", nil))
		if l := without.Leases(); l != nil {
			t.Errorf("without a lease: %+v", l)
		}
		if l, ok := without.LeaseOf(t.Context(), "ns/name"); ok {
			t.Errorf("without a lease a key runs under %+v", l)
		}
	})
}
