package external

// Remembered is how many single resources the inventory keeps something of.
func (v *Inventory[S, T, R]) Remembered() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.written) + len(v.single) + len(v.detail)
}

// Sightings is how many records of creates r remembers.
func (r *Reconciler[S, T]) Sightings() int {
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	return len(r.seen.of)
}
