package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tendhq/tend/store"
)

// summarise logs what happened since the last summary, and what there is now. The words are
// those of package inspect. In an outage, of which no number tells, the line says so.
func (c *Controller[K]) summarise(in time.Duration) {
	since, now := c.summed, c.counts()
	c.summed = now
	q := c.k.q.Stats()
	waits := time.Duration(0)
	if !q.OldestReady.IsZero() {
		waits = time.Since(q.OldestReady).Round(time.Millisecond)
	}
	state := c.supervisor.condition()
	stuck := 0
	for _, r := range state.Running {
		if r.Stuck {
			stuck++
		}
	}
	attrs := []slog.Attr{
		slog.String("controller", c.k.name),
		slog.Uint64("runs", now.Runs()-since.Runs()), slog.Uint64("failed", now.Error+now.Terminal-since.Error-since.Terminal),
		slog.Uint64("throttled", now.Throttled-since.Throttled),
		slog.Int64("failing", max(c.k.fails.n.Load()-int64(q.Parked), 0)), slog.Int("givenUp", q.Parked), slog.Int("stuck", stuck),
		slog.Int("ready", q.Ready), slog.Duration("oldestReady", waits), slog.Int("running", q.Running), slog.Int("delayed", q.Delayed),
		slog.Int("backingOff", q.BackingOff), slog.Int("held", q.Held), slog.Int("waitingForQuota", q.Throttled),
	}
	level := slog.LevelInfo
	if c.k.view.Load().leased {
		attrs = append(attrs, slog.String("shards", fmt.Sprintf("%d/%d", state.Held, state.Shards)))
	}
	if why := c.storeDown(state); why != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("store", "has not answered since "+why.Since.Format(time.TimeOnly)), slog.Any("err", store.Brief(why.Err)))
	} else if state.ready != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.Any("waits", store.Brief(state.ready)))
	} else if q.HeldBy != "" {
		attrs = append(attrs, slog.String("paused", q.HeldBy))
	}
	c.k.log().LogAttrs(context.Background(), level, "reconcile: summary", append(attrs, slog.Duration("in", in))...)
}

// storeDown says which backend of the controller's caches or leases does not answer; nil: all do.
func (c *Controller[K]) storeDown(state condition) *store.UnavailableError {
	for _, cached := range c.k.caches() {
		if down, ok := errors.AsType[*store.UnavailableError](store.Health(cached.Backend())); ok {
			return down
		}
	}
	down, _ := errors.AsType[*store.UnavailableError](state.ready)
	return down
}
