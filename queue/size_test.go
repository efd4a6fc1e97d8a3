//go:build !race

package queue

const ringSeeds = 60
