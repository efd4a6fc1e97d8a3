//go:build race

package external_test

// size is small under the race detector, which looks for races and not for bounds.
const size = 200

// seeds is how often each way of a simulation is gone.
const seeds = 1

// stride is of how many steps of a life with outputs one is crashed at.
const stride = 3
