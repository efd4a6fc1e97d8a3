package main

import (
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
BenchmarkDuplicateAdd/mode=serial/impl=tend-workqueue-2  100 90 ns/op 21 foreign-%
PASS
`

func TestSamplesUnderForeignLoadAreDropped(t *testing.T) {
	r := parse(strings.NewReader(output))
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
		if f, ok := parse(strings.NewReader(line)).figure(want, "ns/op"); !ok || f.median != 9 {
			t.Errorf("%q is not read as %s", line, want)
		}
	}
}

func TestGoalsAreMetMissedOrNotMeasured(t *testing.T) {
	text := parse(strings.NewReader(output)).markdown()
	for _, want := range []string{
		"| G1 | cycle | client-go | 51.0 | 400 | 7.8 |  | ≥ 4.3 | met |",
		"| G1 | cycle, allocations | | 0 | | | | ≤ 0 | met |",
		"| G7 | 1M resident keys | | | | | | | not measured |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no line %q", want)
		}
	}
}
