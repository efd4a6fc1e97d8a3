package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/store"
)

// condition is how a controller is at a moment: what introspection reads of the kernel,
// besides the queue.
type condition struct {
	introspect.Controller
	health error // what Controller.Health says
	ready  error // what Controller.Ready says
}

func (s *supervisor[K]) condition() condition {
	s.k.mu.Lock()
	v := s.k.view.Load()
	now, feeds, removed := s.now, s.sources.feeds, s.sources.removed
	stopped := s.pool.stops && now < stateDraining // by the program
	var c condition
	if v.leased {
		c.Leases = s.leases
	}
	c.Name, c.Kind, c.Workers, c.Shards = s.k.name, v.kind, s.pool.want, len(v.holds)
	c.Slowed, c.PutOff = s.k.brake.snapshot(s.k.since())
	if a := s.adapt; a != nil {
		c.Adapt = &introspect.Adapt{Min: a.Min, Max: a.Max, Raised: a.raised, Lowered: a.lowered}
	}
	s.k.mu.Unlock()
	c.Placement = "on every server"
	if v.place != nil {
		c.Placement = v.place.String()
	}
	for i := range v.holds {
		if v.holds[i].Load() != nil {
			c.Held++
		}
	}
	c.Loading, c.LoadingFrom = s.loadingShards()
	c.Queue = s.k.q.Stats().States
	c.Runs, _ = s.pool.totals()

	ill := []error{healthOf(ungrouped(v.place))} // the store of its leases
	if stopped {
		ill = append(ill, errStopped)
	}
	for _, f := range feeds {
		source, err := f.condition()
		c.Sources, ill = append(c.Sources, source), append(ill, err)
	}
	for _, f := range removed { // that go on
		_, err := f.condition()
		ill = append(ill, err)
	}
	for _, slot := range s.pool.all() {
		if r, running := slot.condition(); running {
			c.Running = append(c.Running, r)
		}
	}
	c.Active = len(c.Running)
	slices.SortFunc(c.Running, func(a, b introspect.Run) int {
		return cmp.Or(a.Since.Compare(b.Since), slices.Compare(a.Keys, b.Keys))
	})
	for _, r := range c.Running {
		if r.Stuck {
			ill = append(ill, fmt.Errorf("run of %s is stuck since %s: %s", strings.Join(r.Keys, ", "), r.Since.Format(time.RFC3339), r.Ended))
		}
	}
	c.health = errors.Join(ill...)
	c.Error = textOf(c.health)

	unplaced := readyOf(ungrouped(v.place))
	what, why := s.sources.unsynced()
	switch {
	case now == stateNew:
		c.ready = errNotRunning
	case unplaced != nil:
		c.ready = unplaced
	case stopped:
		c.ready = errStopped
	case now >= stateDraining, v.leased && (now == stateWaiting || now == stateReleasing), what == "":
	case why != nil:
		c.Waiting, c.ready = what, fmt.Errorf("waiting for %s to sync: %w", what, why)
	default:
		c.Waiting, c.ready = what, fmt.Errorf("waiting for %s to sync", what)
	}
	return c
}

func (s *slot[K]) condition() (r introspect.Run, running bool) {
	s.mu.Lock()
	x := s.run
	if x == nil {
		s.mu.Unlock()
		return r, false
	}
	r = introspect.Run{Since: s.k.epoch.Add(x.started), Attempt: int(x.attempt), Stuck: x.more != nil && x.more.stuck}
	cause := x.cause
	s.mu.Unlock()
	r.Ended = textOf(cause) // without the lock, as below: a key's String is user code
	for _, k := range x.keys {
		r.Keys = append(r.Keys, fmt.Sprint(k))
	}
	return r, true
}

// condition has an error if the source says so itself, if it is not running, and if the run
// before ended with an error and this one is young. One that was asked for a pause is well.
func (f *feed[K]) condition() (c introspect.Source, err error) {
	f.of.k.mu.Lock()
	c = introspect.Source{Name: f.Name, Kind: f.kind, State: f.state.String(), Synced: f.synced, Since: f.began, Restarts: f.restarts, Skipped: f.skipped}
	if !f.wellLocked() {
		err, c.FailingSince, c.Failed = f.err, f.failing, f.failed
	}
	f.of.k.mu.Unlock()
	if err == nil {
		return c, nil
	}
	c.Error, c.Throttled = textOf(err), ratelimit.IsThrottled(err) // without the lock: it may be user code
	if c.Throttled {
		return c, nil
	}
	return c, fmt.Errorf("source %q: %w", f.Name, err)
}

// textOf is the text of an error, cut; "" for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return store.Clip(err.Error())
}
