package quota

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
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

// Judge is a [Limits.Judge] for HTTP clients. It knows, anywhere in the error's tree, an
// [*HTTPError], an error of [ratelimit.Throttled], and the methods that errors of the AWS
// SDK have: HTTPStatusCode() int and ErrorCode() string, which count as an HTTPError's
// Status and Code. A status of 500 or more is an endpoint that is down, except 501, which
// is an answer; so is an error of package net, and a deadline that was exceeded. Every other
// error, [ErrNoBudget] and nil say nothing against the endpoint.
//
// A 503 that says neither when to come again nor that calls are too many is down: an
// endpoint that is away answers so, or a proxy in its place.
func Judge(err error) Verdict {
	if err == nil || errors.Is(err, ErrNoBudget) {
		return Verdict{}
	}
	var answer *HTTPError
	var code interface{ ErrorCode() string }
	var status interface{ HTTPStatusCode() int }
	if !errors.As(err, &answer) {
		answer = new(HTTPError)
		if errors.As(err, &code) {
			answer.Code = code.ErrorCode()
		}
		if errors.As(err, &status) {
			answer.Status = status.HTTPStatusCode()
		}
	}
	v := answer.verdict()
	until, throttled := ratelimit.ThrottledUntil(err)
	var network net.Error
	switch {
	case v.Throttled:
	case throttled:
		v = Verdict{Throttled: true, RetryAfter: max(time.Until(until), 0)}
	case answer.Status == 0:
		v.Down = errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
	}
	return v
}

// throttlingWords are the codes that ask for fewer calls, some with a status that does not
// say so. Where a provider says it by status 429 or by a header, no word is needed.
//
// Words for a quota of things are not among them: quotaExceeded (Google), QuotaExceeded and
// OperationNotAllowed (Azure). Calls made later do not mend that, and the keys of others need not
// wait: it is a failure, with backoff, that an operator sees. AWS has one word for both,
// LimitExceededException, which its SDK counts as a throttle.
var throttlingWords = map[string]bool{
	// AWS. The words that its SDK retries more slowly:
	// https://pkg.go.dev/github.com/aws/aws-sdk-go-v2/aws/retry#pkg-variables (DefaultThrottleErrorCodes)
	// https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html
	// https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/throttling-api-requests.html
	"BandwidthLimitExceeded":                 true,
	"EC2ThrottledException":                  true,
	"LimitExceededException":                 true,
	"PriorRequestNotComplete":                true,
	"ProvisionedThroughputExceededException": true,
	"RequestLimitExceeded":                   true,
	"RequestThrottled":                       true,
	"RequestThrottledException":              true,
	"SlowDown":                               true,
	"ThrottledException":                     true,
	"Throttling":                             true,
	"ThrottlingException":                    true,
	"TooManyRequestsException":               true,
	"TransactionInProgressException":         true,
	// Google, with status 403:
	// https://developers.google.com/workspace/drive/api/guides/handle-errors
	// https://cloud.google.com/service-infrastructure/docs/rate-limiting (of google.rpc.ErrorInfo)
	"rateLimitExceeded":     true,
	"userRateLimitExceeded": true,
	"RATE_LIMIT_EXCEEDED":   true,
	// Azure. Resource Manager says it by 429, its storage by a 503:
	// https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling
	// https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes
	"ServerBusy":                    true,
	"TooManyRequests":               true,
	"SubscriptionRequestsThrottled": true,
	// DigitalOcean, with status 429 and ratelimit-reset:
	// https://docs.digitalocean.com/reference/api/
	"too_many_requests": true,
	// GitHub says it by 403 or 429, x-ratelimit-remaining and x-ratelimit-reset, or by its message:
	// https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api
	// Cloudflare says it by 429, Retry-After and Ratelimit:
	// https://developers.cloudflare.com/fundamentals/api/reference/limits/
}
