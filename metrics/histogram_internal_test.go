package metrics

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A duration is in the native bucket whose bounds it lies between; what is longer than twelve
// days is in the last one.
func TestNativeBucketsAreThoseOfSchema3(t *testing.T) {
	for d, want := range map[time.Duration]int{
		1: -239, time.Second: 0, time.Second + 1: 1, 2 * time.Second: 8, 1 << 20 * time.Second: 160, math.MaxInt64: 160,
	} {
		if got := binOf(d); got != want {
			t.Errorf("%v is in bucket %d, want %d", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, int64(1<<20*time.Second)).Draw(t, "duration"))
		k, s := binOf(d), d.Seconds()
		if low, high := math.Exp2(float64(k-1)/8), math.Exp2(float64(k)/8); s < low*(1-1e-12) || s > high*(1+1e-12) {
			t.Fatalf("%v is in bucket %d, from %v to %v s", d, k, low, high)
		}
	})
}
