package external

import (
	"context"
	"log/slog"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/store"
)

// Event is something that happened to an object and that a human may want to
// know. Reasons are few and fixed; see the Reason constants.
type Event struct {
	Type    EventType
	Reason  string
	Message string // at most 1 KiB
	Kind    string
	Key     store.Key
	UID     string
	Time    time.Time
	// Count is how often it has happened; a [Throttled] recorder raises it
	// instead of passing on each. From [Reconciler] it is 1.
	Count int
}

// EventType says whether an event is good news.
type EventType uint8

// The types.
const (
	Normal EventType = iota
	Warning
)

func (t EventType) String() string {
	if t == Warning {
		return "Warning"
	}
	return "Normal"
}

// The reasons of events. Those of failures are also the reasons of the Synced
// condition.
const (
	ReasonCreated  = "Created"
	ReasonUpdated  = "Updated"
	ReasonDeleted  = "Deleted" // deletion was asked for
	ReasonAdopted  = "Adopted"
	ReasonReleased = "Released" // the object went and left its resource behind

	ReasonPaused           = "ReconcilePaused"
	ReasonPanicked         = "Panicked"
	ReasonPolicy           = "UnknownPolicy"
	ReasonConnectFailed    = "CannotConnect"
	ReasonObserveFailed    = "CannotObserve"
	ReasonCreateFailed     = "CannotCreate"
	ReasonCreateIncomplete = "CreateIncomplete"
	ReasonUpdateFailed     = "CannotUpdate"
	ReasonDeleteFailed     = "CannotDelete"
	ReasonStoreFailed      = "CannotStore" // the object could not be written
	ReasonCloseFailed      = "CannotClose"
	ReasonLocationChanged  = "LocationChanged" // in the spec; see [ErrLocationChanged]
	ReasonMissing          = "Missing"         // and the policy forbids to create it
	ReasonNotOurs          = "NotOurs"         // another's mark, or none
	ReasonLetterCase       = "LetterCase"      // the cloud spells its id or mark otherwise; see [Letters]
	ReasonDeletesHeld      = "DeletesHeld"     // by [Options.DeleteLimit]
	ReasonDiffers          = "Differs"         // and the policy forbids to update it
	ReasonAwaiting         = "Awaiting"        // others have to finish first
)

// NotOurs reports an object whose resource carries another's mark or none, with the
// condition's message: it is left alone until a person acts. It is for
// [github.com/tendhq/tend/reconcile/program.KindOptions].Stuck.
func NotOurs[S, T any](o *store.Object[S, T]) (why string, stuck bool) {
	c, _ := o.Condition(store.ConditionSynced)
	return c.Message, c.Status == store.False && c.Reason == ReasonNotOurs
}

// Recorder keeps events. Record is called during a run, from many goroutines.
// Its error, or its panic, is logged and changes nothing about the run; but a
// Record that takes long holds up the run that calls it: [Throttled] never does.
type Recorder interface {
	Record(ctx context.Context, e Event) error
}

// RecorderFunc is a func as a [Recorder].
type RecorderFunc func(ctx context.Context, e Event) error

// Record calls f.
func (f RecorderFunc) Record(ctx context.Context, e Event) error { return f(ctx, e) }

// record hands an event on and survives whatever the recorder does.
func record(ctx context.Context, to Recorder, e Event, log *slog.Logger) {
	if to == nil {
		return
	}
	err := contain.Call(func() error { return to.Record(ctx, e) })
	if err != nil {
		log.Warn("event was not recorded", "reason", e.Reason, "key", e.Key, "err", store.Brief(err))
	}
}
