package tracing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/metrics/tracing"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/storetest"
)

type spec struct{ Size int }

type status struct{ Size int }

type disk = store.Object[spec, status]

// world is a traced store with a controller of disks, and what was traced.
type world struct {
	t        *testing.T
	exporter *tracetest.InMemoryExporter
	provider *sdk.TracerProvider
	tracer   *tracing.Tracer
	store    *store.Store[spec, status]
	cache    *cache.Cache[spec, status]
	disks    *reconcile.Controller[store.Key]
}

type run = func(ctx context.Context, k store.Key) (reconcile.Result, error)

// newWorld runs do for each disk, in a bubble of fake time. inner may wrap the
// backend below the tracer; sources may be nil: the disks themselves.
func newWorld(t *testing.T, inner func(store.Backend) store.Backend, sources func(*world) reconcile.Source[store.Key], do run) *world {
	t.Helper()
	w := &world{t: t, exporter: tracetest.NewInMemoryExporter()}
	w.provider = sdk.NewTracerProvider(sdk.WithSyncer(w.exporter))
	w.tracer = must(tracing.New(w.provider, nil))
	var b store.Backend = must(memory.New(nil))
	if inner != nil {
		b = inner(b)
	}
	w.store = must(store.New[spec, status](w.tracer.Backend(b), "Disk", nil))
	w.cache = must(cache.New(w.store, nil))
	w.disks = must(reconcile.New("disks", reconcile.Func[store.Key](do), tracing.With(w.tracer, &reconcile.Options[store.Key]{
		Backoff: queue.Backoff{Base: time.Minute, NoJitter: true}, Logger: slog.New(slog.DiscardHandler),
	})))
	source := reconcile.From(w.cache)
	if sources != nil {
		source = sources(w)
	}
	if err := w.disks.Watch(source); err != nil {
		t.Fatal(err)
	}
	return w
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// start runs the controller until the end of the test.
func (w *world) start() {
	m := &reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
	if err := m.Register(w.disks); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
	synctest.Wait()
}

// create makes a disk, with or without a span.
func (w *world) create(ctx context.Context, name string) *disk {
	w.t.Helper()
	o, err := w.store.Create(ctx, &disk{Meta: store.Meta{Name: name}})
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// span begins one of the test's own.
func (w *world) span(name string) (context.Context, trace.Span) {
	return w.provider.Tracer("test").Start(context.Background(), name)
}

// spans are those of a name, in the order in which they ended.
func (w *world) spans(name string) (found []tracetest.SpanStub) {
	for _, s := range w.exporter.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func attr(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// links shows a span's links: their cause, and the name of the span.
func (w *world) links(s tracetest.SpanStub) string {
	var all []string
	for _, l := range s.Links {
		name := "unknown"
		for _, o := range w.exporter.GetSpans() {
			if o.SpanContext.Equal(l.SpanContext) {
				name = o.Name
			}
		}
		all = append(all, l.Attributes[0].Value.AsString()+" "+name)
	}
	return strings.Join(all, ", ")
}

func expect[V comparable](t *testing.T, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(code int) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("")), Header: http.Header{}}, nil
	}
}

func TestRunIsASpanWithItsCallsUnderIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		w = newWorld(t, nil, nil, func(ctx context.Context, k store.Key) (reconcile.Result, error) {
			client := &http.Client{Transport: w.tracer.Transport(answer(200))}
			req := must(http.NewRequestWithContext(ctx, http.MethodPut, "https://api.cloud.example:444/disks/a?token=secret", nil))
			resp := must(client.Do(req))
			_ = resp.Body.Close()
			_, err := w.store.Mutate(ctx, k, func(o *disk) error { o.Status.Size = 1; return nil })
			return reconcile.Result{}, err
		})
		w.create(context.Background(), "a")
		w.start()
		runs := w.spans("reconcile disks")
		if len(runs) != 1 {
			t.Fatalf("%d runs were traced, want 1", len(runs))
		}
		r := runs[0]
		expect(t, "parent of a run", r.Parent.IsValid(), false)
		expect(t, "attributes", fmt.Sprint(attr(r, "tend.controller"), attr(r, "tend.key"), attr(r, "tend.attempt"), attr(r, "tend.result")), "disksa0success")
		expect(t, "links of what was there at the start", w.links(r), "")
		for _, name := range []string{"store get", "store commit", "HTTP PUT"} {
			s := w.spans(name)
			if len(s) != 1 {
				t.Errorf("%d spans %q, want 1", len(s), name)
				continue
			}
			expect(t, "parent of "+name, s[0].Parent.SpanID(), r.SpanContext.SpanID())
		}
		h := w.spans("HTTP PUT")[0]
		expect(t, "address", attr(h, "server.address")+":"+attr(h, "server.port")+" "+attr(h, "http.response.status_code"), "api.cloud.example:444 200")
		if text := fmt.Sprint(h); strings.Contains(text, "secret") || strings.Contains(text, "/disks") {
			t.Errorf("the span shows what was asked for: %s", text)
		}
	})
}

func TestRunIsLinkedToTheWritesThatWokeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, func(context.Context, store.Key) (reconcile.Result, error) { return reconcile.Result{}, nil })
		w.start()
		ctx, user := w.span("user")
		o := w.create(ctx, "a")
		synctest.Wait()
		o.Spec.Size = 2
		if _, err := w.store.Update(ctx, o); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		user.End()
		w.create(context.Background(), "b")
		synctest.Wait()
		runs := w.spans("reconcile disks")
		if len(runs) != 3 {
			t.Fatalf("%d runs, want 3", len(runs))
		}
		for i, want := range []string{"write store commit", "write store commit", ""} {
			expect(t, fmt.Sprintf("links of run %d", i), w.links(runs[i]), want)
		}
		commits := w.spans("store commit")
		for i := range 2 {
			expect(t, "the span linked to", runs[i].Links[0].SpanContext.SpanID(), commits[i].SpanContext.SpanID())
			expect(t, "its trace", runs[i].Links[0].SpanContext.TraceID(), user.SpanContext().TraceID())
		}
	})
}

// late lets a write be seen by watchers before its call returns, as a store in a
// network may.
type late struct{ store.Backend }

func (l late) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	r, err := l.Backend.Commit(ctx, t)
	time.Sleep(time.Second)
	return r, err
}

// Negative control: without memory.begin in Commit there is no link.
func TestRunIsLinkedToAWriteThatHasNotReturnedYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(b store.Backend) store.Backend { return late{b} }, nil, func(context.Context, store.Key) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})
		w.start()
		ctx, user := w.span("user")
		done := make(chan struct{})
		go func() { defer close(done); w.create(ctx, "a") }()
		synctest.Wait()
		runs := w.spans("reconcile disks")
		if len(runs) != 1 {
			t.Fatalf("%d runs before the write returned, want 1", len(runs))
		}
		<-done
		user.End()
		expect(t, "links", w.links(runs[0]), "write store commit")
	})
}

func TestMappedKeyIsLinkedToTheChangeItWasMappedFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, func(w *world) reconcile.Source[store.Key] {
			return reconcile.Map(w.cache, func(context.Context, *disk, *disk) ([]store.Key, error) {
				return []store.Key{{Name: "host"}}, nil
			})
		}, func(context.Context, store.Key) (reconcile.Result, error) { return reconcile.Result{}, nil })
		w.start()
		ctx, user := w.span("user")
		w.create(ctx, "a")
		user.End()
		synctest.Wait()
		runs := w.spans("reconcile disks")
		if len(runs) != 1 || attr(runs[0], "tend.key") != "host" || w.links(runs[0]) != "write store commit" {
			t.Errorf("%d runs; the last is linked to %q, want the write", len(runs), w.links(runs[len(runs)-1]))
		}
	})
}

