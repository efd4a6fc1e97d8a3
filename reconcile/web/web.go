package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tendhq/tend/internal/ascii"
	"github.com/tendhq/tend/internal/body"
	"github.com/tendhq/tend/internal/origin"
	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store/objects"
)

// Options tune a Handler. Nil and zero fields mean the stated default. New copies them.
type Options struct {
	// Program is the program.Program whose kinds, reconcilers, inventories, quotas, buckets,
	// events and graph are shown and counted besides what the fields below name, and whose
	// Manager is meant where that of New is nil. Its parts are looked at when it runs, whenever
	// they were added; until then all paths answer 503. A part that neither runs nor is known
	// here is an error of its Run. Default: none.
	Program *program.Program
	// API serves the objects at /objects, for the command tend and for scripts: the kinds of
	// Program and of Objects. Its Allow decides what is allowed, and its Hosts are Hosts.
	// Default: they are not served.
	API *api.Options
	// Metrics is the collector of what the manager runs. Default: a new one.
	Metrics *metrics.Collector
	// Collectors are served at /metrics besides. Default: none.
	Collectors []prometheus.Collector
	// Objects are the kinds whose objects the debug page shows, besides those of
	// Debug.Objects, and /metrics counts by state, see metrics.Collector.AddObjects: take
	// objects.OfCache. A kind that Metrics counts already is an error. Default: none.
	Objects []objects.Kind
	// Debug tunes the debug page. Its Hosts is replaced by Hosts. Default: debug's.
	Debug *debug.Options
	// Pprof serves profiles of Go at /debug/pprof/. They cost time while one is made, and
	// show memory's contents. Default: off.
	Pprof bool
	// Hosts are the names that requests may ask for, besides localhost and IP addresses,
	// on every path but /livez and /readyz, which answer others with a status alone; "*" allows
	// all. Default: none.
	Hosts []string
	// Allow is asked before every request but those for /livez and /readyz; an error
	// refuses it with status 403, and its text is what the caller is told. It may look at
	// headers and connection, and must leave the body alone. Actions of the debug page
	// need debug.Options.Authorise besides. With Allow, /livez and /readyz answer with a
	// status and no reason: addresses and error texts are for those that may read /healthz.
	// Default: all requests are allowed.
	Allow func(r *http.Request) error
}

const (
	readTime  = time.Minute // for a request to come in, in all
	writeTime = time.Minute // for an answer to go out, in all
	maxBody   = 4 << 10     // of a GET: what it holds is dropped
)

// New makes the handler. It fails without a Manager or a Program, on options of the debug page and the
// API that make no sense, and on a collector that clashes with another; with Options.Program the
// Program's Run does. A server of your
// own that serves it needs a ReadTimeout: a handler that leaves a body unread waits for it, as
// http.ServeMux does for paths that are not served.
func New(m *reconcile.Manager, o *Options) (http.Handler, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if m == nil && opts.Program != nil {
		m = &opts.Program.Manager
	}
	if m == nil {
		return nil, errors.New("web: New: no Manager")
	}
	if opts.Program == nil {
		return opts.build(m, nil)
	}
	return opts.whenItRuns(m), nil
}

