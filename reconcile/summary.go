package reconcile

import "time"

// summarise logs what happened since the last summary, and what there is now.
func (c *Controller[K]) summarise(in time.Duration) {
	since, now := c.summed, c.Counts()
	c.summed = now
	q := c.k.q.Stats()
	waits := time.Duration(0)
	if !q.OldestReady.IsZero() {
		waits = time.Since(q.OldestReady).Round(time.Millisecond)
	}
	c.k.log().Info(
		"reconcile: summary", "controller", c.k.name,
		"runs", now.Runs()-since.Runs(), "failed", now.Error+now.Terminal-since.Error-since.Terminal,
		"throttled", now.Throttled-since.Throttled,
		"ready", q.Ready, "oldestReady", waits, "running", q.Running, "delayed", q.Delayed,
		"backingOff", q.BackingOff, "held", q.Held, "waitingForQuota", q.Throttled, "parked", q.Parked, "in", in,
	)
}
