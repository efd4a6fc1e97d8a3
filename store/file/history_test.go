package file

import (
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/tendhq/tend/store"
)

// historyOf is a history of these changes, one a revision, each of a record of its own kind. The
// row of each has its revision, and what it replaced is that of the change of the kind before.
func historyOf(kinds ...string) *history {
	h := &history{}
	last := map[string]*row{}
	for i, kind := range kinds {
		r := store.Revision(i + 1)
		ev := event{addr: addressOf(kind, store.Key{Name: "x"}), row: row{revision: r, data: []byte("12345")}, was: last[kind]}
		last[kind] = &ev.row
		h.append(entry{revision: r, events: []event{ev}})
	}
	return h
}

// The history is cut to its bounds, no further than it may be, and not at all within them.
//
// Negative controls: mutants "a history is cut further than it may be", "a history keeps more
// bytes than it may" and "a history keeps one revision more than it may".
func TestHistoryIsCutToItsBounds(t *testing.T) {
	h := historyOf("a", "b", "c", "d", "e")
	one := h.entries[0].size()
	for _, c := range []struct {
		count, size int
		limit, want store.Revision
	}{
		{count: 5, size: 5 * one, limit: 5, want: 0},
		{count: 3, size: 5 * one, limit: 5, want: 2},
		{count: 5, size: 2*one + 1, limit: 5, want: 3},
		{count: 0, size: 0, limit: 2, want: 2},
		{count: 0, size: 0, limit: 5, want: 5},
	} {
		if got := h.cut(c.count, c.size, c.limit); got != c.want {
			t.Errorf("cut to %d entries and %d bytes, at most to revision %d: %d, want %d", c.count, c.size, c.limit, got, c.want)
		}
	}
}

// A watch is resumed where nothing of its kind was forgotten, also of a quiet kind, and nowhere
// else.
//
// promise S2. Negative controls: mutants "a watch is resumed over what was forgotten" and "a watch
// is resumed over what was forgotten before Open".
func TestWatchIsResumedOverNothingThatWasForgotten(t *testing.T) {
	h := historyOf("quiet", "busy", "busy", "quiet", "busy")
	h.forget(3)
	opened := historyOf()
	opened.floor, opened.unknown = 3, 3
	for _, c := range []struct {
		of    *history
		kind  string
		after store.Revision
		want  string
	}{
		{h, "quiet", 0, "no"},
		{h, "quiet", 1, "4 5"},
		{h, "quiet", 3, "4 5"},
		{h, "quiet", 5, ""},
		{h, "quiet", 6, "no"},
		{h, "busy", 1, "no"},
		{h, "busy", 2, "no"},
		{h, "busy", 3, "4 5"},
		{h, "never", 0, "4 5"},
		{opened, "never", 2, "no"},
		{opened, "never", 3, ""},
	} {
		tail, ok := c.of.after(c.kind, c.after)
		got := ""
		for _, e := range tail {
			got += fmt.Sprint(" ", e.revision)
		}
		if !ok {
			got = " no"
		}
		if want := c.want; got != "" && got[1:] != want || got == "" && want != "" {
			t.Errorf("%s after revision %d: %q, want %q", c.kind, c.after, got, want)
		}
	}
}

// A list of an earlier revision than that of the file's objects takes back every change since, to
// what was there then, and one of a later revision has each up to it.
//
// promise S2. Negative controls: mutants "a list goes back to a later version" and "a list lacks
// its own revision".
func TestOverlayIsOfItsRevision(t *testing.T) {
	h := historyOf("a", "a", "a", "a")
	all := func(address) bool { return true }
	for at := store.Revision(1); at <= 4; at++ {
		for from := store.Revision(1); from <= 4; from++ {
			r, differs := h.overlay(at, base{at: from}, all)[addressOf("a", store.Key{Name: "x"})]
			got := from // no difference: as it is there
			if differs {
				got = r.revision
			}
			if got != at {
				t.Errorf("from revision %d to %d: version %d", from, at, got)
			}
		}
	}
}

// A bound that no history reaches is none. On the old code each commit carried a checkpoint.
func TestBoundThatNoHistoryReachesIsNone(t *testing.T) {
	b := open(t, newPath(t), &options{historyRevisions: math.MaxInt, historyBytes: math.MaxInt})
	commit(t, b, put("a", "1"))
	if at := b.state.checkpoint; at != 0 {
		t.Errorf("the first commit made a checkpoint at revision %d", at)
	}
}

// A list that began before a backup was restored begins again, as any list of before Open.
func TestListOfBeforeARestoreBeginsAgain(t *testing.T) {
	path := newPath(t)
	b := open(t, path, nil)
	commit(t, b, put("a", "1"))
	closeNow(t, b)
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = open(t, path, nil)
	commit(t, b, put("b", "1"))
	page, err := b.List(t.Context(), "k", store.ListOptions{Limit: 1})
	if err != nil || page.Cursor == "" {
		t.Fatalf("first page: cursor %q, error %v", page.Cursor, err)
	}
	closeNow(t, b)
	if err := os.WriteFile(path, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	b = open(t, path, nil)
	if _, err := b.List(t.Context(), "k", store.ListOptions{Cursor: page.Cursor}); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("second page of a list of before the restore: error %v, want %v", err, store.ErrCompacted)
	}
}
