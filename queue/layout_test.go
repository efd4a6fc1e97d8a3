package queue

import (
	"testing"
	"unsafe"
)

// What each cycle writes lies in two cache lines of a shard, and no two shards
// share one.
func TestHotFieldsShareCacheLines(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the layout is made for 64-bit machines")
	}
	var s shard[string]
	first, second := unsafe.Offsetof(s.mu), unsafe.Offsetof(s.ready)
	for name, c := range map[string]struct{ line, at, size uintptr }{
		"tally":           {first, unsafe.Offsetof(s.tally), unsafe.Sizeof(s.tally)},
		"slot freed last": {first, unsafe.Offsetof(s.slab), unsafe.Sizeof(s.hot)},
		"first open":      {first, unsafe.Offsetof(s.slots), unsafe.Sizeof(s.open)},
		"turn":            {second, unsafe.Offsetof(s.ready) + unsafe.Offsetof(s.ready.bands.turn), unsafe.Sizeof(s.ready.turn)},
		"middle lane":     {second, second + unsafe.Offsetof(s.ready.bands.lanes), unsafe.Sizeof(s.ready.lanes[0])},
	} {
		if c.line%64 != 0 || c.at/64 != c.line/64 || (c.at+c.size-1)/64 != c.line/64 {
			t.Errorf("%s: bytes %d to %d, not within the 64 from %d", name, c.at, c.at+c.size-1, c.line)
		}
	}
	if size := unsafe.Sizeof(s); size%64 != 0 {
		t.Errorf("a shard has %d bytes, %d too many", size, size%64)
	}
}
