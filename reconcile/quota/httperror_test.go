package quota_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

const (
	sent  = "Fri, 01 Jan 2027 00:00:00 GMT" // a Date, not of this server's clock
	epoch = 1798761600                      // the same in seconds since 1970
)

// Classes of answers, as a budget sees them.
var (
	anAnswer = quota.Verdict{}
	isDown   = quota.Verdict{Down: true}
)

func throttled(after time.Duration) quota.Verdict {
	return quota.Verdict{Throttled: true, RetryAfter: after}
}

// What each provider answers, by its own documents: code, time to wait, and what a budget
// makes of it.
//
// Seen to fail without the words of the body: the throttles of AWS and Google that have another status
// than 429 were answers, and an S3 that throttles was down.
func TestHTTPAnswersAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header string // "name: value", with a "|" between two
		body   string
		code   string
		want   quota.Verdict
	}{
		// Retry-After.
		"seconds":                     {429, "Retry-After: 7", "", "", throttled(7 * time.Second)},
		"none":                        {429, "", "", "", throttled(0)},
		"a word":                      {429, "Retry-After: soon", "", "", throttled(0)},
		"below zero":                  {429, "Retry-After: -3", "", "", throttled(0)},
		"zero":                        {429, "Retry-After: 0", "", "", throttled(0)},
		"twenty digits":               {429, "Retry-After: 99999999999999999999", "", "", throttled(15 * time.Minute)},
		"nineteen digits":             {429, "Retry-After: 9223372036854775807", "", "", throttled(15 * time.Minute)},
		"a day":                       {429, "Retry-After: 86400", "", "", throttled(15 * time.Minute)},
		"a date by the answer's Date": {429, "Retry-After: Fri, 01 Jan 2027 00:01:00 GMT|Date: " + sent, "", "", throttled(time.Minute)},
		"a date that is over":         {429, "Retry-After: Mon, 02 Jan 2006 15:04:05 GMT", "", "", throttled(0)},
		"a date far away":             {429, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", "", "", throttled(15 * time.Minute)},
		"unavailable":                 {503, "Retry-After: 7", "", "", throttled(7 * time.Second)},
		"unavailable, 0":              {503, "Retry-After: 0", "", "", throttled(0)},
		"forbidden, later":            {403, "Retry-After: 60", "", "", throttled(time.Minute)},
		"forbidden, 0":                {403, "Retry-After: 0", "", "", throttled(0)},
		"bad request, later":          {400, "Retry-After: 10", "", "", anAnswer},

		// Of no provider.
		"unavailable, no more said": {503, "", "no backend", "", isDown},
		"not found":                 {404, "", "", "", anAnswer},
		"conflict":                  {409, "", "", "", anAnswer},
		"not logged in":             {401, "", "", "", anAnswer},
		"forbidden":                 {403, "", "", "", anAnswer},
		"not implemented":           {501, "", "", "", anAnswer},
		"invalid":                   {422, "", `{"error": "invalid_grant"}`, "invalid_grant", anAnswer},
		"server fault":              {500, "", "<html>", "", isDown},
		"bad gateway":               {502, "", "", "", isDown},
		"not JSON":                  {500, "", `{"error": {`, "", isDown},
		"JSON of another shape":     {500, "", `{"errors": ["a", 1], "error": [], "id": {}}`, "", isDown},

		// AWS.
		"ec2 throttle":      {503, "", "<?xml version=\"1.0\"?><Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>Request limit exceeded.</Message></Error></Errors></Response>", "RequestLimitExceeded", throttled(0)},
		"route53 throttle":  {400, "", "<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>", "Throttling", throttled(0)},
		"route53 busy":      {400, "", "<ErrorResponse><Error><Code>PriorRequestNotComplete</Code></Error></ErrorResponse>", "PriorRequestNotComplete", throttled(0)},
		"s3 throttle":       {503, "", "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>", "SlowDown", throttled(0)},
		"dynamodb throttle": {400, "", `{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", "message": "…"}`, "ProvisionedThroughputExceededException", throttled(0)},
		"lambda throttle":   {429, "X-Amzn-Errortype: TooManyRequestsException|Retry-After: 1", `{"Reason": "CallerRateLimitExceeded"}`, "TooManyRequestsException", throttled(time.Second)},
		"rest throttle":     {400, "X-Amzn-Errortype: ThrottlingException:http://internal.amazon.com/", `{"message": "Rate exceeded"}`, "ThrottlingException", throttled(0)},
		"aws quota":         {409, "", "<ErrorResponse><Error><Code>LimitExceeded</Code></Error></ErrorResponse>", "LimitExceeded", anAnswer},
		"aws limit":         {400, "", `{"__type": "LimitExceededException"}`, "LimitExceededException", throttled(0)},
		"aws not found":     {404, "", "<Error><Code>NoSuchBucket</Code></Error>", "NoSuchBucket", anAnswer},
		"aws conflict":      {409, "", "<Error><Code>OperationAborted</Code></Error>", "OperationAborted", anAnswer},
		"aws auth":          {403, "", "<Error><Code>AccessDenied</Code></Error>", "AccessDenied", anAnswer},
		"aws permanent":     {400, "", `{"__type": "ValidationException"}`, "ValidationException", anAnswer},
		"aws server fault":  {500, "", "<Error><Code>InternalError</Code></Error>", "InternalError", isDown},

		// Google.
		"google throttle":      {403, "", `{"error": {"code": 403, "message": "…", "errors": [{"domain": "usageLimits", "reason": "rateLimitExceeded"}]}}`, "rateLimitExceeded", throttled(0)},
		"google user throttle": {403, "", `{"error": {"errors": [{"reason": "userRateLimitExceeded"}]}}`, "userRateLimitExceeded", throttled(0)},
		"google says when":     {429, "", `{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "33.5s"}]}}`, "RESOURCE_EXHAUSTED", throttled(33500 * time.Millisecond)},
		"google says never":    {429, "", `{"error": {"details": [{"retryDelay": "1000000h"}]}}`, "", throttled(15 * time.Minute)},
		"google by its reason": {429, "", `{"error": {"status": "RESOURCE_EXHAUSTED", "details": [{"reason": "RATE_LIMIT_EXCEEDED"}]}}`, "RATE_LIMIT_EXCEEDED", throttled(0)},
		"google quota":         {403, "", `{"error": {"errors": [{"reason": "quotaExceeded"}]}}`, "quotaExceeded", anAnswer},
		"google not found":     {404, "", `{"error": {"code": 404, "status": "NOT_FOUND"}}`, "NOT_FOUND", anAnswer},
		"google conflict":      {409, "", `{"error": {"code": 409, "status": "ALREADY_EXISTS"}}`, "ALREADY_EXISTS", anAnswer},
		"google auth":          {401, "", `{"error": {"code": 401, "status": "UNAUTHENTICATED"}}`, "UNAUTHENTICATED", anAnswer},
		"google permanent":     {400, "", `{"error": {"code": 400, "status": "INVALID_ARGUMENT"}}`, "INVALID_ARGUMENT", anAnswer},
		"google server fault":  {503, "", `{"error": {"code": 503, "status": "UNAVAILABLE"}}`, "UNAVAILABLE", isDown},

		// Azure.
		"azure throttle":         {429, "Retry-After: 17", `{"error": {"code": "SubscriptionRequestsThrottled", "message": "…"}}`, "SubscriptionRequestsThrottled", throttled(17 * time.Second)},
		"azure in milliseconds":  {429, "X-Ms-Retry-After-Ms: 1500|Retry-After: 2", "", "", throttled(1500 * time.Millisecond)},
		"azure, twenty digits":   {429, "Retry-After-Ms: 99999999999999999999", "", "", throttled(15 * time.Minute)},
		"azure storage throttle": {503, "X-Ms-Error-Code: ServerBusy", "<Error><Code>ServerBusy</Code></Error>", "ServerBusy", throttled(0)},
		"azure quota":            {409, "", `{"error": {"code": "OperationNotAllowed"}}`, "OperationNotAllowed", anAnswer},
		"azure not found":        {404, "", `{"error": {"code": "ResourceNotFound"}}`, "ResourceNotFound", anAnswer},
		"azure auth":             {403, "", `{"error": {"code": "AuthorizationFailed"}}`, "AuthorizationFailed", anAnswer},

		// GitHub.
		"github throttle":            {403, fmt.Sprintf("X-Ratelimit-Remaining: 0|X-Ratelimit-Reset: %d|Date: %s", epoch+90, sent), `{"message": "API rate limit exceeded"}`, "", throttled(90 * time.Second)},
		"github throttle, 429":       {429, fmt.Sprintf("X-Ratelimit-Remaining: 0|X-Ratelimit-Reset: %d|Date: %s", epoch+90, sent), "", "", throttled(90 * time.Second)},
		"github for an hour":         {403, fmt.Sprintf("X-Ratelimit-Remaining: 0|X-Ratelimit-Reset: %d|Date: %s", epoch+3600, sent), "", "", throttled(15 * time.Minute)},
		"github without a reset":     {403, "X-Ratelimit-Remaining: 0", "", "", throttled(time.Minute)},
		"github, an absurd reset":    {403, "X-Ratelimit-Remaining: 0|X-Ratelimit-Reset: 99999999999999999999", "", "", throttled(15 * time.Minute)},
		"github secondary":           {403, "Retry-After: 60|X-Ratelimit-Remaining: 4000", "", "", throttled(time.Minute)},
		"github secondary, unsaid":   {403, "X-Ratelimit-Remaining: 4000", `{"message": "You have exceeded a secondary rate limit."}`, "", throttled(time.Minute)},
		"github auth":                {403, fmt.Sprintf("X-Ratelimit-Remaining: 4000|X-Ratelimit-Reset: %d|Date: %s", epoch+90, sent), `{"message": "Resource not accessible"}`, "", anAnswer},
		"github's last call, a miss": {404, fmt.Sprintf("X-Ratelimit-Remaining: 0|X-Ratelimit-Reset: %d|Date: %s", epoch+90, sent), "", "", anAnswer},

		// Cloudflare.
		"cloudflare throttle":        {429, "Retry-After: 12|Ratelimit: \"default\";r=0;t=12", `{"errors": [{"code": 971, "message": "…"}]}`, "971", throttled(12 * time.Second)},
		"cloudflare by its windows":  {429, `Ratelimit: "burst";r=0;t=5, "default";r=0;t=30, "day";r=9;t=999`, "", "", throttled(30 * time.Second)},
		"cloudflare, reset is a day": {429, "X-Ratelimit-Reset: Fri, 01 Jan 2027 00:00:10 GMT|Date: " + sent, "", "", throttled(10 * time.Second)},
		"cloudflare auth":            {403, "", `{"success": false, "errors": [{"code": 10000, "message": "Authentication error"}]}`, "10000", anAnswer},

		// DigitalOcean.
		"digitalocean throttle":     {429, fmt.Sprintf("Ratelimit-Remaining: 0|Ratelimit-Reset: %d|Date: %s", epoch+40, sent), `{"id": "too_many_requests", "message": "API Rate limit exceeded."}`, "too_many_requests", throttled(40 * time.Second)},
		"digitalocean burst":        {429, fmt.Sprintf("Retry-After: 3|Ratelimit-Reset: %d|Date: %s", epoch+40, sent), `{"id": "too_many_requests"}`, "too_many_requests", throttled(3 * time.Second)},
		"digitalocean not found":    {404, "", `{"id": "not_found", "message": "…"}`, "not_found", anAnswer},
		"digitalocean permanent":    {422, "", `{"id": "unprocessable_entity"}`, "unprocessable_entity", anAnswer},
		"digitalocean server fault": {500, "", `{"id": "server_error"}`, "server_error", isDown},
		"a reset in seconds":        {429, "Ratelimit-Reset: 8", "", "", throttled(8 * time.Second)},
	} {
		resp := &http.Response{StatusCode: c.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(c.body))}
		for line := range strings.SplitSeq(c.header, "|") {
			key, value, _ := strings.Cut(line, ": ")
			resp.Header.Set(key, value)
		}
		err := fmt.Errorf("zone a: %w", quota.CheckResponse(resp))
		if got := quota.Judge(err); got != c.want {
			t.Errorf("%s: judged %+v, want %+v", name, got, c.want)
		}
		if e, ok := errors.AsType[*quota.HTTPError](err); !ok || e.Status != c.status || e.Code != c.code {
			t.Errorf("%s: %+v, want status %d and code %q", name, e, c.status, c.code)
		}
		if body := string(must(io.ReadAll(resp.Body))); body != c.body {
			t.Errorf("%s: the body is %q afterwards, want %q", name, body, c.body)
		}
	}
}

