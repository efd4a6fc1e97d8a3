package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
)

// A run that other code ends in the controller's queue, as a reconciler its own, loses its result,
// with a line in the log; the process and the worker go on.
//
// promise R6. Before, the worker's settling panicked on its own goroutine: "Item settled twice"
// ended the process.
func TestRunThatIsEndedInTheQueueIsContained(t *testing.T) {
	ends := map[string]func(q *queue.Queue[string], key string){
		"DoneKey": func(q *queue.Queue[string], key string) { q.DoneKey(key) },
		"Running": func(q *queue.Queue[string], key string) {
			it, _ := q.Running(key)
			it.Park(errBoom)
		},
	}
	results := map[string]func() (reconcile.Result, error){
		"Done":  func() (reconcile.Result, error) { return reconcile.Result{}, nil },
		"After": func() (reconcile.Result, error) { return reconcile.Result{RequeueAfter: 1}, nil },
		"Retry": func() (reconcile.Result, error) { return reconcile.Result{}, errors.New("failed") },
		"Park":  func() (reconcile.Result, error) { return reconcile.Result{}, reconcile.Terminal(errBoom) },
		"Still": func() (reconcile.Result, error) { return reconcile.Result{StillFailing: true, RequeueAfter: 1}, nil },
		"panic": func() (reconcile.Result, error) { panic("own") },
	}
	for how, end := range ends {
		for what, result := range results {
			t.Run(how+" "+what, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					var c *reconcile.Controller[string]
					logger, log := quiet()
					rec := record(func(_ context.Context, key string) (reconcile.Result, error) {
						if key != "a" {
							return reconcile.Result{}, nil
						}
						end(c.Queue(), key)
						return result()
					})
					c = newController(t, rec, &reconcile.Options[string]{Logger: logger, Workers: 1})
					run := start(t, c)
					add(t, c, "a")
					pass(0)
					add(t, c, "b")
					pass(0)
					if n := strings.Count(log.String(), "the result of a run is lost"); n != 1 || !strings.Contains(log.String(), "key=a") {
						t.Errorf("%d lines about the lost result, want one that names the key:\n%s", n, log)
					}
					if keys := rec.keys(); len(keys) != 2 || keys[1] != "b" {
						t.Errorf("runs of %v, want of a and b", keys)
					}
					if err := run.end(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
