package depend

import (
	"context"
	"sync"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
)

// Watched is a source of keys that are mapped from something they refer to, such as
// secrets: what s adds after its list at the start ends a backoff and a park, and keeps
// the attempts. A thousand keys are added at once and further ones at a thousand a second;
// all but the first hundred of them run in the low band, so that a change of one object
// does not wait for them. Where a function of the object says what it refers to, use a
// [Tracker] with [Watching], which also knows when the attempts start from 0.
func Watched(s reconcile.Source[reconcile.Request]) reconcile.Source[reconcile.Request] {
	if run := s.Run; run != nil {
		s.Run = func(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
			return run(ctx, &watchedSink{
				Sink: to, epoch: time.Now(),
				pace: newPacer(defaultPerSecond, defaultBurst), live: newPacer(watchedLive, watchedLive),
			})
		}
	}
	return s
}

// watchedLive is how many keys in a second are added to the live band.
const watchedLive = 100

type watchedSink struct {
	reconcile.Sink[reconcile.Request]
	epoch time.Time

	mu         sync.Mutex // guards what follows
	pace, live pacer
}

func (w *watchedSink) Add(key reconcile.Request, o queue.AddOptions) error {
	if o.Priority.Int() < bandLive.Int() {
		return w.Sink.Add(key, o) // of the list at the start
	}
	w.mu.Lock()
	now := time.Since(w.epoch)
	o.After = max(o.After, w.pace.delay(now))
	if w.live.delay(now) > 0 {
		o.Priority = bandLow
	}
	w.mu.Unlock()
	o.KeepAttempts = o.KeepAttempts || !o.Urgent
	o.Urgent = true
	return w.Sink.Add(key, o)
}

// Unwrap lets the source ask the controller: see reconcile.Sink.
func (w *watchedSink) Unwrap() reconcile.Sink[reconcile.Request] { return w.Sink }

// Failed implements reconcile.Reporter.
func (w *watchedSink) Failed(err error) {
	if r, ok := w.Sink.(reconcile.Reporter); ok {
		r.Failed(err)
	}
}
