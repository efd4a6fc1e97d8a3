package reconcile

import (
	"testing"

	"github.com/tendhq/tend/internal/fileorder"
)

// A file uses only what is declared in itself and in those that the list in doc.go has
// before it, and the list has every file.
func TestFilesPointDown(t *testing.T) {
	if err := fileorder.Check("."); err != nil {
		t.Error(err)
	}
}
