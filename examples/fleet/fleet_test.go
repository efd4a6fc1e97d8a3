package fleet

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// On a machine that stood still etcd may leave a question unanswered; what must not
// happen is another thing.
//
// Negative control: with an Await that returns ready's error, the first part fails.
func TestAQuestionWithoutAnAnswerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Fleet{changed: make(chan struct{})}
		unanswered := errors.New("no answer")
		asked := 0
		if err := f.Await(t.Context(), "an answer", func() (bool, error) {
			if asked++; asked < 3 {
				return false, unanswered
			}
			return true, nil
		}); err != nil || asked != 3 {
			t.Errorf("Await = %v after %d questions, want the third to be answered", err, asked)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := f.Await(ctx, "an answer", func() (bool, error) {
			if asked++; asked == 6 {
				cancel()
			}
			return false, unanswered
		}); !errors.Is(err, unanswered) || !errors.Is(err, context.Canceled) {
			t.Errorf("Await = %v, want why it ended and why there was no answer", err)
		}
		wrong := errors.New("that must not be")
		if err := f.Await(t.Context(), "an answer", func() (bool, error) {
			f.Wrong(wrong)
			return false, unanswered
		}); !errors.Is(err, wrong) {
			t.Errorf("Await = %v, want what went wrong", err)
		}
	})
}

// A show starts an etcd of its own: one that was named is not what it would run on.
func TestEtcdThatAShowWouldNotUseIsRefused(t *testing.T) {
	p := Program{Name: "show", Show: func(context.Context, Options, io.Writer) error { return nil }}
	var errs strings.Builder
	if code := p.Run([]string{"-etcd", "host:2379"}, strings.NewReader(""), io.Discard, &errs); code != 2 || !strings.Contains(errs.String(), "-etcd") {
		t.Errorf("exit code %d, %q; want 2 and which flag it is", code, errs.String())
	}
	if code := p.Run(nil, strings.NewReader(""), io.Discard, &errs); code != 0 {
		t.Errorf("without the flag: exit code %d, %q", code, errs.String())
	}
}

func TestEverySecondServerIsTheOtherProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for other, want := range map[string][]string{"": {self, self, self, self}, "older": {self, "older", self, "older"}} {
		f := &Fleet{other: other}
		var got []string
		for range want {
			program, err := f.program()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, program)
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %q the servers are %q, want %q", other, got, want)
		}
	}
}
