//go:build race

package lifecycle

const raceEnabled = true
