package reconcile

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
)

// Stack implements Inspection.
func (c inspection[K]) Stack(printed string) (stack string, ok bool) {
	for _, s := range c.of.supervisor.pool.all() {
		if r, running := s.condition(); running && slices.Contains(r.Keys, printed) {
			return stackOf(s.worker)
		}
	}
	return "", false
}

// stackOf finds the goroutine of a worker. Goroutines that its runs have started carry
// its labels too, but not its loop.
func stackOf(worker string) (stack string, ok bool) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return "", false
	}
	label := fmt.Sprintf("%q:%q", labelWorker, worker)
	for record := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(record, label) && strings.Contains(record, "]).loop+") {
			return callsOf(record), true
		}
	}
	return "", false
}

// callsOf gives the calls of a record of the goroutine profile, whose lines have a
// program counter, a function with an offset, and a file with a line.
func callsOf(record string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(record, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] != "#" || !strings.HasPrefix(fields[1], "0x") {
			continue
		}
		function, _, _ := strings.Cut(fields[2], "+0x")
		fmt.Fprintf(&b, "%s %s\n", function, strings.Join(fields[3:], " "))
	}
	return b.String()
}
