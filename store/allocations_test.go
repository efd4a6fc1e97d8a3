package store_test

import (
	"context"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// A read and a write allocate what is kept or returned, and little else: of a kind without
// code of the user's, nothing for goroutines that might run it. A controller does both for
// each run.
func TestReadsAndWritesAllocateLittle(t *testing.T) {
	type spec struct{ Zone string }
	type status struct{ Size int }
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New[spec, status](b, "Disk", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, zones := context.Background(), [2]string{"y", "z"}
	o, err := s.Create(ctx, &store.Object[spec, status]{Meta: store.Meta{Name: "a"}, Spec: spec{Zone: "z"}})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, most float64, f func() error) {
		t.Helper()
		if n := testing.AllocsPerRun(500, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}); n > most {
			t.Errorf("%s: %v allocations, at most %v", what, n, most)
		}
	}
	check("Get", 1, func() error { // the copy
		_, err := s.Get(ctx, o.Key())
		return err
	})
	check("UpdateStatus", 5, func() (err error) { // what is stored, the copy, the commit, what changes
		o.Status.Size++
		o, err = s.UpdateStatus(ctx, o)
		return err
	})
	check("Update", 6, func() (err error) { // and the object with the spec that Options.Default would fill in
		o.Spec.Zone = zones[o.Generation%2]
		o, err = s.Update(ctx, o)
		return err
	})
}
