package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tendhq/tend/internal/endless"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile/quota"
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
		{&url.Error{Op: "Post", URL: "/", Err: errors.New("http2: client connection lost")}, true},
		{&url.Error{Op: "Post", URL: "/", Err: errors.New("http2: server sent GOAWAY and closed the connection")}, true},
		{&url.Error{Op: "Post", URL: "/", Err: ratelimit.Throttled(nil, time.Time{}, errors.New("no budget"))}, false},
		{&url.Error{Op: "Post", URL: "/", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, false},
		{&url.Error{Op: "Post", URL: "/", Err: &net.OpError{Op: "proxyconnect", Err: syscall.ECONNREFUSED}}, false},
		{&url.Error{Op: "Post", URL: "/", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}}, false},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.EHOSTUNREACH)}, true},
		{os.NewSyscallError("write", syscall.ENETRESET), true},
		{fmt.Errorf("create: %w", net.ErrClosed), true},
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
		{fmt.Errorf("create: %w", &quota.HTTPError{Status: 502}), true},
		{&quota.HTTPError{Status: 503}, true},
		{&quota.HTTPError{Status: 504, RetryAfter: time.Second}, true},
		{&quota.HTTPError{Status: 500, Code: "InternalError"}, true},
		{&quota.HTTPError{Status: 408}, true},
		{&quota.HTTPError{Status: 503, Code: "SlowDown"}, false},
		{&quota.HTTPError{Status: 503, RetryAfter: time.Second}, false},
		{&quota.HTTPError{Status: 501}, false},
		{&quota.HTTPError{Status: 429}, false},
		{&quota.HTTPError{Status: 409}, false},
		{&quota.HTTPError{Status: 400}, false},
		{fmt.Errorf("create: %w", endless.Cut(&loop{})), true},
	} {
		if got := isUnknown(t.Context(), c.err); got != c.want {
			t.Errorf("isUnknown(%v) = %v, want %v", c.err, got, c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for err, want := range map[error]bool{
		nil: false, errors.New("rpc error: code = DeadlineExceeded"): true, ratelimit.Throttled(nil, time.Time{}, errors.New("no budget")): false,
	} {
		if got := isUnknown(ended, err); got != want {
			t.Errorf("isUnknown(%v) after the end of the call = %v, want %v", err, got, want)
		}
	}
	if cause := errors.New("x"); !errors.Is(Unknown(cause), cause) {
		t.Error("Unknown hides its cause")
	}
}

// A client that tries again by itself may return the errors of all its tries: that the last one made
// nothing says nothing of one that broke.
//
// promise E1. Negative control: the mutant "of several tries the one that made nothing counts".
func TestTryThatBrokeIsNotHiddenByOneThatMadeNothing(t *testing.T) {
	post := func(err error) error { return &url.Error{Op: "Post", URL: "/", Err: err} }
	broken, late := post(errors.New("http2: client connection lost")), post(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded})
	for name, nothing := range map[string]error{
		"no connection": post(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}),
		"no host":       post(&net.DNSError{Err: "no such host", IsNotFound: true}),
		"no budget":     post(ratelimit.Throttled(nil, time.Time{}, errors.New("no budget"))),
	} {
		for _, err := range []error{
			errors.Join(broken, nothing), errors.Join(nothing, broken), fmt.Errorf("%w (the try before: %w)", nothing, broken),
			errors.Join(nothing, late), post(errors.Join(nothing, errors.New("http2: client connection lost"))),
		} {
			if !isUnknown(t.Context(), fmt.Errorf("after two tries: %w", err)) {
				t.Errorf("%s: %q counts as definite", name, err)
			}
		}
		if err := errors.Join(nothing, nothing); isUnknown(t.Context(), err) {
			t.Errorf("%s: %q counts as unknown", name, err)
		}
	}
}

// promise E1: what Go's own HTTP client says when a server took the request and sent no
// answer, and when it got no request.
//
// Negative control: mutant "a broken call of the HTTP client made nothing".
func TestErrorsOfTheHTTPClientAreUnknownOnceTheRequestMayBeSent(t *testing.T) {
	post := func(c *http.Client, url string) error {
		resp, err := c.Post(url, "text/plain", nil)
		if err == nil {
			_ = resp.Body.Close()
		}
		c.CloseIdleConnections()
		return err
	}
	for _, two := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		s.EnableHTTP2, s.Config.ErrorLog = two, log.New(io.Discard, "", 0)
		s.StartTLS()
		if err := post(s.Client(), s.URL); err == nil || !isUnknown(t.Context(), err) {
			t.Errorf("HTTP/2 %v, a request without an answer: %v counts as definite", two, err)
		}
		if err := post(&http.Client{Transport: &http.Transport{}}, s.URL); err == nil || isUnknown(t.Context(), err) {
			t.Errorf("a certificate that is not trusted: %v counts as unknown", err)
		}
		s.Close()
		if err := post(s.Client(), s.URL); err == nil || isUnknown(t.Context(), err) {
			t.Errorf("a server that is not there: %v counts as unknown", err)
		}
	}
}
