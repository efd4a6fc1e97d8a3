package contain_test

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/tendhq/tend/internal/contain"
)

type badError struct{}

func (badError) Error() string { panic("Error") }

type selfError struct{}

func (e selfError) Error() string { return "self" }
func (e selfError) Unwrap() error { return e }

// promise R6
func TestWhatAFunctionDoesWrongIsItsError(t *testing.T) {
	var never *contain.Panic
	for _, c := range []struct {
		name string
		f    func() error
		want string // of the error; empty: nil
		is   error
	}{
		{"nothing", func() error { return nil }, "", nil},
		{"an error", func() error { return io.EOF }, "EOF", io.EOF},
		{"a panic", func() error { panic("boom") }, "panic: boom", nil},
		{"a panic with an error", func() error { panic(io.EOF) }, "panic: EOF", io.EOF},
		{"a panic with an error that panics", func() error { panic(badError{}) }, "panic: ", nil},
		{"an error that panics", func() error { return badError{} }, "panic: Error", nil},
		{"an error that is a nil pointer", func() error { return never }, "panic: ", nil},
		{"an error without an end", func() error { return selfError{} }, "no end", nil},
		{"a panic with an error without an end", func() error { panic(selfError{}) }, "panic: self", nil},
		{"Goexit", func() error { runtime.Goexit(); return nil }, "Goexit", contain.ErrGoexit},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := []func(func() error) error{contain.Apart, contain.Call}
			if errors.Is(c.is, contain.ErrGoexit) {
				calls = calls[:1]
			}
			for _, call := range calls {
				err := call(c.f)
				if c.want == "" && err == nil {
					continue
				}
				if err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v, want %q", err, c.want)
				}
				if c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("%v is not %v", err, c.is)
				}
				if panicked := strings.HasPrefix(c.want, "panic"); panicked != (len(contain.Stack(err)) == 2) {
					t.Errorf("the stack of %v: %v", err, contain.Stack(err))
				}
			}
		})
	}
}
