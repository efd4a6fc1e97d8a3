package backend

import (
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/storetest"
)

// Each subtest runs in a bubble of testing/synctest, which fails for a goroutine that
// is left over.
func TestContract(t *testing.T) {
	storetest.Run(t, func(testing.TB) store.Backend { return New() }, &storetest.Options{Bubble: true})
}
