package postgres

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// A server that is read-only refuses to end leases at each look, and that is one line: it was
// one or two a second.
//
// Negative control: mutant "leases that cannot be ended are a line at each look".
func TestLeasesThatCannotBeEndedAreOneLine(t *testing.T) {
	var log strings.Builder
	o := newObserver(&Backend{opts: Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	refused := errors.New("read-only")
	for _, err := range []error{refused, refused, refused, nil, nil, refused, errors.New("no grant"), nil} {
		o.tell(err)
	}
	if n := strings.Count(log.String(), "cannot end leases"); n != 3 {
		t.Errorf("%d lines, want one for each time that it began, and one for another reason:\n%s", n, log.String())
	}
}
