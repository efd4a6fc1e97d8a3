package reconcile

import (
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
)

// inside is what a controller is made of.
func inside[K comparable](c *Controller[K]) *machine[K] { return c.m.(*machine[K]) }

// Remembered is of how many keys the controller still remembers what they wrote.
func Remembered[K comparable](c *Controller[K]) int { return int(inside(c).writes.n.Load()) }

// Looks is how often the runs were looked at.
func Looks[K comparable](c *Controller[K]) int {
	m := inside(c)
	m.k.mu.Lock()
	defer m.k.mu.Unlock()
	return m.pool.looks
}

// Ill is how many keys the controller takes for failing.
func Ill[K comparable](c *Controller[K]) int { return int(inside(c).k.fails.n.Load()) }

// Workers is how many workers there are to be.
func (c *Controller[K]) Workers() int {
	m := inside(c)
	m.k.mu.Lock()
	defer m.k.mu.Unlock()
	return m.pool.want
}

func (c *Controller[K]) Counts() introspect.Counts { return inside(c).counts() }

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
