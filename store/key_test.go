package store_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/tendhq/tend/store"
)

func TestKeyPrintsAndParses(t *testing.T) {
	for key, want := range map[store.Key]string{
		{Namespace: "prod", Name: "a"}:   "prod/a", // case 157
		{Name: "a"}:                      "a",
		{Namespace: "prod", Name: "a/b"}: "prod/a/b",
		{Name: "a/b"}:                    "/a/b",
	} {
		if got := key.String(); got != want {
			t.Errorf("%#v prints as %q, want %q", key, got, want)
		}
		if back, err := store.ParseKey(want); err != nil || back != key {
			t.Errorf("%q reads as %#v, error %v", want, back, err)
		}
	}
	for _, bad := range []string{"", "a/", "/", "a\x00", "\xff"} {
		if _, err := store.ParseKey(bad); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("ParseKey(%q): got error %v", bad, err)
		}
	}
}

func TestKeyAndRevisionAreStringsInJSON(t *testing.T) {
	type doc struct {
		Key store.Key
		Rev store.Revision
		Map map[store.Key]int
	}
	in := doc{store.Key{Namespace: "a", Name: "b"}, math.MaxUint64, map[store.Key]int{{Name: "c"}: 1}}
	data, err := json.Marshal(in)
	const want = `{"Key":"a/b","Rev":"18446744073709551615","Map":{"c":1}}`
	if err != nil || string(data) != want {
		t.Fatalf("got %s, error %v, want %s", data, err, want)
	}
	var out doc
	if err := json.Unmarshal(data, &out); err != nil || out.Key != in.Key || out.Rev != in.Rev || out.Map[store.Key{Name: "c"}] != 1 {
		t.Errorf("read back %+v, error %v", out, err)
	}
	for _, bad := range []string{`{"Rev":"x"}`, `{"Rev":"-1"}`, `{"Rev":"18446744073709551616"}`, `{"Key":"a/"}`} {
		if err := json.Unmarshal([]byte(bad), new(doc)); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: got error %v", bad, err)
		}
	}
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{"a", "a/b", "/a/b", "", "a//b", "//", "ä/ö", "\u0085"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := store.ParseKey(s)
		if err != nil {
			if !errors.Is(err, store.ErrInvalid) {
				t.Fatalf("error %v is no ErrInvalid", err)
			}
			return
		}
		if back, err := store.ParseKey(k.String()); err != nil || back != k {
			t.Fatalf("%q is %#v, prints as %q, reads as %#v, error %v", s, k, k, back, err)
		}
		data, err := json.Marshal(k)
		var back store.Key
		if err != nil || json.Unmarshal(data, &back) != nil || back != k {
			t.Fatalf("%#v is %s in JSON, reads as %#v, error %v", k, data, back, err)
		}
	})
}

func TestTextThatIsNoKeyLeavesTheKeyAlone(t *testing.T) {
	k := store.Key{Namespace: "a", Name: "b"}
	if err := k.UnmarshalText([]byte("a/b\x00")); !errors.Is(err, store.ErrInvalid) || k != (store.Key{Namespace: "a", Name: "b"}) {
		t.Errorf("got %v, error %v", k, err)
	}
}

func TestCompareHolds(t *testing.T) {
	r := store.Record{Created: 3, Revision: 5}
	for c, want := range map[store.Compare][2]bool{ // holds for r, holds for nothing
		{}:                        {false, true},
		{Revision: 5}:             {true, false},
		{Revision: 4}:             {false, false},
		{Created: 3}:              {true, false},
		{Created: 4}:              {false, false},
		{Created: 3, Revision: 5}: {true, false},
		{Created: 3, Revision: 4}: {false, false},
		{Created: 2, Revision: 5}: {false, false},
	} {
		if got := [2]bool{c.Holds(r, true), c.Holds(store.Record{}, false)}; got != want {
			t.Errorf("%v: got %v, want %v", c, got, want)
		}
	}
}
