//go:build peers && !unix

package bench

import "time"

// ownCPU is not measured here: cpu-ns/op is 0 then.
func ownCPU() time.Duration { return 0 }
