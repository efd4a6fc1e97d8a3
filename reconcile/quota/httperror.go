package quota

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/wall"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// HTTPError is an answer of an HTTP API with a status of 400 or more. [CheckResponse] makes
// it, or a program that has the numbers from an SDK. It means the same wherever a run or a
// call ends with it, through any wrapping:
//
//   - an answer that asks for fewer calls and says for how long is one of
//     [github.com/tendhq/tend/queue/ratelimit.Throttled]: a run that ends with it is no
//     failure, and its key runs again after RetryAfter;
//   - any other with a RetryAfter is as [reconcile.RetryAfter]: a failure, which waits at
//     least that long;
//   - without a RetryAfter it is a failure like others, with backoff;
//   - [Judge] reads it for [Quota.Do];
//   - after a status of 500 or more, or 408, [github.com/tendhq/tend/reconcile/external] looks
//     whether a create has made its resource; after others it has not.
//
// It asks for fewer calls with status 429, with a word for that of AWS, Google, Azure,
// GitHub or DigitalOcean, whatever the status, and with 403 or 503 and a Retry-After.
type HTTPError struct {
	// Status is that of the answer: 429, for example.
	Status int
	// Code is the API's own word for what is wrong: "RequestLimitExceeded", for example.
	// Empty: the answer had none that is known.
	Code string
	// RetryAfter is how long the answer asked to wait; zero: it did not say. CheckResponse
	// takes more than 15 min for 15 min.
	RetryAfter time.Duration

	from    string // scheme and host; empty: not known
	message string
	asked   bool      // the header or the message asks for fewer calls
	at      time.Time // when it was answered; zero: when it is asked for
}

// Error is the host, the status, the code and the API's message, as far as there are such.
func (e *HTTPError) Error() string {
	parts := []string{strings.TrimSpace(fmt.Sprint(e.from, " answered with status ", e.Status)), e.Code, e.message}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// Unwrap is what the RetryAfter means to a run; nil: there is none.
func (e *HTTPError) Unwrap() error {
	switch {
	case e.RetryAfter <= 0: // until when is not known: a backoff finds out
		return nil
	case e.verdict().Throttled:
		at := e.at
		if at.IsZero() {
			at = time.Now()
		}
		return ratelimit.Throttled(nil, at.Add(e.RetryAfter), nil)
	}
	return reconcile.RetryAfter(errAsked, e.RetryAfter)
}

var errAsked = errors.New("quota: the answer said when to ask again")

func (e *HTTPError) verdict() Verdict {
	patience := e.Status == http.StatusForbidden || e.Status == http.StatusServiceUnavailable
	switch {
	case e.asked, e.Status == http.StatusTooManyRequests, throttlingWords[e.Code], patience && e.RetryAfter > 0:
		return Verdict{Throttled: true, RetryAfter: e.RetryAfter}
	case e.Status == http.StatusNotImplemented:
	case e.Status >= http.StatusInternalServerError:
		return Verdict{Down: true}
	}
	return Verdict{}
}

// mostBody is how much of a body is searched for a code.
const mostBody = 64 << 10

// CheckResponse is nil for a status below 400, and else an [*HTTPError]. It reads up to 64 KiB
// of the body, for the code and the message, and puts them back; closing it remains the
// caller's. How long to wait comes from Retry-After, in seconds or as a date, or from what
// Azure, Google, GitHub, Cloudflare and DigitalOcean send in its place. A date counts from
// the answer's own Date, so that no clock but the endpoint's has a part in it; without a Date
// it counts from this server's clock.
func CheckResponse(resp *http.Response) error {
	if resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	e := &HTTPError{Status: resp.StatusCode, at: time.Now()}
	if r := resp.Request; r != nil && r.URL != nil && r.URL.Host != "" {
		e.from = r.URL.Scheme + "://" + r.URL.Host // without user and password
	}
	said := readSaid(peek(resp))
	e.Code = cmp.Or(word(resp.Header.Get("X-Amzn-Errortype")), resp.Header.Get("X-Ms-Error-Code"), said.code)
	e.message = store.Clip(said.message)
	used := resp.Header.Get("X-Ratelimit-Remaining") == "0"
	secondary := strings.Contains(said.message, "secondary rate limit")
	if e.Status == http.StatusForbidden || e.Status == http.StatusServiceUnavailable {
		e.asked = resp.Header.Get("Retry-After") != ""
	}
	e.asked = e.asked || e.Status == http.StatusForbidden && (used || secondary)
	wait := cmp.Or(askedFor(resp.Header), said.wait)
	if wait <= 0 && e.verdict().Throttled {
		if wait = untilReset(resp.Header); wait <= 0 && (used || secondary) {
			wait = time.Minute // what GitHub asks for where it does not say
		}
	}
	e.RetryAfter = min(max(wait, 0), longestPause)
	return e
}

// peek is the first part of the body, which stays there to be read.
func peek(resp *http.Response) []byte {
	if resp.Body == nil {
		return nil
	}
	begin, _ := io.ReadAll(io.LimitReader(resp.Body, mostBody)) // whatever reads on gets the error again
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), resp.Body), resp.Body}
	return begin
}

