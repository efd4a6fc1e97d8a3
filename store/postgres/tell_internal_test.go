package postgres

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// What is tried again and again is told once for each reason, and once when it works again: a
// server that is read-only refuses to end leases at each look, which was one or two lines a
// second.
//
// Negative control: mutants "what is tried again and again is a line each time" and "nothing says
// that it works again".
func TestWhatIsTriedAgainIsToldOnce(t *testing.T) {
	var log strings.Builder
	b := &backend{opts: Options{logger: slog.New(slog.NewTextHandler(&log, nil))}}
	refused, told := errors.New("read-only"), ""
	for _, err := range []error{nil, refused, refused, refused, nil, nil, refused, errors.New("no grant"), nil} {
		b.tell(&told, err, "postgres: cannot end leases", "postgres: leases are ended again")
	}
	if n := strings.Count(log.String(), "cannot end leases"); n != 3 {
		t.Errorf("%d warnings, want one for each time that it began, and one for another reason:\n%s", n, log.String())
	}
	if n := strings.Count(log.String(), "leases are ended again"); n != 2 {
		t.Errorf("%d lines of its end, want one for each time:\n%s", n, log.String())
	}
}
