package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tendhq/tend/store/memory"
)

// When time is up, the manager ends too, and may be seen first. What is left is
// an error either way: with -once it is the exit code.
//
// Negative control: await that returns what the manager ended with is seen by
// this test, in half of its rounds.
func TestWhatIsLeftIsToldEvenWhenTheManagerEndsFirst(t *testing.T) {
	state, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &app{out: io.Discard, o: options{Poll: 1, Once: true}, news: make(chan struct{}, 1)}
	declared := declared{Roles: map[string]RoleSpec{"left_over": {}}}
	if err := a.prepare(t.Context(), "postgres://nobody@nowhere/none", state, declared); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		waited := make(chan error, 1)
		a.wake() // so that await is somewhere on its way
		go func() { waited <- a.await(ctx, ended) }()
		cancel(errTimeout)
		ended <- nil
		if err := <-waited; !errors.Is(err, errTimeout) || !strings.Contains(err.Error(), "the state has not been read yet") {
			t.Fatalf("await = %v, want what is left and why no longer was waited", err)
		}
	}
}
