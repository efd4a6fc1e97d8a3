//go:build race

package external_test

// size is small under the race detector, which looks for races and not for bounds.
const size = 200

// seeds is how often each way of a simulation is gone.
const seeds = 1
