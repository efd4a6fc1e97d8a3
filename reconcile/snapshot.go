package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tendhq/tend/queue"
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

// Snapshot says how the controller is. Queue().Snapshot() has every key.
func (c *Controller[K]) Snapshot() Snapshot {
	if c.made() != nil {
		return Snapshot{}
	}
	at := c.condition()
	s := Snapshot{
		Name: c.name, Kind: at.kind, Placement: at.placement(), Shards: len(at.held), Loading: at.loading, LoadingFrom: at.loadingFrom,
		Workers: at.workers, Active: len(at.runs), Queue: c.q.Stats().States, Runs: c.Counts(), Leases: at.leases, Adapt: at.adapt,
	}
	for _, held := range at.held {
		if held {
			s.Held++
		}
	}
	for _, r := range at.runs {
		s.Running = append(s.Running, r.RunSnapshot)
	}
	for _, f := range at.sources {
		if !f.removed {
			s.Sources = append(s.Sources, f.SourceSnapshot)
		}
	}
	s.Error = textOf(at.health())
	return s
}

// Health is nil, or says what is wrong with the controller: a source that keeps
// failing, has ended, or was removed and goes on; a run that is stuck; a queue that
// the program stopped. It says nothing about the keys; one that fails is ordinary
// life.
func (c *Controller[K]) Health() error {
	if err := c.made(); err != nil {
		return err
	}
	return c.condition().health()
}

func (c condition) health() error {
	var errs []error
	if c.queueStopped {
		errs = append(errs, errStopped)
	}
	for _, f := range c.sources {
		if f.err != nil {
			errs = append(errs, fmt.Errorf("source %q: %w", f.Name, f.err))
		}
	}
	for _, r := range c.runs {
		if r.Stuck {
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
	return c.condition().ready()
}

func (c condition) ready() error {
	switch {
	case c.state == stateNew:
		return errNotRunning
	case c.queueStopped:
		return errStopped
	case c.state >= stateDraining, c.leased && (c.state == stateWaiting || c.state == stateReleasing):
		return nil
	case c.why != nil:
		return fmt.Errorf("waiting for %s to sync: %w", c.waitsFor, c.why)
	case c.waitsFor != "":
		return fmt.Errorf("waiting for %s to sync", c.waitsFor)
	}
	return nil
}
