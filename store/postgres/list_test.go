//go:build unix

package postgres_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
)

// A server that gains a shard reads the records of that shard, and does not look at all others.
//
// Negative control: the mutant "a list of few slots looks at every record".
func TestListOfFewSlotsReadsTheirRecordsOnly(t *testing.T) {
	b := open(t, postgres.Options{})
	const records = 3200
	for i := 0; i < records; {
		var txn store.Txn
		for range store.MaxTxn {
			txn.Ops = append(txn.Ops, put(key(fmt.Sprint(i)), "a value"))
			i++
		}
		if _, err := b.Commit(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	if err := shared.exec("ANALYZE " + b.Schema() + ".records"); err != nil {
		t.Fatal(err)
	}
	mine, want := store.SlotsOf(3, 256), 0
	for i := range records {
		if mine.HasKey(key(fmt.Sprint(i))) {
			want++
		}
	}
	page, err := b.ListSlots(t.Context(), "thing", mine, store.ListOptions{})
	if err != nil || len(page.Records) != want || page.Cursor != "" {
		t.Errorf("%d records, cursor %q, error %v; want %d in one page", len(page.Records), page.Cursor, err, want)
	}
	plan, err := b.ExplainList(t.Context(), "thing", mine)
	if err != nil {
		t.Fatal(err)
	}
	// What is looked at and left out: the slots that are not asked for, and no records.
	for _, found := range regexp.MustCompile(`Rows Removed by Filter: (\d+)`).FindAllStringSubmatch(plan, -1) {
		if n, _ := strconv.Atoi(found[1]); n > store.Slots {
			t.Errorf("%d rows are read and left out:\n%s", n, plan)
		}
	}
}

// A later page has the records of its instant that are gone by now beside those that are still there, and no more of
// both than it may have, however many are gone.
func TestPageOfRecordsThatAreGoneKeepsItsLimit(t *testing.T) {
	const limit, records = 3, 12
	b := open(t, postgres.Options{})
	for gone := range records - limit {
		key := func(name string) store.Key { return store.Key{Namespace: fmt.Sprint(gone), Name: name} }
		var made, removed store.Txn
		for i := range records {
			made.Ops = append(made.Ops, put(key(fmt.Sprintf("%02d", i)), "v"))
		}
		removed.Ops = []store.Op{put(key("zz"), "new")}
		for i := range gone {
			removed.Ops = append(removed.Ops, store.Op{Kind: "thing", Key: key(fmt.Sprintf("%02d", limit+i))})
		}
		if _, err := b.Commit(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		var got []string
		for o := (store.ListOptions{Namespace: fmt.Sprint(gone), Limit: limit}); ; {
			page, err := b.List(t.Context(), "thing", o)
			if err != nil || len(page.Records) > limit {
				t.Fatalf("with %d gone, after %v: %d records, error %v; want %d at most", gone, got, len(page.Records), err, limit)
			}
			for _, r := range page.Records {
				got = append(got, r.Key.Name)
			}
			if o.Cursor = page.Cursor; o.Cursor == "" {
				break
			}
			if len(got) == limit {
				if _, err := b.Commit(t.Context(), removed); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(got) != records || !slices.IsSorted(got) {
			t.Errorf("with %d gone the pages have %v", gone, got)
		}
	}
}

// A list that goes on in a store that was set back to before it began is begun again; a revision that a caller asks
// for by itself, and that is not reached, is its mistake.
func TestListThatBeganBeforeARestoreIsCompacted(t *testing.T) {
	b := open(t, postgres.Options{})
	for _, name := range []string{"a", "b"} {
		if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key(name), "v")}}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := b.List(t.Context(), "thing", store.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	holdHead(t, b, "revision = revision - 1")()
	fresh := open(t, postgres.Options{Schema: b.Schema()}) // a server that has not seen more
	for want, o := range map[error]store.ListOptions{store.ErrCompacted: {Cursor: page.Cursor}, store.ErrInvalid: {At: page.Revision}} {
		if page, err := fresh.List(t.Context(), "thing", o); !errors.Is(err, want) {
			t.Errorf("List with %+v: %d records, %v; want %v", o, len(page.Records), err, want)
		}
	}
}
