// Command 06-production is a whole service: a durable store, health, metrics, a debug
// page, traces, logs as JSON, and a stop in good order on SIGTERM.
//
//	SITES_TOKEN=secret go run ./examples/guide/06-production -db file:sites.db
//	go run ./examples/guide/06-production -db file:sites.db -traces traces.json
//	go run ./examples/guide/06-production -db file:sites.db -check   # start, look, stop
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/metrics/tracing"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/file"
)

type (
	Spec   struct{ Servers int }
	Status struct{ Running int }
	Site   = store.Object[Spec, Status]
)

// guide: main
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		slog.Error("ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("sites", flag.ContinueOnError)
	db := flags.String("db", "file:sites.db", "the store that holds the declarations, by its URL")
	listen := flags.String("listen", "127.0.0.1:8080", "where /livez, /readyz, /healthz, /metrics, /debug and /objects are served")
	traces := flags.String("traces", "", "the file that gets a JSON object for each span; empty: nothing is traced")
	check := flags.Bool("check", false, "start, ask each address once, and stop")
	if err := flags.Parse(args); err != nil {
		return err
	}
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))

	// What can fail for want of a right, a port or a file fails here, or at the beginning of Run.
	tracer, flush, err := newTracer(*traces)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flush()) }() // after everything that is traced
	p := program.Open(ctx, *db)                        // Run closes it, after everything that uses it
	p.Manager.StopTimeout = 20 * time.Second           // less than the supervisor waits before it kills
	p.Manager.Summary = time.Minute                    // a line about each controller
	collector := metrics.New(&p.Manager)
	collector.Exemplars(tracing.Exemplar) // histograms lead to traces
	p.Wrap(func(b store.Backend) (store.Backend, error) { return collector.Measure("store", tracer.Backend(b)) })
	keep(p, metrics.With(collector, tracing.With(tracer, &reconcile.Options[reconcile.Request]{
		Timeout: time.Minute,
		Resync:  10 * time.Minute, // look again at what succeeded, to find drift
	})))
	p.Use(event.Keep(p.Backend(), 10_000, nil)) // what happened is there after a restart: tend get event
	page, err := web.Listen(*listen, nil, newPage(p, collector, os.Getenv("SITES_TOKEN")))
	p.Use(page, err) // it starts with everything else, and stops last
	if !*check {
		return p.Run(ctx, nil)
	}
	return runAndLook(ctx, p, page, out)
}

// guide: end

// guide: handler
// newPage lets this machine in, and others with the token. /livez and /readyz answer all.
func newPage(p *program.Program, collector *metrics.Collector, token string) *web.Options {
	return &web.Options{
		Program: p, // its kinds are shown, and counted by state
		Metrics: collector,
		Pprof:   true, // profiles at /debug/pprof/
		API:     newDeclarations(token),
		Allow: func(r *http.Request) error {
			if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && from.Addr().Unmap().IsLoopback() || carries(r, token) {
				return nil
			}
			return errors.New("from another machine this takes the token that is in SITES_TOKEN")
		},
	}
}

// carries reports whether a request has the token. Without a token none has it.
func carries(r *http.Request, token string) bool {
	given := []byte(r.Header.Get("Authorization"))
	return token != "" && subtle.ConstantTimeCompare(given, []byte("Bearer "+token)) == 1
}

// guide: end

// guide: declare
// newDeclarations serves the sites to the command tend, and to scripts. All that newPage lets
// in may read them; writing takes the token, and without one there is no writing.
func newDeclarations(token string) *api.Options {
	return &api.Options{
		Allow: func(r *http.Request, a api.Access) error {
			if a.Writes() && !carries(r, token) {
				return errors.New("writing takes the token that is in SITES_TOKEN")
			}
			return nil
		},
	}
}

// guide: end

// guide: traces
// newTracer writes spans to a file, if one is named. OTLP's exporter takes the place of
// stdouttrace where there is a collector. flush writes the last of them.
func newTracer(path string) (t *tracing.Tracer, flush func() error, err error) {
	if path == "" {
		t, err = tracing.New(noop.NewTracerProvider(), nil)
		return t, func() error { return nil }, err
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, err
	}
	exporter, err := stdouttrace.New(stdouttrace.WithWriter(f))
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
	t, err = tracing.New(provider, nil)
	return t, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // a collector may be away
		defer cancel()
		return errors.Join(provider.Shutdown(ctx), f.Close())
	}, err
}

// guide: end

// keep adds the kind, and what reconciles it.
func keep(p *program.Program, o *reconcile.Options[reconcile.Request]) {
	sites := program.AddKind[Spec, Status](p, "site", nil)
	sites.Reconcile(func(ctx context.Context, site *Site) (reconcile.Result, error) {
		reconcile.Logger(ctx).Debug("looking") // the line has the controller, the key, the run's id and the trace's
		if site.Paused {
			return reconcile.Result{}, nil
		}
		site.Status.Running = site.Spec.Servers
		site.SetReady()
		_, err := sites.UpdateStatus(ctx, site)
		return reconcile.Result{}, err
	}, &reconcile.ForOptions[Spec, Status]{Options: *o})
}

// runAndLook runs the manager until it is ready and each address was asked.
func runAndLook(ctx context.Context, p *program.Program, page *web.Server, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, nil) }()
	if page == nil {
		return <-ended // Run has the reason
	}
	for _, path := range []string{"/readyz", "/livez", "/healthz", "/metrics", "/debug?format=text", "/objects?kind=site"} {
		status, err := ask(ctx, "http://"+page.Addr()+path)
		for err == nil && status != http.StatusOK && path == "/readyz" { // until it is
			time.Sleep(10 * time.Millisecond)
			status, err = ask(ctx, "http://"+page.Addr()+path)
		}
		if err != nil {
			stop()
			return errors.Join(err, <-ended) // the manager may have the reason
		}
		fmt.Fprintln(out, path, status)
	}
	stop()
	err := <-ended
	fmt.Fprintln(out, "stopped:", err)
	return err
}

func ask(ctx context.Context, url string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
