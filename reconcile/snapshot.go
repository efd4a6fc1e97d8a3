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
	Leases      LeaseCounts        `json:"leases"`
	Adapt       *AdaptSnapshot     `json:"adapt,omitempty"` // nil: the number of workers stays as set
	Error       string             `json:"error,omitempty"` // why it is not healthy
}

// RunSnapshot is one run that is going on.
type RunSnapshot struct {
	Keys    []string  `json:"keys"` // one, unless it is a batch
	Since   time.Time `json:"since"`
	Attempt int       `json:"attempt"`
	Ended   string    `json:"ended,omitempty"` // why its context is over
	Stuck   bool      `json:"stuck,omitempty"`
}

// Snapshot says how the controller is. Queue().Snapshot() has every key.
func (c *Controller[K]) Snapshot() Snapshot {
	want, _ := c.size()
	v := c.view.Load()
	s := Snapshot{
		Name: c.name, Kind: c.kindOf(), Placement: c.placement(), Shards: len(v.holds), Workers: want,
		Queue: c.q.Stats().States, Runs: c.Counts(),
	}
	for i := range v.holds {
		if v.holds[i].Load() != nil {
			s.Held++
		}
	}
	s.Loading, s.LoadingFrom = c.loadingShards()
	for _, slot := range c.all() {
		if r, ok := slot.snapshot(); ok {
			s.Running = append(s.Running, r)
		}
	}
	s.Active = len(s.Running)
	slices.SortFunc(s.Running, func(a, b RunSnapshot) int { return a.Since.Compare(b.Since) })
	for _, f := range c.allFeeds() {
		s.Sources = append(s.Sources, f.snapshot())
	}
	if c.view.Load().leased {
		_, s.Leases = c.state()
	}
	if c.adapt != nil {
		s.Adapt = &AdaptSnapshot{Min: c.adapt.Min, Max: c.adapt.Max}
		s.Adapt.Raised, s.Adapt.Lowered = c.adapted()
	}
	if err := c.Health(); err != nil {
		s.Error = store.Clip(err.Error())
	}
	return s
}

func (s *slot[K]) snapshot() (r RunSnapshot, running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.run
	if x == nil {
		return r, false
	}
	r = RunSnapshot{Since: s.k.epoch.Add(x.started), Attempt: x.attempt, Stuck: x.stuck}
	for _, k := range x.keys {
		r.Keys = append(r.Keys, fmt.Sprint(k))
	}
	if x.cause != nil {
		r.Ended = store.Clip(x.cause.Error())
	}
	return r, true
}

// Health is nil, or says what is wrong with the controller: a source that keeps
// failing, has ended, or was removed and goes on; a run that is stuck; a queue that
// the program stopped. It says nothing about the keys; one that fails is ordinary
// life.
func (c *Controller[K]) Health() error {
	if err := c.made(); err != nil {
		return err
	}
	var errs []error
	if c.hasStopped() && !c.isOver() {
		errs = append(errs, errStopped)
	}
	for _, f := range slices.Concat(c.allFeeds(), c.removedFeeds()) {
		if err := f.health(); err != nil {
			errs = append(errs, fmt.Errorf("source %q: %w", f.Name, err))
		}
	}
	for _, s := range c.all() {
		if r, running := s.snapshot(); running && r.Stuck {
			errs = append(errs, fmt.Errorf("run of %s is stuck since %s: %s",
				strings.Join(r.Keys, ", "), r.Since.Format(time.RFC3339), r.Ended))
		}
	}
	return errors.Join(errs...)
}

// Ready is nil, or says what a controller that runs is waiting for. One whose
// lease is held by another server is ready: it is there to take over.
func (c *Controller[K]) Ready() error {
	if err := c.made(); err != nil {
		return err
	}
	now, _ := c.state()
	if now == stateNew {
		return errNotRunning
	}
	if c.hasStopped() && !c.isOver() {
		return errStopped
	}
	if now >= stateDraining || c.view.Load().leased && (now == stateWaiting || now == stateReleasing) {
		return nil
	}
	what, why := c.unsynced()
	switch {
	case why != nil:
		return fmt.Errorf("waiting for %s to sync: %w", what, why)
	case what != "":
		return fmt.Errorf("waiting for %s to sync", what)
	}
	return nil
}

// String describes the controller, the same text every time.
func (c *Controller[K]) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "controller %q", c.name)
	if kind := c.kindOf(); kind != "" {
		fmt.Fprintf(&b, " of %s", kind)
	}
	b.WriteString(", watches ")
	feeds := slices.SortedFunc(slices.Values(c.allFeeds()), func(a, b *feed[K]) int { return cmp.Compare(a.Name, b.Name) })
	for i, f := range feeds {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(f.Name)
	}
	if len(feeds) == 0 {
		b.WriteString("nothing")
	}
	fmt.Fprintf(&b, "; %d workers, %s, timeout %v, %s", c.o.Workers, c.backoff(), c.o.Timeout, c.placement())
	return b.String()
}

func (c *Controller[K]) backoff() string {
	if c.o.Queue.Policy != nil {
		return "a retry policy of its own"
	}
	b := c.o.Backoff
	setDefault(&b.Base, queue.DefaultBase)
	setDefault(&b.Max, queue.DefaultMax)
	return fmt.Sprintf("backoff %v to %v", b.Base, max(b.Base, b.Max))
}

func (c *Controller[K]) placement() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place == nil {
		return "on every server"
	}
	return c.place.String()
}

func (f *feed[K]) snapshot() SourceSnapshot {
	s := f.describe()
	if err := f.health(); err != nil {
		s.Error = store.Clip(err.Error())
	}
	return s
}

func (f *feed[K]) describe() SourceSnapshot {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return SourceSnapshot{
		Name: f.Name, Kind: f.Source.kind, State: f.state.String(),
		Synced: f.synced, Restarts: f.restarts, Skipped: f.skipped,
	}
}

// SourceSnapshot is how one source is at a moment.
type SourceSnapshot struct {
	Name     string `json:"name"`
	Kind     string `json:"kind,omitempty"`
	State    string `json:"state"`
	Synced   bool   `json:"synced"`
	Restarts int    `json:"restarts"`
	Skipped  uint64 `json:"skipped"`
	Error    string `json:"error,omitempty"`
}

// AdaptSnapshot is what Options.Adapt did so far.
type AdaptSnapshot struct {
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	Raised  uint64 `json:"raised"`  // how often the number of workers went up by one
	Lowered uint64 `json:"lowered"` // how often it was halved
}
