package reconcile

import "github.com/tendhq/tend/internal/introspect"

// now is the controller's condition, also if no constructor made it.
func (c *Controller[K]) now() condition {
	if err := c.made(); err != nil {
		return condition{health: err, ready: err}
	}
	return c.supervisor.condition()
}

// Snapshot says how the controller is, for pages and metrics: what it has changes with them.
// Queue().Snapshot() has every key.
func (c *Controller[K]) Snapshot() introspect.Controller {
	return c.now().Controller
}

// Health is nil, or says what is wrong with the controller: a source that keeps
// failing, has ended, or was removed and goes on; a run that is stuck; a queue that
// the program stopped; a store that does not answer or grants no leases. It says nothing about the
// keys; one that fails is ordinary life.
func (c *Controller[K]) Health() error {
	return c.now().health
}

// Ready is nil, or says what a controller that runs is waiting for. One whose
// lease is held by another server is ready: it is there to take over, as long as the store of
// its leases answers and grants them.
func (c *Controller[K]) Ready() error {
	return c.now().ready
}
