package quota_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/quota"
)

// roundTrip answers requests without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody}
}

// body knows whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

// idling has connections that idle, as http.Transport does.
type idling struct {
	roundTrip
	closed *bool
}

func (i idling) CloseIdleConnections() { *i.closed = true }

// Otherwise the client's CloseIdleConnections does nothing, and says nothing.
func TestTransportPassesTheEndOfIdleConnectionsOn(t *testing.T) {
	closed := false
	client := http.Client{Transport: &quota.Transport{Next: idling{nil, &closed}}}
	client.CloseIdleConnections()
	if !closed {
		t.Error("the connections that idle are still open")
	}
	client.Transport = &quota.Transport{Next: roundTrip(nil)} // it has none
	client.CloseIdleConnections()
}

func httpClient(q *quota.Quota, next roundTrip) *http.Client {
	return &http.Client{Transport: &quota.Transport{Quota: func(*http.Request) (*quota.Quota, error) { return q, nil }, Next: next}}
}

// A request is paid for by what it does; what reads and what writes has its own budget.
func TestTransportPaysForEachRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(quota.Rate{PerSecond: 1, Burst: 2}, quota.Rate{PerSecond: 0.1, Burst: 1})
		calls := newAPI()
		client := httpClient(must(set.Get(quota.Name{API: "dns"})), func(r *http.Request) (*http.Response, error) {
			return answer(200), calls.call(r.Method, 0, nil)
		})
		for range 4 {
			must(client.Get("http://dns.example/zones")).Body.Close()
		}
		for range 2 {
			must(client.Post("http://dns.example/zones", "text/plain", strings.NewReader("a"))).Body.Close()
		}
		calls.wantRate(t, http.MethodGet, 1, 2)
		calls.wantRate(t, http.MethodPost, 0.1, 1)
		if at := calls.at[http.MethodPost]; at[1]-at[0] != 10*time.Second {
			t.Errorf("the second write came %v after the first, want 10s", at[1]-at[0])
		}
	})
}

// An answer that says "too many" is an error that the queue waits for, and the budget is
// paused for as long as it says. A request that comes meanwhile and has no time to wait is
// not made: its body is closed, and the error is one of the same.
//
// Seen to fail with a Transport that returned the answer: the error that a client made of it
// was a failure of the run.
func TestTransportPausesAndRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := must(newSet(quota.Rate{PerSecond: 100}, quota.Rate{PerSecond: 100}).Get(quota.Name{API: "dns"}))
		made, refused := 0, &body{Reader: strings.NewReader("{}")}
		client := httpClient(q, func(r *http.Request) (*http.Response, error) {
			made++
			if r.Body != nil {
				r.Body.Close()
			}
			resp := answer(429, "Retry-After", "60")
			resp.Body = refused
			return resp, nil
		})
		post := func(ctx context.Context, b *body) (*http.Response, error) {
			r := must(http.NewRequestWithContext(ctx, http.MethodPost, "http://dns.example", b))
			return client.Do(r)
		}
		_, err := post(t.Context(), &body{Reader: strings.NewReader("a")})
		until, throttled := ratelimit.ThrottledUntil(err)
		if e, ok := errors.AsType[*quota.HTTPError](err); !ok || e.Status != 429 || e.RetryAfter != time.Minute || !throttled || time.Until(until) != time.Minute {
			t.Fatalf("got %v, throttled %v until %v; want status 429 and a minute", err, throttled, until)
		}
		if !refused.closed {
			t.Error("the body of the answer is open")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b := &body{Reader: strings.NewReader("b")}
		_, err = post(ctx, b)
		at, throttled := ratelimit.ThrottledUntil(err)
		if !errors.Is(err, quota.ErrNoBudget) || !throttled || !b.closed || made != 1 {
			t.Errorf("a second request: %v, throttled %v, body closed %v, %d calls; want a refusal without a call", err, throttled, b.closed, made)
		}
		if wait := time.Until(at); wait <= 0 || wait > time.Minute {
			t.Errorf("it is to come again in %v, want up to a minute", wait)
		}
	})
}

