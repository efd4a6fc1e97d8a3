package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// With returns a copy of o, which may be nil, with which a controller is traced:
// a middleware that makes a span of each run, outside of all that o has, and a
// hook that finds out what caused it, besides o's own. It is for controllers of a
// Reconciler; those of a BatchReconciler take no middleware.
//
// The span is called "reconcile" and the controller's name. It has the attributes
// tend.controller, tend.key, tend.run, tend.attempt and tend.result, which is one
// of success, requeue, requeue_after, error, terminal, throttled and canceled (by a
// lost lease or the stop). Its status is
// an error for the two that are failures, with a text of at most 1 KiB, and for a
// panic.
//
// The run's log lines get the attributes trace_id and span_id: those of
// reconcile.Logger, and the kernel's about how the run ended.
//
// Two controllers of one name in one process need two Tracers.
func With[K comparable](t *Tracer, o *reconcile.Options[K]) *reconcile.Options[K] {
	var traced reconcile.Options[K]
	if o != nil {
		traced = *o
	}
	traced.Middleware = append([]func(reconcile.Reconciler[K]) reconcile.Reconciler[K]{
		func(next reconcile.Reconciler[K]) reconcile.Reconciler[K] { return &runs[K]{t, next} },
	}, traced.Middleware...)
	user := traced.Hooks.OnAdd
	traced.Hooks.OnAdd = func(key K, by reconcile.Origin) {
		t.memory.changed(waiting{by.Controller, key}, object{by.Kind, by.Key}, by.Revision)
		if user != nil {
			user(key, by)
		}
	}
	return &traced
}

// Cause says that the span of ctx is about to add key to a controller: the key's
// next run is linked to it. Without a span it does nothing.
//
//	tracing.Cause(r.Context(), t, "disks", key)
//	err := disks.Add(key)
func Cause[K comparable](ctx context.Context, t *Tracer, controller string, key K) {
	if by := trace.SpanContextFromContext(ctx); by.IsValid() {
		t.memory.add(waiting{controller, key}, "add", by)
	}
}

// Exemplar returns the labels trace_id and span_id of the span of ctx if that is sampled,
// else nil: what metrics.Collector's method Exemplars asks for.
func Exemplar(ctx context.Context) map[string]string {
	by := trace.SpanContextFromContext(ctx)
	if !by.IsValid() || !by.IsSampled() {
		return nil
	}
	return map[string]string{"trace_id": by.TraceID().String(), "span_id": by.SpanID().String()}
}

// runs makes a span of each run of next.
type runs[K comparable] struct {
	t    *Tracer
	next reconcile.Reconciler[K]
}

// Reconcile implements reconcile.Reconciler.
func (r *runs[K]) Reconcile(ctx context.Context, key K) (res reconcile.Result, err error) {
	info, _ := reconcile.RunInfo(ctx)
	at := waiting{info.Controller, key}
	ctx, span := r.t.tracer.Start(ctx, "reconcile "+info.Controller,
		trace.WithNewRoot(), trace.WithLinks(r.t.memory.take(at)...), trace.WithAttributes(
			attribute.String("tend.controller", info.Controller),
			attribute.String("tend.key", store.Clip(fmt.Sprint(key))),
			attribute.Int64("tend.run", int64(info.Run)),
			attribute.Int("tend.attempt", info.Attempt),
		))
	if by := span.SpanContext(); by.IsValid() {
		reconcile.AddToLog(ctx, slog.String("trace_id", by.TraceID().String()), slog.String("span_id", by.SpanID().String()))
	}
	returned := false
	defer func() {
		if !returned { // a panic, which is the controller's to deal with, or Goexit
			span.SetStatus(codes.Error, "the reconciler did not return")
			r.t.memory.add(at, "retry", span.SpanContext())
		}
		span.End()
	}()
	res, err = r.next.Reconcile(ctx, key)
	returned = true
	result := resultOf(ctx, res, err)
	span.SetAttributes(attribute.String("tend.result", result))
	switch result {
	case "error", "terminal":
		failed(span, err)
	}
	switch result {
	case "error", "requeue", "throttled":
		r.t.memory.add(at, "retry", span.SpanContext())
	}
	return res, err
}

func resultOf(ctx context.Context, res reconcile.Result, err error) string {
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled) && errors.Is(err, context.Canceled):
		return "canceled"
	case ratelimit.IsThrottled(err):
		return "throttled"
	case errors.Is(err, reconcile.ErrTerminal):
		return "terminal"
	case notYet(err):
		return "requeue_after"
	case err != nil:
		return "error"
	case res.RequeueAfter > 0:
		return "requeue_after"
	case res.Requeue:
		return "requeue"
	}
	return "success"
}

// notYet tells RetryAfter(nil, d), which is no failure, from one with a cause.
func notYet(err error) bool {
	for err != nil {
		if _, ok := reconcile.Delay(err); !ok {
			return false
		}
		inner := errors.Unwrap(err)
		if inner == nil {
			return true
		}
		err = inner
	}
	return false
}

// failed shows an error, as much of it as may be shown.
func failed(span trace.Span, err error) {
	err = store.Brief(err)
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}
