package external

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tendhq/tend/store"
)

// ThrottleOptions is how much a [Throttled] recorder keeps and passes on.
type ThrottleOptions struct {
	// Every is the least time between two events of the same object, type,
	// reason and message that are passed on; zero: 5 minutes. Those between are
	// counted.
	Every time.Duration
	// Keep is how many different events are remembered; zero: 4096. Beyond it
	// the one not heard of for longest is forgotten.
	Keep int
	// Queue is how many wait to be passed on; zero: 1024. Beyond it they are
	// dropped, and counted.
	Queue int
}

// Throttled is a recorder for a slow or a metered one: it counts repeated
// events instead of adding them, and never blocks. It is a Runner: Run passes
// events on, and without it they are only counted.
type Throttled struct {
	to    Recorder
	every time.Duration
	keep  int
	queue chan Event

	mu      sync.Mutex // guards what follows
	events  map[eventID]*list.Element
	order   *list.List // of *counted; the one heard of last is at the back
	dropped int
}

// eventID is what makes two events the same.
type eventID struct {
	kind, uid, reason, message string
	key                        store.Key
	kindOf                     EventType
}

type counted struct {
	Event
	id     eventID
	passed time.Time // when its like was last passed on
}

// NewThrottled makes a recorder that counts, and hands on to to, which may be
// nil: then it only counts, for [Throttled.Snapshot].
func NewThrottled(to Recorder, o *ThrottleOptions) (*Throttled, error) {
	var opts ThrottleOptions
	if o != nil {
		opts = *o
	}
	if opts.Every < 0 || opts.Keep < 0 || opts.Queue < 0 {
		return nil, errors.New("external: ThrottleOptions: no number may be negative")
	}
	t := &Throttled{to: to, every: opts.Every, keep: opts.Keep, events: map[eventID]*list.Element{}, order: list.New()}
	if t.every == 0 {
		t.every = 5 * time.Minute
	}
	if t.keep == 0 {
		t.keep = 4096
	}
	if opts.Queue == 0 {
		opts.Queue = 1024
	}
	t.queue = make(chan Event, opts.Queue)
	return t, nil
}

// Record counts the event, and queues it to be passed on unless its like was
// not long ago. It never blocks and never fails.
func (t *Throttled) Record(_ context.Context, e Event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.countLocked(e)
	if t.to == nil || !c.passed.IsZero() && e.Time.Sub(c.passed) < t.every {
		return nil
	}
	select { // never blocks, so it may be done under the lock, which keeps the order
	case t.queue <- c.Event:
		c.passed = e.Time
	default:
		t.dropped++
	}
	return nil
}

// Run passes events on until ctx ends, one at a time. Failures of the recorder
// are counted as dropped events.
func (t *Throttled) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-t.queue:
			if contain(func() error { return t.to.Record(ctx, e) }) != nil {
				t.mu.Lock()
				t.dropped++
				t.mu.Unlock()
			}
		}
	}
}

// Snapshot is the events that are remembered, each once with its count and the
// time of the last, the newest first.
func (t *Throttled) Snapshot() []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Event, 0, t.order.Len())
	for at := t.order.Back(); at != nil; at = at.Prev() {
		all = append(all, at.Value.(*counted).Event)
	}
	return all
}

// Dropped is how many events were not passed on because the queue was full or
// the recorder failed.
func (t *Throttled) Dropped() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}

// countLocked finds the event's entry, or makes room for one, and moves it to
// the back: it was heard of last.
func (t *Throttled) countLocked(e Event) *counted {
	id := eventID{e.Kind, e.UID, e.Reason, e.Message, e.Key, e.Type}
	at := t.events[id]
	if at == nil {
		if oldest := t.order.Front(); oldest != nil && t.order.Len() >= t.keep {
			delete(t.events, t.order.Remove(oldest).(*counted).id)
		}
		c := &counted{Event: e, id: id}
		c.Count = 0
		at = t.order.PushBack(c)
		t.events[id] = at
	}
	t.order.MoveToBack(at)
	c := at.Value.(*counted)
	c.Count += max(e.Count, 1)
	c.Time = e.Time
	return c
}
