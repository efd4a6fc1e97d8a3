package debug

import (
	"testing"
	"unsafe"
)

// Two buckets may have one name, and one may take the place of another: no sample is 2³²
// less a few.
func TestHistoryOfThingsOfOneNameIsThatOfOne(t *testing.T) {
	var r ring
	for _, count := range []uint64{10, 15, 3, 7} {
		r.current = false
		r.add([2]uint64{count, 0}, sample{})
		r.add([2]uint64{1, 0}, sample{}) // of another in the same round
	}
	if got := r.values(func(s sample) uint32 { return s.first }); len(got) != 2 || got[0] != 5 || got[1] != 4 {
		t.Errorf("the samples are %v, want 5 and 4", got)
	}
}

func TestHistoryOfAControllerIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(ring{}); n > 100<<10 {
		t.Errorf("the history of a controller takes %d bytes", n)
	}
}
