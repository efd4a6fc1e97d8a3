package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Transport returns a round tripper that does what next does (nil:
// http.DefaultTransport), and makes a span of each request that is made with a
// span in its context: "HTTP" and the method, with the attributes
// http.request.method, server.address, server.port and
// http.response.status_code. The path and the query are left out: they hold keys
// and sometimes secrets. From status 400 on the span is an error. Of a request without
// an answer it has the type of the error (error.type) and whether a context ended it, not
// its text, in which next may quote an address with a token. It ends when the answer's
// header is there, not with its body.
func (t *Tracer) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &transport{t, next}
}

// otelhttp's transport, as of v0.72.0, does not keep secrets out: it records the whole URL but
// for the password (url.full) and the text of errors, and no option drops either. Its filters
// drop whole requests. To hide both from it takes a round tripper before it and one behind it,
// which is more code than this file has.
type transport struct {
	t    *Tracer
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (x *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	method := cmp.Or(req.Method, http.MethodGet)
	ctx, span := x.t.begin(req.Context(), "HTTP "+method, ofRequest(method, req.URL)...)
	defer span.End()
	if span.SpanContext().IsValid() {
		req = req.Clone(ctx) // a round tripper must not edit the request
		if p := x.t.propagator; p != nil {
			p.Inject(ctx, propagation.HeaderCarrier(req.Header))
		}
	}
	resp, err := x.next.RoundTrip(req)
	switch {
	case err != nil:
		unanswered(span, err)
	case resp.StatusCode >= http.StatusBadRequest:
		span.SetStatus(codes.Error, http.StatusText(resp.StatusCode))
		fallthrough
	default:
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	}
	return resp, err
}

// CloseIdleConnections is what http.Client's method of that name calls.
func (x *transport) CloseIdleConnections() {
	if next, ok := x.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// unanswered ends a span with an error whose text it does not quote.
func unanswered(span trace.Span, err error) {
	text := "no answer"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		text = "no answer before the deadline"
	case errors.Is(err, context.Canceled):
		text = "canceled"
	}
	span.SetAttributes(attribute.String("error.type", fmt.Sprintf("%T", err)))
	span.SetStatus(codes.Error, text)
}

func ofRequest(method string, to *url.URL) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String("http.request.method", method),
		attribute.String("server.address", to.Hostname()),
	}
	if port, err := strconv.Atoi(to.Port()); err == nil {
		attrs = append(attrs, attribute.Int("server.port", port))
	}
	return attrs
}
