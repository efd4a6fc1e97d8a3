package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/tendhq/tend/internal/endless"
)

// loop is an error that unwraps to itself.
type loop struct{}

func (e *loop) Error() string { return "loop" }
func (e *loop) Unwrap() error { return e }

func TestErrorsAfterWhichNobodyKnowsAreToldFromFailures(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("quota exceeded"), false},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, false},
		{Unknown(nil), false},
		{fmt.Errorf("create: %w", Unknown(errors.New("502"))), true},
		{fmt.Errorf("create: %w", context.DeadlineExceeded), true},
		{context.Canceled, true},
		{&url.Error{Op: "Put", URL: "/", Err: os.ErrDeadlineExceeded}, true},
		{&url.Error{Op: "Put", URL: "/", Err: io.EOF}, true},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, true},
		{errors.Join(errors.New("a"), io.ErrUnexpectedEOF), true},
		{fmt.Errorf("create: %w", endless.Cut(&loop{})), true},
	} {
		if got := isUnknown(c.err); got != c.want {
			t.Errorf("isUnknown(%v) = %v, want %v", c.err, got, c.want)
		}
	}
	if cause := errors.New("x"); !errors.Is(Unknown(cause), cause) {
		t.Error("Unknown hides its cause")
	}
}