// build makes the handler; stored are the kinds that the API serves besides Objects.
func (o *Options) build(m *reconcile.Manager, stored []objects.Kind) (http.Handler, error) {
	if o.Metrics == nil {
		o.Metrics = metrics.New(m)
	}
	hosts := slices.Clone(o.Hosts)
	scrape, err := o.scrape()
	if err != nil {
		return nil, err
	}
	var page debug.Options
	if o.Debug != nil {
		page = *o.Debug
	}
	page.Hosts = hosts
	page.Objects = slices.Concat(page.Objects, o.Objects)
	shown, err := debug.New(m, &page)
	if err != nil {
		return nil, fmt.Errorf("web: New: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /livez", limited(o.probe(m.Live, hosts)))
	mux.Handle("GET /readyz", limited(o.probe(m.Ready, hosts)))
	mux.Handle("GET /healthz", o.allowed(limited(health(m))))
	mux.Handle("GET /metrics", o.allowed(limited(scrape)))
	mux.Handle("/debug", o.allowed(shown))
	if o.Pprof {
		mux.Handle("GET /debug/pprof/{name...}", o.allowed(dropped(http.HandlerFunc(profile))))
	}
	if err := o.addObjects(mux, hosts, stored); err != nil {
		return nil, err
	}
	// At the end: what failed before can be mended and tried with the same collector.
	for _, k := range o.Objects {
		if err := o.Metrics.AddObjects(k); err != nil {
			return nil, fmt.Errorf("web: New: Options.Objects: %w", err)
		}
	}
	return byName(mux, hosts), nil
}

// addObjects adds the objects, and the list of all paths.
func (o *Options) addObjects(mux *http.ServeMux, hosts []string, stored []objects.Kind) error {
	if o.API != nil {
		given := *o.API
		given.Hosts = hosts
		kinds := stored
		if o.Program == nil {
			kinds = o.Objects
		}
		h, err := api.New(kinds, &given)
		if err != nil {
			return fmt.Errorf("web: New: %w", err)
		}
		mux.Handle("/objects", o.allowed(h))
	}
	mux.Handle("GET /{$}", o.allowed(limited(http.HandlerFunc(o.list))))
	return nil
}

// list is what there is, for people at the root.
func (o *Options) list(w http.ResponseWriter, _ *http.Request) {
	paths := [][2]string{
		{"debug", "whether all is well, and what is wrong"},
		{"healthz", "every check, with its reason"},
		{"readyz", "whether it is ready"},
		{"livez", "whether it lives"},
		{"metrics", "for Prometheus"},
	}
	if o.API != nil {
		paths = append(paths, [2]string{"objects", "the objects, for the command tend"})
	}
	if o.Pprof {
		paths = append(paths, [2]string{"debug/pprof/", "profiles of Go"})
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	var page strings.Builder
	page.WriteString("<!DOCTYPE html>\n<html lang=\"en\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
		"<meta name=\"color-scheme\" content=\"light dark\">\n<title>tend</title>\n<main><h1>What is served here</h1>\n")
	for _, p := range paths {
		fmt.Fprintf(&page, "<p><a href=\"%s\">%s</a> %s\n", p[0], p[0], p[1]) // relative: there may be a prefix
	}
	page.WriteString("</main>\n")
	_, _ = io.WriteString(w, page.String()) // a client that went away is no news
}

// byName checks the names that requests ask for, but those of probes, which do so themselves. No browser
// guesses at the type of what is served.
func byName(mux *http.ServeMux, hosts []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.URL.Path != "/livez" && r.URL.Path != "/readyz" {
			if err := origin.CheckHost(r, hosts); err != nil {
				body.Within(w, r, readTime) // it is not read
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
		}
		mux.ServeHTTP(w, r)
	})
}

// Mount serves the handler of New below a prefix of the program's own mux, such as "/ops"; the
// prefix itself lists what there is. It fails as New does, and on a prefix that clashes.
func Mount(mux *http.ServeMux, prefix string, m *reconcile.Manager, o *Options) error {
	h, err := New(m, o)
	if err != nil {
		return err
	}
	prefix = strings.TrimRight(prefix, "/")
	if err := handle(mux, prefix+"/", http.StripPrefix(prefix, h)); err != nil {
		return fmt.Errorf("web: Mount: %w", err)
	}
	return nil
}

// handle returns the panic of a pattern that clashes as an error.
func handle(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	mux.Handle(pattern, h)
	return nil
}

// scrape serves the metrics.
func (o *Options) scrape() (http.Handler, error) {
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

// limited gives request and answer a deadline, where one can be set.
func limited(h http.Handler) http.Handler {
	return dropped(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
		h.ServeHTTP(w, r)
	}))
}

