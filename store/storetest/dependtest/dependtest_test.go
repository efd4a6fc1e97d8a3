package dependtest_test

import (
	"path/filepath"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/storetest/dependtest"
)

// The order holds, and a dependency is a cause, for a plain reconciler, a provider and
// external resources, where both ends lie in one store, and in two of different backends.
//
// promise R4, promise E2, promise Q4
func TestDependenciesHoldForEveryReconcilerOverTwoStores(t *testing.T) {
	open := func(b store.Backend, err error) store.Backend {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	ram := open(memory.New(nil))
	disk := open(file.Open(filepath.Join(t.TempDir(), "a.db")))
	t.Run("one in memory", func(t *testing.T) { dependtest.Run(t, ram, ram) })
	t.Run("a file and memory", func(t *testing.T) { dependtest.Run(t, disk, open(memory.New(nil))) })
	t.Run("two files", func(t *testing.T) {
		dependtest.Run(t, open(file.Open(filepath.Join(t.TempDir(), "b.db"))), disk)
	})
}
