package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/internal/cause"
	"github.com/tendhq/tend/store"
)

// summarise logs what happened since the last summary, and what there is now. The words are
// those of package inspect. In an outage, of which no number tells, the line says so.
func (m *machine[K]) summarise(in time.Duration) {
	since, now := m.summed, m.counts()
	m.summed = now
	q := m.k.q.Stats()
	keys := func(in queue.State) int { return q.Of(in).Keys }
	waits := time.Duration(0)
	if oldest := q.Of(queue.StateReady).Oldest; !oldest.IsZero() {
		waits = time.Since(oldest).Round(time.Millisecond)
	}
	state := m.supervisor.condition()
	stuck := 0
	for _, r := range state.Running {
		if r.Stuck {
			stuck++
		}
	}
	attrs := []slog.Attr{
		slog.String("controller", m.k.name),
		slog.Uint64("runs", now.Runs()-since.Runs()), slog.Uint64("failed", now.Error+now.Terminal-since.Error-since.Terminal),
		slog.Uint64("throttled", now.Throttled-since.Throttled),
		slog.Int64("failing", max(m.k.fails.n.Load()-int64(keys(queue.StateParked)), 0)), slog.Int("givenUp", keys(queue.StateParked)), slog.Int("stuck", stuck),
		slog.Int("ready", keys(queue.StateReady)), slog.Duration("oldestReady", waits), slog.Int("running", keys(queue.StateRunning)), slog.Int("delayed", keys(queue.StateDelayed)),
		slog.Int("backingOff", keys(queue.StateBackingOff)), slog.Int("held", keys(queue.StateHeld)), slog.Int("waitingForQuota", keys(queue.StateThrottled)),
	}
	level := slog.LevelInfo
	if m.k.view.Load().leased {
		attrs = append(attrs, slog.String("shards", fmt.Sprintf("%d/%d", state.Held, state.Shards)))
	}
	if why := m.storeDown(state); why != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("store", cause.Down(why.Err, why.Since.Format(time.TimeOnly))), slog.Any("err", store.Brief(why.Err)))
	} else if state.ready != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.Any("waits", store.Brief(state.ready)))
	} else if q.HeldBy != "" {
		attrs = append(attrs, slog.String("paused", q.HeldBy))
	}
	m.k.log().LogAttrs(context.Background(), level, "reconcile: summary", append(attrs, slog.Duration("in", in))...)
}

// storeDown says which backend of the controller's caches or leases does not answer; nil: all do.
func (m *machine[K]) storeDown(state condition) *store.UnavailableError {
	for _, cached := range m.k.caches() {
		if down, ok := errors.AsType[*store.UnavailableError](store.Health(cached.Backend())); ok {
			return down
		}
	}
	down, _ := errors.AsType[*store.UnavailableError](state.ready)
	return down
}
