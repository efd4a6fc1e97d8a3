package quota_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile/quota"
)

type codeError string

func (e codeError) Error() string     { return string(e) }
func (e codeError) ErrorCode() string { return string(e) }

// The codes that AWS's SDK takes for throttling, some of which come with status 400.
func TestThrottlingCodesOfAWSAreThrottled(t *testing.T) {
	for _, code := range []string{
		"Throttling", "PriorRequestNotComplete", "EC2ThrottledException", "TransactionInProgressException",
		"BandwidthLimitExceeded", "LimitExceededException",
	} {
		if v := quota.HTTPError(codeError(code)); !v.Throttled {
			t.Errorf("%s: %+v, want throttled", code, v)
		}
	}
	if v := quota.HTTPError(codeError("NoSuchHostedZone")); v != (quota.Verdict{}) {
		t.Errorf("NoSuchHostedZone: %+v, want an answer", v)
	}
}

func TestRetryAfterOfTwentyDigitsIsTheLongestPause(t *testing.T) {
	v := quota.HTTP(http.StatusTooManyRequests, http.Header{"Retry-After": {"99999999999999999999"}})
	if v != (quota.Verdict{Throttled: true, RetryAfter: 15 * time.Minute}) {
		t.Errorf("%+v, want 15 minutes", v)
	}
}

func TestForbiddenWithRetryAfterIsThrottled(t *testing.T) {
	if v := quota.HTTP(http.StatusForbidden, http.Header{"Retry-After": {"60"}}); v != (quota.Verdict{Throttled: true, RetryAfter: time.Minute}) {
		t.Errorf("with Retry-After: %+v, want throttled", v)
	}
	if v := quota.HTTP(http.StatusForbidden, nil); v != (quota.Verdict{}) {
		t.Errorf("without: %+v, want an answer", v)
	}
}
