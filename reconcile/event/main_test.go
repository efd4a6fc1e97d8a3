package event_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing that a test starts outlives it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
