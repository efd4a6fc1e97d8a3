package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/reconcile"
)

// Controllers that come and go under names of their own, one for each tenant say, leave
// nothing in the collector; one that stays keeps its exemplars. Labels that their owner
// changes later are those of the call.
//
// Negative controls: mutants "what is kept of a stopped controller stays" and "the map of
// an exemplar's labels is not copied".
func TestStoppedControllersLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := slog.New(slog.DiscardHandler)
		m := &reconcile.Manager{Logger: silent}
		c := New(m)
		labels := map[string]string{"trace_id": "a"}
		c.Exemplars(func(context.Context) map[string]string { return labels })
		controller := func(name string) *reconcile.Controller[string] {
			ctl, err := reconcile.New(name, reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}), With(c, &reconcile.Options[string]{Logger: silent}))
			if err != nil {
				t.Fatal(err)
			}
			return ctl
		}
		run := func(ctl *reconcile.Controller[string]) {
			if err := ctl.Add("key"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		stays := controller("stays")
		if err := m.Register(stays); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ended by cancel, waited for below
		synctest.Wait()
		run(stays)
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(c)
		scrape := func() {
			if _, err := r.Gather(); err != nil {
				t.Fatal(err)
			}
		}
		labels["trace_id"] = "b"
		for n := range 5 {
			tenant := controller(fmt.Sprint("tenant", n))
			stop, err := m.Start(tenant)
			if err != nil {
				t.Fatal(err)
			}
			run(tenant)
			scrape()
			if len(c.runs) != 2 || len(c.bands) != 2 {
				t.Errorf("of two controllers exemplars of %d and priorities of %d are kept", len(c.runs), len(c.bands))
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			scrape()
		}
		if len(c.runs) != 1 || len(c.bands) != 1 {
			t.Errorf("of the one that is left exemplars of %d and priorities of %d controllers are kept", len(c.runs), len(c.bands))
		}
		if n := len(c.labels["queue"]); n != 1 {
			t.Errorf("of the one that is left the labels of %d controllers are kept", n)
		}
		if all := c.exemplarsSeen("stays"); len(all) != 1 || all[0].Labels["trace_id"] != "a" {
			t.Errorf("the one that stays has the exemplars %v, want that of trace a", all)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