// An error has the code and the message of the API, wherever that puts them.
func TestErrorHasTheMessageOfTheAPI(t *testing.T) {
	for body, want := range map[string]string{
		"<Error><Code>AccessDenied</Code><Message>Not yours.</Message></Error>":  "AccessDenied: Not yours.",
		`{"__type": "a#Denied", "Message": "Not yours."}`:                        "Denied: Not yours.",
		`{"error": {"code": "Denied", "message": "Not yours."}}`:                 "Denied: Not yours.",
		`{"error": {"errors": [{"reason": "denied", "message": "Not yours."}]}}`: "denied: Not yours.",
		`{"errors": [{"code": 10000, "message": "Not yours."}]}`:                 "10000: Not yours.",
		`{"id": "denied", "message": "Not yours."}`:                              "denied: Not yours.",
		`{"message": "Not yours."}`:                                              "Not yours.",
	} {
		err := quota.CheckResponse(&http.Response{StatusCode: 403, Body: io.NopCloser(strings.NewReader(body))})
		if got := err.Error(); got != "answered with status 403: "+want {
			t.Errorf("%s: %q, want the status and %q", body, got, want)
		}
	}
}

// A pause is counted from the answer on, however late the run ends with it.
func TestPauseBeginsWithTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := time.Now()
		err := quota.CheckResponse(&http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"60"}}})
		time.Sleep(20 * time.Second)
		if until, ok := ratelimit.ThrottledUntil(err); !ok || until.Sub(answered) != time.Minute {
			t.Errorf("throttled until %v after the answer, want 1m", until.Sub(answered))
		}
	})
}

