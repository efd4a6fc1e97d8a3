package tend_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var relativeLink = regexp.MustCompile(`\]\(([^)#\s:]+)(?:#[^)]*)?\)`)

// Every relative link of every page leads to a file or a folder. Negative control: with
// a link to docs/NONE.md in README.md it failed.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	links := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".github" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		for _, link := range relativeLink.FindAllStringSubmatch(anyBlock.ReplaceAllString(readPage(t, name), ""), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), filepath.FromSlash(link[1]))); err != nil {
				t.Errorf("%s links to %s: %v", name, link[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 50 {
		t.Errorf("found %d links: the walk is broken", links)
	}
}
