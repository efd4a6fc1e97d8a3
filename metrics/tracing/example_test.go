package tracing_test

import (
	"context"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tendhq/tend/metrics/tracing"
	"github.com/tendhq/tend/reconcile"
)

func Example() {
	exporter := tracetest.NewInMemoryExporter() // in a program: OTLP, say
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	t, err := tracing.New(provider, &tracing.Options{Propagator: propagation.TraceContext{}}) // in requests of Transport
	if err != nil {
		panic(err)
	}
	// A store would be made of t.Backend(backend).
	cloud := &http.Client{Transport: t.Transport(answer(http.StatusOK))}
	ctx, stop := context.WithCancel(context.Background())
	disks, err := reconcile.New("disks", reconcile.Func[string](func(ctx context.Context, key string) (reconcile.Result, error) {
		defer stop()
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://cloud.example/disks/"+key, nil)
		if err != nil {
			return reconcile.Result{}, err
		}
		resp, err := cloud.Do(req)
		if err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, resp.Body.Close()
	}), tracing.With[string](t, nil))
	if err != nil {
		panic(err)
	}

	// A request asks for a run, within a span of its own.
	request, span := provider.Tracer("web").Start(ctx, "POST /disks/a/check")
	tracing.Cause(request, t, "disks", "a")
	if err := disks.Add("a"); err != nil {
		panic(err)
	}
	span.End()
	if err := disks.Run(ctx); err != nil {
		panic(err)
	}
	for _, s := range exporter.GetSpans() {
		fmt.Println(s.Name, "in the request's trace:", s.SpanContext.TraceID() == span.SpanContext().TraceID(), "linked to it:", len(s.Links) == 1)
	}
	// Output:
	// POST /disks/a/check in the request's trace: true linked to it: false
	// HTTP PUT in the request's trace: false linked to it: false
	// reconcile disks in the request's trace: false linked to it: true
}
