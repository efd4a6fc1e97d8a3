package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	smithy "github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// isCode reports whether S3 answered with one of the codes.
func isCode(err error, codes ...string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && slices.Contains(codes, api.ErrorCode())
}

// brief is err in the words that matter. The SDK's own text carries the ids of
// the request, which differ each time, and would make of one failure a hundred.
func brief(err error) error {
	var op *smithy.OperationError
	if err == nil || !errors.As(err, &op) {
		return err
	}
	text := op.Operation() + ": "
	var api smithy.APIError
	switch status := statusOf(err); {
	case errors.As(err, &api):
		text += strings.TrimSuffix(strings.TrimSpace(fmt.Sprint(status, " ", api.ErrorCode(), ": ", api.ErrorMessage())), ":")
	case status != 0:
		text += fmt.Sprint(status, " ", http.StatusText(status))
	default:
		text += cutTo(cause(op.Err).Error(), 200)
	}
	return &briefError{text, err}
}

// cause of a request without an answer is what the network said, without the URL, which
// the lines around it have.
func cause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

type briefError struct {
	text string
	err  error
}

func (e *briefError) Error() string { return e.text }
func (e *briefError) Unwrap() error { return e.err }

// isMissing: no such bucket. HEAD has no body, so its answer is a bare NotFound.
func isMissing(err error) bool { return isCode(err, "NoSuchBucket", "NotFound") }

// isTaken: an account has a bucket of that name already, perhaps we.
func isTaken(err error) bool {
	return isCode(err, "BucketAlreadyExists", "BucketAlreadyOwnedByYou", "OperationAborted")
}

// isHopeless: the same request will get the same answer until an operator edits
// something.
func isHopeless(err error) bool {
	return isCode(err, "InvalidBucketName", "IllegalLocationConstraintException", "InvalidLocationConstraint",
		"InvalidTag", "NotImplemented", "MethodNotAllowed", "TooManyBuckets")
}

// statusOf is the HTTP status of an answer; 0: there was none.
func statusOf(err error) int {
	var re *smithyhttp.ResponseError
	if errors.As(err, &re) && re.Response != nil && re.Response.Response != nil {
		return re.Response.StatusCode
	}
	return 0
}

// elsewhere reports that the bucket is in another region than the one asked, and
// in which.
func elsewhere(err error) (region string, moved bool) {
	var re *smithyhttp.ResponseError
	if statusOf(err) != http.StatusMovedPermanently || !errors.As(err, &re) {
		return "", false
	}
	return re.Response.Header.Get("X-Amz-Bucket-Region"), true
}
