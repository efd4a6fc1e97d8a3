package reconcile

import (
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
)

// Remembered is of how many keys the controller still remembers what they wrote.
func Remembered[K comparable](c *Controller[K]) int { return int(c.writes.n.Load()) }

// Looks is how often the runs were looked at.
func Looks[K comparable](c *Controller[K]) int {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return c.pool.looks
}

// Ill is how many keys the controller takes for failing.
func Ill[K comparable](c *Controller[K]) int { return int(c.k.fails.n.Load()) }

// Workers is how many workers there are to be.
func (c *Controller[K]) Workers() int {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return c.pool.want
}

func (c *Controller[K]) Counts() introspect.Counts { return c.counts() }

var ErrNotSynced = errSyncTimeout

var ErrSourceEnded = errSourceEnded

var ErrRunning = errRunning

var ErrNoSource = errNoSource

var ErrSourceRunning = errSourceRunning

var ErrNameTaken = errNameTaken

type LeftoverError = leftoverError

func (o *MapOptions[S, T]) SetBackoff(b queue.Backoff) *MapOptions[S, T] {
	o.backoff = b
	return o
}

func (a *Adapt) SetInterval(d time.Duration) *Adapt {
	a.interval = d
	return a
}
