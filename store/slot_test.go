package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tendhq/tend/store"
)

// Backends store the slot of every record, so these values may never change. They were
// computed by a second implementation, in Python.
func TestSlotNeverChanges(t *testing.T) {
	for _, c := range []struct {
		key  store.Key
		slot int
	}{
		{store.Key{}, 125},
		{store.Key{Name: "a"}, 251},
		{store.Key{Namespace: "a"}, 295},
		{store.Key{Namespace: "team-1", Name: "bucket-1"}, 290},
		{store.Key{Namespace: "a", Name: "b/c"}, 1023},
		{store.Key{Namespace: "prod", Name: "db.example.com/eu-1"}, 444},
		{store.Key{Namespace: "ü", Name: "日本"}, 971},
	} {
		if got := store.Slot(c.key); got != c.slot {
			t.Errorf("Slot(%q) = %d, want %d", c.key, got, c.slot)
		}
	}
}

// Shards are sets of slots, so that another number of shards rewrites no record.
func TestShardOfNoShardsPanics(t *testing.T) {
	for _, shards := range []int{0, -1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("ShardOf of %d shards does not panic", shards)
				}
			}()
			store.ShardOf(store.Key{Name: "a"}, shards)
		}()
	}
}

func TestSlotsOfHaveTheKeysOfTheirShard(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 12, 64, 100, 1000, 1024, 2048} {
		apart := n&(n-1) == 0 && n <= store.Slots
		var all store.SlotSet
		slots := 0
		for shard := range n {
			of := store.SlotsOf(shard, n)
			all, slots = all.Union(of), slots+of.Len()
		}
		if all != store.AllSlots() || apart && slots != store.Slots {
			t.Errorf("%d shards have %v, %d together", n, all, slots)
		}
		for i := range 2000 {
			k := store.Key{Namespace: "ns", Name: fmt.Sprint(i)}
			if of := store.SlotsOf(store.ShardOf(k, n), n); !of.HasKey(k) {
				t.Errorf("%v is in shard %d of %d and not in its slots", k, store.ShardOf(k, n), n)
			}
		}
	}
}

func TestBitmapHasABitForEachSlot(t *testing.T) {
	var s store.SlotSet
	s.Add(0)
	s.Add(13)
	s.Add(1023)
	b := s.Bitmap()
	for slot := range store.Slots {
		if got := b[slot/8]>>(slot%8)&1 == 1; got != s.Has(slot) {
			t.Errorf("bit %d is %v", slot, got)
		}
	}
	if len(b) != store.Slots/8 || s.Len() != 3 || s.Contains(store.AllSlots()) || !store.AllSlots().Contains(s) {
		t.Errorf("%d bytes, %d slots", len(b), s.Len())
	}
}

// The watch of some slots is that of all without the changes of others; where the last of a
// batch are dropped, progress tells how far it came. Each batch counts what was dropped. It ends with its reader, wherever that is.
func TestFilterSlotsShowsSomeSlotsAndEndsWithItsReader(t *testing.T) {
	ours, theirs := store.Key{Name: "a"}, store.Key{Namespace: "a"}
	var slots store.SlotSet
	slots.Add(store.Slot(ours))
	batch := func(kind store.BatchKind, at store.Revision, keys ...store.Key) store.Batch {
		b := store.Batch{Kind: kind, Revision: at}
		for i, k := range keys {
			r := at + store.Revision(i+1-len(keys)) // the last one's is the batch's
			b.Changes = append(b.Changes, store.Change{Record: store.Record{Key: k, Revision: r}})
		}
		return b
	}
	given := []store.Batch{
		batch(store.BatchSnapshot, 3, ours, theirs), batch(store.BatchSnapshot, 3, theirs), batch(store.BatchSnapshot, 3), batch(store.BatchSnapshotEnd, 3),
		batch(store.BatchChanges, 5, theirs, ours), batch(store.BatchChanges, 8, theirs, ours, theirs), batch(store.BatchChanges, 9, theirs), batch(store.BatchProgress, 10),
	}
	const want = "[snapshot 3 1-1, snapshot 3 0-1, snapshot end 3 0, changes 5 1-1, changes 7 1-2, progress 8 0, progress 9 0-1, progress 10 0, 0 lost]"
	for end := 1; end <= 9; end++ {
		var seen []string
		sent := 0
		for b, err := range store.FilterSlots(func(yield func(store.Batch, error) bool) {
			for _, b := range given {
				if sent++; !yield(b, nil) {
					return
				}
			}
			yield(store.Batch{}, errors.New("lost"))
		}, slots) {
			line := fmt.Sprint(b.Kind, " ", b.Revision, " ", len(b.Changes))
			if b.Skipped > 0 {
				line += fmt.Sprint("-", b.Skipped)
			}
			if err != nil {
				line = fmt.Sprint(len(b.Changes), " ", err)
			}
			if seen = append(seen, line); len(seen) == end {
				break
			}
		}
		if got := "[" + strings.Join(seen, ", ") + "]"; end == 9 && got != want || len(seen) != end {
			t.Errorf("a reader that ends after %d sees %s of %d batches, want of all %s", end, got, sent, want)
		}
	}
}

