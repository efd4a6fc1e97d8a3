package tend_test

import (
	"bytes"
	"os"
	"testing"
)

// README shows the quickstart; what it shows must be what runs. The test is here
// and not beside the program because the go command takes a cached result for
// good when only a file outside the test's own module has changed.
func TestReadmeShowsTheQuickstart(t *testing.T) {
	program, err := os.ReadFile("examples/quickstart/main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(readme, []byte("```go\n"+string(program)+"```\n")) {
		t.Error("README.md holds no block of Go that is examples/quickstart/main.go, letter for letter")
	}
}
