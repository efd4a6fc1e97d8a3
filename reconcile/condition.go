package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tendhq/tend/reconcile/internal/recent"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// condition is how a controller is at a moment. It is what introspection reads of the
// kernel, besides the queue.
type condition struct {
	kind         string // of the objects that it is about; "": not known
	state        state
	queueStopped bool // by the program: nothing runs any more

	place       lease.Placement // nil: it runs everywhere
	leased      bool            // place takes leases
	leases      LeaseCounts
	held        []bool // by shard: this server runs its keys
	loading     []int  // shards that wait for a cache, which loadingFrom names
	loadingFrom string

	workers  int // that there are to be
	adapt    *AdaptSnapshot
	runs     []runCondition // longest first
	sources  []sourceCondition
	waitsFor string // what has not synced; "": everything has
	why      error  // it has not, if that is known
}

// RunSnapshot is one run that is going on.
type RunSnapshot struct {
	Keys    []string  `json:"keys"` // one, unless it is a batch
	Since   time.Time `json:"since"`
	Attempt int       `json:"attempt"`
	Ended   string    `json:"ended,omitempty"` // why its context is over
	Stuck   bool      `json:"stuck,omitempty"`
}

// runCondition is one run that is going on, and the label of its goroutine.
type runCondition struct {
	RunSnapshot
	worker string
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

// sourceCondition is one source.
type sourceCondition struct {
	SourceSnapshot
	removed bool  // by Unwatch, and it goes on
	err     error // why it is not well; nil: it is
}

func (s *supervisor[K]) condition() condition {
	s.mu.Lock()
	v := s.view.Load()
	c := condition{kind: s.kind, place: s.place, leased: v.leased, workers: s.want}
	if a := s.adapt; a != nil {
		c.adapt = &AdaptSnapshot{Min: a.Min, Max: a.Max, Raised: a.raised, Lowered: a.lowered}
	}
	s.mu.Unlock()
	if c.state, c.leases = s.state(); !c.leased {
		c.leases = LeaseCounts{}
	}
	c.queueStopped = s.hasStopped() && !s.isOver()
	for i := range v.holds {
		c.held = append(c.held, v.holds[i].Load() != nil)
	}
	c.loading, c.loadingFrom = s.loadingShards()
	for _, slot := range s.all() {
		if r, running := slot.condition(); running {
			c.runs = append(c.runs, r)
		}
	}
	slices.SortFunc(c.runs, func(a, b runCondition) int {
		return cmp.Or(a.Since.Compare(b.Since), slices.Compare(a.Keys, b.Keys))
	})
	for _, f := range slices.Concat(s.allFeeds(), s.removedFeeds()) {
		c.sources = append(c.sources, f.condition())
	}
	c.waitsFor, c.why = s.unsynced()
	return c
}

// placement describes where the controller runs.
func (c condition) placement() string {
	if c.place == nil {
		return "on every server"
	}
	return c.place.String()
}

func (s *slot[K]) condition() (c runCondition, running bool) {
	s.mu.Lock()
	x := s.run
	if x == nil {
		s.mu.Unlock()
		return c, false
	}
	c = runCondition{RunSnapshot{Since: s.k.epoch.Add(x.started), Attempt: int(x.attempt), Stuck: x.more != nil && x.more.stuck}, s.worker}
	cause := x.cause
	s.mu.Unlock()
	c.Ended = textOf(cause) // without the lock, as below: a key's String is user code
	for _, k := range x.keys {
		c.Keys = append(c.Keys, fmt.Sprint(k))
	}
	return c, true
}

// condition has as error: the source says so itself, it is not running, or the run before
// ended with an error and this one is young.
func (f *feed[K]) condition() sourceCondition {
	f.of.mu.Lock()
	c := sourceCondition{
		SourceSnapshot{Name: f.Name, Kind: f.kind, State: f.state.String(), Synced: f.synced, Restarts: f.restarts, Skipped: f.skipped}, f.removed, f.err,
	}
	if f.state == feedRunning && !f.told && f.synced && time.Since(f.began) > healthyRun {
		c.err = nil
	}
	f.of.mu.Unlock()
	c.Error = textOf(c.err) // without the lock: it may be user code
	return c
}

// AdaptSnapshot is what Options.Adapt did so far.
type AdaptSnapshot struct {
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	Raised  uint64 `json:"raised"`  // how often the number of workers went up by one
	Lowered uint64 `json:"lowered"` // how often it was halved
}

// keepRuns has the runs kept from now on.
func (k *kernel[K]) keepRuns() {
	if k.keptRuns() != nil {
		return
	}
	k.changeView(func(v *view[K]) {
		if v.recent == nil {
			v.recent = recent.New[K](k.epoch)
		}
	})
}

// keptRuns are those; nil: none are kept.
func (k *kernel[K]) keptRuns() *recent.Runs[K] { return k.view.Load().recent }

// textOf is the text of an error, cut; "" for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return store.Clip(err.Error())
}
