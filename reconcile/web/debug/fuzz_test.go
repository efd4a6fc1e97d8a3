package debug_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/web/debug"
)

// token is what a request has to show to be allowed an action.
const token = "let-me-in"

func authorise(r *http.Request, _ debug.Action) error {
	if r.Header.Get("X-Token") != token {
		return errors.New("not authorised")
	}
	return nil
}

// Whatever the bytes of a request are, as far as net/http takes them for one: the
// handler does not panic, answers with a status that blames the right side, tells
// the browser to run nothing, prints no markup and no terminal's commands that
// came with the request, and changes nothing for a caller that is not authorised.
//
// Negative control: TestJudgeRejectsHandlersThatDoWhatTheyMustNot.
func FuzzHandler(f *testing.F) {
	for _, s := range requests {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := read(raw)
		if err != nil {
			return // net/http would have answered
		}
		bubble(t, func(o *debug.Options) { o.Authorise = authorise }, func(t *testing.T, w *world, h http.Handler) {
			if err := judge(h, r, func() any { return stateOf(w) }); err != nil {
				t.Errorf("%v\n%q", err, raw)
			}
		})
	})
}

// requests are of every kind that there is.
var requests = []string{
	"GET /debug HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET /debug?c=bucket&state=failing&order=failures&q=a&limit=7&from=1.2 HTTP/1.1\r\nHost: [::1]:80\r\nAccept: text/plain\r\n\r\n",
	"GET /?c=bucket&key=failing-a&format=json HTTP/1.0\r\nHost: 127.0.0.1\r\nCookie: a=b; c=\"<x>\"\r\n\r\n",
	"GET /?view=events&kind=bucket&key=data&format=text HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET /?c=bucket&key=%22%3E%3Csvg%20onload=x%3E&ask=forget HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET /?view=objects&kind=bucket&q=%22%3E&state=not+ready&after=%1b HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET /?view=object&kind=bucket&key=%2F%22%3E%3Cscript HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET /?ask=object-remove-finalizer&kind=%22%3E&key=a&finalizer=%3Csvg HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET /?view=search&q=%22%3E%3Cscript%3E&refresh=5 HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET /?view=drift&kind=bucket&list=different&skip=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET /?c=%22%3E%3Cscript%3E&key=%00%1b%5b2J&done=kick HTTP/1.1\r\nHost: localhost\r\nReferer: http://evil/\r\n\r\n",
	"HEAD /%2e%2e//x?%zz HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n",
	"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"POST /debug HTTP/1.1\r\nHost: localhost\r\nX-Token: " + token + "\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 33\r\n\r\ndo=kick&c=bucket&key=failing-a   ",
	"POST /?do=pause&c=bucket HTTP/1.1\r\nHost: localhost\r\nX-Token: " + token + "\r\nContent-Length: 0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 19\r\n\r\ndo=forget&c=bucket&",
	"POST / HTTP/1.1\r\nHost: localhost\r\nX-Token: " + token + "\r\nOrigin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 17\r\n\r\ndo=pause&c=bucket",
	"POST / HTTP/1.1\r\nHost: localhost\r\nX-Token: " + token + "\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 30\r\n\r\ndo=workers&c=bucket&workers=12",
	"POST / HTTP/1.1\r\nHost: localhost\r\nX-Token: " + token + "\r\nContent-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n--b\r\n\r\n0\r\n\r\n",
}

// read reads a request as a server on the loopback interface does.
func read(raw []byte) (*http.Request, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		return nil, err
	}
	r.RemoteAddr = "127.0.0.1:4711"
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	return r.WithContext(context.WithValue(context.Background(), http.LocalAddrContextKey, local)), nil
}

// state is what an action could change.
func stateOf(w *world) any {
	synctest.Wait()
	page, err := inspected(w.Buckets).Keys(context.Background(), "", &queue.PageOptions{Limit: 1000})
	return []any{
		w.Buckets.Snapshot(), w.Buckets.Queue().Stats(), w.Audit.Snapshot(), w.Audit.Queue().Stats(), page, err, w.Quota.Stats(),
	}
}

// statuses are those that are documented or plain HTTP. A 5xx is not among them:
// nothing here takes long.
var statuses = []int{
	http.StatusOK, http.StatusSeeOther, http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
	http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
}

// judge sends r to h and says what is wrong with what came of it.
func judge(h http.Handler, r *http.Request, state func() any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %v", p)
		}
	}()
	before := state()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	allowed := r.Method == http.MethodPost && r.Header.Get("X-Token") == token
	if after := state(); !allowed && !reflect.DeepEqual(before, after) {
		return fmt.Errorf("it changed\n%+v into\n%+v", before, after)
	}
	if !slices.Contains(statuses, w.Code) {
		return fmt.Errorf("status %d: %s", w.Code, w.Body)
	}
	return errors.Join(judgeHeader(w.Header()), judgeBody(w.Header().Get("Content-Type"), w.Body.String()))
}

