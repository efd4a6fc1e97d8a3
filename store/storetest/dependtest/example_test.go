package dependtest_test

import (
	"testing"

	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/storetest/dependtest"
)

// A backend's test calls Run: here with one store, in which both kinds lie.
func ExampleRun() {
	_ = func(t *testing.T) { // TestDependencies
		backend, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer backend.Close()
		dependtest.Run(t, backend, backend)
	}
}
