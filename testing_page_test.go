package tend_test

import (
	"os"
	"regexp"
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

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