// Each word that a provider has for it asks for fewer calls, whatever the status says.
func TestWordsOfProvidersThrottle(t *testing.T) {
	for word := range strings.FieldsSeq(`
		BandwidthLimitExceeded EC2ThrottledException LimitExceededException PriorRequestNotComplete
		ProvisionedThroughputExceededException RequestLimitExceeded RequestThrottled RequestThrottledException
		SlowDown ThrottledException Throttling ThrottlingException TooManyRequestsException
		TransactionInProgressException
		rateLimitExceeded userRateLimitExceeded RATE_LIMIT_EXCEEDED
		ServerBusy TooManyRequests SubscriptionRequestsThrottled
		too_many_requests`) {
		for _, err := range []error{&quota.HTTPError{Status: 400, Code: word}, &apiError{code: word, status: 503}} {
			if v := quota.Judge(err); v != throttled(0) {
				t.Errorf("%s is judged %+v, want throttled", word, v)
			}
		}
	}
}

func TestAnswerThatIsNoErrorIsNone(t *testing.T) {
	for _, status := range []int{200, 204, 304, 399} {
		if err := quota.CheckResponse(&http.Response{StatusCode: status}); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
	err := quota.CheckResponse(&http.Response{StatusCode: 400}) // made by hand, without header and body
	if err == nil || err.Error() != "answered with status 400" {
		t.Errorf("got %v", err)
	}
	err = quota.CheckResponse(&http.Response{StatusCode: 400, Request: &http.Request{URL: &url.URL{Path: "/zones"}}})
	if err == nil || err.Error() != "answered with status 400" {
		t.Errorf("of a request without a host: %v", err)
	}
	from := &url.URL{Scheme: "https", Host: "dns.example", User: url.UserPassword("u", "hunter2"), Path: "/zones", RawQuery: "token=hunter2"}
	err = quota.CheckResponse(&http.Response{StatusCode: 401, Request: &http.Request{URL: from}})
	if err == nil || err.Error() != "https://dns.example answered with status 401" { // whose credentials they are
		t.Errorf("with the request: %v", err)
	}
}

// What breaks off in the middle of the body breaks off for the caller, too, behind what was read.
func TestBodyThatBreaksOffIsGivenOn(t *testing.T) {
	body := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errDown))
	resp := &http.Response{StatusCode: 500, Body: io.NopCloser(body)}
	_ = quota.CheckResponse(resp)
	if got, err := io.ReadAll(resp.Body); string(got) != "half" || !errors.Is(err, errDown) {
		t.Errorf("got %q, %v; want what came, and the error", got, err)
	}
	long := strings.Repeat("x", 1<<20)
	left := strings.NewReader(long)
	resp = &http.Response{StatusCode: 500, Body: io.NopCloser(left)}
	if _ = quota.CheckResponse(resp); left.Len() != len(long)-64<<10 {
		t.Errorf("%d bytes of the body were read, want 64 KiB", len(long)-left.Len())
	}
	if got := must(io.ReadAll(resp.Body)); string(got) != long {
		t.Errorf("%d bytes afterwards, want all", len(got))
	}
}