// onePage is a backend that reads no slots, and gives the page that it keeps.
type onePage struct {
	store.Backend
	page store.Page
}

func (b *onePage) List(context.Context, string, store.ListOptions) (store.Page, error) {
	return b.page, nil
}

// The records of a page are shared: a list of some slots leaves out the others of its own page alone.
func TestListOfSomeSlotsWritesNothingToThePage(t *testing.T) {
	b := &onePage{page: store.Page{Revision: 3, Cursor: "more"}}
	var want []store.Record
	slots := store.SlotsOf(1, 2)
	for i := range 20 {
		r := store.Record{Kind: "K", Key: store.Key{Name: fmt.Sprint(i)}, Revision: 1}
		b.page.Records = append(b.page.Records, r)
		if slots.HasKey(r.Key) {
			want = append(want, r)
		}
	}
	kept := slices.Clone(b.page.Records)
	got, err := store.ListSlots(t.Context(), b, "K", slots, store.ListOptions{})
	if diff := cmp.Diff(store.Page{Records: want, Revision: 3, Cursor: "more"}, got); err != nil || diff != "" {
		t.Errorf("the list has, %v, (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(kept, b.page.Records); diff != "" {
		t.Errorf("the page of the backend was written to (-was +is):\n%s", diff)
	}
}

// The values of a transaction are as long as their bounds say, each and together.
func TestTransactionAtTheBoundsOfItsValues(t *testing.T) {
	value := func(size int) store.Op {
		return store.Op{Kind: "K", Key: store.Key{Name: "a"}, Put: store.Bytes(make([]byte, size))}
	}
	whole := slices.Repeat([]store.Op{value(store.MaxValue)}, store.MaxTxnBytes/store.MaxValue)
	whole = append(whole, value(store.MaxTxnBytes%store.MaxValue))
	for what, c := range map[string]struct {
		ops  []store.Op
		want error
	}{
		"the longest value":      {whole[:1], nil},
		"a longer one":           {[]store.Op{value(store.MaxValue + 1)}, store.ErrInvalid},
		"as much as may be":      {whole, nil},
		"more":                   {append(slices.Clip(whole), value(1)), store.ErrInvalid},
		"with an empty one":      {append(slices.Clip(whole), value(0)), nil},
		"of nothing":             {[]store.Op{{Kind: "K", Key: store.Key{Name: "a"}, Put: store.Bytes(nil)}}, nil},
		"with a deletion beside": {append(slices.Clip(whole), store.Op{Kind: "K", Key: store.Key{Name: "b"}}), nil},
	} {
		data, err := store.Txn{Ops: c.ops}.Encode()
		if wantErr(t, what, err, c.want); err != nil {
			continue
		}
		for i, o := range c.ops {
			if (data[i] == nil) != (o.Put == nil) {
				t.Errorf("%s: write %d is nil: %v", what, i, data[i] == nil)
			}
		}
	}
}
