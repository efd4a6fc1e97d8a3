package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const output = `
goos: linux
BenchmarkCycle/key=string/keys=1k/impl=client-go-2  100 400 ns/op 5 foreign-% 16 B/op 1 allocs/op
BenchmarkCycle/key=string/keys=1k/impl=client-go-2  100 900 ns/op 90 foreign-% 16 B/op 1 allocs/op
BenchmarkCycle/key=string/keys=1k/impl=tend-2  100 50 ns/op 0 foreign-% 0 B/op 0 allocs/op
BenchmarkCycle/key=string/keys=1k/impl=tend-2  100 90 ns/op 21 foreign-% 0 B/op 0 allocs/op
BenchmarkCycle/key=string/keys=1k/impl=tend-2  100 52 ns/op 20 foreign-% 0 B/op 0 allocs/op
BenchmarkCycle/key=string/keys=1k/impl=least-entry-2  100 50 ns/op 0 foreign-%
BenchmarkDuplicateAdd/mode=serial/impl=tend-workqueue-2  100 90 ns/op 21 foreign-%
PASS
`

func read(t *testing.T, text string) *results {
	t.Helper()
	r, err := parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSamplesUnderForeignLoadAreDropped(t *testing.T) {
	r := read(t, output)
	f, ok := r.figure("Cycle/key=string/keys=1k/impl=tend", "ns/op")
	if !ok || f.median != 51 || f.n != 2 || f.dirty {
		t.Errorf("figure is %+v, %v; want the median of 50 and 52", f, ok)
	}
	f, _ = r.figure("DuplicateAdd/mode=serial/impl=tend-workqueue", "ns/op")
	if f.median != 90 || !f.dirty || !strings.Contains(f.String(), "†") {
		t.Errorf("figure is %+v, %v; want 90 and a mark: no sample was clean", f, f)
	}
}

func TestNamesAreReadWithAndWithoutTheNumberOfProcessors(t *testing.T) {
	for line, want := range map[string]string{
		"BenchmarkStore/op=get/impl=go-memdb-2 1 9 ns/op":           "Store/op=get/impl=go-memdb",
		"BenchmarkStore/op=get/impl=go-memdb 1 9 ns/op":             "Store/op=get/impl=go-memdb",
		"BenchmarkStore/op=watch/impl=go-memdb-latest-16 1 9 ns/op": "Store/op=watch/impl=go-memdb-latest",
		"BenchmarkStore/op=watch/impl=go-memdb-latest 1 9 ns/op":    "Store/op=watch/impl=go-memdb-latest",
	} {
		if f, ok := read(t, line).figure(want, "ns/op"); !ok || f.median != 9 {
			t.Errorf("%q is not read as %s", line, want)
		}
	}
}

// wantLines reads the report of an output and looks for lines of it.
func wantLines(t *testing.T, output string, lines ...string) {
	t.Helper()
	text := read(t, output).markdown()
	for _, want := range lines {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no line %q", want)
		}
	}
}

func TestGoalsAreMetMissedOrNotMeasured(t *testing.T) {
	wantLines(t, output,
		"| G1 | cycle, string keys, 1k | client-go | 51.0‡ | 400‡ | 7.8 |  | ≥ 1.0 | met |",
		"| G1 | cycle, allocations | | 0‡ | | | | ≤ 0 | met |",
		"| G7 | 1M resident keys | | | | | | | not measured |",
	)
}

// A figure of one pass would else look like the most certain of all: its highest and
// lowest are the same.
func TestFiguresOfFewSamplesAndOfWideOnesAreMarked(t *testing.T) {
	for lines, want := range map[string]string{
		"100":         "100‡",
		"100 200":     "150‡~",
		"100 101 102": "101",
		"100 101 116": "101~",
	} {
		var text strings.Builder
		for ns := range strings.FieldsSeq(lines) {
			text.WriteString("BenchmarkX/impl=tend-2 1 " + ns + " ns/op 0 foreign-%\n")
		}
		if f, _ := read(t, text.String()).figure("X/impl=tend", "ns/op"); f.String() != want {
			t.Errorf("samples %s are shown as %v, want %s", lines, f, want)
		}
	}
	if f, _ := read(t, "BenchmarkSize/impl=tend-1 1 6.7 MB 0 foreign-%").figure("Size/impl=tend", "MB"); f.String() != "6.70" {
		t.Errorf("a size is shown as %v, want 6.70: it is counted once", f)
	}
}

