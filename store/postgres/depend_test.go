//go:build unix

package postgres_test

import (
	"testing"

	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest/dependtest"
)

// Objects of every kind of reconciler wait for what they need, and it for them, where one
// end lies here and the other elsewhere, and where both lie here.
//
// promise R4, promise E2, promise Q4
func TestDependenciesHoldForEveryReconcilerOverTwoStores(t *testing.T) {
	t.Parallel()
	elsewhere, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	here := open(t, postgres.Options{})
	t.Run("what is needed is here", func(t *testing.T) { dependtest.Run(t, here, elsewhere) })
	t.Run("both are here", func(t *testing.T) { dependtest.Run(t, open(t, postgres.Options{}), here) })
}