// apiError is as the AWS SDK makes them.
type apiError struct {
	code   string
	status int
}

func (e *apiError) Error() string       { return e.code }
func (e *apiError) ErrorCode() string   { return e.code }
func (e *apiError) HTTPStatusCode() int { return e.status }

func TestErrorsOfHTTPClientsAreJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			err  error
			want quota.Verdict
		}{
			{nil, anAnswer},
			{errors.New("no such bucket"), anAnswer},
			{&apiError{"NoSuchBucket", 404}, anAnswer},
			{fmt.Errorf("create: %w", &apiError{"ThrottlingException", 400}), throttled(0)},
			{&apiError{"LimitExceededException", 400}, throttled(0)},
			{&apiError{"Busy", 429}, throttled(0)},
			{&apiError{"SlowDown", 503}, throttled(0)},
			{&apiError{"InternalError", 500}, isDown},
			{&apiError{"ServiceUnavailable", 503}, isDown},
			{&url.Error{Op: "Get", URL: "http://x", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}, isDown},
			{fmt.Errorf("observe: %w", context.DeadlineExceeded), isDown},
			{ratelimit.Throttled(nil, time.Now().Add(time.Minute), errors.New("busy")), throttled(time.Minute)},
			{ratelimit.Throttled(nil, time.Now().Add(-time.Minute), nil), throttled(0)},
			{ratelimit.Throttled(nil, time.Now().Add(time.Minute), quota.ErrNoBudget), anAnswer}, // our own refusal
			{&quota.HTTPError{Status: 429, RetryAfter: time.Minute}, throttled(time.Minute)},
			{errors.Join(errors.New("a"), &quota.HTTPError{Status: 400, Code: "Throttling"}), throttled(0)},
		} {
			if got := quota.Judge(c.err); got != c.want {
				t.Errorf("Judge(%v) = %+v, want %+v", c.err, got, c.want)
			}
		}
	})
}

