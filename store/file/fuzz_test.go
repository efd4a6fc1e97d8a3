package file

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tendhq/tend/store"
)

// What is stored may have been written by an older version, a broken disk or an
// enemy: everything that reads it answers with an error and never panics.

func FuzzRow(f *testing.F) {
	f.Add(row{created: 1, revision: 2, lease: 3, data: []byte("{}")}.append(nil))
	f.Add(row{created: 1 << 60, revision: 1 << 61}.append(nil))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRow(b)
		if err != nil {
			return
		}
		if r.created == 0 || r.revision < r.created {
			t.Errorf("accepted revision %d created at %d", r.revision, r.created)
		}
		again, err := parseRow(r.append(nil))
		if err != nil || again.created != r.created || again.revision != r.revision || again.lease != r.lease || !bytes.Equal(again.data, r.data) {
			t.Errorf("a second round gives %v, %v; want %v", again, err, r)
		}
	})
}

func FuzzChunk(f *testing.F) {
	f.Add(appendChunk(nil, []entry{
		{revision: 7, events: []event{
			{addr: addressOf("k", store.Key{Namespace: "ns", Name: "a"}), row: row{created: 7, revision: 7, data: []byte("1")}},
			{addr: addressOf("k", store.Key{Name: "b"}), deleted: true, row: row{created: 3, revision: 7}},
		}},
		{revision: 8, events: []event{{addr: addressOf("l", store.Key{Name: "a"}), row: row{created: 8, revision: 8, lease: 1}}}},
	}), uint64(7))
	f.Add([]byte{}, uint64(1))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, first uint64) {
		entries, err := parseChunk(b, store.Revision(first))
		if err != nil {
			return
		}
		for i, e := range entries {
			if want := store.Revision(first) + store.Revision(i); e.revision != want || len(e.events) == 0 {
				t.Fatalf("entry %d has revision %d and %d events, want revision %d and some", i, e.revision, len(e.events), want)
			}
		}
		again, err := parseChunk(appendChunk(nil, entries), store.Revision(first))
		if err != nil || !cmp.Equal(again, entries, cmp.AllowUnexported(entry{}, event{}, row{})) {
			t.Errorf("a second round gives %v, %v; want %v", again, err, entries)
		}
	})
}

func FuzzState(f *testing.F) {
	f.Add(state{checkpoint: 9, floor: 3, count: 5, sum: 1 << 40}.encode())
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseState(b)
		if err == nil && s.floor > s.checkpoint {
			t.Errorf("accepted a log that begins at %d, after the checkpoint %d", s.floor, s.checkpoint)
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add(sealCursor("k", "ns", 7, addressOf("k", store.Key{Namespace: "ns", Name: "a"})))
	f.Add("")
	f.Add("00")
	f.Fuzz(func(t *testing.T, cursor string) {
		o := store.ListOptions{Namespace: "ns", Cursor: cursor}
		next, err := openCursor("k", &o)
		if err != nil && !errors.Is(err, store.ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid", err)
		}
		if err == nil && cursor != "" && sealCursor("k", "ns", o.At, next) != cursor {
			t.Errorf("accepted %q, which says %q at %d", cursor, next, o.At)
		}
	})
}

// FuzzPages puts bytes somewhere into a good file: the check of its pages finds
// the damage or there is none, and what follows it does not panic.
func FuzzPages(f *testing.F) {
	whole := written(f)
	whole = whole[:len(bytes.TrimRight(whole, "\x00"))/4096*4096+4096]
	f.Add(uint32(0), []byte{})
	f.Add(uint32(4096*2+10), []byte{0xff, 0xff})
	f.Add(uint32(4096*26+17), []byte{0x40})
	f.Add(uint32(4096*33+8), []byte{1, 0, 1, 0, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, at uint32, with []byte) {
		data := bytes.Clone(whole)
		copy(data[int(at)%len(data):], with)
		if err := checkPages(bytes.NewReader(data), int64(len(data))); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v, want ErrCorrupt", err)
			}
			return
		}
		path := newPath(t)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := inspect(path, 0)
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForeign) {
			t.Errorf("got %v, want ErrCorrupt", err)
		}
	})
}
