package main

import (
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
)

// A meter is the HTTP client under every S3 client. It counts the calls that
// really leave, per operation (so that "CreateBucket was called once" is a fact,
// not a log line), and notices when the endpoint goes away or refuses us, and
// when it comes back.
type meter struct {
	next aws.HTTPClient
	say  func(line string) // called when the endpoint's state changes; never under mu

	mu     sync.Mutex // guards everything below
	calls  map[string]int
	down   string    // why the endpoint is no use; empty: it answers
	turned time.Time // when that last changed
	failed int       // calls lost since then, while it is down
	good   int       // answers in a row since then, while it is down
	bad    int       // refusals in a row while it is not down
}

const (
	// backAfter answers in a row end an outage: an endpoint that fails every
	// second call is not back at every other.
	backAfter = 5
	// downAfter refusals in a row begin one: a single 403 may be about a single
	// bucket, another's. A connection that fails is about them all.
	downAfter = 3
)

func newMeter(next aws.HTTPClient, say func(string)) *meter {
	return &meter{next: next, say: say, calls: map[string]int{}}
}

// Do sends one request and notes what came of it.
func (m *meter) Do(r *http.Request) (*http.Response, error) {
	m.count(awsmiddleware.GetOperationName(r.Context()))
	left := time.Now()
	resp, err := m.next.Do(r)
	if r.Context().Err() != nil {
		return resp, err // we hung up; that says nothing of the endpoint
	}
	if line := m.judge(left, resp, err); line != "" {
		m.say(line)
	}
	return resp, err
}

func (m *meter) count(operation string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[operation]++
}

// judge updates the state by the answer to a request that left at the given time,
// and returns the line to say if the state changed. Answers overtake each other:
// one to a request that left before the last change tells of the time before it
// and could only undo it, so that an outage would be told as several.
func (m *meter) judge(left time.Time, resp *http.Response, err error) string {
	reason := trouble(resp, err)
	m.mu.Lock()
	defer m.mu.Unlock()
	stale := left.Before(m.turned)
	switch {
	case reason != "" && m.down != "":
		m.failed, m.good = m.failed+1, 0
	case stale:
	case reason == "" && m.down == "":
		m.bad = 0
	case reason == "":
		return m.answeredLocked()
	default:
		if m.bad++; err != nil || m.bad >= downAfter {
			m.down, m.turned, m.failed, m.good = reason, time.Now(), m.bad, 0
			return "endpoint is no use: " + reason + "; retrying with backoff"
		}
	}
	return ""
}

func (m *meter) answeredLocked() string {
	if m.good++; m.good < backAfter {
		return ""
	}
	line := fmt.Sprintf("endpoint answers again, after %v and %d failed calls", time.Since(m.turned).Round(time.Millisecond), m.failed)
	m.down, m.turned, m.bad = "", time.Now(), 0
	return line
}

// trouble says what is wrong with the endpoint itself, as opposed to one bucket.
func trouble(resp *http.Response, err error) string {
	switch {
	case err != nil:
		return "unreachable: " + cutTo(cause(err).Error(), 200) // the reason comes last
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusUnauthorized,
		resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusTooManyRequests:
		return "it answers " + resp.Status
	}
	return ""
}

// Calls returns how many requests of each operation have left.
func (m *meter) Calls() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.calls)
}

// Down says why the endpoint is no use; empty: it answers.
func (m *meter) Down() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.down
}
