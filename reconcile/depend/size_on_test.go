//go:build race

package depend_test

// many is how many objects share one in tests of scale, and stride leaves orders out: the
// race detector makes them slow.
const (
	many        = 3000
	stride      = 24
	simulations = 4 // seeds of random graphs
)
