package store_test

import (
	"fmt"
	"testing"

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
