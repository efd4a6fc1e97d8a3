package mutants_test

import (
	"fmt"

	"github.com/tendhq/tend/internal/mutants"
)

// A control names what it breaks, and the test that must notice.
func Example() {
	for _, m := range mutants.All {
		if m.Name == "writes are not fenced" {
			fmt.Println(m.File, m.Package, m.Test)
		}
	}
	// Output: reconcile/lease/lease.go reconcile/lease TestDeposedHoldersWritesAreFenced
}
