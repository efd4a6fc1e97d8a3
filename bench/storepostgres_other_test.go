//go:build !unix

package bench

import "testing"

func benchmarkPostgresStore(b *testing.B) { b.Skip("the server of this benchmark runs on Unix") }

func stopPostgres() {}
