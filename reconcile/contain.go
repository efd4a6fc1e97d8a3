package reconcile

import (
	"reflect"

	"github.com/tendhq/tend/internal/contain"
)

// isolate is contain.Apart, and protect contain.Call, with a [PanicError] for a panic.
func isolate(f func() error) error { return panicError(contain.Apart(f)) }

func protect(f func() error) error { return panicError(contain.Call(f)) }

func panicError(err error) error {
	if p, ok := err.(*contain.Panic); ok { //nolint:errorlint // one that is wrapped is not f's own panic
		return (*PanicError)(p)
	}
	return err
}

// isNil also reports a nil pointer or function in an interface.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || (r.Kind() == reflect.Pointer || r.Kind() == reflect.Func) && r.IsNil()
}
