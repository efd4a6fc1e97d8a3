//go:build unix

package postgres_test

import (
	"fmt"
	"regexp"
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
