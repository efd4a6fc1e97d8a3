package check

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var updatePages = flag.Bool("update", false, "write the files and regions that pages show into the pages")

// A block of a page that shows a file, or a region of it, follows a line that names it:
//
//	<!-- show examples/guide/01-loop/main.go#each -->
var (
	shownBlock = regexp.MustCompile("(?m)^<!-- show (\\S+) -->\n```(\\w*)\n((?s).*?)^```\n")
	markerLine = regexp.MustCompile("(?m)^\t*// guide: .*\n")
	blankLines = regexp.MustCompile("\n{3,}")
	anyBlock   = regexp.MustCompile("(?m)^```(\\w*)\n(?s).*?^```\n")
)

// What the guide and the README show of a program is what the program has, and what they
// show of its output is what examples/guide's own test compares it with. The test is
// here and not beside the programs because the go command takes a cached result for
// valid when only a file outside the test's own module has changed.
//
// go test ./internal/check -run TestPagesShowWhatTheProgramsHave -update rewrites the blocks.
func TestPagesShowWhatTheProgramsHave(t *testing.T) {
	pages, err := filepath.Glob("docs/guide/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("the guide has the pages %v, %v; want an index and nine pages", pages, err)
	}
	used := ""
	for _, page := range append(pages, "README.md", "docs/coming-from/controller-runtime.md", "docs/TESTING-A-RECONCILER.md") {
		text := readPage(t, page)
		if *updatePages {
			text = writeBlocks(t, text)
			if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, complaint := range checkBlocks(text) {
			t.Errorf("%s: %s", page, complaint)
		}
		used += text
	}
	programs, err := filepath.Glob("examples/guide/*/*.*")
	if err != nil || len(programs) < 14 {
		t.Fatalf("found the files %v, %v of the guide's programs", programs, err)
	}
	for _, file := range programs {
		// All of it, so that a reader of the page alone can build the program. Its tests are not part of that.
		if filepath.Base(file) != "main_test.go" && !strings.Contains(used, "<!-- show "+filepath.ToSlash(file)+" -->") {
			t.Errorf("no page shows the whole of %s", file)
		}
	}
}

// A new user reads the README to its end only if it is short.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(readPage(t, "README.md"), "\n"); n > 120 {
		t.Errorf("README.md has %d lines, want 120 at most", n)
	}
}

// Negative control of TestPagesShowWhatTheProgramsHave.
func TestPageCheckFindsWhatIsWrong(t *testing.T) {
	page := readPage(t, "docs/guide/01-loop.md")
	for what, edit := range map[string][2]string{
		"is not what the file has":     {"declared:   wrote motd", "declared:   wrote nothing"},
		"no such file":                 {"01-loop/output.txt", "01-loop/none.txt"},
		"no region none":               {"main.go#each", "main.go#none"},
		"a block of Go that is no ...": {"<!-- show examples/guide/01-loop/main.go#each -->\n", ""},
	} {
		found := strings.Join(checkBlocks(strings.ReplaceAll(page, edit[0], edit[1])), "\n")
		if what, _, _ = strings.Cut(what, "..."); !strings.Contains(found, what) {
			t.Errorf("with %q in place of %q the check says %q, want %q", edit[1], edit[0], found, what)
		}
	}
}

func checkBlocks(page string) (complaints []string) {
	shown := shownBlock.FindAllStringSubmatch(page, -1)
	for _, block := range shown {
		if want, err := shownPart(block[1]); err != nil {
			complaints = append(complaints, err.Error())
		} else if block[3] != want {
			complaints = append(complaints, "the block of "+block[1]+" is not what the file has; go test ./internal/check -update writes it")
		}
	}
	goBlocks := 0
	for _, block := range anyBlock.FindAllStringSubmatch(page, -1) {
		if block[1] == "go" {
			goBlocks++
		}
	}
	for _, block := range shown {
		if block[2] == "go" {
			goBlocks--
		}
	}
	if goBlocks > 0 {
		complaints = append(complaints, "a block of Go that is no part of a program")
	}
	return complaints
}

func writeBlocks(t *testing.T, page string) string {
	t.Helper()
	return shownBlock.ReplaceAllStringFunc(page, func(block string) string {
		m := shownBlock.FindStringSubmatch(block)
		text, err := shownPart(m[1])
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("<!-- show %s -->\n```%s\n%s```\n", m[1], m[2], text)
	})
}

// shownPart returns the file without the lines that mark its regions, or the region after
// the #: the lines between "// guide: NAME" and "// guide: end", without the indentation
// that all of them share.
func shownPart(name string) (string, error) {
	name, region, hasRegion := strings.Cut(name, "#")
	data, err := os.ReadFile(filepath.FromSlash(path.Clean(name)))
	if err != nil {
		return "", fmt.Errorf("no such file: %w", err)
	}
	text := string(data)
	if !hasRegion {
		return blankLines.ReplaceAllString(markerLine.ReplaceAllString(text, ""), "\n\n"), nil
	}
	_, rest, begun := strings.Cut(text, "// guide: "+region+"\n")
	body, _, ended := strings.Cut(rest, "// guide: end\n")
	if !begun || !ended {
		return "", fmt.Errorf("%s has no region %s", name, region)
	}
	lines := strings.Split(strings.Trim(strings.TrimRight(body, "\t"), "\n"), "\n")
	for strings.HasPrefix(lines[0], "\t") {
		for _, line := range lines {
			if line != "" && !strings.HasPrefix(line, "\t") {
				return "", fmt.Errorf("%s: region %s begins inside of a block and ends outside of it", name, region)
			}
		}
		for i := range lines {
			lines[i] = strings.TrimPrefix(lines[i], "\t")
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}
