//go:build peers && !unix

package bench

import "testing"

func benchmarkPostgresStore(b *testing.B) { b.Skip("the server of this benchmark runs on Unix") }

func stopPostgres() {}

const serverEnv = "TEND_BENCH_SERVER"

func serveBench(string) int { return 1 }

const startEnv = "TEND_BENCH_START"

func startBench(string) int { return 1 }
