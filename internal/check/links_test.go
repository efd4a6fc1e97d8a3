package check

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// exampleLink is a link to a package's example, as pkg.go.dev names it: TYPE.METHOD-Suffix.
var exampleLink = regexp.MustCompile(`pkg\.go\.dev/github\.com/tendhq/tend/([a-z/]+)#example-([A-Za-z]+)(?:\.([A-Za-z]+))?(?:-([A-Za-z]+))?\)`)

// A paragraph that sends its reader to an example sends it to a program that CI runs: one with an output.
// Negative controls: with #example-Options-Tenants on page 6, and with the output of ExampleRewrite taken
// away, it failed.
func TestExamplesThatPagesNameAreRun(t *testing.T) {
	found := 0
	for _, page := range files(t, source.isPage) {
		for _, link := range exampleLink.FindAllStringSubmatch(page.text, -1) {
			found++
			name := "Example" + link[2]
			if link[3] != "" {
				name += "_" + link[3]
			}
			if suffix := link[4]; suffix != "" {
				name += "_" + strings.ToLower(suffix[:1]) + suffix[1:]
			}
			runs := false
			for _, test := range files(t, func(s source) bool { return s.folder() == link[1] && strings.HasSuffix(s.name, "_test.go") }) {
				_, body, is := strings.Cut(test.text, "func "+name+"() {\n")
				body, _, _ = strings.Cut(body, "\n}\n")
				runs = runs || is && strings.Contains(body, "// Output:")
			}
			if !runs {
				t.Errorf("%s names %s of %s, and there is none with an output", page.name, name, link[1])
			}
		}
	}
	if found < 4 {
		t.Errorf("found %d links to examples: the walk is broken", found)
	}
}
