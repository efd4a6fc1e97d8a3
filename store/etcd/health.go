package etcd

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/store"
)

// errSilent is why a cluster is not available where no call has failed: a stream
// was asked for a sign of life and gave none.
var errSilent = errors.New("no sign of life from the server")

// health is what the streams of a backend know about the cluster. It logs one line
// when the cluster stops answering and one when it answers again, however many
// streams there are.
type health struct {
	place string // the endpoints
	log   *slog.Logger

	mu  sync.Mutex // guards the rest; taken under hub.mu
	ill map[*hub]*store.UnavailableError
}

// Health implements store.HealthChecker: it goes by the streams that watches use, and by
// commits. After a silence of one and a half times Options.silence the error says since when,
// from which endpoints, and why. So it does while commits fail, for want of space for
// example, until one succeeds; while they fail the backend tries one itself every 5 s.
// A cluster that was not compacted for a day or longer and has 80 % of its quota in use
// is a warning, an error of another type: it serves still.
func (b *backend) Health() error {
	h := b.health
	h.mu.Lock()
	defer h.mu.Unlock()
	var first *store.UnavailableError
	for _, err := range h.ill {
		if first == nil || err.Since.Before(first.Since) {
			first = err
		}
	}
	if first != nil {
		return first
	}
	if err := b.writes.Health(); err != nil {
		return err
	}
	if w := b.space.warning.Load(); w != nil {
		return w
	}
	return nil
}

// fails notes that the cluster does not answer this stream. The result is to be
// called without a lock.
func (h *health) fails(on *hub, since time.Time, err error) (report func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := len(h.ill) > 0
	h.ill[on] = &store.UnavailableError{Since: since, Err: err}
	if known {
		return func() {}
	}
	return func() {
		h.log.Warn("etcd: the cluster does not answer", "endpoints", h.place, "since", since, "err", store.Brief(err))
	}
}

// answers notes that the cluster answers this stream, or that the stream has ended.
func (h *health) answers(on *hub) (report func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.ill[on]
	delete(h.ill, on)
	if was == nil || len(h.ill) > 0 {
		return func() {}
	}
	return func() {
		h.log.Info("etcd: the cluster answers again", "endpoints", h.place, "after", time.Since(was.Since).Round(time.Millisecond))
	}
}

// String names the backend for people.
func (b *backend) String() string { return "etcd " + b.health.place }

// placeOf names the endpoints in errors and logs.
func placeOf(endpoints []string) string { return strings.Join(endpoints, ", ") }
