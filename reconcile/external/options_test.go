package external

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	inmemory "github.com/tendhq/tend/store/memory"
)

// What fields that are not set mean is what their comments say.
func TestDefaultsAreThoseOfTheComments(t *testing.T) {
	var o Options[int, int]
	if err := o.complete("disk"); err != nil {
		t.Fatal(err)
	}
	type times struct{ grace, poll, jitter, minPoll, timeout time.Duration }
	if got, want := (times{o.CreationGrace, o.Poll, o.PollJitter, o.MinPoll, o.Timeout}),
		(times{30 * time.Second, time.Minute, 6 * time.Second, 10 * time.Second, time.Minute}); got != want {
		t.Errorf("the times of Options are %+v, want %+v", got, want)
	}
	b, err := newBatch(func(context.Context, []int) []Outcome[int] { return nil }, nil)
	if err != nil || b.o != (BatchOptions{Wait: 50 * time.Millisecond, Most: 100, timeout: time.Minute}) {
		t.Errorf("the BatchOptions are %+v, %v", b.o, err)
	}
	disks, err := inmemory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer disks.Close()
	s, err := store.New[int, int](disks, "disk", nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewInventory(&InventoryOptions[int, int, int]{
		Store: s, Installation: "here",
		List:    func(context.Context) iter.Seq2[int, error] { return nil },
		Get:     func(context.Context, string) (int, bool, error) { return 0, false, nil },
		ID:      func(int) string { return "" },
		Owner:   func(int) (Mark, bool) { return Mark{}, false },
		Compare: func(*store.Object[int, int], int) Observation { return Observation{} },
	})
	if err != nil || v.o.Fresh != time.Minute || v.o.DetailFresh != time.Minute || v.o.Settle != 30*time.Second || v.o.Cap != (Cap{Count: 10, Percent: 10}) {
		t.Errorf("the InventoryOptions are %+v, %v", v.o, err)
	}
	for n, want := range map[int]int{0: 1, 9: 1, 20: 2, 99: 9, 100: 10, 10_000: 10} {
		if got := (Cap{}).limit(n); got != want {
			t.Errorf("of %d resources %d may go, want %d", n, got, want)
		}
	}
}
