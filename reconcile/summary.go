package reconcile

import "time"

// summarised is a Controller of any K, as the summary needs it.
type summarised interface {
	Name() string
	summary(since Counts) (now Counts, attrs []any)
	sum(attrs []any)
}

func (c *Controller[K]) sum(attrs []any) { c.log().Info("reconcile: summary", attrs...) }

// summary says what happened since, and what there is now.
func (c *Controller[K]) summary(since Counts) (now Counts, attrs []any) {
	now = c.Counts()
	q := c.q.Stats()
	waits := time.Duration(0)
	if !q.OldestReady.IsZero() {
		waits = time.Since(q.OldestReady).Round(time.Millisecond)
	}
	return now, []any{
		"controller", c.name,
		"runs", now.Runs() - since.Runs(), "failed", now.Error + now.Terminal - since.Error - since.Terminal,
		"throttled", now.Throttled - since.Throttled,
		"ready", q.Ready, "oldestReady", waits, "running", q.Running, "delayed", q.Delayed,
		"backingOff", q.BackingOff, "held", q.Held + q.Throttled, "parked", q.Parked,
	}
}
