package reconcile

// Remembered is of how many keys the controller still remembers what they wrote.
func Remembered[K comparable](c *Controller[K]) int { return int(c.after.n.Load()) }
