package external_test

import (
	"context"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile/external"
)

// loop is an error that unwraps to itself.
type loop struct{}

func (e *loop) Error() string { return "loop" }
func (e *loop) Unwrap() error { return e }

// promise R3: an error without an end, from any call of the user's code, is a failure
// like any other.
//
// Negative control: with the errors as they come each of these runs is busy for ever.
func TestEndlessErrorOfAClientIsAFailureLikeAnyOther(t *testing.T) {
	bad := error(&loop{})
	fail := func(context.Context, *disk) error { return bad }
	see := func(exists bool) func(context.Context, *disk) (external.Observation, error) {
		return func(context.Context, *disk) (external.Observation, error) {
			return external.Observation{Exists: exists}, nil
		}
	}
	type client = external.ClientFuncs[diskSpec, diskStatus]
	for name, c := range map[string]external.Connector[diskSpec, diskStatus]{
		"Observe": client{ObserveFunc: func(context.Context, *disk) (external.Observation, error) { return external.Observation{}, bad }},
		"Create":  client{ObserveFunc: see(false), CreateFunc: fail},
		"Update":  client{ObserveFunc: see(true), UpdateFunc: fail},
		"Delete":  client{ObserveFunc: see(true), UpdateFunc: func(context.Context, *disk) error { return nil }, DeleteFunc: fail},
		"Connect": external.ConnectorFunc[diskSpec, diskStatus](func(context.Context, *disk) (external.Client[diskSpec, diskStatus], error) {
			return nil, bad
		}),
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			w := newWorld(t)
			w.with(c)
			w.declare()
			if name == "Delete" {
				w.run()
				w.delete()
			}
			go func() { ended <- w.fails() }() // ends with the run
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatal("the run is busy with its error")
			}
		})
	}
}

// The client of an inventory looks at what a write answered before the run does.
//
// promise R3. Negative control: the mutant "the client of an inventory walks through an error that has no end".
func TestEndlessErrorOfAnInventorysClientIsAFailureLikeAnyOther(t *testing.T) {
	w := newWorld(t)
	w.declare()
	v, ended := w.inventory(), make(chan error, 1)
	c := v.Client(external.ClientFuncs[diskSpec, diskStatus]{CreateFunc: func(context.Context, *disk) error { return &loop{} }})
	go func() { ended <- c.CreateFunc(t.Context(), w.get()) }() // ends with the call
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the error is gone")
		}
	case <-time.After(time.Minute):
		t.Fatal("the client is busy with its error")
	}
}
