package upgradetest_test

import (
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/storetest/upgradetest"
)

// A backend's test calls Run: here every server has the same one.
func ExampleRun() {
	_ = func(t *testing.T) { // TestRollingUpgrade
		backend, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer backend.Close()
		upgradetest.Run(t, func() store.Backend { return backend })
	}
}
