package leasetest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// brokenEnv makes the test binary a server that cannot start.
const brokenEnv = "TEND_TEST_BROKEN_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(brokenEnv) != "" {
		fmt.Fprintln(os.Stderr, "no space left on device")
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
