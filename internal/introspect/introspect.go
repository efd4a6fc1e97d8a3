// Package introspect has what the page, the API, the metrics and the verdict read of a
// program: plain values, which the packages that have the state fill in, and the Inspector that
// gives those of a controller. A program of a user reads pages and metrics, and asks for a key
// with reconcile.Inspection.Key; what these values say changes with the page.
package introspect

import (
	"context"
	"strings"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/store"
)

// SampleEvery is how often a Manager calls what reconcile.Manager.Sample was given.
const SampleEvery = 10 * time.Second

// Inspector is a controller of any type of keys, whose printed form is that of
// reconcile.Inspection. Its methods are safe for concurrent use; those with a context may take
// long where there are many keys.
type Inspector interface {
	Name() string
	// Counts is Snapshot().Runs, and may be called often.
	Counts() Counts
	// SetWorkers and Snapshot are those of the reconcile.Controller.
	SetWorkers(n int) error
	Snapshot() Controller
	// QueueStats is Queue().Stats().
	QueueStats() queue.Stats
	// Leases are those that the controller runs under; none if it needs none.
	Leases() []Lease
	// LeaseOf is the lease under which a key runs; not ok: it needs none, the text names
	// no key, or Options.Hash failed. Of keys that cannot be read from their printed form
	// only those in the queue are found, and none are on a server that does not hold
	// their lease.
	LeaseOf(ctx context.Context, printed string) (l Lease, ok bool)
	// Stack returns where the run of a printed key stands now: one line per call, the
	// innermost first, with function, file and line and without values. ok is false if
	// this process does not run the key, or if the reconciler has replaced its
	// goroutine's labels (runtime/pprof.Do). It looks at every goroutine of the process.
	Stack(printed string) (stack string, ok bool)
	// KeepRuns has the controller keep when the last twenty runs of each key ended, how
	// long they took and how they ended, for RecentRuns: of at most 4,096 keys, in 1.5 MB
	// and the keys. Without it nothing is kept. A run costs a lock and the search of a
	// map more, about 100 ns. A second call changes nothing.
	KeepRuns()
	// RecentRuns returns the last runs, at most twenty and the newest first, of the key
	// that is printed like that: none before KeepRuns, and none of a key whose record has
	// made place. ctx bounds the search for the key.
	RecentRuns(ctx context.Context, printed string) []Ended
}

// Controller is the state of a controller at a moment. Keys are in their printed form.
type Controller struct {
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
	Running     []Run              `json:"running"` // longest first
	Sources     []Source           `json:"sources"`
	Queue       []queue.StateStats `json:"queue"`
	Runs        Counts             `json:"runs"`
	// PutOff counts the runs that began later because changes of the spec came too often;
	// Slowed are the keys that are slowed for that now, at most 100, the oldest first.
	PutOff uint64      `json:"putOff"`
	Slowed []SlowedKey `json:"slowed,omitempty"`
	Leases LeaseCounts `json:"leases"`
	Adapt  *Adapt      `json:"adapt,omitempty"` // nil: the number of workers stays as set
	// Waiting is the source or cache that keeps a server which holds the controller's lease, or
	// needs none, from being ready: its first list has not ended. A slow list is no error.
	Waiting string `json:"waiting,omitempty"`
	Error   string `json:"error,omitempty"` // why it is not healthy
}

// Run is one run that is going on.
type Run struct {
	Keys    []string  `json:"keys"` // one, unless it is a batch
	Since   time.Time `json:"since"`
	Attempt int       `json:"attempt"`
	Ended   string    `json:"ended,omitempty"` // why its context is over
	Stuck   bool      `json:"stuck,omitempty"`
}

// Source is how one source is at a moment.
type Source struct {
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
	Failed       time.Time `json:"failed,omitzero"` // when Error came
	// Throttled says that Error asked for a pause, as that of a run does which counts as no failure.
	Throttled bool `json:"throttled,omitempty"`
}

// Adapt is what reconcile.Options.Adapt did so far.
type Adapt struct {
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	Raised  uint64 `json:"raised"`  // how often the number of workers went up by one
	Lowered uint64 `json:"lowered"` // how often it was halved
}

// SlowedKey is a key that runs later than its object's spec changes, since the changes made it
// run too often.
type SlowedKey struct {
	Key   string        `json:"key"`
	Since time.Time     `json:"since"`
	Delay time.Duration `json:"delay"` // between two runs
	// Field is the first field that the change differed in with which it began, in JSON's
	// names; empty: it could not be told. Old and New are its values, clipped and without secrets.
	Field       string         `json:"field,omitempty"`
	Old         string         `json:"old,omitempty"`
	New         string         `json:"new,omitempty"`
	OldRevision store.Revision `json:"oldRevision"`
	NewRevision store.Revision `json:"newRevision"`
}

