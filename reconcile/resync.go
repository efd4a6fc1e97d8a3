package reconcile

import (
	"math/rand/v2"
	"time"

	"github.com/tendhq/tend/queue"
)

// housekeeping is how often keepHouse is called.
func (c *Controller[K]) housekeeping() time.Duration {
	d := time.Minute
	if c.o.ParkedResync > 0 {
		d = min(d, max(c.o.ParkedResync/10, time.Second))
	}
	return d
}

func (c *Controller[K]) keepHouse() {
	c.age()
	if c.o.ParkedResync > 0 && c.q.Stats().Parked > 0 {
		c.retryParked()
	}
}

// retryParked runs once more what has been parked for long: whatever made it
// fail may have been mended without anything that its sources could see. The
// lowest band, because it most likely fails again.
func (c *Controller[K]) retryParked() {
	now := time.Now()
	for e := range c.q.Snapshot() {
		if e.State != queue.StateParked {
			continue
		}
		if now.Sub(e.Since) >= c.o.ParkedResync-rand.N(c.o.ParkedResync/5+1) {
			_ = c.q.AddWith(e.Key, queue.AddOptions{Urgent: true, Replace: true, Priority: bandInitial, Reason: "slow resync"})
		}
	}
}
