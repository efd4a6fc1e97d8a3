package external

// Remembered is how many single resources the inventory keeps something of.
func (v *Inventory[S, T, R]) Remembered() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.written) + len(v.single) + len(v.detail)
}
