package check

import (
	"regexp"
	"sync"
	"testing"
)

var pageTest = regexp.MustCompile("`([a-z/]+) ((?:Test|Fuzz)\\w+)`")

// The threat model names tests.
func TestSecurityPageNamesTestsThatExist(t *testing.T) {
	tests := pageTest.FindAllStringSubmatch(readPage(t, "SECURITY.md"), -1)
	if len(tests) < 20 {
		t.Errorf("SECURITY.md names %d tests, want some for each attacker", len(tests))
	}
	for _, test := range tests {
		if !hasTest(t, test[1], test[2]) {
			t.Errorf("SECURITY.md: there is no %s in %s", test[2], test[1])
		}
	}
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// testNames has "folder TestName" of each test.
var testNames = sync.OnceValues(func() (map[string]bool, error) {
	all, err := readTree()
	names := map[string]bool{}
	for _, s := range all {
		if s.isTest() {
			for _, m := range testFunc.FindAllStringSubmatch(s.text, -1) {
				names[s.folder()+" "+m[1]] = true
			}
		}
	}
	return names, err
})

// hasTest tells whether the package in the folder has a test of that name.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	names, err := testNames()
	if err != nil {
		t.Fatal(err)
	}
	return names[folder+" "+name]
}