// dropped reads the body that a GET may have before h begins. net/http would do so in the middle
// of the answer, where h has taken its place among those that are made at once.
func dropped(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body.Within(w, r, readTime)
		if r.ContentLength != 0 {
			if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
				http.Error(w, "the body is too long, or did not come in", http.StatusBadRequest)
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

// allowed is h behind Allow.
func (o *Options) allowed(h http.Handler) http.Handler { return allow(h, o.Allow) }

func allow(h http.Handler, ask func(*http.Request) error) http.Handler {
	if ask == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := ask(r); err != nil { // net/http contains a panic of it
			body.Within(w, r, readTime) // it is not read
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// probe answers with the status of the checks, and says what they are to those that may read /healthz.
func (o *Options) probe(of func() []reconcile.Check, hosts []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		checks := of()
		if o.Allow == nil && origin.CheckHost(r, hosts) == nil {
			writeJSON(w, checks)
			return
		}
		code := status(checks)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		_, _ = fmt.Fprintln(w, http.StatusText(code)) // a client that went away is no news
	})
}

func status(checks []reconcile.Check) int {
	if slices.ContainsFunc(checks, func(c reconcile.Check) bool { return !c.OK }) {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

func writeJSON(w http.ResponseWriter, checks []reconcile.Check) {
	w.Header().Set("Content-Type", "application/json")
	code := status(checks)
	w.WriteHeader(code)
	_ = ascii.EncodeJSON(w, struct {
		OK     bool              `json:"ok"`
		Checks []reconcile.Check `json:"checks"`
	}{code == http.StatusOK, checks}, "") // a client that went away is no news
}

// health is the checks for people, or as JSON where that is asked for.
func health(m *reconcile.Manager) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		checks := m.Health()
		w.Header().Set("Cache-Control", "no-store")
		if r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
			writeJSON(w, checks)
			return
		}
		var text strings.Builder
		for _, c := range checks {
			if c.OK {
				fmt.Fprintf(&text, "ok    %s\n", ascii.Line(c.Name))
			} else {
				fmt.Fprintf(&text, "FAIL  %s: %s\n", ascii.Line(c.Name), ascii.Line(c.Reason)) // errors.Join has a line for each
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status(checks))
		_, _ = io.WriteString(w, text.String()) // a client that went away is no news
	})
}

// Listen is New and Serve on a TCP address, such as "127.0.0.1:8080"; port 0 is a free one.
// It listens at once, so that a port that is taken is an error before anything runs, and
// does not serve before it runs: register it with m.
func Listen(address string, m *reconcile.Manager, o *Options) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("web: Listen: %w", err)
	}
	h, err := New(m, o)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return Serve(l, h), nil
}

// Serve is a runner that serves h on l, named for l's address, until its context ends: a
// Manager ends it after all other runners. Then it takes no more requests and gives those under way
// five seconds. After one of them their contexts end, and with them what streams until its caller
// leaves, as a watch does. It closes l.
//
// A request has a minute to come in, its body with it. A handler that takes longer ones sets the
// deadline with [http.ResponseController.SetReadDeadline].
func Serve(l net.Listener, h http.Handler) *Server { return &Server{l, h} }

// A Server is a runner that serves a handler. Make one with Listen or Serve.
type Server struct {
	listener net.Listener
	handler  http.Handler
}

// Addr is where it listens, such as "127.0.0.1:8080".
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends listening, for a program that ends before the Server runs. A Server that has
// run is closed.
func (s *Server) Close() error {
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

const (
	answerTime = time.Second     // from the end of Run's context to that of the requests'
	stopTime   = 5 * time.Second // … to that of their connections
)

// Name implements reconcile.Runner's optional method.
func (s *Server) Name() string { return "web " + s.Addr() }

// EndsLast implements reconcile.Runner's optional method: probes and people are answered while
// all else is stopping. /livez is well then, and /readyz is not.
func (s *Server) EndsLast() {}

// Run implements reconcile.Runner.
func (s *Server) Run(ctx context.Context) error {
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	web := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readTime, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return base },
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		defer time.AfterFunc(answerTime, end).Stop()
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
