package external

import (
	"sync/atomic"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/store"
)

// The names of the client's calls, in Reconciler.Stats and in Change.Action.
const (
	callObserve = "observe"
	callCreate  = "create"
	callUpdate  = "update"
	callRotate  = "rotate"
	callDelete  = "delete"
)

// tally counts as things happen, because nothing else remembers them: a call to
// a cloud costs a million times as much.
type tally struct {
	observe, create, update, rotate, delete outcomes
	drifted                                 atomic.Uint64
}

type outcomes struct{ ok, throttled, failed atomic.Uint64 }

func (c *tally) of(what string) *outcomes {
	switch what {
	case callCreate:
		return &c.create
	case callUpdate:
		return &c.update
	case callRotate:
		return &c.rotate
	case callDelete:
		return &c.delete
	}
	return &c.observe
}

func (c *tally) count(what string, err error) {
	o := c.of(what)
	switch {
	case err == nil:
		o.ok.Add(1)
	case ratelimit.IsThrottled(err):
		o.throttled.Add(1)
	default:
		o.failed.Add(1)
	}
}

// Stats reads the counters. It may be called at any time.
func (r *Reconciler[S, T]) Stats() introspect.External {
	s := introspect.External{Kind: r.kind, Calls: make(map[string]introspect.Calls, 5), Drifted: r.tally.drifted.Load()}
	for _, what := range []string{callObserve, callCreate, callUpdate, callRotate, callDelete} {
		o := r.tally.of(what)
		s.Calls[what] = introspect.Calls{OK: o.ok.Load(), Throttled: o.throttled.Load(), Failed: o.failed.Load()}
	}
	return s
}

// drifted says whether what was seen differs from a spec that had been put into
// effect before. A difference after a new spec is work, not drift.
func (a *attempt[S, T]) drifted(seen Observation) bool {
	o := a.Stored()
	if o.Deleting() || !seen.Exists || seen.UpToDate || seen.Owner != Ours && seen.Owner != Unreported {
		return false
	}
	was, ok := o.Condition(store.ConditionSynced)
	return ok && was.Status == store.True && was.Reason != reasonDiffers && o.ObservedGeneration == o.Generation
}
