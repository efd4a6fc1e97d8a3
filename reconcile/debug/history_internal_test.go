package debug

import (
	"testing"
	"unsafe"
)

func TestHistoryOfAControllerIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(ring{}); n > 100<<10 {
		t.Errorf("the history of a controller takes %d bytes", n)
	}
}
