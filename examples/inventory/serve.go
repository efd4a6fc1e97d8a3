package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/tendhq/tend/reconcile"
)

// maxDebugKeys bounds the keys on the debug page.
const maxDebugKeys = 10_000

// A debugPage is what /debug shows.
type debugPage struct {
	Installation string             `json:"installation"`
	Endpoint     string             `json:"endpoint"`
	Down         string             `json:"down,omitempty"` // why the endpoint is no use
	Marks        string             `json:"marks"`
	Inventory    count              `json:"inventory"`
	Left         []string           `json:"left,omitempty"`
	Changes      string             `json:"changes"`
	Calls        map[string]int     `json:"calls"`
	Controller   reconcile.Snapshot `json:"controller"`
	Keys         []debugKey         `json:"keys"`
}

// A debugKey is a bucket as the queue sees it: what it waits for, and why.
type debugKey struct {
	Name     string     `json:"name"`
	State    string     `json:"state"`
	Why      string     `json:"why,omitempty"`
	Next     *time.Time `json:"next,omitempty"`
	Attempts int        `json:"attempts,omitempty"`
	Error    string     `json:"error,omitempty"`
}

func (a *app) debug() debugPage {
	c, _ := a.tally.Count()
	p := debugPage{
		Installation: a.o.Installation,
		Endpoint:     a.buckets.endpoint.String(),
		Down:         a.meter.Down(),
		Marks:        a.buckets.ownership.String(),
		Inventory:    c,
		Left:         a.tally.Left(),
		Changes:      a.done.String(),
		Calls:        a.meter.Calls(),
		Controller:   a.kernel.controller.Snapshot(),
	}
	for e := range a.kernel.controller.Queue().Snapshot() {
		if len(p.Keys) == maxDebugKeys {
			break
		}
		k := debugKey{Name: e.Key.Name, State: e.State.String(), Why: e.Why, Attempts: e.Attempts}
		if !e.Next.IsZero() {
			k.Next = &e.Next
		}
		if e.LastError != nil {
			k.Error = cut(e.LastError.Error())
		}
		p.Keys = append(p.Keys, k)
	}
	return p
}

// handler serves what -listen offers: it shows, and changes nothing.
func (a *app) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(a.debug()) // fails only if the reader went away
	})

	mux.Handle("GET /metrics", a.kernel.metrics)
	return mux
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
	s := &http.Server{Handler: a.handler(), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	a.out.Line("serving http://%s/metrics and /debug", l.Addr())
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		a.out.Line("serving ended: %v", err)
	}
}
