package check

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	stabilityRow = regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\| (stable|experimental) \\|")
	versionsRow  = regexp.MustCompile(`(?m)^\| (\w+) \| [^|]* \| ([^|]*) \|$`)
	goLine       = regexp.MustCompile(`(?m)^go (\d+\.\d+)`)
	etcdLine     = regexp.MustCompile(`(?m)^\tgo\.etcd\.io/etcd/server/v3 v(\S+)`)
)

// Every package that programs may import is stable or experimental, and the page
// names no other.
func TestEveryPackageIsStableOrExperimental(t *testing.T) {
	rows := map[string]int{}
	for _, m := range stabilityRow.FindAllStringSubmatch(readPage(t, "docs/STABILITY.md"), -1) {
		rows[m[1]]++
	}
	for _, name := range importable(t) {
		if rows[name] != 1 {
			t.Errorf("docs/STABILITY.md has %d rows for %s, want one", rows[name], name)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("docs/STABILITY.md has a row for %s, which is not a package", name)
	}
}

// importable returns the folders, of every module, whose packages programs may import.
func importable(t *testing.T) (folders []string) {
	t.Helper()
	for _, s := range files(t, func(s source) bool {
		return s.isGo() && !s.isTest() && !s.within("bench", "cmd", "examples", "internal") && !strings.Contains(s.name, "/internal/")
	}) {
		if folder := s.folder(); folder != "." && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	if len(folders) < 18 {
		t.Fatalf("found %d packages: the walk is broken", len(folders))
	}
	return folders
}

// CI's matrix is read from the page; what runs inside of the tests is in go.mod files.
func TestTestedVersionsAreThoseOfTheModules(t *testing.T) {
	tested := map[string][]string{}
	for _, m := range versionsRow.FindAllStringSubmatch(readPage(t, "docs/STABILITY.md"), -1) {
		tested[m[1]] = strings.Split(m[2], ", ")
	}
	for _, name := range []string{"Go", "etcd", "PostgreSQL"} {
		for _, v := range tested[name] {
			if !regexp.MustCompile(`^\d[\d.]*$`).MatchString(v) {
				t.Errorf("docs/STABILITY.md: %q is not a version of %s", v, name)
			}
		}
	}
	for _, c := range []struct {
		name, file string
		line       *regexp.Regexp
	}{{"Go", "go.mod", goLine}, {"etcd", "store/etcd/go.mod", etcdLine}} {
		m := c.line.FindStringSubmatch(readPage(t, c.file))
		if m == nil || !slices.Contains(tested[c.name], m[1]) {
			t.Errorf("%s has %q of %s, and docs/STABILITY.md has %v", c.file, m, c.name, tested[c.name])
		}
	}
	if len(tested["PostgreSQL"]) == 0 {
		t.Error("docs/STABILITY.md has no version of PostgreSQL")
	}
}
