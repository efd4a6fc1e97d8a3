package store

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBriefCutsTheTextAndKeepsTheError(t *testing.T) {
	if Brief(nil) != nil {
		t.Error("Brief of nil is an error")
	}
	if got := Brief(ErrConflict).Error(); got != ErrConflict.Error() {
		t.Errorf("a short text became %q", got)
	}
	long := Brief(errors.Join(errors.New(strings.Repeat("€", MaxMessage)), ErrConflict))
	if text := long.Error(); len(text) > MaxMessage || len(text) < MaxMessage-3 || !utf8.ValidString(text) || !strings.HasSuffix(text, "…") {
		t.Errorf("the text has %d bytes: %q", len(text), text)
	}
	if !errors.Is(long, ErrConflict) {
		t.Error("the error is not found any more")
	}
}
