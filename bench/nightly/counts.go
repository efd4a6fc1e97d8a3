package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// counts is how many of what: operations, seeds, faults.
type counts map[string]int

// String lists them, the largest last.
func (c counts) String() string {
	what := make([]string, 0, len(c))
	for w := range c {
		what = append(what, w)
	}
	slices.SortFunc(what, func(a, b string) int {
		if c[a] != c[b] {
			return c[a] - c[b]
		}
		return strings.Compare(a, b)
	})
	for i, w := range what {
		what[i] = fmt.Sprintf("%d %s", c[w], w)
	}
	return strings.Join(what, ", ")
}

var (
	// reported is a line in which a test says what it did: "campaign: 60 seeds,
	// 18000 operations". Several are added up.
	reported = regexp.MustCompile(`campaign: (\d+ [^,]+(?:, \d+ [^,]+)*)`)
	// executed is what the fuzzer says while it runs; the last one counts.
	executed = regexp.MustCompile(`fuzz: elapsed: .*execs: (\d+)`)
	// rapid says how many sequences of operations it tried.
	checked = regexp.MustCompile(`\[rapid\] OK, passed (\d+) tests`)
)

// count reads what a campaign's output says that was done.
func count(out io.Reader) (counts, error) {
	c := counts{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := reported.FindStringSubmatch(lines.Text()); m != nil {
			for part := range strings.SplitSeq(m[1], ", ") {
				number, what, _ := strings.Cut(part, " ")
				n, err := strconv.Atoi(number)
				if err != nil {
					return c, err
				}
				c[what] += n
			}
		}
		if m := executed.FindStringSubmatch(lines.Text()); m != nil {
			c["inputs"], _ = strconv.Atoi(m[1])
		}
		if m := checked.FindStringSubmatch(lines.Text()); m != nil {
			n, _ := strconv.Atoi(m[1])
			c["sequences"] += n
		}
	}
	return c, lines.Err()
}
