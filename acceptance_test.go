package tend_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	caseLine = regexp.MustCompile(`(?m)^(\d+)\. (.*)$`)
	caseMark = regexp.MustCompile(`//.*?\bcases? ((?:\d+(?:-\d+)?(?:, | and )?)+)`)
	number   = regexp.MustCompile(`\d+`)
)

// The page and the tests must agree in both directions: a case without a mark
// has to say "(not yet)", and a mark has to name a case that the page claims.
func TestEveryAcceptanceCaseIsKept(t *testing.T) {
	page, err := os.ReadFile("ACCEPTANCE.md")
	if err != nil {
		t.Fatal(err)
	}
	marked := markedCases(t)
	want := 1
	for _, m := range caseLine.FindAllStringSubmatch(string(page), -1) {
		n, _ := strconv.Atoi(m[1])
		if n != want {
			t.Fatalf("ACCEPTANCE.md: case %d where %d should stand", n, want)
		}
		want++
		notYet := strings.HasSuffix(m[2], "**(not yet)**")
		switch files := marked[n]; {
		case len(files) == 0 && !notYet:
			t.Errorf("case %d has no test that names it: %s", n, m[2])
		case len(files) > 0 && notYet:
			t.Errorf("case %d is kept by %s but the page says not yet", n, files[0])
		}
		delete(marked, n)
	}
	if want != 161 {
		t.Errorf("ACCEPTANCE.md holds %d cases, want 160", want-1)
	}
	for n, files := range marked {
		t.Errorf("%v mark case %d, which ACCEPTANCE.md does not have", files, n)
	}
}

// markedCases maps each case number to the test files, of every module, whose
// comments name it.
func markedCases(t *testing.T) map[int][]string {
	t.Helper()
	marked := make(map[int][]string)
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") || name == "acceptance_test.go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, mark := range caseMark.FindAllStringSubmatch(string(text), -1) {
			for _, s := range number.FindAllString(mark[1], -1) {
				if n, _ := strconv.Atoi(s); !slices.Contains(marked[n], name) {
					marked[n] = append(marked[n], name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return marked
}
