package object

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// maxFinalizer is the length, in bytes, of the longest finalizer name.
const maxFinalizer = 63

// pendingPrefix marks a finalizer whose Add has not succeeded yet. It is part
// of the stored name, and not an annotation beside it, so that the step from
// pending to done is one write of one field that only this package edits.
const pendingPrefix = "pending."

// FinalizerName is lifecycle.FinalizerName: the name of the finalizer that a handler of a
// kind puts on objects.
func FinalizerName(kind, handler string) (string, error) {
	for part, s := range map[string]string{"kind": kind, "handler": handler} {
		if err := checkName(s); err != nil {
			return "", fmt.Errorf("lifecycle: finalizer name from %s %q: %w", part, s, err)
		}
	}
	return shorten("tend."+kind+"."+handler, maxFinalizer), nil
}

// CheckFinalizer says why a finalizer name that a user chose cannot be used,
// or returns nil.
func CheckFinalizer(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("lifecycle: finalizer %q: %w", name, err)
	}
	if len(name) > maxFinalizer {
		return fmt.Errorf("lifecycle: finalizer %q has %d bytes, at most %d are allowed", name, len(name), maxFinalizer)
	}
	if strings.HasPrefix(name, pendingPrefix) {
		return fmt.Errorf("lifecycle: finalizer %q begins with %q, which marks an Add that has not succeeded", name, pendingPrefix)
	}
	return nil
}

// PendingName is the form a finalizer has until Add succeeded. It is as short
// as any other finalizer.
func PendingName(finalizer string) string {
	return shorten(pendingPrefix+finalizer, maxFinalizer)
}

// shorten cuts s to limit bytes; what is cut lives on in a hash at the end, so
// that two long names that differ late stay two names.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	h := fnv.New64a()
	h.Write([]byte(s))
	tail := fmt.Sprintf(".%016x", h.Sum64())
	return s[:limit-len(tail)] + tail
}

func checkName(s string) error {
	if s == "" {
		return fmt.Errorf("it is empty")
	}
	for i, r := range s {
		edge := i == 0 || i == len(s)-1
		if !isAlnum(r) && (edge || !strings.ContainsRune("-_./", r)) {
			return fmt.Errorf("%q at byte %d is not allowed: letters, digits, and inside also '-', '_', '.' and '/'", r, i)
		}
	}
	return nil
}

func isAlnum(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
