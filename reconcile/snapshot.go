package reconcile

// Snapshot says how the controller is. Queue().Snapshot() has every key.
func (c *Controller[K]) Snapshot() Snapshot {
	if c.made() != nil {
		return Snapshot{}
	}
	return c.condition().Snapshot
}

// Health is nil, or says what is wrong with the controller: a source that keeps
// failing, has ended, or was removed and goes on; a run that is stuck; a queue that
// the program stopped. It says nothing about the keys; one that fails is ordinary
// life.
func (c *Controller[K]) Health() error {
	if err := c.made(); err != nil {
		return err
	}
	return c.condition().health
}

// Ready is nil, or says what a controller that runs is waiting for. One whose
// lease is held by another server is ready: it is there to take over.
func (c *Controller[K]) Ready() error {
	if err := c.made(); err != nil {
		return err
	}
	return c.condition().ready
}
