//go:build !race

package debug_test

const manyKeys = 1_000_000
