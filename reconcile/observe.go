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
