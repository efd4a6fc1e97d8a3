//go:build peers

package bench

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Benchstat reads a line as a result if it is one to its end, and skips others, so that a result
// that a log line splits is lost without a word.
//
// Seen to fail while each benchmark had to quiet its own Manager, and BenchmarkManager did not.
func TestResultsAreLinesThatBenchstatReads(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$", "-test.bench=^Benchmark(Controller|Converge|Manager)$/(workers|objects|controllers=1$|controllers=1/)/(impl=tend|work=1us)",
		"-test.benchtime=1x", "-keys=10", "-workers=1", "-batch=2", "-work=none,1us", "-objects=10").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	known := regexp.MustCompile(`^(Benchmark\S+\s+\d+(\s+[\d.e+-]+ \S+)+|(goos|goarch|pkg|cpu): .*|PASS)\s*$`)
	results, batches := 0, 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		line := lines.Text()
		if !known.MatchString(line) {
			t.Errorf("benchstat does not read %q", line)
		}
		if strings.HasPrefix(line, "Benchmark") {
			results++
		}
		if strings.Contains(line, "work=1us") && strings.Contains(line, "tend-batch-2") {
			batches++ // -batch is for runs that do something, too
		}
	}
	if results < 5 || batches == 0 {
		t.Errorf("%d results, %d of batches that work: %s", results, batches, out)
	}
}