// LeaseCounts says how often shards came and went; a singleton has one. All is
// zero without a lease.
type LeaseCounts struct {
	Won uint64 `json:"won"`
	// HandedOver were given up, by their own server, for another that is to have
	// them.
	HandedOver uint64 `json:"handedOver"`
	// Lost were taken away: the lease could not be renewed in time, its record
	// was removed, or a host that elects by itself (lease.Manual) said so.
	Lost uint64 `json:"lost"`
}

// Lease is the right to run one shard of a controller's keys.
type Lease struct {
	Shard int    `json:"shard"`
	Name  string `json:"name"`
	Held  bool   `json:"held"` // by this server
	// Running says that this server runs the shard's keys. It can be so without
	// Held for a moment, while the runs that the lease's loss ended wind up.
	Running bool `json:"running"`
	// Holder is the server that has it, as far as is known here.
	Holder string `json:"holder,omitempty"`
}

// Ended is one run that has ended.
type Ended struct {
	Ended  time.Time     `json:"ended"` // to a tenth of a second
	Took   time.Duration `json:"took"`  // to 100 µs
	Result string        `json:"result"`
}

// What Ended.Result may be.
const (
	RunSucceeded = "succeeded" // also if it asked to be run again
	RunFailed    = "failed"
	RunParked    = "given up" // it failed in a way that no retry mends
	RunThrottled = "throttled"
	RunCanceled  = "cancelled" // by a lost lease or the controller's stop
)

// Counts says how many runs ended how since the controller was made. Panics and
// timeouts are counted beside what their runs count as.
type Counts struct {
	Success      uint64 `json:"success"`
	Requeue      uint64 `json:"requeue"`
	RequeueAfter uint64 `json:"requeueAfter"`
	Error        uint64 `json:"error"`
	Terminal     uint64 `json:"terminal"`
	Throttled    uint64 `json:"throttled"`
	Canceled     uint64 `json:"canceled"` // by a lost lease, the controller's stop or a newer spec
	Panic        uint64 `json:"panic"`
	Timeout      uint64 `json:"timeout"`
}

// Runs is the number of runs.
func (c Counts) Runs() uint64 {
	return c.Success + c.Requeue + c.RequeueAfter + c.Error + c.Terminal + c.Throttled + c.Canceled
}

// Graph is which kind's changes wake which controller.
type Graph struct {
	Nodes []Node `json:"nodes"`
	Edges []Edge `json:"edges"`
}

// Node is a kind, or a controller, in the picture of what wakes what.
type Node struct {
	Name       string `json:"name"`
	Controller bool   `json:"controller,omitempty"` // else it is a kind
}

// Edge is an arrow between two nodes, by their places in Graph.Nodes: changes of
// the kind From wake the controller To, or the controller From writes the kind To.
type Edge struct {
	From int `json:"from"`
	To   int `json:"to"`
	// Mapped: the controller's keys are of another kind than From.
	Mapped bool `json:"mapped,omitempty"`
	// Writes: the controller says that it writes objects of To (reconcile.Options.Writes).
	Writes bool `json:"writes,omitempty"`
	// As is what objects of From are to those of the controller's kind. Empty: no source says so.
	As Role `json:"as,omitempty"`
}

// Relation is what objects of a kind are to those that a source runs.
type Relation struct {
	Kind string
	As   Role
}

// Role is what one object is to another.
type Role string

// The roles.
const (
	Needed  Role = "needed"  // the other waits for it, and it waits with its deletion: see package depend
	Watched Role = "watched" // the other refers to it, and waits for nothing
	Owner   Role = "owner"   // it owns the other (store.Meta.Owners)
	Owned   Role = "owned"   // the other owns it
)

// Link says what one object is to another. Ref is a depend.Ref.
type Link[Ref any] struct {
	From  Ref    `json:"from"`            // the object that needs the other, watches it, or is owned by it
	To    Ref    `json:"to"`              // the object that is needed, watched, or the owner
	As    Role   `json:"as"`              // what To is to From: Needed, Watched or Owner
	Unmet string `json:"unmet,omitempty"` // why To may not be used: one of the reasons of package depend; empty: it may
}

