package external

import (
	"testing"

	"github.com/tendhq/tend/store"
)

func TestMarkTellsOursFromOthers(t *testing.T) {
	mine := Mark{Installation: "i", Kind: "Bucket", Key: store.Key{Namespace: "a", Name: "b"}, UID: "u1"}
	with := func(change func(*Mark)) Mark { m := mine; change(&m); return m }
	for _, c := range []struct {
		found  Mark
		marked bool
		want   Ownership
	}{
		{mine, true, Ours},
		{with(func(m *Mark) { m.UID = "" }), true, Ours},
		{with(func(m *Mark) { m.UID = "u0" }), true, Former},
		{with(func(m *Mark) { m.Installation = "j" }), true, Foreign},
		{with(func(m *Mark) { m.Kind = "Disk" }), true, Foreign},
		{with(func(m *Mark) { m.Key.Name = "c" }), true, Foreign},
		{with(func(m *Mark) { m.Key.Namespace = "" }), true, Foreign},
		{mine, false, Unmarked},
		{Mark{}, true, Foreign},
	} {
		if got := mine.Compare(c.found, c.marked); got != c.want {
			t.Errorf("%v, marked %v: %v, want %v", c.found, c.marked, got, c.want)
		}
	}
}
