package web_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/pipes"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web"
)

// Four requests whose bodies did not come kept Prometheus from /metrics for as long as their
// senders liked: net/http waits for the rest of a body in the middle of the answer.
//
// Negative control: mutant "a body that is left unread is waited for in the middle of an answer".
func TestRequestsWhoseBodiesDoNotComeTakeNoPlaces(t *testing.T) {
	for _, path := range []string{"/metrics", "/debug/pprof/goroutine?debug=2", "/livez"} {
		t.Run(strings.Trim(path, "/"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &reconcile.Manager{Logger: quiet}
				l := pipes.Serve(must(web.New(m, &web.Options{Pprof: true})))
				defer l.Close()
				var half []net.Conn
				for range 4 {
					c := l.Half("GET", path)
					defer c.Close()
					half = append(half, c)
				}
				synctest.Wait()
				if code, text, err := l.Whole("GET", path); code != http.StatusOK || err != nil {
					t.Fatalf("the next request is answered %d, %v\n%s", code, err, text)
				}
				for _, c := range half {
					if code, text, err := pipes.Answer(c); code != http.StatusBadRequest || err != nil {
						t.Fatalf("the answer to half a request is %d, %v\n%s", code, err, text)
					}
				}
			})
		})
	}
}

// What Allow or Hosts refuses waits for no body either.
//
// Negative control: mutant "what Allow refuses waits without end for its body".
func TestRefusalsWaitForNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipes.Serve(must(web.New(&reconcile.Manager{Logger: quiet}, &web.Options{Allow: func(*http.Request) error { return errors.New("no") }})))
		defer l.Close()
		for _, c := range []net.Conn{
			l.Half("GET", "/metrics"), l.Send("GET /metrics HTTP/1.1", "Host: evil.example", "Content-Length: 1"),
		} {
			if code, text, err := pipes.Answer(c); code != http.StatusForbidden || err != nil {
				t.Errorf("half a request is answered %d, %v\n%s", code, err, text)
			}
			c.Close()
		}
	})
}

// A body that has come is no reason to refuse a GET.
func TestBodyOfAGetIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipes.Serve(must(web.New(&reconcile.Manager{Logger: quiet}, nil)))
		defer l.Close()
		for _, c := range []net.Conn{
			l.Send("GET /metrics HTTP/1.1", "Host: localhost", "Connection: close", "Transfer-Encoding: chunked", "", "0"),
			l.Send("GET /metrics HTTP/1.1", "Host: localhost", "Connection: close", "Content-Length: 8", "", "null"), // and the end of Send
		} {
			if code, text, err := pipes.Answer(c); code != http.StatusOK || err != nil {
				t.Errorf("the answer is %d, %v\n%s", code, err, text)
			}
			c.Close()
		}
	})
}

// A Server ends requests that do not come in, whatever its handler is, and no stream.
func TestServerWaitsForNoBodyWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipes.Listen()
		s := web.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("begun, ", 1000))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(10 * time.Minute):
				_, _ = io.WriteString(w, "ended")
			case <-r.Context().Done():
			}
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		half := l.Half("GET", "/")
		defer half.Close()
		if _, text, err := pipes.Answer(half); err != nil || strings.HasSuffix(text, "ended") {
			t.Errorf("the answer to half a request ends with %.20q, %v", text[max(len(text)-20, 0):], err)
		}
		if _, text, err := l.Whole("GET", "/"); err != nil || !strings.HasSuffix(text, "ended") {
			t.Errorf("a stream ends with %q, %v", text[max(len(text)-20, 0):], err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
