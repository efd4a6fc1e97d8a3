package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/tendhq/tend/queue"
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

// Counts says how many runs ended how since the controller was made. Panics and
// timeouts are counted beside what their runs count as.
type Counts struct {
	Success      uint64 `json:"success"`
	Requeue      uint64 `json:"requeue"`
	RequeueAfter uint64 `json:"requeueAfter"`
	Error        uint64 `json:"error"`
	Terminal     uint64 `json:"terminal"`
	Throttled    uint64 `json:"throttled"`
	Canceled     uint64 `json:"canceled"` // by a lost lease or the controller's stop
	Panic        uint64 `json:"panic"`
	Timeout      uint64 `json:"timeout"`
}

func (c *Counts) of(kind resultKind) *uint64 {
	return [...]*uint64{
		&c.Success, &c.Requeue, &c.RequeueAfter, &c.Error, &c.Terminal, &c.Throttled, &c.Canceled,
	}[kind]
}

func (c *Counts) add(v verdict) {
	*c.of(v.kind)++
	if v.panic {
		c.Panic++
	}
}

func (c *Counts) merge(o Counts) {
	for k := range resultKinds {
		*c.of(k) += *o.of(k)
	}
	c.Panic += o.Panic
	c.Timeout += o.Timeout
}

// Runs is the number of runs.
func (c Counts) Runs() (n uint64) {
	for k := range resultKinds {
		n += *c.of(k)
	}
	return n
}

// verdict is what becomes of a key after a run. It is worked out in pure code,
// by judge, and carried out in one place, by settle.
type verdict struct {
	kind  resultKind
	do    settlement
	delay time.Duration // After: the delay; Retry: the least
	err   error         // of the reconciler; nil: none
	panic bool
	again bool // the run before this one failed too; only known where it matters, see failing
}

type settlement uint8

const (
	settleDone settlement = iota
	settleAfter
	settleRetry
	settlePark
	settleStill
)

// judge says what a run came to. over is the cause of its context's end, nil if
// it has not ended.
//
//	error              over      what
//	any but a panic    shutdown  if the error comes from the end: again, attempts reset
//	Terminal           –         parked
//	RetryAfter(nil, d) –         after d, attempts reset; as the value of a panic: backoff, at least d
//	RetryAfter(err, d) –         backoff, at least d
//	other              –         backoff; Throttled pauses its bucket (the queue knows)
//	nil                –         by the Result
func judge(o Outcome, over error) verdict {
	if o.Err == nil {
		return judgeResult(o.Result)
	}
	v := verdict{kind: resultError, do: settleRetry, err: o.Err}
	var panicked *PanicError
	v.panic = errors.As(o.Err, &panicked)
	var again *retryAfterError
	switch {
	case !v.panic && kernelCanceled(o.Err, over):
		return verdict{kind: resultCanceled, do: settleAfter}
	case errors.Is(o.Err, ErrTerminal):
		v.kind, v.do = resultTerminal, settlePark
	case errors.As(o.Err, &again) && again.err == nil && !v.panic:
		return verdict{kind: resultRequeueAfter, do: settleAfter, delay: again.d}
	case again != nil:
		v.delay = again.d
	}
	if queue.IsThrottled(o.Err) && !v.panic {
		v.kind = resultThrottled
	}
	return v
}

func judgeResult(r Result) verdict {
	switch {
	case r.StillFailing:
		return verdict{kind: resultRequeue, do: settleStill, delay: r.RequeueAfter}
	case r.RequeueAfter > 0:
		return verdict{kind: resultRequeueAfter, do: settleAfter, delay: r.RequeueAfter}
	case r.Requeue:
		return verdict{kind: resultRequeue, do: settleRetry}
	}
	return verdict{kind: resultSuccess, do: settleDone}
}

// kernelCanceled reports whether err says only that we ended the run ourselves.
// A reconciler that returns a context.Canceled of its own making failed like any
// other: taking it for a shutdown would lose the key.
func kernelCanceled(err, over error) bool {
	if over == nil || errors.Is(over, ErrDeadline) || errors.Is(over, errRunOver) {
		return false
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, over)
}

// errRunOver is the cause of a run's context after the run returned.
var errRunOver = errors.New("the run is over")
