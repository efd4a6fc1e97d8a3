package store

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/tendhq/tend/store/internal/shape"
)

// The longest label key, label value, finalizer, annotation key, condition type and
// phase, in bytes.
// Annotation values are bounded only by the size of the object.
const (
	MaxLabel      = 253
	maxFinalizers = 64
)

// MaxDepth is how deep lists and objects may lie in each other in the JSON of an object;
// the object itself and its spec are the first two. A spec that holds itself is deeper than any
// bound. It is 64.
const MaxDepth = shape.MaxDepth

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
	for k, v := range m.Annotations {
		if err := checkName("annotation", k); err != nil {
			return err
		}
		if !utf8.ValidString(v) {
			return fmt.Errorf("%w: the value of annotation %q is not UTF-8", ErrInvalid, k)
		}
	}
	for _, o := range m.Owners {
		if err := CheckAddress(o.Kind, o.Key); err != nil {
			return fmt.Errorf("owner: %w", err)
		}
		if err := checkText("uid of an owner", o.UID, MaxLabel); err != nil {
			return err
		}
	}
	return checkFinalizers(m.Finalizers)
}

func checkPhase(p Phase) error { return checkText("phase", string(p), MaxLabel) }

// check refuses what would be read back as something else: a mangled external name
// names another resource.
func (i Intent) check() error {
	for _, t := range []time.Time{i.Pending, i.Succeeded, i.Failed} {
		if y := t.Year(); y < 0 || y > 9999 {
			return fmt.Errorf("%w: intent of the year %d", ErrInvalid, y)
		}
	}
	if !utf8.ValidString(i.ExternalName) {
		return fmt.Errorf("%w: external name %q is not UTF-8", ErrInvalid, i.ExternalName)
	}
	if !utf8.ValidString(i.Location) {
		return fmt.Errorf("%w: location %q is not UTF-8", ErrInvalid, i.Location)
	}
	return nil
}

func checkFinalizers(names []string) error {
	if len(names) > maxFinalizers {
		return fmt.Errorf("%w: %d finalizers, at most %d", ErrInvalid, len(names), maxFinalizers)
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
	if err := checkText("value", v, MaxLabel); err != nil {
		return fmt.Errorf("label %q: %w", k, err)
	}
	return nil
}

func checkName(what, s string) error {
	if s == "" {
		return fmt.Errorf("%w: empty %s", ErrInvalid, what)
	}
	return checkText(what, s, MaxLabel)
}