// AWS throttles with status 400 and a word in the body. What is no throttle comes back whole.
func TestTransportReadsTheWordsOfTheBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := must(newSet(quota.Rate{PerSecond: 100}, quota.Rate{}).Get(quota.Name{API: "dns"}))
		says := "<ErrorResponse><Error><Code>NoSuchHostedZone</Code></Error></ErrorResponse>"
		client := httpClient(q, func(*http.Request) (*http.Response, error) {
			resp := answer(400)
			resp.Body = io.NopCloser(strings.NewReader(says))
			return resp, nil
		})
		resp := must(client.Get("http://dns.example"))
		if body := string(must(io.ReadAll(resp.Body))); body != says || !q.Until(quota.Read).IsZero() {
			t.Errorf("the body is %q, and the budget paused until %v", body, q.Until(quota.Read))
		}
		resp.Body.Close()
		says = "<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>"
		_, err := client.Get("http://dns.example")
		if !ratelimit.IsThrottled(err) || time.Until(q.Until(quota.Read)) != time.Second {
			t.Errorf("%v, the budget is paused until %v; want a throttle and a second", err, q.Until(quota.Read))
		}
	})
}

// Five requests without an answer open the breaker, and an answer of any status closes it.
// The error is the transport's own. A client that hangs up says nothing of the endpoint.
func TestTransportOpensTheBreaker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(quota.Rate{PerSecond: 100}, quota.Rate{})
		q := must(set.Get(quota.Name{API: "dns"}))
		var down atomic.Bool
		down.Store(true)
		made := 0
		client := httpClient(q, func(r *http.Request) (*http.Response, error) {
			if made++; r.Context().Err() != nil {
				return nil, r.Context().Err()
			}
			if down.Load() {
				return nil, errDown
			}
			return answer(404), nil
		})
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		for range 10 {
			if _, err := client.Do(must(http.NewRequestWithContext(gone, http.MethodGet, "http://dns.example", nil))); !errors.Is(err, context.Canceled) {
				t.Fatalf("a request whose context has ended: %v", err)
			}
		}
		made = 0
		for range 5 {
			if _, err := client.Get("http://dns.example"); !errors.Is(err, errDown) {
				t.Fatalf("got %v, want the transport's error", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := client.Do(must(http.NewRequestWithContext(ctx, http.MethodGet, "http://dns.example", nil)))
		if !errors.Is(err, quota.ErrNoBudget) || made != 5 {
			t.Errorf("after five failures: %v, %d calls; want a refusal", err, made)
		}
		down.Store(false)
		must(client.Get("http://dns.example")).Body.Close() // waits for the probe's turn
		must(client.Get("http://dns.example")).Body.Close()
		if made != 7 {
			t.Errorf("%d calls, want 7: the probe closed the breaker", made)
		}
	})
}

// What opens the breaker may be an answer, and no error.
func TestTransportLogsTheStatusThatOpensTheBreaker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log strings.Builder
		set := must(quota.NewSet(&quota.Options{Limits: limits(quota.Rate{PerSecond: 100}, quota.Rate{}), Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		client := httpClient(must(set.Get(quota.Name{API: "dns"})), func(*http.Request) (*http.Response, error) { return answer(500), nil })
		for range 5 {
			must(client.Get("http://dns.example")).Body.Close()
		}
		if !strings.Contains(log.String(), `err="answered with status 500"`) {
			t.Errorf("want the status:\n%s", log.String())
		}
	})
}

// In a limited run the first request is refused rather than waited for with a worker.
func TestTransportHoldsNoWorkerOfALimitedController(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := must(newSet(quota.Rate{PerSecond: 1, Burst: 1}, quota.Rate{}).Get(quota.Name{API: "dns"}))
		calls := newAPI()
		client := httpClient(q, func(*http.Request) (*http.Response, error) { return answer(200), calls.call("get", 0, nil) })
		c := run(t, "dns", workers(4), always(q), func(ctx context.Context, key string) (reconcile.Result, error) {
			began := time.Now()
			resp, err := client.Do(must(http.NewRequestWithContext(ctx, http.MethodGet, "http://dns.example/"+key, nil)))
			if waited := time.Since(began); waited != 0 {
				t.Errorf("%s waited %v with its worker", key, waited)
			}
			if err == nil {
				err = resp.Body.Close()
			}
			return reconcile.Result{}, err
		})
		addAll(t, c, "zone", 10)
		time.Sleep(20 * time.Second)
		if n := calls.count("get"); n != 10 {
			t.Errorf("%d requests, want 10", n)
		}
		calls.wantRate(t, "get", 1, 1)
	})
}

