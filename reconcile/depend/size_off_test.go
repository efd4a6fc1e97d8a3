//go:build !race

package depend_test

// many is how many objects share one in tests of scale, and stride leaves orders of five
// out, so that they take seconds.
const (
	many        = 10_000
	stride      = 4
	simulations = 20 // seeds of random graphs
)
