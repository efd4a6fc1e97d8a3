package external

import (
	"strings"
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

// What people are told of a resource says whose it is.
func TestOwnershipIsSaidInWords(t *testing.T) {
	for w, want := range map[Ownership][2]string{
		Unreported: {"unreported", "the client does not say whose it is"},
		Ours:       {"ours", "this object's ownership mark"},
		Former:     {"former", "of an earlier object of this name"},
		Unmarked:   {"unmarked", "no ownership mark"},
		Foreign:    {"foreign", "names another owner"},
	} {
		if w.String() != want[0] || !strings.Contains(w.says(), want[1]) {
			t.Errorf("%d is %q: %q, want %q", w, w, w.says(), want)
		}
	}
}

// A mark is read from tags as it was put there, beside tags of others, and takes the place of
// one that was there. What cannot be read is another's.
func TestMarkIsReadFromTagsAsItWasPutThere(t *testing.T) {
	key := store.Key{Namespace: "a", Name: "b/c"}
	tags := map[string]string{"team": "blue"}
	for _, m := range []Mark{
		{Installation: "here", Kind: "Disk", Key: key, UID: "u", Declared: 1_700_000_000},
		{Installation: "there", Kind: "Net", Key: store.Key{Name: "d"}}, // leaves nothing of the one before
	} {
		m.SetTags(tags)
		if got, marked := MarkOf(tags); !marked || got != m {
			t.Errorf("got %+v, %v, want %+v", got, marked, m)
		}
		if tags["team"] != "blue" {
			t.Errorf("another's tag is gone: %v", tags)
		}
	}
	m := Mark{Installation: "here", Kind: "Disk", Key: key}
	if _, marked := MarkOf(map[string]string{"team": "blue"}); marked {
		t.Error("tags without a mark have one")
	}
	for _, broken := range []map[string]string{
		{"tend/installation": "here", "tend/kind": "Disk"},
		{"tend/installation": "here", "tend/kind": "Disk", "tend/key": "a/b/c/"},
	} {
		if got := m.Compare(MarkOf(broken)); got != Foreign {
			t.Errorf("%v: %v, want foreign", broken, got)
		}
	}
	old := m.SetTags(nil)
	old["tend/declared"] = "?"
	if got, _ := MarkOf(old); got != m {
		t.Errorf("a time that cannot be read: %+v, want %+v", got, m)
	}
}
