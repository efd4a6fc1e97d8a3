package tracing

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
)

// Transport returns a round tripper that does what next does (nil:
// http.DefaultTransport), and makes a span of each request that is made with a
// span in its context: "HTTP" and the method, with the attributes
// http.request.method, server.address, server.port and
// http.response.status_code. The path and the query are left out: they hold keys
// and sometimes secrets. From status 400 on the span is an error. It ends when the
// answer's header is there, not with its body.
//
// otelhttp's transport would leak them: it records the whole URL (url.full) and the
// text of errors, and has no option that drops either. Its filters drop whole requests.
func (t *Tracer) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &transport{t, next}
}

type transport struct {
	t    *Tracer
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (x *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, span := x.t.begin(req.Context(), "HTTP "+req.Method, ofRequest(req)...)
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
		failed(span, err)
	case resp.StatusCode >= http.StatusBadRequest:
		span.SetStatus(codes.Error, http.StatusText(resp.StatusCode))
		fallthrough
	default:
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	}
	return resp, err
}

func ofRequest(req *http.Request) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String("http.request.method", req.Method),
		attribute.String("server.address", req.URL.Hostname()),
	}
	if port, err := strconv.Atoi(req.URL.Port()); err == nil {
		attrs = append(attrs, attribute.Int("server.port", port))
	}
	return attrs
}
