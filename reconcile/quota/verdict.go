package quota

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tendhq/tend/internal/wall"
)

// Verdict is what the end of one call says of the endpoint. The zero value: it
// answered, be it that there is no such thing or that the request was wrong.
type Verdict struct {
	// Throttled: it asked for fewer calls. This one had no effect.
	Throttled bool
	// RetryAfter is how long it asked to be left alone; zero: it did not say,
	// which counts as 1 s. More than 15 min counts as 15 min.
	RetryAfter time.Duration
	// Down: it is no use at the moment: no connection, no answer in time, an
	// error of its own. Several of those in a row open the circuit breaker.
	Down bool
}

const (
	defaultPause = time.Second
	longestPause = 15 * time.Minute // whatever a confused server asks for
)

func (v Verdict) pause() time.Duration {
	if v.RetryAfter <= 0 {
		return defaultPause
	}
	return min(v.RetryAfter, longestPause)
}

// HTTP judges an answer by its status and header: 429 and 503 throttle, and 403 with a Retry-After,
// which is in seconds or a date; 500 and above is down, except 501, which
// is an answer. Status 0 is for a call that was not answered: down.
//
// A date counts from the answer's own Date, so that no clock but the endpoint's has a
// part in it. Without a Date it counts from this server's clock: a wrong one makes a
// pause of up to 15 min, or of 1 s, as no Retry-After would.
func HTTP(status int, header http.Header) Verdict {
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable,
		status == http.StatusForbidden && header.Get("Retry-After") != "": // as GitHub's secondary limit
		return Verdict{Throttled: true, RetryAfter: retryAfter(header.Get("Retry-After"), dateOf(header))}
	case status == http.StatusNotImplemented:
	case status == 0 || status >= http.StatusInternalServerError:
		return Verdict{Down: true}
	}
	return Verdict{}
}

// HTTPError is a [Limits.Judge] for clients that return the answer as an error. It goes
// by methods that any error in the tree may have, as those of the AWS SDK do:
// HTTPStatusCode() int is judged as [HTTP] would without a header, and ErrorCode()
// string throttles if it is one of AWS's words for that. An error of package net, and a
// deadline that was exceeded, is an endpoint that is down. Every other error, and nil,
// is an answer. Where the header can be had, [HTTP] knows for how long to wait.
func HTTPError(err error) Verdict {
	var code interface{ ErrorCode() string }
	var status interface{ HTTPStatusCode() int }
	var network net.Error
	switch {
	case errors.As(err, &code) && slices.Contains(throttles, code.ErrorCode()):
		return Verdict{Throttled: true}
	case errors.As(err, &status):
		return HTTP(status.HTTPStatusCode(), nil)
	case errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded):
		return Verdict{Down: true}
	}
	return Verdict{}
}

// throttles are the codes by which AWS asks for fewer calls, some with status 400.
var throttles = []string{
	"SlowDown", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
	"RequestThrottledException", "RequestLimitExceeded", "TooManyRequestsException", "ProvisionedThroughputExceededException",
	"PriorRequestNotComplete", "EC2ThrottledException", "TransactionInProgressException", "BandwidthLimitExceeded",
	"LimitExceededException",
}

// dateOf is when an answer was sent, by the clock that its other dates are of.
func dateOf(header http.Header) time.Time {
	if sent, err := http.ParseTime(header.Get("Date")); err == nil {
		return sent
	}
	return wall.Now()
}

func retryAfter(text string, now time.Time) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 63)
	if err == nil || errors.Is(err, strconv.ErrRange) { // then it is the largest number
		return time.Duration(min(seconds, uint64(longestPause/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