// External says what a reconciler of external resources did so far.
type External struct {
	Kind string
	// Calls counts the client's calls by what was called ("observe", "create",
	// "update", "rotate", "delete").
	Calls map[string]Calls
	// Drifted counts the looks that found a resource of ours to differ although
	// nothing new had been declared since it was last in order: another writer
	// changed it.
	Drifted uint64
}

// Calls says how calls ended.
type Calls struct {
	OK        uint64
	Throttled uint64 // the cloud asked for patience; see [ratelimit.Throttled]
	Failed    uint64
}

// Budget is what one budget of a quota is doing.
type Budget struct {
	Bucket ratelimit.Stats
	Found  float64 // calls per second that the cloud takes, from all servers, as far as is known
	Share  float64 // which part of Found is this server's, from 0, nothing, to 1, all of it
	Live   int     // servers that share it, this one included; 0: this one is none of them
	Open   bool    // the circuit breaker is, and a call has failed within 10 minutes: the endpoint is down
	Owing  int     // keys that wait for their turn

	Calls     uint64 // made
	Throttled uint64 // of these, answered with "too many"
	Down      uint64 // of these, not answered, or with an error of the endpoint's own
	Refused   uint64 // not made, for want of budget
}

// Inventory is what an inventory of external resources shows of itself. Report is an
// external.Report, the newest; nil before the first.
type Inventory[Report any] struct {
	Kind   string
	Listed int    // resources on the newest list
	Lists  uint64 // lists made, failed ones included
	Failed uint64 // of these, failed; those that found the budget used up are not counted
	Gets   uint64 // single resources read, whole or in part
	Served uint64 // looks that cost no call
	Held   string // why Prune is refused; empty: it is not
	Report *Report
}

// Cache says how a cache is.
type Cache struct {
	Name, Kind string
	Selector   store.Selector
	Objects    int
	Indexes    []string
	Revision   store.Revision
	Synced     bool // it holds a complete snapshot, maybe an old one: see Connected
	// Connected says that the watch is open and has delivered, and that the
	// backend says that it answers (store.HealthChecker): one that only refuses writes does.
	Connected bool
	// Idle says that the cache is one of shards, that none is asked for, and that it
	// therefore has no watch and needs none.
	Idle bool
	// Since is when Connected last changed; zero before Run.
	Since time.Time
	// Err is why Connected is false; nil if nothing went wrong. Of an Idle cache it is
	// what the backend says.
	Err error
	// Snapshots counts how often a whole snapshot was taken; 1 is the first.
	Snapshots int
	// Restores counts the snapshots that were older than what the cache had
	// seen: the backend was restored from a backup. A program that deletes
	// what the store does not name must stop when this rises, and ask a person.
	Restores int
	// Disconnected counts the watches that ended and went on where they had broken off;
	// Compacted those that could not, because the backend no longer held the changes in
	// between, or had dropped a watcher that was too slow, or was restored.
	Disconnected, Compacted uint64
	// LagRevisions is from the cache's revision to the highest that an OnRevision call waits
	// for. LagSince is when the longest waiting call began, or since when the backend does not
	// serve, whichever is earlier. Both are zero while no call waits and the backend serves.
	LagRevisions store.Revision
	LagSince     time.Time
	// Undecodable are the objects that are stored and cannot be decoded. The
	// cache holds their last readable version, if it saw one.
	Undecodable map[store.Key]error
	// Waiters is the number of OnRevision calls still waiting.
	Waiters int
	// Shards are those that the cache holds; nil for a cache of the whole kind.
	Shards *CacheShards
	// Consumers are those that read Changes.
	Consumers []CacheConsumer
}

// RefusesWrites reports whether a store that is unavailable for a reason answers, and takes no writes: so
// store.WriteHealth says it.
func RefusesWrites(reason error) bool { return strings.HasPrefix(reason.Error(), "commits fail: ") }

// CacheShards says which shards a cache holds.
type CacheShards struct {
	Of      int   // shards of the kind
	Ready   []int // the shards that are complete
	Waiting []int // those that are asked for and not yet complete
	// Since is when the first of Waiting was asked for.
	Since time.Time
	// Others counts the changes of other shards that this process read from the store and
	// dropped. Zero where the store itself leaves them out.
	Others uint64
}

// CacheConsumer says how far behind a consumer of Changes is.
type CacheConsumer struct {
	Pending int       // changes not yet taken
	Since   time.Time // when the oldest of these came; zero: there are none
	Folds   uint64    // how often it was so far behind that changes were folded
}

// Cell is one object of those that a verdict counts.
type Cell struct {
	Key   store.Key
	State string // one of inspect.States
}
