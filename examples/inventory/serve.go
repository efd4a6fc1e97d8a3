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
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/reconcile/web/debug"
)

// A lobby answers at -listen from the start: while the program waits for its endpoint it says so and why,
// and then it has the program's pages.
type lobby struct {
	addr  string
	since time.Time
	why   atomic.Pointer[string]
	pages atomic.Pointer[http.Handler]
}

func (l *lobby) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := l.pages.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/livez" { // a restart would not help
		fmt.Fprintln(w, "ok")
		return
	}
	text := "nothing runs yet: the endpoint has not answered since " + l.since.Format(time.TimeOnly)
	if why := l.why.Load(); why != nil {
		text += ": " + *why
	}
	http.Error(w, text, http.StatusServiceUnavailable)
}

// withLobby calls f, and serves as long as that takes.
func (a *app) withLobby(ctx context.Context, f func(context.Context) error) error {
	if a.o.Listen == "" {
		return f(ctx)
	}
	listener, err := net.Listen("tcp", a.o.Listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	a.lobby.addr, a.lobby.since = listener.Addr().String(), time.Now()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ctx, failed := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() { // ended by stop, waited for below
		err := web.Serve(listener, &a.lobby).Run(serving)
		failed(err)
		ended <- err
	}()
	err = f(ctx)
	stop()
	return errors.Join(err, <-ended)
}

// debugPage is what /debug shows besides the program: what this one knows. It has no
// actions: no user is authenticated here.
func (a *app) debugPage() *debug.Options {
	return &debug.Options{Title: "inventory", Sections: []debug.Section{{Title: "This program", Rows: a.about}}}
}

// about is what the program says of itself.
func (a *app) about() [][2]string {
	var calls []string
	made := a.meter.Calls()
	for _, name := range slices.Sorted(maps.Keys(made)) {
		calls = append(calls, fmt.Sprintf("%s %d", name, made[name]))
	}
	rows := [][2]string{
		{"installation", a.o.Installation},
		{"endpoint", a.buckets.endpoint.String()},
		{"buckets are marked by", a.buckets.ownership.String()},
		{"the inventory", program.ProgressOf(a.parts...).String()},
		{"changes", a.done.String()},
		{"calls", strings.Join(calls, ", ")},
	}
	if down := a.meter.Down(); down != "" {
		rows = append(rows, [2]string{"the endpoint is no use", down})
	}
	return rows
}
