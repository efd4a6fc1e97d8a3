package web

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/debug"
)

// Options tune a Handler. Nil and zero fields mean the stated default. New copies them.
type Options struct {
	// Metrics is the collector of what the manager runs. Default: a new one.
	Metrics *metrics.Collector
	// Collectors are served at /metrics besides. Default: none.
	Collectors []prometheus.Collector
	// Debug tunes the debug page. Its Hosts is replaced by Hosts. Default: debug's.
	Debug *debug.Options
	// Pprof serves profiles of Go at /debug/pprof/. They cost time while one is made, and
	// show memory's contents. Default: off.
	Pprof bool
	// Handlers are served besides, by a pattern of http.ServeMux such as "/api/". A
	// pattern that is served already is an error. Default: none.
	Handlers map[string]http.Handler
	// Hosts are the names that requests may ask for, besides localhost and IP addresses,
	// on every path; "*" allows all. Default: the Manager's Hosts.
	Hosts []string
	// Allow is asked before every request but those for /livez and /readyz; an error
	// refuses it with status 403, and its text is what the caller is told. It may look at
	// headers and connection, and must leave the body alone. Actions of the debug page
	// need debug.Options.Authorise besides. Default: all requests are allowed.
	Allow func(r *http.Request) error
}

// writeTime is how long an answer may take to go out, in all.
const writeTime = time.Minute

// New makes the handler. It fails on a nil m, on options of the debug page that make no
// sense, on a collector that clashes with another, and on a pattern that does.
func New(m *reconcile.Manager, o *Options) (http.Handler, error) {
	if m == nil {
		return nil, errors.New("web: New: no Manager")
	}
	var opts Options
	if o != nil {
		opts = *o
	}
	hosts := slices.Clone(opts.Hosts)
	if opts.Hosts == nil {
		hosts = slices.Clone(m.Hosts)
	}
	scrape, err := opts.scrape(m)
	if err != nil {
		return nil, err
	}
	var page debug.Options
	if opts.Debug != nil {
		page = *opts.Debug
	}
	page.Hosts = hosts
	shown, err := debug.New(m, &page)
	if err != nil {
		return nil, fmt.Errorf("web: New: %w", err)
	}
	allowed := func(h http.Handler) http.Handler { return allow(h, opts.Allow) }
	mux := http.NewServeMux()
	mux.Handle("GET /livez", limited(m.Live()))
	mux.Handle("GET /readyz", limited(m.Ready()))
	mux.Handle("GET /healthz", allowed(limited(health(m))))
	mux.Handle("GET /metrics", allowed(limited(scrape)))
	mux.Handle("/debug", allowed(shown))
	if opts.Pprof {
		mux.Handle("GET /debug/pprof/{name...}", allowed(http.HandlerFunc(profile)))
	}
	for _, pattern := range slices.Sorted(maps.Keys(opts.Handlers)) {
		if err := handle(mux, pattern, allowed(opts.Handlers[pattern])); err != nil {
			return nil, err
		}
	}
	return reconcile.AllowHosts(mux, hosts...), nil
}

// handle returns the panic of a pattern that clashes as an error.
func handle(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("web: New: Options.Handlers: %v", p)
		}
	}()
	mux.Handle(pattern, h)
	return nil
}

// scrape serves the metrics.
func (o *Options) scrape(m *reconcile.Manager) (http.Handler, error) {
	if o.Metrics == nil {
		o.Metrics = metrics.New(m)
	}
	registry := prometheus.NewRegistry()
	all := append([]prometheus.Collector{
		o.Metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, o.Collectors...)
	for i, c := range all {
		if c == nil {
			return nil, errors.New("web: New: Options.Collectors holds a nil collector")
		}
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("web: New: collector %d: %w", i, err)
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError, // one bad series does not hide the others
		MaxRequestsInFlight: 4,
		EnableOpenMetrics:   true, // exemplars
	}), nil
}

// limited gives an answer a deadline, where one can be set.
func limited(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
		h.ServeHTTP(w, r)
	})
}

func allow(h http.Handler, ask func(*http.Request) error) http.Handler {
	if ask == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := ask(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// health is the checks for people, or as JSON where that is asked for.
func health(m *reconcile.Manager) http.Handler {
	asJSON := m.Health()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
			asJSON.ServeHTTP(w, r)
			return
		}
		var text strings.Builder
		status := http.StatusOK
		for _, c := range m.Checks() {
			if c.OK {
				fmt.Fprintf(&text, "ok    %s\n", printable(c.Name))
				continue
			}
			status = http.StatusServiceUnavailable
			fmt.Fprintf(&text, "FAIL  %s: %s\n", printable(c.Name), printable(c.Reason))
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text.String())) // a client that went away is no news
	})
}

// printable keeps control characters of names and errors from terminals.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, s)
}

// Serve is a runner that serves h on l, named for l's address, until its context ends.
// Then it takes no more requests and gives those under way five seconds. It closes l.
func Serve(l net.Listener, h http.Handler) reconcile.Runner { return &server{l, h} }

type server struct {
	listener net.Listener
	handler  http.Handler
}

const stopTime = 5 * time.Second

// Name implements reconcile.Runner's optional method.
func (s *server) Name() string { return "web " + s.listener.Addr().String() }

// Run implements reconcile.Runner.
func (s *server) Run(ctx context.Context) error {
	web := &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if web.Shutdown(last) != nil {
			_ = web.Close()
		}
	})
	err := web.Serve(s.listener)
	if !stop() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return errors.Join(err, web.Close())
}
