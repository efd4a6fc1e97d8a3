//go:build race

package debug_test

// manyKeys is less under the race detector, which makes everything many times
// slower; CI runs the tests without it too.
const manyKeys = 100_000
