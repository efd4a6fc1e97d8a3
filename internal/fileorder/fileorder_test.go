package fileorder

import (
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Types, functions, fields and methods of a later file are found, also of a generic
// type; those of an earlier one, and of other packages, are not.
func TestUsesThatPointUpAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"doc.go":   "// Package p is a test.\npackage p\n\n// The files:\n//\n//\tlow   …\n//\thigh  …\n",
		"low.go":   "package p\n\nimport \"fmt\"\n\ntype low[K any] struct{ up *high[K] }\n\nfunc (l *low[K]) f() { fmt.Println(l.up.n); l.up.g() }\n",
		"high.go":  "package p\n\ntype high[K any] struct{ n int }\n\nfunc (h *high[K]) g() { (&low[K]{h}).f() }\n",
		"other.go": "package p\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set := token.NewFileSet()
	order, err := listed(set, dir)
	if err == nil {
		t.Error("a file that the list lacks was not found")
	}
	bad, err := uses(set, dir, order)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"low.go:5 uses high of high.go", "low.go:7 uses g of high.go", "low.go:7 uses n of high.go"}
	if !slices.Equal(bad, want) {
		t.Errorf("got %q, want %q", bad, want)
	}
}
