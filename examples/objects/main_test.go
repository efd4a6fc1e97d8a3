package main

import (
	"bytes"
	"context"
	"testing"
	"time"
)

// Each object is created by one call and no look; the deletes and the looks that prove them
// are one call for many.
func TestDeletionsLeaveInBatches(t *testing.T) {
	const n = 1100 // more than a page of a list
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out bytes.Buffer
	phases := map[string]map[string]int{}
	if err := show(ctx, n, &out, func(what string, calls map[string]int) { phases[what] = calls }); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Log(out.String())
	created, deleted := phases["created"], phases["deleted"]
	if created["PutObject"] != n || created["HeadObject"] != 0 || created["ListObjectsV2"] > n/5 {
		t.Errorf("%d objects were created by %v, want a PutObject each and a few lists", n, created)
	}
	if got := deleted["DeleteObjects"]; got == 0 || got > n/5 || deleted["DeleteObject"] != 0 {
		t.Errorf("%d objects were deleted by %v, want DeleteObjects of many", n, deleted)
	}
	if got := deleted["ListObjectsV2"]; got == 0 || got > n/5 || deleted["HeadObject"] != 0 {
		t.Errorf("the deletes of %d objects were proven by %v, want lists", n, deleted)
	}
}