// A run of For or Each, without any quota, that ends with an answer's error waits as long as
// that says, or backs off where it says nothing.
//
// Seen to fail with an HTTPError that unwraps to nothing: a run whose answer asked for a minute was made
// again after less than a second, and was a failure.
func TestPlainRunsWaitAsLongAsTheAnswerSays(t *testing.T) {
	for name, c := range map[string]struct {
		err     *quota.HTTPError
		least   time.Duration // until the second run
		most    time.Duration
		failure bool
	}{
		"429 that says when":     {&quota.HTTPError{Status: 429, RetryAfter: time.Minute}, time.Minute, time.Minute, false},
		"403 that says when":     {&quota.HTTPError{Status: 403, RetryAfter: time.Minute}, time.Minute, time.Minute, false},
		"a word and a time":      {&quota.HTTPError{Status: 400, Code: "Throttling", RetryAfter: time.Minute}, time.Minute, time.Minute, false},
		"429 that does not":      {&quota.HTTPError{Status: 429}, 0, 2 * time.Second, true},
		"500 that says when":     {&quota.HTTPError{Status: 500, RetryAfter: time.Minute}, time.Minute, 2 * time.Minute, true},
		"409 that says when":     {&quota.HTTPError{Status: 409, RetryAfter: time.Minute}, time.Minute, 2 * time.Minute, true},
		"404 that does not":      {&quota.HTTPError{Status: 404}, 0, 2 * time.Second, true},
		"an answer, as it comes": {nil, time.Minute, time.Minute, false},
	} {
		for kind, begin := range map[string]func(*testing.T, func() error) (reconcile.Runner, func() introspect.Counts){"For": beginFor, "Each": beginEach} {
			synctest.Test(t, func(t *testing.T) {
				var at []time.Time
				says := quota.CheckResponse(answer(429, "Retry-After", "60"))
				if c.err != nil {
					says = c.err
				}
				runner, counts := begin(t, func() error {
					if at = append(at, time.Now()); len(at) == 1 {
						return fmt.Errorf("zone a: %w", says)
					}
					return nil
				})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- runner.Run(ctx) }() // stopped and waited for below
				time.Sleep(5 * time.Minute)
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if len(at) != 2 {
					t.Fatalf("%s, %s: %d runs, want two", kind, name, len(at))
				}
				if wait := at[1].Sub(at[0]); wait < c.least || wait > c.most {
					t.Errorf("%s, %s: the second run came after %v, want %v to %v", kind, name, wait, c.least, c.most)
				}
				if n := counts(); (n.Error == 1) != c.failure || (n.Throttled == 1) == c.failure {
					t.Errorf("%s, %s: %+v, want a failure: %v", kind, name, n, c.failure)
				}
			})
		}
	}
}

func beginFor(t *testing.T, run func() error) (reconcile.Runner, func() introspect.Counts) {
	zones := must(store.New[string, string](must(memory.New(nil)), "zone", nil))
	must(zones.Create(t.Context(), &store.Object[string, string]{Meta: store.Meta{Name: "a"}}))
	c := must(reconcile.For(zones, func(context.Context, *store.Object[string, string]) (reconcile.Result, error) {
		return reconcile.Result{}, run()
	}, nil))
	return c, func() introspect.Counts { return c.Snapshot().Runs }
}

func beginEach(_ *testing.T, run func() error) (reconcile.Runner, func() introspect.Counts) {
	list := func(context.Context) (map[string]int, error) { return map[string]int{"a": 1}, nil }
	c := must(reconcile.Each("zones", time.Hour, list, func(context.Context, string, *int) (reconcile.Result, error) {
		return reconcile.Result{}, run()
	}, nil))
	return c, func() introspect.Counts { return c.Snapshot().Runs }
}
