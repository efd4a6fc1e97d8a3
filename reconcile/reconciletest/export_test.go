package reconciletest

import (
	"testing"
	"time"
)

type Setup = setup

// Measured is a line of a Benchmark.
type Measured struct {
	Wall, Queue, Run, Store time.Duration
	Advice                  string
}

// Measure makes n runs as a Benchmark does, on cores that are idle.
func Measure(b testing.TB, workers, batch int, work time.Duration, setup Setup, n int) Measured {
	t := measure(b, settings{workers, batch, work}, setup, n, func() {}, func() {})
	t.cpu = 0
	return Measured{t.wall, t.queue, t.run, t.store, t.advice()}
}

// Advice is what a Benchmark says of a line.
func Advice(workers, n int, wall, run, store time.Duration, cpu float64) string {
	return timing{settings: settings{workers: workers}, n: n, wall: wall, run: run, store: store, cpu: cpu}.advice()
}
