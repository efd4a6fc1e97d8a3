// Command 06-production is a whole service: a durable store, health, metrics, a debug
// page, logs as JSON, and a stop in good order on SIGTERM.
//
//	go run ./examples/guide/06-production -db sites.db
//	go run ./examples/guide/06-production -db sites.db -check   # start, look, stop
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
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
	db := flags.String("db", "sites.db", "the file that holds the declarations")
	listen := flags.String("listen", "127.0.0.1:8080", "where /livez, /readyz, /healthz, /metrics and /debug are served")
	check := flags.Bool("check", false, "start, ask each address once, and stop")
	if err := flags.Parse(args); err != nil {
		return err
	}
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))

	// What can fail for want of a right, a port or a file fails here, before anything runs.
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	backend, err := file.Open(*db, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close()) }() // after everything that uses it

	manager := reconcile.Manager{
		StopTimeout: 20 * time.Second, // less than the supervisor waits before it kills
		Summary:     time.Minute,      // a line about each controller
	}
	collector := metrics.New(&manager)
	measured, err := collector.Measure("file", backend)
	if err != nil {
		return err
	}
	controller, err := newController(measured)
	if err != nil {
		return err
	}
	server, err := newWeb(&manager, collector, listener)
	if err != nil {
		return err
	}
	if err := manager.Register(controller, server); err != nil {
		return err
	}
	if !*check {
		return manager.Run(ctx)
	}
	return runAndLook(ctx, &manager, listener.Addr().String(), out)
}

// guide: end

// guide: handler
func newWeb(manager *reconcile.Manager, collector *metrics.Collector, listener net.Listener) (reconcile.Runner, error) {
	handler, err := web.New(manager, &web.Options{
		Metrics: collector,
		Pprof:   true, // profiles at /debug/pprof/
	})
	if err != nil {
		return nil, err
	}
	return web.Serve(listener, handler), nil // the manager starts it, and stops it with everything else
}

// guide: end

func newController(backend store.Backend) (*reconcile.ObjectController[Spec, Status], error) {
	sites, err := store.New[Spec, Status](backend, "site", nil)
	if err != nil {
		return nil, err
	}
	return reconcile.For(sites, func(ctx context.Context, site *Site) (reconcile.Result, error) {
		reconcile.Logger(ctx).Debug("looking") // the line has the controller, the key and the run's id
		site.Status.Running = site.Spec.Servers
		site.SetReady()
		_, err := sites.UpdateStatus(ctx, site)
		return reconcile.Result{}, err
	}, &reconcile.ForOptions[Spec, Status]{Options: reconcile.Options[reconcile.Request]{
		Timeout: time.Minute,
		Resync:  10 * time.Minute, // look again at what succeeded, to find drift
	}})
}

// runAndLook runs the manager until it is ready and each address was asked.
func runAndLook(ctx context.Context, manager *reconcile.Manager, address string, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(ctx) }()
	for _, path := range []string{"/readyz", "/livez", "/healthz", "/metrics", "/debug?format=text"} {
		status, err := ask(ctx, "http://"+address+path)
		for err == nil && status != http.StatusOK && path == "/readyz" { // until it is
			time.Sleep(10 * time.Millisecond)
			status, err = ask(ctx, "http://"+address+path)
		}
		if err != nil {
			return err
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
