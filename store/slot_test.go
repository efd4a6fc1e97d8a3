package store_test

import (
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
