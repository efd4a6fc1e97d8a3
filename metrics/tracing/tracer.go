package tracing

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// A Tracer makes spans, and remembers what to link them to. Make one with New, for
// all controllers, stores and clients of a process. It is safe for concurrent use
// and starts no goroutine.
type Tracer struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	memory     *memory
}

// Options tune a Tracer. Nil and zero fields mean the stated default.
type Options struct {
	// Propagator writes the trace into the headers of requests that Transport
	// sends, so that the other side can go on with it: for services of your own.
	// Default: nothing is written, because a cloud need not know.
	Propagator propagation.TextMapPropagator
	// remember is how many writes are remembered until the run comes that they
	// cause, and how many keys can wait with links. Default 16384; a write is
	// some 150 bytes.
	remember int
}

const (
	scope           = "github.com/tendhq/tend/tracing"
	defaultRemember = 1 << 14
	// A key that is added very often before it runs keeps the newest.
	linksPerKey = 16
)

// New makes a Tracer. It fails on a nil provider and on a negative Remember.
func New(p trace.TracerProvider, o *Options) (*Tracer, error) {
	if p == nil {
		return nil, errors.New("tracing: New: no provider")
	}
	if o == nil {
		o = &Options{}
	}
	if o.remember < 0 {
		return nil, fmt.Errorf("tracing: New: Remember is %d, want 0 or more", o.remember)
	}
	n := o.remember
	if n == 0 {
		n = defaultRemember
	}
	return &Tracer{tracer: p.Tracer(scope), propagator: o.Propagator, memory: newMemory(n)}, nil
}
