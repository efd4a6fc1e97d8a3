package main

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

	"github.com/tendhq/tend/reconcile/debug"
)

// debugPage is what /debug shows: the kernel's work, and what this program knows
// besides. It has no actions: no user is authenticated here.
func (a *app) debugPage() (http.Handler, error) {
	return debug.New(&a.kernel.manager, &debug.Options{
		Title:       "inventory",
		Buckets:     a.quota.set.Buckets(),
		Events:      a.kernel.events,
		Inventories: []debug.Inventory{a.kernel.inventory},
		Sections:    []debug.Section{{Title: "This program", Rows: a.about}},
	})
}

// about is what the program says of itself.
func (a *app) about() [][2]string {
	c, _ := a.tally.Count()
	var calls []string
	made := a.meter.Calls()
	for _, name := range slices.Sorted(maps.Keys(made)) {
		calls = append(calls, fmt.Sprintf("%s %d", name, made[name]))
	}
	rows := [][2]string{
		{"installation", a.o.Installation},
		{"endpoint", a.buckets.endpoint.String()},
		{"buckets are marked by", a.buckets.ownership.String()},
		{"the inventory", c.String()},
		{"changes", a.done.String()},
		{"calls", strings.Join(calls, ", ")},
	}
	if down := a.meter.Down(); down != "" {
		rows = append(rows, [2]string{"the endpoint is no use", down})
	}
	return rows
}

// handler serves what -listen offers: it shows, and changes nothing.
func (a *app) handler() (http.Handler, error) {
	page, err := a.debugPage()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /debug", page)
	mux.Handle("GET /metrics", a.kernel.metrics)
	return mux, nil
}

// listen opens the port, so that a port that is taken ends the program before
// anything was begun.
func (a *app) listen() (net.Listener, error) {
	if a.o.Listen == "" {
		return nil, nil
	}
	return net.Listen("tcp", a.o.Listen)
}

// serve answers on the port until ctx ends.
func (a *app) serve(ctx context.Context, l net.Listener) {
	handler, err := a.handler()
	if err != nil {
		a.out.Line("serving: %v", err)
		return
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	a.out.Line("serving http://%s/metrics and /debug", l.Addr())
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		a.out.Line("serving ended: %v", err)
	}
}