func judgeHeader(h http.Header) error {
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store"} {
		if h.Get(name) != want {
			return fmt.Errorf("%s is %q, want %q", name, h.Get(name), want)
		}
	}
	if p := h.Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'; style-src 'sha256-") {
		return fmt.Errorf("policy %q", p)
	}
	if len(h["Set-Cookie"]) > 0 {
		return errors.New("it sets a cookie")
	}
	if to := h.Get("Location"); to != "" && !strings.HasPrefix(to, "?") {
		return fmt.Errorf("it leads away, to %q", to)
	}
	for name, values := range h {
		for _, v := range values {
			if strings.ContainsAny(name+v, "\r\n\x00") {
				return fmt.Errorf("header %q is %q", name, v)
			}
		}
	}
	return nil
}

var (
	tag       = regexp.MustCompile(`<([^>]*)>?`)
	tagName   = regexp.MustCompile(`^/?!?[a-zA-Z0-9]+`)
	hidden    = regexp.MustCompile(`<input type="(?:hidden|search)"[^>]*>`)
	attribute = regexp.MustCompile(`\s([^\s=]+)(?:="([^"]*)")?`)

	tagNames = strings.Fields(`!DOCTYPE html head meta title style body header nav a h1 p span main section h2 form input select option button table thead tr th tbody td pre div details summary svg defs marker path g rect text b i h3 figure figcaption polyline footer`)
	// Of style and event handlers there is none.
	attributes = strings.Fields(`html lang charset name content href class role method action type value placeholder aria-label scope data-label selected min max http-equiv width height viewBox id refX refY markerWidth markerHeight orient d marker-end x y rx aria-hidden tabindex preserveAspectRatio points title open`)
	ownPlace   = regexp.MustCompile(`^#[a-z0-9-]+$`)
	refresh    = regexp.MustCompile(`<meta http-equiv="refresh" content="[0-9]+">`)
)

// judgeBody finds what a request can have brought into an answer.
func judgeBody(kind, body string) error {
	switch {
	case strings.HasPrefix(kind, "text/html"):
		if strings.Contains(body, "http-equiv") && !refresh.MatchString(body) {
			return errors.New("it has a header of its own")
		}
		for _, m := range tag.FindAllStringSubmatch(body, -1) {
			name := tagName.FindString(m[1])
			if !slices.Contains(tagNames, strings.TrimPrefix(name, "/")) {
				return fmt.Errorf("it has the tag %q", m[0])
			}
			for _, a := range attribute.FindAllStringSubmatch(m[1][len(name):], -1) {
				if !slices.Contains(attributes, a[1]) || a[1] == "href" && !strings.HasPrefix(a[2], "?") && !ownPlace.MatchString(a[2]) || a[1] == "action" && a[2] != "?" {
					return fmt.Errorf("it has the tag %q", m[0])
				}
			}
		}
		body = hidden.ReplaceAllString(body, "") // an action is about the exact key
	case kind == "application/json":
		if body != "" && !json.Valid([]byte(body)) {
			return fmt.Errorf("it is no JSON: %q", body)
		}
		return nil // a terminal is not shown it
	case kind != "" && !strings.HasPrefix(kind, "text/plain; charset=utf-8"):
		return fmt.Errorf("it is %q", kind)
	}
	if i := strings.IndexFunc(body, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r == 0x202e || r == 0xfffd }); i >= 0 {
		return fmt.Errorf("it prints %q", body[max(0, i-20):min(len(body), i+20)])
	}
	return nil
}

// The judge is worth what it rejects: handlers that are like ours but for one
// thing. Ours it accepts.
func TestJudgeRejectsHandlersThatDoWhatTheyMustNot(t *testing.T) {
	raw := "GET /?c=audit&key=%22%3E%3Cimg+src%3Dx%3E%1b HTTP/1.1\r\nHost: localhost\r\n\r\n"
	bubble(t, func(o *debug.Options) { o.Authorise = authorise }, func(t *testing.T, w *world, h http.Handler) {
		for what, after := range map[string]func(w http.ResponseWriter, r *http.Request){
			"":         func(http.ResponseWriter, *http.Request) {},
			"panicked": func(http.ResponseWriter, *http.Request) { panic("boom") },
			"changed": func(http.ResponseWriter, *http.Request) {
				w.Audit.Queue().Hold(w.Audit.Queue().Whole(), queue.Hold{Name: "GET", Reason: "by a GET"})
			},
			"the tag \"<img":       func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Query().Get("key")) },
			"the tag \"<a onclick": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<a onclick="x">`) },
			"the tag \"<a href":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<a href="javascript:x">`) },
			"prints":               func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "\x1b[2J") },
			"cookie":               func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Set-Cookie", "a=b") },
			"leads away":           func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "//evil") },
			"policy":               func(w http.ResponseWriter, _ *http.Request) { w.Header().Del("Content-Security-Policy") },
			"X-Frame-Options":      func(w http.ResponseWriter, _ *http.Request) { w.Header().Del("X-Frame-Options") },
		} {
			r, err := read([]byte(raw))
			if err != nil {
				t.Fatal(err)
			}
			err = judge(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r)
				after(w, r)
			}), r, func() any { return stateOf(w) })
			if what == "" && err != nil || what != "" && (err == nil || !strings.Contains(err.Error(), what)) {
				t.Errorf("%q: %v", what, err)
			}
			w.Audit.Queue().Release(w.Audit.Queue().Whole(), "GET")
		}
		failing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		r, err := read([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := judge(failing, r, func() any { return stateOf(w) }); err == nil || !strings.Contains(err.Error(), "status 500") {
			t.Errorf("status 500: %v", err)
		}
	})
}
