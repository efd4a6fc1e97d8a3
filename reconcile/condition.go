package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// Snapshot is the state of a controller at a moment, for an operator. Keys
// are in their printed form.
type Snapshot struct {
	Name      string `json:"name"`
	Kind      string `json:"kind,omitempty"`
	Placement string `json:"placement,omitempty"`
	Held      int    `json:"held"`   // shards that this server holds
	Shards    int    `json:"shards"` // that there are
	// Loading are the shards whose lease this server has, and whose keys wait because a
	// cache of shards does not have their objects yet; LoadingFrom is that cache.
	Loading     []int              `json:"loading,omitempty"`
	LoadingFrom string             `json:"loadingFrom,omitempty"`
	Workers     int                `json:"workers"` // that there are to be
	Active      int                `json:"active"`  // workers that run something
	Running     []RunSnapshot      `json:"running"` // longest first
	Sources     []SourceSnapshot   `json:"sources"`
	Queue       []queue.StateStats `json:"queue"`
	Runs        Counts             `json:"runs"`
	// PutOff counts the runs that began later because changes of the spec came too often;
	// Slowed are the keys that are slowed for that now, at most 100, the oldest first.
	PutOff uint64         `json:"putOff"`
	Slowed []SlowedKey    `json:"slowed,omitempty"`
	Leases LeaseCounts    `json:"leases"`
	Adapt  *AdaptSnapshot `json:"adapt,omitempty"` // nil: the number of workers stays as set
	// Waiting is the source or cache that keeps a server which holds the controller's lease, or
	// needs none, from being ready: its first list has not ended. A slow list is no error.
	Waiting string `json:"waiting,omitempty"`
	Error   string `json:"error,omitempty"` // why it is not healthy
}

// RunSnapshot is one run that is going on.
type RunSnapshot struct {
	Keys    []string  `json:"keys"` // one, unless it is a batch
	Since   time.Time `json:"since"`
	Attempt int       `json:"attempt"`
	Ended   string    `json:"ended,omitempty"` // why its context is over
	Stuck   bool      `json:"stuck,omitempty"`

	worker string // the label of its goroutine
}

// SourceSnapshot is how one source is at a moment.
type SourceSnapshot struct {
	Name     string    `json:"name"`
	Kind     string    `json:"kind,omitempty"`
	State    string    `json:"state"`
	Synced   bool      `json:"synced"`
	Since    time.Time `json:"since,omitzero"` // when its present run began
	Restarts int       `json:"restarts"`
	Skipped  uint64    `json:"skipped"`
	Error    string    `json:"error,omitempty"`
	// FailingSince is when the first of the failures in a row came, of which Error is the last.
	FailingSince time.Time `json:"failingSince,omitzero"`
}

// AdaptSnapshot is what Options.Adapt did so far.
type AdaptSnapshot struct {
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	Raised  uint64 `json:"raised"`  // how often the number of workers went up by one
	Lowered uint64 `json:"lowered"` // how often it was halved
}

// condition is how a controller is at a moment: what introspection reads of the kernel,
// besides the queue.
type condition struct {
	Snapshot
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
		c.Adapt = &AdaptSnapshot{Min: a.Min, Max: a.Max, Raised: a.raised, Lowered: a.lowered}
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
	slices.SortFunc(c.Running, func(a, b RunSnapshot) int {
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

func (s *slot[K]) condition() (r RunSnapshot, running bool) {
	s.mu.Lock()
	x := s.run
	if x == nil {
		s.mu.Unlock()
		return r, false
	}
	r = RunSnapshot{Since: s.k.epoch.Add(x.started), Attempt: int(x.attempt), Stuck: x.more != nil && x.more.stuck, worker: s.worker}
	cause := x.cause
	s.mu.Unlock()
	r.Ended = textOf(cause) // without the lock, as below: a key's String is user code
	for _, k := range x.keys {
		r.Keys = append(r.Keys, fmt.Sprint(k))
	}
	return r, true
}

// condition has an error if the source says so itself, if it is not running, and if the run
// before ended with an error and this one is young.
func (f *feed[K]) condition() (c SourceSnapshot, err error) {
	f.of.k.mu.Lock()
	c = SourceSnapshot{Name: f.Name, Kind: f.kind, State: f.state.String(), Synced: f.synced, Since: f.began, Restarts: f.restarts, Skipped: f.skipped}
	if !f.wellLocked() {
		err, c.FailingSince = f.err, f.failing
	}
	f.of.k.mu.Unlock()
	if err == nil {
		return c, nil
	}
	c.Error = textOf(err) // without the lock: it may be user code
	return c, fmt.Errorf("source %q: %w", f.Name, err)
}

// textOf is the text of an error, cut; "" for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return store.Clip(err.Error())
}
