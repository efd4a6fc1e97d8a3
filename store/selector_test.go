package store_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
)

func TestSelectorMatches(t *testing.T) {
	objects := map[string]store.Meta{
		"a": {Namespace: "n1", Labels: map[string]string{"env": "prod", "team": "x"}},
		"b": {Namespace: "n1", Labels: map[string]string{"env": "dev"}},
		"c": {Namespace: "n2", Labels: map[string]string{"env": "", "team": "y"}},
		"d": {Namespace: "n2"},
	}
	for sel, want := range map[string]string{
		"":                          "a b c d",
		"env":                       "a b c",
		"!env":                      "d",
		"env=prod":                  "a",
		"env==prod":                 "a",
		"env=":                      "c",
		"env!=prod":                 "b c d",
		"env in (prod, dev)":        "a b",
		"env in (dev,)":             "b c",
		"env notin (prod,dev)":      "c d",
		"env,team":                  "a c",
		" env != prod , team ":      "c",
		"in in (in)":                "",
		"notin notin (notin),!team": "b d",
	} {
		s, err := store.ParseSelector(sel)
		if err != nil {
			t.Errorf("%q: %v", sel, err)
			continue
		}
		if got := matching(objects, s); got != want {
			t.Errorf("%q picks %q, want %q", sel, got, want)
		}
	}
	if got := matching(objects, store.Selector{Namespace: "n2"}); got != "c d" {
		t.Errorf("namespace n2 picks %q", got)
	}
}

func matching(objects map[string]store.Meta, s store.Selector) string {
	var names []string
	for name, m := range objects {
		if s.Matches(&m) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestBadSelectorIsRefusedWithItsPlace(t *testing.T) {
	for sel, at := range map[string]string{
		"=a": "at 0", "a=b c=d": "at 4", "a in b": "at 5", "a in (b": "at 7", "a in (b c)": "at 8", "a is b": "at 4",
		"a,,b": "at 2", ",": "at 0", "!": "at 1", "a!b": "at 1", "a in": "at 4", "a=(": "at 2", "a\nb": "at", "a,": "at 2",
	} {
		_, err := store.ParseSelector(sel)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), at) {
			t.Errorf("%q: got error %v, want one that says %q", sel, err, at)
		}
	}
}

// Every selector of labels that can exist prints as what reads back as itself.
//
// Negative control: with keys and values printed as they are each of these seeds fails.
func FuzzSelectorString(f *testing.F) {
	f.Add("k", "=notin", "", uint8(2))
	f.Add("in", "a b", "c,d", uint8(2))
	f.Add("a!b(c)", "\"", "\\", uint8(3))
	f.Add("k", "", "", uint8(2))
	f.Add("ä \u00a0", "x", "y", uint8(1))
	s, err := store.New[bucketSpec, bucketStatus](newMemory(f, nil), "K", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key, a, b string, op uint8) {
		for _, v := range []string{a, b} {
			if _, err := s.Declaration(&bucket{Meta: store.Meta{Name: "x", Labels: map[string]string{key: v}}}); err != nil {
				return // there is no such label
			}
		}
		m := store.Meta{Name: "x", Labels: map[string]string{key: a}}
		for _, values := range [][]string{nil, {a}, {a, b}, {b, a, a}} {
			r := *(&store.Requirement{Key: key}).SetOp(store.SelectorOp(op % 4))
			if op%4 >= 2 { // in, not in
				r.Values = values
			}
			s := store.Selector{Labels: []store.Requirement{r, r}}
			again, err := store.ParseSelector(s.String())
			if err != nil || !reflect.DeepEqual(again, s) || again.Matches(&m) != s.Matches(&m) {
				t.Fatalf("%+v prints as %s, which reads as %+v, error %v", s, s, again, err)
			}
		}
	})
}

func FuzzSelector(f *testing.F) {
	for _, s := range []string{"", "a", "!a", "a=b,c!=d", "a in (x,y),b notin (z)", "a in ()", "in", " a == b ", "ä=ö"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := store.ParseSelector(text)
		if err != nil {
			if !errors.Is(err, store.ErrInvalid) {
				t.Fatalf("error %v is no ErrInvalid", err)
			}
			return
		}
		again, err := store.ParseSelector(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q prints as %q, which reads as %q, error %v", text, s, again, err)
		}
		for _, m := range []store.Meta{{}, {Labels: map[string]string{"a": "b"}}, {Labels: map[string]string{"a": "", "c": "d"}}} {
			if s.Matches(&m) != again.Matches(&m) {
				t.Fatalf("%q and %q differ on %v", text, again, m.Labels)
			}
		}
	})
}
