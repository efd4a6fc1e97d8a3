package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue/ratelimit"
)

// resultKind is what one run counts as.
type resultKind uint8

const (
	resultSuccess resultKind = iota
	resultRequeue
	resultRequeueAfter
	resultError
	resultTerminal
	resultThrottled
	resultCanceled
	resultKinds
)

// countOf is the count of the runs that end like that.
func countOf(c *introspect.Counts, kind resultKind) *uint64 {
	return [...]*uint64{
		&c.Success, &c.Requeue, &c.RequeueAfter, &c.Error, &c.Terminal, &c.Throttled, &c.Canceled,
	}[kind]
}

func count(c *introspect.Counts, d decision) {
	*countOf(c, d.kind)++
	if d.panic {
		c.Panic++
	}
}

// merge adds the counts of other runs.
func merge(c *introspect.Counts, o introspect.Counts) {
	for k := range resultKinds {
		*countOf(c, k) += *countOf(&o, k)
	}
	c.Panic += o.Panic
	c.Timeout += o.Timeout
}

// decision is what becomes of a key after a run: judge makes it, in pure code, and
// settle.go carries it out.
type decision struct {
	kind  resultKind
	do    settlement
	delay time.Duration // settleAfter, settleStill: the delay; settleRetry: the least
	err   error         // of the reconciler; nil: none
	panic bool
	again bool // a run before this one failed, and none has succeeded since
}

// settlement is the call that gives a key back to the queue.
type settlement uint8

const (
	settleDone  settlement = iota // Item.Done, or at the next resync
	settleAfter                   // Item.After
	settleRetry                   // Item.Retry
	settlePark                    // Item.Park
	settleStill                   // Item.After, with the last failure kept
)

// judge decides what a run came to. over is the cause of its context's end, nil if
// the context has not ended.
//
//	error              over      decision
//	any but a panic    shutdown  if the error comes from the end: again, attempts reset
//	Terminal           –         parked, also if it is Throttled
//	RetryAfter(nil, d) –         after d, attempts reset; as the value of a panic: backoff, at least d
//	RetryAfter(err, d) –         backoff, at least d
//	other              –         backoff; Throttled pauses its bucket (the queue knows)
//	nil                –         by the Result
func judge(o Outcome, over error) decision {
	if o.Err == nil {
		return judgeResult(o.Result)
	}
	d := decision{kind: resultError, do: settleRetry, err: o.Err}
	_, d.panic = errors.AsType[*PanicError](o.Err)
	var again *retryAfterError
	switch {
	case !d.panic && kernelCanceled(o.Err, over):
		return decision{kind: resultCanceled, do: settleAfter}
	case errors.Is(o.Err, ErrTerminal):
		d.kind, d.do = resultTerminal, settlePark
	case errors.As(o.Err, &again) && again.err == nil && !d.panic:
		return decision{kind: resultRequeueAfter, do: settleAfter, delay: again.d}
	case again != nil:
		d.delay = again.d
	}
	if d.kind == resultError && !d.panic && ratelimit.IsThrottled(o.Err) {
		d.kind = resultThrottled
	}
	return d
}

func judgeResult(r Result) decision {
	switch {
	case r.StillFailing:
		return decision{kind: resultRequeue, do: settleStill, delay: r.RequeueAfter}
	case r.RequeueAfter > 0:
		return decision{kind: resultRequeueAfter, do: settleAfter, delay: r.RequeueAfter}
	case r.Requeue:
		return decision{kind: resultRequeue, do: settleRetry}
	}
	return decision{kind: resultSuccess, do: settleDone}
}

// kernelCanceled reports whether err says only that the controller ended the run. A
// reconciler that returns a context.Canceled of its own failed like any other: as a
// shutdown, the key would be lost.
func kernelCanceled(err, over error) bool {
	if over == nil || errors.Is(over, ErrDeadline) || errors.Is(over, errRunOver) {
		return false
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, over)
}

// errRunOver is the cause of a run's context after the run returned.
var errRunOver = errors.New("the run is over")
