package reconcile

// Runners are the runners that were registered and the caches that controllers
// use: what Run runs. Metrics and debug pages ask it again and again, because until
// Run caches come to it with each source that is added.
func (m *Manager) Runners() []Runner {
	m.mu.Lock()
	defer m.mu.Unlock()
	var rs []Runner
	if m.run == nil {
		for _, cached := range usedCaches(m.members) {
			rs = append(rs, cached)
		}
	}
	for _, mb := range m.members {
		rs = append(rs, mb.Runner)
		if c, ok := mb.Runner.(controller); ok {
			for _, cached := range c.ownedCaches() {
				rs = append(rs, cached)
			}
		}
	}
	return rs
}