// askedFor is the time that a header asks to wait.
func askedFor(header http.Header) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} { // Azure
		if wait := number(header.Get(name), time.Millisecond); wait > 0 {
			return wait
		}
	}
	return retryAfter(header.Get("Retry-After"), dateOf(header))
}

// dateOf is when an answer was sent, by the clock that its other dates are of.
func dateOf(header http.Header) time.Time {
	if sent, err := http.ParseTime(header.Get("Date")); err == nil {
		return sent
	}
	return wall.Now()
}

func retryAfter(text string, now time.Time) time.Duration {
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return number(text, time.Second)
}

// number is a number of units; zero: there is none. What is more than the longest pause is
// that, also what no integer can hold.
func number(text string, unit time.Duration) time.Duration {
	n, err := strconv.ParseUint(text, 10, 63)
	if err == nil || errors.Is(err, strconv.ErrRange) { // then it is the largest number
		return time.Duration(min(n, uint64(longestPause/unit))) * unit
	}
	return 0
}

// untilReset is the time until the next window of the rate: as a time of day in
// seconds since 1970 (GitHub, DigitalOcean), as a date, in seconds from now, or as the t of
// a RateLimit field whose r is 0 (Cloudflare).
func untilReset(header http.Header) time.Duration {
	for _, name := range []string{"X-Ratelimit-Reset", "Ratelimit-Reset"} {
		text := header.Get(name)
		if at, _ := strconv.ParseInt(text, 10, 64); at > 1e9 && at < 1e12 { // what is no number is too small, or too large
			text = time.Unix(at, 0).UTC().Format(http.TimeFormat)
		}
		if wait := retryAfter(text, dateOf(header)); wait > 0 {
			return wait
		}
	}
	var longest time.Duration
	for item := range strings.SplitSeq(strings.Join(header.Values("Ratelimit"), ","), ",") {
		var left string
		var wait time.Duration
		for part := range strings.SplitSeq(item, ";") {
			switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
			case "r":
				left = value
			case "t":
				wait = number(value, time.Second)
			}
		}
		if left == "0" {
			longest = max(longest, wait)
		}
	}
	return longest
}

// said is what a body says.
type said struct {
	code, message string
	wait          time.Duration
}

// readSaid finds the code and the message of a body, in XML as AWS and Azure's storage have it,
// or in one of these:
//
//	{"__type": "com.amazonaws#CODE", "message": …}                          AWS
//	{"error": {"code": "CODE", "message": …}}                               Azure
//	{"error": {"errors": [{"reason": "CODE"}], "message": …}}               Google
//	{"error": {"status": "CODE", "details": [{"reason": "CODE"}, {"retryDelay": "7s"}]}}
//	{"errors": [{"code": 971, "message": …}]}                               Cloudflare
//	{"id": "CODE", "message": …}                                            DigitalOcean
//	{"message": …}                                                          GitHub
func readSaid(body []byte) (s said) {
	var top map[string]any
	if json.Unmarshal(body, &top) != nil {
		return said{code: element(body, "Code"), message: element(body, "Message")}
	}
	inner, _ := top["error"].(map[string]any)
	list := append(objects(top["errors"]), objects(inner["errors"])...)
	for _, o := range append(list, objects(inner["details"])...) {
		s.code = cmp.Or(s.code, text(o["reason"]))
		s.message = cmp.Or(s.message, text(o["message"]))
		if d, err := time.ParseDuration(text(o["retryDelay"])); err == nil {
			s.wait = cmp.Or(s.wait, min(max(d, 0), longestPause))
		}
	}
	for _, o := range list {
		s.code = cmp.Or(s.code, text(o["code"]))
	}
	s.code = cmp.Or(s.code, text(inner["status"]), text(inner["code"]), word(text(top["__type"])), text(top["code"]), text(top["id"]), text(top["error"]))
	s.message = cmp.Or(text(inner["message"]), text(top["message"]), text(top["Message"]), s.message)
	return s
}

func objects(v any) (all []map[string]any) {
	list, _ := v.([]any)
	for _, e := range list {
		if o, ok := e.(map[string]any); ok {
			all = append(all, o)
		}
	}
	return all
}

// text is a string or a number as text, and empty for anything else.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// element is the text of the first XML element of that name.
func element(body []byte, name string) string {
	_, rest, _ := bytes.Cut(body, []byte("<"+name+">"))
	inner, _, found := bytes.Cut(rest, []byte("</"+name+">"))
	if !found {
		return ""
	}
	return string(inner)
}

// word is AWS's error type without what stands around it: "com.amazonaws#Word:http://…".
func word(s string) string {
	s, _, _ = strings.Cut(s, ":")
	return s[strings.LastIndex(s, "#")+1:]
}
