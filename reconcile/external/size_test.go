//go:build !race

package external_test

// size is how many resources the tests of bounds have: a hundredth of the 100,000 of
// docs/COST.md.
const size = 1000

// seeds is how often each way of a simulation is gone.
const seeds = 3

// stride is of how many steps of a life with outputs one is crashed at.
const stride = 1
