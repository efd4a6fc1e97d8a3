package debug

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
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

// Negative control: with what a bucket took counted as it is, the sample in which more came
// back than was taken is missing.
func TestHistoryOfABucketGoesOnWhenTokensComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := ratelimit.NewBucket("dns", 1, 100)
		if err != nil {
			t.Fatal(err)
		}
		h := &handler{o: Options{Buckets: func() []*ratelimit.Bucket { return []*ratelimit.Bucket{b} }}, manager: &reconcile.Manager{}}
		for i, change := range []func(){
			func() {}, func() { b.Charge(50) }, func() { b.Refund(10) }, func() { b.Charge(5) },
		} {
			change()
			h.keep()
			if r := h.history.buckets["dns"]; r.at != i {
				t.Fatalf("%d samples after %d changes", r.at, i)
			}
			time.Sleep(introspect.SampleEvery)
		}
		if r := h.history.buckets["dns"]; r.samples[0].first != 50 || r.samples[1].first != 0 || r.samples[2].first != 5 {
			t.Errorf("the samples are %v, want 50, 0 and 5 tokens taken", r.samples[:3])
		}
	})
}
