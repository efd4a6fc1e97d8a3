package check

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tendhq/tend/internal/mutants"
)

var (
	pageRow      = regexp.MustCompile(`(?m)^\| ([A-Z]\d|\d+|) ?\| (.*) \|$`)
	pageTest     = regexp.MustCompile("`([a-z/]+) ((?:Test|Fuzz)\\w+)`")
	pageMutant   = regexp.MustCompile(`mutant "([^"]+)"`)
	pageCampaign = regexp.MustCompile(`campaigns? ([\w-]+(?:, [\w-]+)*)`)
	promiseRow   = regexp.MustCompile(`(?m)^\| ([A-Z]\d) \|`)
)

// Every name on the page is there, every row says how it is tested, how large it
// can be made and what shows that it can fail, and every promise of docs/PROMISES.md
// has a row. Negative control: TestTestingPageCheckFindsWhatIsWrong.
func TestEveryPromiseHasATestAndAControl(t *testing.T) {
	for _, complaint := range checkTestingPage(t, readPage(t, "internal/promises/table.md")) {
		t.Error(complaint)
	}
}

// The threat model names tests too.
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

func checkTestingPage(t *testing.T, page string) (complaints []string) {
	t.Helper()
	complain := func(row, what string) { complaints = append(complaints, what+": "+row) }
	known := map[string]bool{}
	for _, m := range mutants.All {
		known[m.Name] = true
	}
	campaigns := readPage(t, "bench/nightly/campaigns.go")
	rows := map[string]int{}
	for _, m := range pageRow.FindAllStringSubmatch(page, -1) {
		if m[2] == "" || strings.HasPrefix(m[2], "what must") {
			continue
		}
		rows[m[1]]++
		cells := strings.Split(m[2], " | ")
		if len(cells) != 4 {
			complain(m[2], "it has not four cells")
			continue
		}
		if !pageTest.MatchString(cells[1]) {
			complain(cells[0], "no test")
		}
		if !pageTest.MatchString(cells[3]) && !pageMutant.MatchString(cells[3]) {
			complain(cells[0], "no control")
		}
		for _, test := range pageTest.FindAllStringSubmatch(m[2], -1) {
			if !hasTest(t, test[1], test[2]) {
				complain(cells[0], "there is no "+test[2]+" in "+test[1])
			}
		}
		for _, mutant := range pageMutant.FindAllStringSubmatch(m[2], -1) {
			if !known[mutant[1]] {
				complain(cells[0], "there is no mutant "+mutant[1])
			}
		}
		for _, list := range pageCampaign.FindAllStringSubmatch(cells[2], -1) {
			for name := range strings.SplitSeq(list[1], ", ") {
				pkg, target, _ := strings.Cut(strings.TrimPrefix(name, "fuzz-"), "-")
				isFuzz := strings.HasPrefix(name, "fuzz-") && regexp.MustCompile(`fuzz\("\./(?:\w+/)*`+pkg+`", "`+target+`"`).MatchString(campaigns)
				if name != "named" && !isFuzz && !strings.Contains(campaigns, `name: "`+name+`"`) {
					complain(cells[0], "there is no campaign "+name)
				}
			}
		}
	}
	for _, promise := range promiseRow.FindAllStringSubmatch(readPage(t, "docs/PROMISES.md"), -1) {
		if rows[promise[1]] == 0 {
			complain(promise[1], "a promise without a row")
		}
	}
	for n := 1; n <= 15; n++ {
		if rows[strconv.Itoa(n)] != 1 {
			complain(strconv.Itoa(n), "a trap that has not one row")
		}
	}
	return complaints
}

func TestTestingPageCheckFindsWhatIsWrong(t *testing.T) {
	page := readPage(t, "internal/promises/table.md")
	for what, edit := range map[string][2]string{
		"there is no TestGone in queue":          {"queue TestNothingIsKept`", "queue TestGone`"},
		"there is no mutant nothing ages at all": {`mutant "nothing ages"`, `mutant "nothing ages at all"`},
		"there is no campaign plants":            {"campaign plant ", "campaign plants "},
		"there is no campaign fuzz-file-Rows":    {"fuzz-file-Row,", "fuzz-file-Rows,"},
		"no control: A shard has an owner":       {`mutant "news of the others is heard a TTL late"`, "by hand"},
		"without a row: R4":                      {"| R4 |", "| R3 |"},
		"not one row: 15":                        {"| 15 |", "| 14 |"},
	} {
		broken := strings.ReplaceAll(page, edit[0], edit[1])
		if found := strings.Join(checkTestingPage(t, broken), "\n"); !strings.Contains(found, what) {
			t.Errorf("%s: what was found is %q", what, found)
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
