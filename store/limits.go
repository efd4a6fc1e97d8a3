package store

import (
	"fmt"
	"slices"
)

// The longest label key, label value, finalizer and annotation key, in bytes.
// Annotation values are bounded only by the size of the object.
const (
	MaxLabel      = 253
	MaxFinalizers = 64
)

// MaxDepth is how deep lists and objects may lie in each other in what [JSON]
// writes and reads; the object itself and its spec are the first two. A backend
// that never encodes does not ask.
const MaxDepth = 64

// checkMeta returns [ErrInvalid] with the first thing wrong.
func checkMeta(m *Meta) error {
	if err := m.Key().Check(); err != nil {
		return err
	}
	for k, v := range m.Labels {
		if err := checkLabel(k, v); err != nil {
			return err
		}
	}
	for k := range m.Annotations {
		if err := checkName("annotation", k); err != nil {
			return err
		}
	}
	for _, o := range m.Owners {
		if err := CheckAddress(o.Kind, o.Key); err != nil {
			return fmt.Errorf("owner: %w", err)
		}
	}
	return checkFinalizers(m.Finalizers)
}

func checkFinalizers(names []string) error {
	if len(names) > MaxFinalizers {
		return fmt.Errorf("%w: %d finalizers, at most %d", ErrInvalid, len(names), MaxFinalizers)
	}
	for i, f := range names {
		if err := checkName("finalizer", f); err != nil {
			return err
		}
		if slices.Contains(names[:i], f) {
			return fmt.Errorf("%w: finalizer %q twice", ErrInvalid, f)
		}
	}
	return nil
}

func checkLabel(k, v string) error {
	if err := checkName("label", k); err != nil {
		return err
	}
	return checkText("value of label "+k, v, MaxLabel)
}

func checkName(what, s string) error {
	if s == "" {
		return fmt.Errorf("%w: empty %s", ErrInvalid, what)
	}
	return checkText(what, s, MaxLabel)
}