func TestRetryIsLinkedToTheRunBeforeAndCauseToWhoSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		w := newWorld(t, nil, nil, func(context.Context, store.Key) (reconcile.Result, error) {
			switch n++; n {
			case 1:
				return reconcile.Result{}, errors.New(strings.Repeat("long", 1000))
			case 2:
				panic("no")
			case 3:
				return reconcile.Result{Requeue: true}, nil
			case 4:
				return reconcile.Result{}, reconcile.RetryAfter(nil, time.Minute)
			case 5:
				return reconcile.Result{}, reconcile.Terminal(errors.New("no"))
			}
			return reconcile.Result{}, nil
		})
		w.start()
		w.create(context.Background(), "a")
		time.Sleep(30 * time.Minute)
		ctx, user := w.span("kick")
		tracing.Cause(ctx, w.tracer, "disks", store.Key{Name: "a"})
		tracing.Cause(context.Background(), w.tracer, "disks", store.Key{Name: "a"})
		user.End()
		if err := w.disks.Kick(store.Key{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var got []string
		for _, r := range w.spans("reconcile disks") {
			got = append(got, fmt.Sprint(attr(r, "tend.attempt"), " ", attr(r, "tend.result"), " ", r.Status.Code == codes.Error, " ", w.links(r)))
			if len(r.Status.Description) > store.MaxMessage {
				t.Errorf("an error of %d bytes", len(r.Status.Description))
			}
		}
		want := []string{
			"0 error true ",
			"1  true retry reconcile disks", // it panicked
			"2 requeue false retry reconcile disks",
			"3 requeue_after false retry reconcile disks",
			"0 terminal true ",
			"0 success false add kick",
		}
		if !slices.Equal(got, want) {
			t.Errorf("runs:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestCallsOutsideOfASpanMakeNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, nil2)
		o := w.create(context.Background(), "a")
		if _, err := w.store.Get(context.Background(), o.Key()); err != nil {
			t.Fatal(err)
		}
		req := must(http.NewRequest(http.MethodGet, "http://x", nil))
		resp := must(w.tracer.Transport(answer(200)).RoundTrip(req))
		_ = resp.Body.Close()
		if spans := w.exporter.GetSpans(); len(spans) != 0 {
			t.Errorf("%d spans, want none: %v", len(spans), spans)
		}
	})
}

func nil2(context.Context, store.Key) (reconcile.Result, error) { return reconcile.Result{}, nil }

func TestAnswersOfAStoreAreNoErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, nil2)
		ctx, user := w.span("user")
		defer user.End()
		_, missing := w.store.Get(ctx, store.Key{Name: "absent"})
		w.create(ctx, "a")
		_, exists := w.store.Create(ctx, &disk{Meta: store.Meta{Name: "a"}})
		fenced := store.WithGuard(ctx, store.Compare{Kind: "Lease", Key: store.Key{Name: "gone"}, Created: 1})
		_, refused := w.store.Create(fenced, &disk{Meta: store.Meta{Name: "b"}})
		if missing == nil || exists == nil || refused == nil {
			t.Fatal(missing, exists, refused)
		}
		var got []string
		for _, s := range w.exporter.GetSpans() {
			got = append(got, fmt.Sprint(s.Name, " ", attr(s, "tend.name"), " ", attr(s, "tend.outcome"), " ", s.Status.Code == codes.Error))
		}
		want := []string{"store get absent not_found false", "store commit a ok false", "store commit a conflict false", "store commit b fenced true"}
		if !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
	})
}

func TestTracedBackendKeepsTheContract(t *testing.T) {
	tracer := must(tracing.New(sdk.NewTracerProvider(), nil))
	storetest.Run(t, func(testing.TB) store.Backend {
		return tracer.Backend(must(memory.New(&memory.Options{History: 300})))
	}, &storetest.Options{Bubble: true})
}

type noLeases struct{ store.Backend }

func TestTracedBackendHasLeasesIfTheBackendHas(t *testing.T) {
	tracer := must(tracing.New(sdk.NewTracerProvider(), nil))
	b := must(memory.New(nil))
	if _, ok := tracer.Backend(b).(store.Leaser); !ok {
		t.Error("the leases are gone")
	}
	if _, ok := tracer.Backend(noLeases{b}).(store.Leaser); ok {
		t.Error("there are leases where there were none")
	}
}

