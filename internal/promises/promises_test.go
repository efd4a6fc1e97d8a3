package promises

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// Every promise has rows and tests that name it, as the repository is now.
func TestEveryPromiseIsListedWithItsTests(t *testing.T) {
	var out bytes.Buffer
	if err := Print(&out, os.DirFS("../.."), nil); err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile(`(?m)^[A-Z]\d  `).Split(out.String(), -1)[1:]
	if len(blocks) < 20 {
		t.Fatalf("there are %d promises, want 20:\n%s", len(blocks), out.String())
	}
	for _, block := range blocks {
		text, _, _ := strings.Cut(block, "\n")
		if !strings.Contains(block, "    control  ") && !strings.Contains(block, "    judge    ") {
			t.Errorf("no control of the promise %s", text)
		}
		if strings.Contains(block, "named by 0 tests") {
			t.Errorf("no test names the promise %s", text)
		}
	}
	for _, want := range []string{"queue TestModelRandomly", "Q4, trap 1  Nothing spins"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the list lacks %q", want)
		}
	}
}

func TestTableIsRead(t *testing.T) {
	const table = "# x\n\nQ1  It runs\n\tqueue TestA TestD\n\tcampaign plant soak\n\tcampaign go test ./x\n\tjudge queue TestB\n" +
		"\tstore TestC: store/cache.(*Cache).get drop, store.var x zero\n-  Other\n"
	rows, err := Parse(table)
	if err != nil || len(rows) != 2 || rows[1].Of != "-" || rows[0].What != "It runs" || len(rows[0].Controls) != 2 ||
		len(rows[0].Tests) != 2 || len(rows[0].Judges) != 1 || !slices.Equal(rows[0].Campaigns, []string{"plant", "soak", "go test ./x"}) {
		t.Fatal(rows, err)
	}
	c := rows[0].Controls[0]
	if c.String() != "store TestC: store/cache.(*Cache).get drop" || c.Package() != "store/cache" || rows[0].Controls[1].Func != "store.var x" {
		t.Errorf("controls are %v", rows[0].Controls)
	}
	for _, wrong := range []string{
		"Q1 one blank\n", "\tqueue TestOfNoRow\n", "Q1  x\n\tstore TestC store.f drop\n", "Q1  x\n\ttests queue TestA\n", "Q1  x\n\tqueue\n",
		"Q1  x\n\tstore TestC TestD: store.f drop\n", "Q1  x\n\tjudge store TestC: store.f drop\n", "Q1  x\n\tstore TestC: drop\n",
	} {
		if _, err := Parse(wrong); err == nil {
			t.Errorf("%q was read", wrong)
		}
	}
	by := Control{c.Test, "store.g", "empty"}
	if got, want := Replace(table, c, by), strings.Replace(table, "store/cache.(*Cache).get drop", "store.g empty", 1); got != want {
		t.Errorf("with another control the table is\n%s\nwant\n%s", got, want)
	}
	if got := Replace(table, Control{Test{"store", "TestD"}, c.Func, c.Op}, by); got != table {
		t.Errorf("a control of another test was replaced:\n%s", got)
	}
}

func TestMarksAreFoundAboveAndInsideOfTests(t *testing.T) {
	tests, err := marked(fstest.MapFS{
		"queue/a_test.go": {Data: []byte("// It holds.\n//\n// promises Q1 to Q4, in part\nfunc TestA(t *testing.T) {\n\t// promise Q8\n}\n\nfunc TestB(t *testing.T) {\n}\n\n// promise S1 and S2. Not of a test.\nfunc helper() {\n}\n")},
		"queue/b.go":      {Data: []byte("// promise Q5\nfunc TestC(\n")},
		"queue/c_test.go": {Data: []byte("func TestMain(m *testing.M) { run(m) }\n\n// promise S5\nfunc TestD(t *testing.T) {\n}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"Q1", "Q2", "Q3", "Q4", "Q8"} {
		if !slices.Equal(tests[p], []string{"queue TestA"}) {
			t.Errorf("%s: %v, want queue TestA", p, tests[p])
		}
	}
	if len(tests) != 6 || !slices.Equal(tests["S5"], []string{"queue TestD"}) {
		t.Errorf("found %v, want marks of Q1 to Q4 and Q8 only, and of S5 for TestD", tests)
	}
}

func TestUnknownPromiseIsRefused(t *testing.T) {
	for _, ids := range [][]string{{"Q99"}, {"Z1"}} {
		if err := Print(new(bytes.Buffer), os.DirFS("../.."), ids); err == nil || !strings.Contains(err.Error(), "there is no promise") {
			t.Errorf("%v: %v", ids, err)
		}
	}
	if err := Print(new(bytes.Buffer), fstest.MapFS{}, nil); err == nil {
		t.Error("it ran outside of the repository")
	}
}
