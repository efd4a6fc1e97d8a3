package tracing

import (
	"context"
	"errors"
	"iter"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tendhq/tend/store"
)

// Backend returns a backend that does what b does, and makes spans of the calls
// that are made with a span in their context: "store get", "store list" and "store
// commit", with the attributes tend.kind, tend.namespace and tend.name (of the
// first write of a commit), tend.writes, and tend.revision. That there is no such
// record, and a conflict, are answers: they are tend.outcome, and no error.
//
// It remembers the span of each write, to link runs to it. Make stores, leases and caches of
// what it returns, not of b: backends are told apart by identity. It offers leases
// if b does.
func (t *Tracer) Backend(b store.Backend) store.Backend {
	traced := &backend{b, t}
	if l, ok := b.(store.Leaser); ok {
		return &leaser{traced, l}
	}
	return traced
}

type backend struct {
	store.Backend // Watch and Close pass through
	t             *Tracer
}

// Health implements store.HealthChecker.
func (b *backend) Health() error { return store.Health(b.Backend) }

// leaser has what keeps leases alive pass through: it is no run's.
type leaser struct {
	*backend
	store.Leaser
}

// begin starts the span of a call out of the process, if there is one that it can
// be under; else its span does nothing.
func (t *Tracer) begin(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, trace.SpanFromContext(context.Background())
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
}

// Get implements store.Backend.
func (b *backend) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	ctx, span := b.t.begin(ctx, "store get", ofKey(kind, key)...)
	defer span.End()
	r, err := b.Backend.Get(ctx, kind, key)
	ended(span, r.Revision, err)
	return r, err
}

// List implements store.Backend.
func (b *backend) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	ctx, span := b.t.begin(ctx, "store list", ofKey(kind, store.Key{Namespace: o.Namespace})...)
	defer span.End()
	p, err := b.Backend.List(ctx, kind, o)
	span.SetAttributes(attribute.Int("tend.records", len(p.Records)))
	ended(span, p.Revision, err)
	return p, err
}

// ListSlots implements store.SlotReader.
func (b *backend) ListSlots(ctx context.Context, kind string, slots store.SlotSet, o store.ListOptions) (store.Page, error) {
	ctx, span := b.t.begin(ctx, "store list", ofKey(kind, store.Key{Namespace: o.Namespace})...)
	defer span.End()
	p, err := store.ListSlots(ctx, b.Backend, kind, slots, o)
	span.SetAttributes(attribute.Int("tend.records", len(p.Records)), attribute.Int("tend.slots", slots.Len()))
	ended(span, p.Revision, err)
	return p, err
}

// WatchSlots implements store.SlotReader. Like Watch it passes through.
func (b *backend) WatchSlots(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return store.WatchSlots(ctx, b.Backend, kind, slots, after)
}

// Commit implements store.Backend.
func (b *backend) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if !trace.SpanContextFromContext(ctx).IsValid() || len(txn.Ops) == 0 {
		return b.Backend.Commit(ctx, txn)
	}
	objects := make([]object, len(txn.Ops))
	for i := range txn.Ops {
		objects[i] = object{txn.Ops[i].Kind, txn.Ops[i].Key}
	}
	ctx, span := b.t.begin(ctx, "store commit",
		append(ofKey(objects[0].kind, objects[0].key), attribute.Int("tend.writes", len(objects)))...)
	defer span.End()
	by, rev := span.SpanContext(), store.Revision(0)
	b.t.memory.begin(objects, by)
	defer func() { b.t.memory.end(objects, by, rev) }() // after a panic too
	r, err := b.Backend.Commit(ctx, txn)
	if err == nil {
		rev = r
	}
	ended(span, r, err)
	return r, err
}

func ofKey(kind string, key store.Key) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String("tend.kind", kind)}
	if key.Namespace != "" {
		attrs = append(attrs, attribute.String("tend.namespace", store.Clip(key.Namespace)))
	}
	if key.Name != "" {
		attrs = append(attrs, attribute.String("tend.name", store.Clip(key.Name)))
	}
	return attrs
}

func ended(span trace.Span, r store.Revision, err error) {
	outcome := "ok"
	switch {
	case err == nil:
		// As text, as everywhere outside of Go: it may not fit a float.
		span.SetAttributes(attribute.String("tend.revision", strconv.FormatUint(uint64(r), 10)))
	case errors.Is(err, store.ErrUnknownOutcome):
		outcome = "unknown"
		failed(span, err)
	case errors.Is(err, store.ErrNotFound):
		outcome = "not_found"
	case errors.Is(err, store.ErrConflict):
		outcome = "conflict"
	case errors.Is(err, store.ErrFenced):
		outcome = "fenced"
		failed(span, err)
	default:
		outcome = "error"
		failed(span, err)
	}
	span.SetAttributes(attribute.String("tend.outcome", outcome))
}
