package reconcile

// Runners are the runners that were registered and the caches that controllers
// use: what Run runs. Metrics and debug pages ask it again and again, because until
// Run caches come to it with each source that is added.
func (m *Manager) Runners() (rs []Runner) {
	for _, mb := range m.present() {
		rs = append(rs, mb.Runner)
	}
	return rs
}

// Inspect gives the Inspection of a controller of any type of keys; not ok: r is none, or
// one that no constructor made.
func Inspect(r Runner) (i Inspection, ok bool) {
	c, ok := r.(interface{ inspect() Inspection })
	if !ok || isNil(r) {
		return nil, false
	}
	i = c.inspect()
	return i, i != nil
}
