package debug_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/internal/debugworld"
	"github.com/tendhq/tend/internal/pipes"
	"github.com/tendhq/tend/reconcile/web/debug"
)

// A body that does not come in must not hold a goroutine and a connection for as long
// as its sender likes.
func TestActionWhoseBodyDoesNotComeInIsRefused(t *testing.T) {
	asked := make(chan debug.Action, 1)
	w := debugworld.New()
	o := w.Options()
	o.Timeout = 10 * time.Millisecond
	o.Authorise = func(_ *http.Request, a debug.Action) error { asked <- a; return nil }
	server := httptest.NewServer(must(debug.New(&w.Manager, o)))
	defer server.Close()
	conn := must(net.Dial("tcp", strings.TrimPrefix(server.URL, "http://")))
	defer conn.Close()
	_ = must(fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\n"))
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, len("HTTP/1.1 408 "))
	if _, err := conn.Read(answer); err != nil || string(answer) != "HTTP/1.1 408 " {
		t.Errorf("the answer is %q, %v", answer, err)
	}
	if len(asked) > 0 {
		t.Errorf("Authorise was asked about %+v", <-asked)
	}
}

// The body of a request that is refused, or of a page, was waited for without end in the middle of
// the answer, with a goroutine and the page's bytes for each.
//
// Negative control: mutant "a page waits without end for a body that it does not read".
func TestBodyThatIsNotReadIsNotWaitedForWithoutEnd(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *world, h http.Handler) {
		l := pipes.Serve(h)
		defer l.Close()
		for _, c := range []net.Conn{l.Half("GET", "/debug"), l.Half("POST", "/debug"), l.Half("PUT", "/debug"), l.Half("GET", "/debug?q="+strings.Repeat("a", 10<<10))} {
			if code, _, err := pipes.Answer(c); err != nil {
				t.Errorf("half a request is answered %d, %v", code, err)
			}
			c.Close()
		}
	})
}

// The size that a request declares is enough to refuse it.
func TestActionWithALongBodyIsRefusedBeforeItIsRead(t *testing.T) {
	w := debugworld.New()
	o := w.Options()
	o.Authorise = func(*http.Request, debug.Action) error { return nil }
	h := must(debug.New(&w.Manager, o))
	body := &countingReader{Reader: strings.NewReader(strings.Repeat("a", 1<<20))}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/debug", body)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.ContentLength = 1 << 20
	send(t, h, http.StatusRequestEntityTooLarge, r)
	if body.read > 0 {
		t.Errorf("%d bytes of the body were read", body.read)
	}
}

type countingReader struct {
	*strings.Reader
	read int
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read += n
	return n, err
}
