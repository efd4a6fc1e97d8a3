package check

import (
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

	weakLine = regexp.MustCompile(`(?m)^- (\d{3} \([a-z]\)): `)
	weakMark = regexp.MustCompile(`//.*?[Ww]eak points? (\d{3}) ((?:\([a-z]\)(?:, | and )?)+)`)
	letter   = regexp.MustCompile(`\([a-z]\)`)
)

// The pages and the tests must agree in both directions: a case without a mark
// has to say "(not yet)", and a mark has to name a case that a page claims. Negative control:
// with one page left out it failed.
func TestEveryAcceptanceCaseIsKept(t *testing.T) {
	const cases = 160
	marked := markedCases(t)
	claimed := make(map[int]bool)
	for _, page := range files(t, func(s source) bool { return s.isPage() && s.within("docs/acceptance") }) {
		for _, m := range caseLine.FindAllStringSubmatch(page.text, -1) {
			n, _ := strconv.Atoi(m[1])
			if n < 1 || n > cases || claimed[n] {
				t.Errorf("case %d is there twice, or is none of 1 to %d: %s", n, cases, m[2])
			}
			claimed[n] = true
			notYet := strings.HasSuffix(m[2], "**(not yet)**")
			switch files := marked[n]; {
			case len(files) == 0 && !notYet:
				t.Errorf("case %d has no test that names it: %s", n, m[2])
			case len(files) > 0 && notYet:
				t.Errorf("case %d is kept by %s but the page says not yet", n, files[0])
			}
			delete(marked, n)
		}
	}
	if len(claimed) != cases {
		t.Errorf("the pages of docs/acceptance hold %d cases, want %d", len(claimed), cases)
	}
	for n, files := range marked {
		t.Errorf("%v mark case %d, which no page of docs/acceptance has", files, n)
	}
}

// In both directions, too: a weak point that no test names, and a mark that the
// page does not know. Negative control: with the mark of 003 (h) taken away it failed.
func TestEveryWeakPointHasATest(t *testing.T) {
	page := readPage(t, "docs/acceptance/weak-points.md")
	marked := make(map[string]string)
	eachTest(t, func(name, text string) {
		for _, mark := range weakMark.FindAllStringSubmatch(text, -1) {
			for _, l := range letter.FindAllString(mark[2], -1) {
				marked[mark[1]+" "+l] = name
			}
		}
	})
	points := weakLine.FindAllStringSubmatch(page, -1)
	if len(points) != 55 {
		t.Errorf("weak-points.md holds %d weak points, want 55", len(points))
	}
	for _, p := range points {
		if marked[p[1]] == "" {
			t.Errorf("weak point %s has no test that names it", p[1])
		}
		delete(marked, p[1])
	}
	for point, file := range marked {
		t.Errorf("%s marks weak point %s, which weak-points.md does not have", file, point)
	}
}

// markedCases maps each case number to the test files, of every module, whose
// comments name it.
func markedCases(t *testing.T) map[int][]string {
	t.Helper()
	marked := make(map[int][]string)
	eachTest(t, func(name, text string) {
		for _, mark := range caseMark.FindAllStringSubmatch(text, -1) {
			for _, s := range number.FindAllString(mark[1], -1) {
				if n, _ := strconv.Atoi(s); !slices.Contains(marked[n], name) {
					marked[n] = append(marked[n], name)
				}
			}
		}
	})
	return marked
}

// eachTest calls f with every test file of every module, but this one.
func eachTest(t *testing.T, f func(name, text string)) {
	t.Helper()
	for _, s := range files(t, source.isTest) {
		if s.name != "internal/check/acceptance_test.go" {
			f(s.name, s.text)
		}
	}
}
