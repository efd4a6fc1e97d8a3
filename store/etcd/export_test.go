//go:build unix

package etcd

// InFlight and Queued look into the batcher.
func (b *Backend) InFlight() int {
	b.batch.mu.Lock()
	defer b.batch.mu.Unlock()
	return b.batch.sending
}

func (b *Backend) Queued() int {
	b.batch.mu.Lock()
	defer b.batch.mu.Unlock()
	return len(b.batch.queue)
}

// Hubs counts the kinds with a stream.
func (b *Backend) Hubs() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.hubs)
}

// Prefix is the prefix in use.
func (b *Backend) Prefix() string { return b.opts.Prefix }
