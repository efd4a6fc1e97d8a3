package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
)

func TestJudge(t *testing.T) {
	boom := errors.New("boom")
	throttled := ratelimit.Throttled(nil, time.Time{}, boom)
	shutdown := fmt.Errorf("controller: %w", ErrShutdown)
	deadline := fmt.Errorf("controller: %w of 5m", ErrDeadline)
	for _, test := range []struct {
		name string
		o    Outcome
		over error
		want decision // err: only whether there is one
	}{
		{"nothing", Outcome{}, nil, decision{}},
		{"delay", Outcome{Result: Result{RequeueAfter: 5}}, nil, decision{kind: resultRequeueAfter, do: settleAfter, delay: 5}},
		{"negative delay", Outcome{Result: Result{RequeueAfter: -5}}, nil, decision{}},
		{"again", Outcome{Result: Result{Requeue: true}}, nil, decision{kind: resultRequeue, do: settleRetry}},
		{"delay beats again", Outcome{Result: Result{Requeue: true, RequeueAfter: 5}}, nil, decision{kind: resultRequeueAfter, do: settleAfter, delay: 5}},
		{"still failing", Outcome{Result: Result{StillFailing: true, RequeueAfter: 5}}, nil, decision{kind: resultRequeue, do: settleStill, delay: 5}},
		{"error beats result", Outcome{Result{RequeueAfter: 5}, boom}, nil, decision{kind: resultError, do: settleRetry, err: boom}},
		{"terminal", Outcome{Err: fmt.Errorf("x: %w", Terminal(boom))}, nil, decision{kind: resultTerminal, do: settlePark, err: boom}},
		{"terminal without a cause", Outcome{Err: Terminal(nil)}, nil, decision{kind: resultTerminal, do: settlePark, err: boom}},
		{"retry after", Outcome{Err: RetryAfter(boom, 7)}, nil, decision{kind: resultError, do: settleRetry, delay: 7, err: boom}},
		{"retry after no error", Outcome{Err: fmt.Errorf("x: %w", RetryAfter(nil, 7))}, nil, decision{kind: resultRequeueAfter, do: settleAfter, delay: 7}},
		{"panic", Outcome{Err: &PanicError{Value: 1}}, nil, decision{kind: resultError, do: settleRetry, err: boom, panic: true}},
		{"panic with a delay", Outcome{Err: &PanicError{Value: RetryAfter(nil, 7)}}, nil, decision{kind: resultError, do: settleRetry, delay: 7, err: boom, panic: true}},
		{"throttled", Outcome{Err: throttled}, nil, decision{kind: resultThrottled, do: settleRetry, err: boom}},
		{"throttled for good", Outcome{Err: Terminal(throttled)}, nil, decision{kind: resultTerminal, do: settlePark, err: boom}},
		{"throttled panic", Outcome{Err: &PanicError{Value: throttled}}, nil, decision{kind: resultError, do: settleRetry, err: boom, panic: true}},
		{"canceled by itself", Outcome{Err: context.Canceled}, nil, decision{kind: resultError, do: settleRetry, err: boom}},
		{"canceled by shutdown", Outcome{Err: fmt.Errorf("x: %w", context.Canceled)}, shutdown, decision{kind: resultCanceled, do: settleAfter}},
		{"cause of the shutdown", Outcome{Err: shutdown}, shutdown, decision{kind: resultCanceled, do: settleAfter}},
		{"another error at shutdown", Outcome{Err: boom}, shutdown, decision{kind: resultError, do: settleRetry, err: boom}},
		{"panic at shutdown", Outcome{Err: &PanicError{Value: context.Canceled}}, shutdown, decision{kind: resultError, do: settleRetry, err: boom, panic: true}},
		{"deadline", Outcome{Err: context.DeadlineExceeded}, deadline, decision{kind: resultError, do: settleRetry, err: boom}},
		{"cause of the deadline", Outcome{Err: fmt.Errorf("x: %w", deadline)}, deadline, decision{kind: resultError, do: settleRetry, err: boom}},
		{"canceled at the deadline", Outcome{Err: context.Canceled}, deadline, decision{kind: resultError, do: settleRetry, err: boom}},
		{"success after the end", Outcome{}, shutdown, decision{}},
	} {
		got := judge(test.o, test.over)
		if (got.err == nil) != (test.want.err == nil) {
			t.Errorf("%s: the error is %v, want %v", test.name, got.err, test.want.err)
		}
		if got.err, test.want.err = nil, nil; got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}
