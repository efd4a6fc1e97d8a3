package check

import (
	"bufio"
	"cmp"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hidden are words behind which a sentence hides its subject, or that no technical text
// needs: a goroutine, a caller and a server are "it", and have a name.
var hidden = regexp.MustCompile(`(?i)\b(?:somebody|someone|nobody|whoever|whomever|who|whom|he|him|his|anew|lest|foretells?)\b`)

const wordsFile = "internal/check/words.txt"

// The comments and texts of each package have no more of these words than internal/check/words.txt
// allows, and a package that is not there has none. The list may only shrink: when a package
// has fewer, go test ./internal/check -run TestWords -update writes that; it raises no number.
func TestWordsThatHideTheSubjectBecomeFewer(t *testing.T) {
	allowed := readWords(t)
	found, where := hiddenWords(files(t, func(s source) bool {
		return s.isGo() && s.name != "internal/check/words_test.go"
	}))
	for _, folder := range slices.Sorted(maps.Keys(found)) {
		if found[folder] > allowed[folder] {
			t.Errorf("%s has %d of the words, %d are allowed; name the subject, see CONTRIBUTING.md:\n%s",
				folder, found[folder], allowed[folder], strings.Join(where[folder], "\n"))
		}
	}
	if !*updatePages {
		return
	}
	var list strings.Builder
	for _, folder := range slices.Sorted(maps.Keys(allowed)) {
		if n := min(allowed[folder], found[folder]); n > 0 {
			fmt.Fprintln(&list, folder, n)
		}
	}
	if err := os.WriteFile(wordsFile, []byte(list.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Negative control of the test above.
func TestHiddenSubjectsAreFoundInCommentsAndTexts(t *testing.T) {
	found, where := hiddenWords([]source{
		{"a/a.go", "package a\n\n/* It waits.\nWhoever comes */\nvar who, user = \"nobody `is` he\", \"nobody\" // or she\n"},
		{"b/b.go", "package b // the WHO, whole and where\n"},
	})
	if found["a"] != 3 || found["b"] != 1 || len(found) != 2 {
		t.Errorf("found %v, want 3 in a and 1 in b:\n%v", found, where)
	}
	if len(where["a"]) != 3 || where["a"][0] != "a/a.go:4: Whoever comes */" {
		t.Errorf("they are said to be at %q", where["a"])
	}
}

func readWords(t *testing.T) map[string]int {
	t.Helper()
	f, err := os.Open(wordsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	allowed := map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		var folder string
		var n int
		if _, err := fmt.Sscan(s.Text(), &folder, &n); err != nil {
			t.Fatalf("%s: %q: %v", wordsFile, s.Text(), err)
		}
		allowed[folder] = n
	}
	return allowed
}

// hiddenWords counts the words in the comments and strings of each folder's Go files, and
// says where they are.
func hiddenWords(files []source) (found map[string]int, where map[string][]string) {
	found, where = map[string]int{}, map[string][]string{}
	for _, f := range files {
		file := token.NewFileSet().AddFile(f.name, -1, len(f.text))
		var s scanner.Scanner
		s.Init(file, []byte(f.text), nil, scanner.ScanComments)
		for pos, tok, literal := s.Scan(); tok != token.EOF; pos, tok, literal = s.Scan() {
			if tok != token.COMMENT && (tok != token.STRING || len(strings.Fields(literal)) == 1) { // one word is a name
				continue
			}
			for _, at := range hidden.FindAllStringIndex(literal, -1) {
				found[f.folder()]++
				where[f.folder()] = append(where[f.folder()], fmt.Sprintf("%s:%d: %s", f.name, file.Line(pos)+strings.Count(literal[:at[0]], "\n"), around(literal, at)))
			}
		}
	}
	return found, where
}

// around is the line of a text in which a word is.
func around(text string, at []int) string {
	from := strings.LastIndex(text[:at[0]], "\n") + 1
	to := cmp.Or(strings.Index(text[at[1]:], "\n")+1, len(text)-at[1]+1) + at[1] - 1
	return strings.TrimSpace(text[from:to])
}