// Whatever part of a request, of its answer or of its error holds a secret: no span has it.
func TestTransportPutsNoSecretIntoASpan(t *testing.T) {
	const secret = "hunter2"
	// A round tripper that fetches a token has the error of another client.
	refused := &url.Error{Op: "Post", URL: "https://idp/token?client_secret=" + secret, Err: errors.New("answer " + secret)}
	for name, next := range map[string]roundTrip{
		"an answer": func(r *http.Request) (*http.Response, error) {
			header := http.Header{"Set-Cookie": {secret}, "Location": {"https://x/?token=" + secret}}
			return &http.Response{StatusCode: 302, Status: "302 " + secret, Header: header, Body: io.NopCloser(strings.NewReader(secret)), Request: r}, nil
		},
		"a refusal":      func(r *http.Request) (*http.Response, error) { return answer(403)(r) },
		"an error":       func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("no token: %w", refused) },
		"a context ends": func(*http.Request) (*http.Response, error) { return nil, errors.Join(refused, context.Canceled) },
	} {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
		tracer := must(tracing.New(provider, nil))
		ctx, user := provider.Tracer("test").Start(t.Context(), "user")
		req := must(http.NewRequestWithContext(ctx, http.MethodPost,
			"https://u:"+secret+"@cloud/"+secret+"?token="+secret+"#"+secret, strings.NewReader(secret)))
		req.Header.Set("Authorization", "Bearer "+secret)
		if resp, err := tracer.Transport(next).RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
		user.End()
		spans := exporter.GetSpans()
		text, err := json.Marshal(spans)
		if err != nil || len(spans) != 2 {
			t.Fatalf("%s: %d spans, %v; want 2", name, len(spans), err)
		}
		if all := string(text) + fmt.Sprintf("%+v", spans); strings.Contains(all, secret) {
			t.Errorf("%s: the secret is in the span %+v", name, spans[0])
		}
		if failed := spans[0].Status.Code == codes.Error; failed != (name != "an answer") {
			t.Errorf("%s: the span is an error: %v", name, failed)
		}
	}
}

func TestTransportTellsTheOtherSideOnlyWhenAsked(t *testing.T) {
	for _, p := range []propagation.TextMapPropagator{nil, propagation.TraceContext{}} {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
		tracer := must(tracing.New(provider, &tracing.Options{Propagator: p}))
		ctx, user := provider.Tracer("test").Start(t.Context(), "user")
		var sent string
		req := must(http.NewRequestWithContext(ctx, http.MethodGet, "http://x", nil))
		resp := must(tracer.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
			sent = r.Header.Get("traceparent")
			return answer(503)(r)
		})).RoundTrip(req))
		_ = resp.Body.Close()
		user.End()
		expect(t, "a header was sent", sent != "", p != nil)
		expect(t, "the caller's request was edited", req.Header.Get("traceparent"), "")
		expect(t, "status", exporter.GetSpans()[0].Status.Code, codes.Error)
	}
}

// idling has connections that idle, as http.Transport does.
type idling struct {
	roundTrip
	closed *bool
}

func (i idling) CloseIdleConnections() { *i.closed = true }

// Otherwise the client's CloseIdleConnections does nothing, and says nothing.
func TestTransportPassesTheEndOfIdleConnectionsOn(t *testing.T) {
	tracer := must(tracing.New(sdk.NewTracerProvider(), nil))
	closed := false
	client := http.Client{Transport: tracer.Transport(idling{answer(200), &closed})}
	client.CloseIdleConnections()
	expect(t, "idle connections are closed", closed, true)
	client.Transport = tracer.Transport(answer(200)) // it has none
	client.CloseIdleConnections()
}

func TestRequestWithoutAMethodIsAGET(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	tracer := must(tracing.New(provider, nil))
	ctx, user := provider.Tracer("test").Start(t.Context(), "user")
	defer user.End()
	req := (&http.Request{URL: must(url.Parse("http://x"))}).WithContext(ctx)
	resp := must(tracer.Transport(answer(200)).RoundTrip(req))
	_ = resp.Body.Close()
	span := exporter.GetSpans()[0]
	expect(t, "the span", span.Name, "HTTP GET")
	expect(t, "the method", attr(span, "http.request.method"), "GET")
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	if _, err := tracing.New(nil, nil); err == nil {
		t.Error("no provider was taken")
	}
	if _, err := tracing.New(sdk.NewTracerProvider(), (&tracing.Options{}).SetRemember(-1)); err == nil {
		t.Error("a negative Remember was taken")
	}
}

