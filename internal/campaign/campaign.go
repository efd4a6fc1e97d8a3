package campaign

import (
	"flag"
	"iter"
	"math/rand/v2"
	"time"
)

var (
	length = flag.Duration("campaign", 0, "how long each random test goes on; 0: its small size")
	first  = flag.Uint64("seed", 0, "the seed that random tests begin with; 0: seed 0, or in a campaign a random one")
)

// Length is how long a test is to go on; zero: in its small size. It is known once
// the flags are parsed, that is, in tests, and not in variables of a package.
func Length() time.Duration { return *length }

// Seeds yields seeds one after the other: so many, or more while less time than that
// has gone by. The first is below 1<<32. What was done goes into t's log, where
// bench/nightly counts it.
func Seeds(t interface{ Logf(string, ...any) }, small int, most time.Duration) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		seed, n := *first, 0
		if seed == 0 && most > 0 {
			// A campaign that began where the last one did would go the same way.
			seed = uint64(rand.Uint32())
		}
		for began := time.Now(); n < small || time.Since(began) < most; n++ {
			if !yield(seed + uint64(n)) {
				return
			}
		}
		t.Logf("campaign: %d seeds", n)
	}
}

// Sized is the size of a test that the race detector makes too slow for CI: small with it, full without. A test that
// has nothing to find with it, as of allocations, has the small size 0. CI runs the test files that call it both ways.
func Sized(full, small int) int {
	if race {
		return small
	}
	return full
}
