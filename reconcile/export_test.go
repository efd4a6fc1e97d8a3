package reconcile

// Remembered is of how many keys the controller still remembers what they wrote.
func Remembered[K comparable](c *Controller[K]) int { return int(c.n.Load()) }

// Looks is how often the runs were looked at.
func Looks[K comparable](c *Controller[K]) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}

// Ill is how many failures were logged since all keys were last found well.
func Ill[K comparable](c *Controller[K]) uint64 { return c.view.Load().ill }
