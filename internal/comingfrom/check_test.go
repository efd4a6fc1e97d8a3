package comingfrom

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNamesOfAnyPageAreLookedUp(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module m\n",
		"queue/queue.go": "package queue\ntype Queue[K any] struct{ Name string }\n",
		"PAGE.md":        "`queue.Queue`, `Queue.Name`, `other.Thing`, `queue.Heap`, `Queue.Size`\n```go\n`queue.Never`\n```\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := CheckNames(filepath.Join(dir, "PAGE.md"))
	if want := "there is no queue.Heap\nno package has Queue.Size"; err == nil || err.Error() != want {
		t.Errorf("found %v, want %s", err, want)
	}
}

// Each thing that can be wrong with a page is found, and nothing else is.
func TestEveryFaultOfAPageIsFound(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module m\n")
	write("queue/queue.go", "package queue\ntype Queue[K any] struct{ Name string }\nfunc (q *Queue[K]) Add(K) {}\nconst Max = 1\n")
	write("page/example_test.go", "package page\nfunc ExampleNew() {}\n")
	page := filepath.Join(dir, "page", "PAGE.md")
	for text, want := range map[string]string{
		"| `New` | `queue.Queue`, `queue.Queue.Add(k)` | `queue.Max`, `queue.Queue.Name` |": "",
		"| `New` | – | there is no need |":                                                  "",
		"| `New` | `other.Thing` | of another module |":                                     "",
		"`ExampleNew` is the program.\n| `New` | `queue.Queue` | |":                         "",
		"| `New` | `queue.Heap` | |":                                                        "there is no queue.Heap",
		"| `New` | `queue.Queue.Put` | |":                                                   "there is no queue.Queue.Put",
		"| `New` | `queue.Queue` | or `queue.Heap` |":                                       "there is no queue.Heap",
		"It is `queue.Heap` here.\n| `New` | `queue.Queue` | |":                             "there is no queue.Heap",
		"| `New` | – | |":                                                                   "nothing says why",
		"| `New` | none | |":                                                                "neither a counterpart nor a –",
		"| `New` | `queue.Queue` |":                                                         "2 cells",
		"| `Old` | `queue.Queue` | |":                                                       "the page has no New",
		"`ExampleOther` is the program.\n| `New` | `queue.Queue` | |":                       "there is no ExampleOther",
		"The text may say New.\n\n| `Newer` | `queue.Queue` | `New` |\n":                    "the page has no New",
	} {
		write("page/PAGE.md", text)
		switch err := Check(page, []string{"New"}); {
		case want == "" && err != nil:
			t.Errorf("%s\n%v, want nothing", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\n%v, want %q", text, err, want)
		}
	}
	if err := Check(filepath.Join(dir, "none.md"), nil); err == nil {
		t.Error("a page that is not there was found good")
	}
}

// A name of a package that is missing here is not looked at, whatever a page says of it.
func TestEveryPackageMayBeNamed(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == root {
			return err
		}
		switch name := d.Name(); {
		case strings.HasPrefix(name, "."), name == "internal", name == "testdata", name == "examples", name == "bench":
			return fs.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(path, "doc.go"))
		if folder := filepath.ToSlash(path[len(root)+1:]); len(files) > 0 && packages[d.Name()] != folder {
			t.Errorf("pages that name something of %s are not checked", folder)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
