package reconcile

// Remembered is of how many keys the controller still remembers what they wrote.
func Remembered[K comparable](c *Controller[K]) int { return int(c.after.n.Load()) }

// InLine is how many wait for caches to see what runs wrote.
func InLine[K comparable](c *Controller[K]) (n int) {
	c.after.mu.Lock()
	defer c.after.mu.Unlock()
	for _, l := range c.after.lines {
		n += len(l.waiting) - l.first
	}
	return n
}

// Looks is how often the watchdog looked at the runs.
func Looks[K comparable](c *Controller[K]) int64 { return c.life.looks.Load() }