// With keeps what the options had.
func TestWithKeepsHooksAndMiddleware(t *testing.T) {
	tracer := must(tracing.New(sdk.NewTracerProvider(), nil))
	heard := false
	o := &reconcile.Options[string]{
		Workers: 3, Hooks: reconcile.Hooks[string]{OnAdd: func(string, reconcile.Origin) { heard = true }},
		Middleware: []func(reconcile.Reconciler[string]) reconcile.Reconciler[string]{func(r reconcile.Reconciler[string]) reconcile.Reconciler[string] { return r }},
	}
	traced := tracing.With(tracer, o)
	traced.Hooks.OnAdd("k", reconcile.Origin{})
	if !heard || traced.Workers != 3 || len(traced.Middleware) != 2 || len(o.Middleware) != 1 {
		t.Errorf("heard %v, %+v", heard, traced)
	}
	if tracing.With[string](tracer, nil).Hooks.OnAdd == nil {
		t.Error("of nil options nothing is traced")
	}
}

// A traced run's log lines and the buckets of its histograms have the id of its trace, so
// that each leads to the others; a span that is not sampled is no exemplar.
//
// Negative control: without the call of AddToLog in runs.Reconcile no line has an id.
func TestLogLinesAndExemplarsNameTheTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exporter := tracetest.NewInMemoryExporter()
		tracer := must(tracing.New(sdk.NewTracerProvider(sdk.WithSyncer(exporter)), nil))
		var lines bytes.Buffer // of one worker, read after the stop
		m := &reconcile.Manager{Logger: slog.New(slog.NewTextHandler(&lines, nil))}
		c := metrics.New(m)
		c.Exemplars(tracing.Exemplar)
		backend := must(c.Measure("main", must(memory.New(nil))))
		disks := must(store.New[spec, status](backend, "Disk", nil))
		run := reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
			reconcile.Logger(ctx).Info("looking")
			_, err := disks.Get(ctx, store.Key{Name: "a"})
			return reconcile.Result{}, reconcile.Terminal(err)
		})
		ctl := must(reconcile.New("disks", run, metrics.With(c, tracing.With(tracer, &reconcile.Options[string]{Workers: 1}))))
		if err := errors.Join(m.Register(ctl), ctl.Add("a")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }() // ended by cancel, waited for below
		synctest.Wait()
		registry := prometheus.NewRegistry()
		registry.MustRegister(c)
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", "application/openmetrics-text")
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		spans := exporter.GetSpans()
		if len(spans) != 1 {
			t.Fatalf("%d spans, want the run", len(spans))
		}
		id := `trace_id=` + spans[0].SpanContext.TraceID().String()
		for _, text := range []string{"msg=looking", `msg="reconcile: run failed for good`} {
			found := false
			for line := range strings.Lines(lines.String()) {
				found = found || strings.Contains(line, text) && strings.Contains(line, id)
			}
			if !found {
				t.Errorf("no line %s with %s in\n%s", text, id, lines.String())
			}
		}
		id = `trace_id="` + spans[0].SpanContext.TraceID().String() + `"`
		for _, name := range []string{"controller_runtime_reconcile_time_seconds_bucket", "workqueue_work_duration_seconds_bucket", "tend_store_operation_duration_seconds_bucket"} {
			found := false
			for line := range strings.Lines(w.Body.String()) {
				found = found || strings.HasPrefix(line, name) && strings.Contains(line, "# {") && strings.Contains(line, id)
			}
			if !found {
				t.Errorf("no bucket of %s has an exemplar with %s", name, id)
			}
		}
		if sampled := tracing.Exemplar(trace.ContextWithSpanContext(ctx, spans[0].SpanContext.WithTraceFlags(0))); sampled != nil {
			t.Errorf("a span that is not sampled has the exemplar %v", sampled)
		}
	})
}
