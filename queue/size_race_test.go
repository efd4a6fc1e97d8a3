//go:build race

package queue

// ringSeeds is small under the race detector, which makes the one goroutine of
// TestRingsKeepFewCellsOfKeysThatLeft slow and has nothing to find there.
const ringSeeds = 8
