package endless_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tendhq/tend/internal/endless"
)

type loop struct{}

func (e *loop) Error() string { return "loop" }
func (e *loop) Unwrap() error { return e }

type bush struct{}

func (e *bush) Error() string   { return "bush" }
func (e *bush) Unwrap() []error { return []error{e, e} }

func TestErrorWithoutAnEndIsCutAndOthersStay(t *testing.T) {
	plain := errors.New("plain")
	for _, err := range []error{nil, plain, fmt.Errorf("a: %w", fmt.Errorf("b: %w", plain)), errors.Join(plain, nil, plain)} {
		if got := endless.Cut(err); got != err { //nolint:errorlint // the same value is meant
			t.Errorf("Cut(%v) = %v, want it as it is", err, got)
		}
	}
	for _, err := range []error{&loop{}, &bush{}, fmt.Errorf("wrapped: %w", &loop{}), errors.Join(plain, &bush{})} {
		got := endless.Cut(err)
		if got == err { //nolint:errorlint // the same value is meant
			t.Errorf("%T is not cut", err)
			continue
		}
		if errors.Is(got, plain) || !strings.HasPrefix(got.Error(), err.Error()) {
			t.Errorf("Cut(%v) = %v, want its text and nothing that it wraps", err, got)
		}
	}
}

func ExampleCut() {
	fmt.Println(errors.Is(endless.Cut(&loop{}), errors.ErrUnsupported))
	// Output: false
}