func TestTransportWithoutAQuotaIsAnError(t *testing.T) {
	failed := errors.New("no such account")
	for _, c := range []struct {
		quota func(*http.Request) (*quota.Quota, error)
		want  string
	}{
		{nil, "Transport.Quota is required"},
		{func(*http.Request) (*quota.Quota, error) { return nil, nil }, "returned nil"},
		{func(*http.Request) (*quota.Quota, error) { return nil, failed }, "no such account"},
	} {
		b := &body{Reader: strings.NewReader("a")}
		r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://dns.example", b))
		resp, err := (&quota.Transport{Quota: c.quota}).RoundTrip(r)
		if resp != nil || err == nil || !strings.Contains(err.Error(), c.want) || !b.closed {
			t.Errorf("got %v, %v, body closed %v; want an error with %q", resp, err, b.closed, c.want)
		}
	}
}

// What is not an answer is no answer, whatever stands beside it.
func TestTransportTakesNoAnswerFromATransportThatFailed(t *testing.T) {
	for name, resp := range map[string]*http.Response{"an answer beside the error": answer(200), "neither": nil} {
		q := must(newSet(quota.Rate{PerSecond: 100}, quota.Rate{}).Get(quota.Name{API: "dns"}))
		transport := &quota.Transport{
			Quota: func(*http.Request) (*quota.Quota, error) { return q, nil },
			Next: roundTrip(func(*http.Request) (*http.Response, error) {
				if resp == nil {
					return nil, nil
				}
				return resp, errDown
			}),
		}
		got, err := transport.RoundTrip(must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://dns.example", nil)))
		if got != nil || err == nil || resp != nil && !errors.Is(err, errDown) {
			t.Errorf("%s: got %v, %v; want an error", name, got, err)
		}
	}
}

func ExampleTransport() {
	quotas, err := quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) {
		return quota.Limits{Read: quota.Rate{PerSecond: 10}, Judge: quota.Judge}, nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	cloud := roundTrip(func(r *http.Request) (*http.Response, error) { return answer(200), nil })
	client := &http.Client{Transport: &quota.Transport{
		Quota: func(r *http.Request) (*quota.Quota, error) { return quotas.Get(quota.Name{API: r.URL.Host}) },
		Next:  cloud, // without it, http.DefaultTransport
	}}
	resp, err := client.Get("http://dns.example/zones")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for _, b := range quotas.Snapshot() {
		fmt.Println(b.Bucket.Name, b.Calls)
	}
	// Output: dns.example/read 1
}

// Each method counts against the budget of what it does; none given is GET, as for net/http.
func TestTransportTellsReadsFromWrites(t *testing.T) {
	for method, op := range map[string]quota.Op{
		"": quota.Read, "GET": quota.Read, "HEAD": quota.Read, "OPTIONS": quota.Read,
		"POST": quota.Write, "PUT": quota.Write, "PATCH": quota.Write, "DELETE": quota.Write, "PURGE": quota.Write,
	} {
		q := must(newSet(quota.Rate{PerSecond: 1, Burst: 5}, quota.Rate{PerSecond: 1, Burst: 5}).Get(quota.Name{API: "dns"}))
		r := must(http.NewRequestWithContext(t.Context(), "GET", "http://dns.example", http.NoBody))
		r.Method = method
		resp := must(httpClient(q, func(*http.Request) (*http.Response, error) { return answer(200), nil }).Transport.RoundTrip(r))
		resp.Body.Close()
		read, write := q.Calls()
		if (op == quota.Read) != (read == 1 && write == 0) || (op == quota.Write) != (read == 0 && write == 1) {
			t.Errorf("%q made %d reads and %d writes, want one %v", method, read, write, op)
		}
	}
}