const curves = `
BenchmarkDepth/depth=1k/impl=tend-2 1 100 ns/op 100 cpu-ns/op 0 foreign-%
BenchmarkDepth/depth=1M/impl=tend-2 1 330 ns/op 330 cpu-ns/op 0 foreign-%
BenchmarkDepth/depth=1M/impl=client-go-2 1 660 ns/op 400 cpu-ns/op 0 foreign-%
BenchmarkPipeline/pc=64x64/impl=tend-2 1 200 ns/op 0 foreign-%
BenchmarkPipeline/pc=64x64/impl=client-go-2 1 120 ns/op 0 foreign-%
BenchmarkConverge/objects=10k/impl=tend-2 1 9 ns/op 11 ns/object 0 foreign-%
BenchmarkConverge/objects=1M/impl=tend-2 1 9 ns/op 12 ns/object 0 foreign-%
BenchmarkController/workers=8/work=context/impl=tend+prom-2 1 250 ns/op 0 foreign-%
BenchmarkController/workers=8/work=context/impl=client-go+prom-2 1 2000 ns/op 0 foreign-%
BenchmarkController/workers=8/work=http/impl=tend+prom-2 1 200 ns/op 0 foreign-%
`

func TestGoalsCompareAFigureWithOneOfAnotherOrOfOurOwn(t *testing.T) {
	wantLines(t, curves,
		"| G3 | pipeline 64x64 | client-go | 200‡ | 120‡ | 0.6 |  | ≥ 1.0 | **missed** |",
		// by CPU time
		"| G7 | 1M resident keys | client-go | 330‡ | 660‡ | 2.0 | 1.2 | ≥ 1.3 | **missed** |",
		"| G13 | an object among 1M beside one among 10k | tend | 12.0‡ | 11.0‡ | 0.92 |  | ≥ 0.67 | met |",
		"| G7 | 10M resident keys | | | | | | | not measured |",
	)
}

// What the server is beside raw in time depends on what else the machine does.
func TestGoalsBesideRawAreJudgedByTheCPUTimeWhereItIsKnown(t *testing.T) {
	const at = "BenchmarkStore/backend=postgres/op="
	wantLines(t, at+"cas/objects=100k/clients=16/turns/pool=8-2 5 9 ns/op 1.60 cpu-x-raw 0.50 x-raw\n"+
		at+"cas/objects=100k/clients=64/turns/pool=8-2 5 9 ns/op 1.60 cpu-x-raw 9.00 x-raw\n"+
		at+"deliver/writers=0/turns-2 5 9 ns/op 0.10 x-raw\n",
		"| G18 | PostgreSQL CAS, 16 writers, pool of 8 | raw UPDATE | | | 0.50†‡ | 1.60†‡ | ≥ 1.50 | met |",
		"| G18 | PostgreSQL CAS, 64 writers, pool of 8 | raw UPDATE | | | 9.00†‡ | 1.60†‡ | ≥ 2.50 | **missed** |",
		"| G18 | PostgreSQL, a change is with a watcher, idle | raw LISTEN, read | | | 0.10†‡ |  | ≥ 0.60 | **missed** |",
	)
}

func TestChartsShowEveryKindOfWorkAndNumberOfKeysThatWasMeasured(t *testing.T) {
	charts := read(t, curves).charts()
	for file, want := range map[string][]string{
		"controller": {">work=context<", ">4.00 M/s<", ">0.50 M/s<", ">work=http<", ">5.00 M/s<"},
		"depth":      {">1k keys<", ">100 cpu-ns/op<", ">1M keys<", ">400 cpu-ns/op<"},
	} {
		for _, text := range want {
			if !strings.Contains(charts[file], text) {
				t.Errorf("%s.svg does not show %q:\n%s", file, text, charts[file])
			}
		}
	}
	if strings.Contains(charts["controller"], "work=status") || charts["memory"] != "" {
		t.Error("what was not measured has a place in a chart")
	}
}

func TestReportSaysByWhichCommandsAndAtWhichCommitItWasMeasured(t *testing.T) {
	text := read(t, onMachine+"box, commit a\n"+byCommand+"one\n"+output+onMachine+"box, commit a\n"+byCommand+"two\n").markdown()
	if want := "# Results\n\nbox, commit a\n\n    one\n    two\n"; !strings.HasPrefix(text, want) {
		t.Errorf("the report begins with %.80q, want %q", text, want)
	}
}

// A test that is named in RESULTS.md and is gone would be an empty promise.
func TestTestsThatTheReportNamesExist(t *testing.T) {
	named := regexp.MustCompile(`\((\w+), (Test\w+)\)`).FindAllStringSubmatch(asserted, -1)
	if len(named) < 4 {
		t.Fatalf("%d tests are named in %q", len(named), asserted)
	}
	for _, m := range named {
		files, err := filepath.Glob(filepath.Join("..", "..", m[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "func "+m[2]+"(")
		}
		if !found {
			t.Errorf("there is no %s in %s", m[2], m[1])
		}
	}
}

func TestWhatIsWrittenByHandIsKept(t *testing.T) {
	const old, made = "# Results\nold\n", "# Results\nnew\n"
	if got := withApart(made, old); got != made {
		t.Errorf("a page with nothing written by hand became %q, want %q", got, made)
	}
	const hand = apart + "\n| by | hand |\n"
	if got := withApart(made, old+hand); got != made+hand {
		t.Errorf("got %q, want %q", got, made+hand)
	}
}
