package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/internal/promises"
)

// A campaign that names a test that is not there would run nothing, and pass.
func TestCampaignsAndTheirControlsExist(t *testing.T) {
	rows, err := promises.Rows()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range campaigns {
		source := testsOf(t, filepath.Join("..", "..", c.module, c.pkg))
		want := append(strings.Split(c.control, "; "), c.tests()...)
		if target, ok := strings.CutPrefix(c.name, "fuzz-"); ok {
			_, name, _ := strings.Cut(target, "-")
			want = []string{"Fuzz" + name}
		}
		for _, name := range want {
			if name == "mutants" {
				own := promises.Test{Package: path.Join(c.module, c.pkg), Name: c.tests()[0]}
				if !slices.ContainsFunc(rows, func(r promises.Row) bool {
					return slices.ContainsFunc(r.Controls, func(c promises.Control) bool { return c.Test == own })
				}) {
					t.Errorf("campaign %s: %s has no control of %s", c.name, promises.File, own)
				}
				continue
			}
			source := source
			if pkg, test, ok := strings.Cut(name, " "); ok {
				name, source = test, testsOf(t, filepath.Join("..", "..", pkg))
			}
			if !regexp.MustCompile(`(?m)^func ` + name + `\(`).MatchString(source) {
				t.Errorf("campaign %s: %s is not in %s", c.name, name, c.where())
			}
		}
	}
}

// A campaign whose test does not say what it did counts as failed, however long it went on.
//
// Seen to fail with etcd-shards, whose test logged a table alone.
func TestCampaignsSayWhatTheyDid(t *testing.T) {
	for _, c := range campaigns {
		if strings.HasPrefix(c.name, "fuzz-") || slices.Contains(c.args(time.Minute), "-rapid.checks") {
			continue // their counts are those of the tools
		}
		file := fileOf(t, filepath.Join("..", "..", c.module, c.pkg), c.tests()[0])
		for call, shared := range map[string]string{
			"quotatest.Run(": "store/storetest/quotatest/run.go", "leasetest.Run(": "store/storetest/leasetest/run.go",
			"storetest.ReadWhileWriting(": "store/storetest/moments.go", "storetest.WriteAlike(": "store/storetest/random.go", "b.check(t)": "reconcile/external/bound_test.go",
		} {
			if strings.Contains(file, call) {
				file += read(t, filepath.Join("..", "..", shared))
			}
		}
		if !strings.Contains(file, `"campaign: %d`) {
			t.Errorf("campaign %s: %s logs no line of what it did", c.name, c.where())
		}
	}
}

// docs/COST.md has one command for all that it states: the group has a campaign for each test
// of bounds, the page names its campaigns, and the time that it gives makes the sizes of the page.
func TestGroupOfTheCloudIsThatOfItsPage(t *testing.T) {
	page := read(t, filepath.Join("..", "..", "docs", "COST.md"))
	command := regexp.MustCompile(`go run \./bench/nightly -for (\S+) cloud\b`).FindStringSubmatch(page)
	if command == nil {
		t.Fatal("docs/COST.md has no command for the group cloud")
	}
	each, err := time.ParseDuration(command[1])
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := choose([]string{"cloud"})
	if err != nil {
		t.Fatal(err)
	}
	var run []string
	for _, c := range chosen {
		run = append(run, c.tests()...)
		if !strings.Contains(page, "`"+c.name+"`") {
			t.Errorf("docs/COST.md does not name the campaign %s", c.name)
		}
		args := c.args(each)
		size, err := strconv.Atoi(args[len(args)-1])
		if err != nil {
			continue // it goes on for the time
		}
		if want := map[bool]int{true: 1_000_000, false: 100_000}[c.name == "million-buckets"]; size < want {
			t.Errorf("%s has %d resources in %v, want %d or more", c.name, size, each, want)
		}
	}
	bounds := read(t, filepath.Join("..", "..", "reconcile", "external", "bound_test.go"))
	for _, f := range regexp.MustCompile(`(?s)\nfunc (Test\w+)\(.*?\n}\n`).FindAllStringSubmatch(bounds, -1) {
		if strings.Contains(f[0], ".check(t)") && !slices.Contains(run, f[1]) {
			t.Errorf("no campaign of the group cloud runs %s", f[1])
		}
	}
}

func testsOf(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	for _, f := range testFiles(t, dir) {
		all.WriteString(read(t, f))
	}
	return all.String()
}

// fileOf is the text of the file that has a test.
func fileOf(t *testing.T, dir, test string) string {
	t.Helper()
	for _, f := range testFiles(t, dir) {
		if text := read(t, f); strings.Contains(text, "\nfunc "+test+"(") {
			return text
		}
	}
	t.Fatalf("%s is not in %s", test, dir)
	return ""
}

func testFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", dir, err)
	}
	return files
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestCountsAreAddedUp(t *testing.T) {
	got, err := count(strings.NewReader(`=== RUN   TestX
    x_test.go:1: campaign: 60 seeds, 18000 operations
    x_test.go:1: campaign: 2 seeds, 5 faults
    y_test.go:2: [rapid] OK, passed 100 tests (3s)
fuzz: elapsed: 3s, execs: 12 (4/sec), new interesting: 0 (total: 3)
fuzz: elapsed: 6s, execs: 30 (4/sec), new interesting: 0 (total: 3)
PASS
`))
	if want := "5 faults, 30 inputs, 62 seeds, 100 sequences, 18000 operations"; err != nil || got.String() != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// What counts nothing has run nothing: the summary must not say that it held.
func TestCampaignThatCountsNothingFails(t *testing.T) {
	c := campaign{module: ".", pkg: ".", test: "^TestNoSuch$", args: func(time.Duration) []string { return nil }}
	if r := c.run(t.Context(), time.Second, filepath.Join(t.TempDir(), "out.txt")); r.err == nil {
		t.Errorf("got %v, want a failure", r)
	}
}

func TestNamesAreChecked(t *testing.T) {
	if _, err := choose([]string{"queue-model", "nonsense"}); err == nil {
		t.Error("a campaign that does not exist was chosen")
	}
	seen := map[string]bool{}
	for _, c := range campaigns {
		if seen[c.name] || groups[c.name] != nil {
			t.Errorf("two campaigns, or a campaign and a group, are called %s", c.name)
		}
		seen[c.name] = true
	}
}
