package check

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var relativeLink = regexp.MustCompile(`\]\(([^)#\s:]+)(?:#[^)]*)?\)`)

// Every relative link of every page leads to a file or a folder, and a page of the guide shows
// each of its pictures. Negative control: with a link to docs/NONE.md in README.md it failed.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	links, linked := 0, map[string]bool{}
	for _, page := range files(t, source.isPage) {
		for _, link := range relativeLink.FindAllStringSubmatch(anyBlock.ReplaceAllString(page.text, ""), -1) {
			links++
			name := filepath.Join(page.folder(), filepath.FromSlash(link[1]))
			linked[name] = true
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s links to %s: %v", page.name, link[1], err)
			}
		}
	}
	if links < 50 {
		t.Errorf("found %d links: the walk is broken", links)
	}
	pictures, err := filepath.Glob("docs/guide/*.svg")
	if err != nil || len(pictures) == 0 {
		t.Fatalf("the guide has the pictures %v, %v", pictures, err)
	}
	for _, p := range pictures {
		if !linked[p] {
			t.Errorf("no page shows %s", p)
		}
	}
}
