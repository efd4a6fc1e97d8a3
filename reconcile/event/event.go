// Package event tells people what happened to an object: that its disk was created, that the
// provider refused a change. Code of a run records an event, and a [Log] counts, bounds and keeps
// them for the page and the command, as Kubernetes' events and their correlator do:
//
//	run ── Record ──▶ the recorder in ctx ── Log ──▶ the page, "tend events"
//	                  (With; a Program has one)  └──▶ a recorder of one's own, [Keep]
package event

import (
	"context"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/wall"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// Event is something that happened to an object and that a person may want to know.
type Event struct {
	// Warning says that it is no good news.
	Warning bool
	// Reason is one of a few fixed words, such as "Created", "CannotObserve" or "NotOurs".
	// Those of an external.Reconciler's failures are also the reasons of the Synced condition.
	Reason  string
	Message string // at most 1 KiB
	Kind    string
	Key     store.Key
	UID     string
	Time    time.Time
	// Count is how often it has happened; a [Log] raises it instead of keeping each.
	// From [Record] it is 1.
	Count int
	// Encrypted says that objects of the kind are encrypted where they are stored, and what
	// the event says should be too.
	Encrypted bool
}

// Recorder takes events, from many goroutines, during the run that makes them: one that takes
// long holds up the run, which [Log.Record] never does. Its error, or its panic, is logged and
// changes nothing about the run.
type Recorder func(ctx context.Context, e Event) error

type recorderKey struct{}

// With returns a context whose events go to the recorder; nil: to none. The runs of a
// reconcile.Manager have that of the context that its Run was given. A program.Program has
// a Log by itself.
func With(ctx context.Context, to Recorder) context.Context {
	return context.WithValue(ctx, recorderKey{}, to)
}

// Record tells of something that happened to an object of s, to the recorder of ctx; without one
// it does nothing. A reason is one of a few fixed words, the message is for people: what is secret
// in o is taken out of it, and it is cut at 1 KiB. Equal events are counted by the Log, so a
// message that is another each time (with a time or a request's id in it) hides others.
// It is safe for concurrent use.
func Record[S, T any](ctx context.Context, s *store.Store[S, T], o *store.Object[S, T], reason, message string) {
	record(ctx, s, o, Event{Reason: reason, Message: message})
}

// Warn is Record of what is no good news.
func Warn[S, T any](ctx context.Context, s *store.Store[S, T], o *store.Object[S, T], reason, message string) {
	record(ctx, s, o, Event{Warning: true, Reason: reason, Message: message})
}

func record[S, T any](ctx context.Context, s *store.Store[S, T], o *store.Object[S, T], e Event) {
	to, _ := ctx.Value(recorderKey{}).(Recorder)
	if to == nil {
		return
	}
	e.Message = store.Clip(s.Redact(e.Message, o))
	e.Kind, e.Key, e.UID, e.Time, e.Count = s.Kind(), o.Key(), o.UID, wall.Now(), 1
	e.Encrypted = s.Encrypted()
	if err := contain.Call(func() error { return to(ctx, e) }); err != nil {
		reconcile.Logger(ctx).Warn("event was not recorded", "reason", e.Reason, "key", e.Key, "err", store.Brief(err))
	}
}
