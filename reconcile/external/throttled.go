package external

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/contain"
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
	// KeepPerObject is how many of them may be of one object; zero: 32. So an
	// object whose every failure reads differently (a request id) drives out
	// no other's events.
	KeepPerObject int
	// Queue is how many wait to be passed on; zero: 1024. Beyond it they are
	// dropped, and counted.
	Queue int
}

// Throttled keeps the recent events of every object: it counts repeated events
// instead of adding them, bounds what it keeps, never blocks, and answers
// [Throttled.Events]. It passes them on to another recorder, which may be slow or
// metered, if there is one: it is a Runner, Run passes events on, and without it
// they are only kept.
//
//	order     e1 ─ e2 ─ e3 ─ e4 ─ e5     all, the one heard of last at the end
//	objects   a: e1 ─ e4   b: e2 ─ e3 ─ e5
type Throttled struct {
	to        Recorder
	every     time.Duration
	keep      int
	perObject int
	queue     chan Event

	mu      sync.Mutex // guards what follows
	events  map[eventID]*counted
	order   list.List // of *counted
	objects map[objectID]*list.List
	dropped int
}

// objectID is the object that an event is about. Not by uid: what happened to
// the one that had the key before is of interest too.
type objectID struct {
	kind string
	key  store.Key
}

// eventID is what makes two events the same.
type eventID struct {
	kind, uid, reason, message string
	key                        store.Key
	kindOf                     EventType
}

type counted struct {
	Event
	id          eventID
	passed      time.Time     // when its like was last passed on
	all, object *list.Element // its places in the two lists
}

func (c *counted) of() objectID { return objectID{c.Kind, c.Key} }

// NewThrottled makes a recorder that counts, and hands on to to, which may be
// nil: then it only keeps them.
func NewThrottled(to Recorder, o *ThrottleOptions) (*Throttled, error) {
	var opts ThrottleOptions
	if o != nil {
		opts = *o
	}
	if opts.Every < 0 || opts.Keep < 0 || opts.KeepPerObject < 0 || opts.Queue < 0 {
		return nil, errors.New("external: ThrottleOptions: no number may be negative")
	}
	return &Throttled{
		to:        to,
		every:     cmp.Or(opts.Every, 5*time.Minute),
		keep:      cmp.Or(opts.Keep, 4096),
		perObject: cmp.Or(opts.KeepPerObject, 32),
		queue:     make(chan Event, cmp.Or(opts.Queue, 1024)),
		events:    map[eventID]*counted{},
		objects:   map[objectID]*list.List{},
	}, nil
}

// Record counts the event, and queues it to be passed on unless its like was
// not long ago. It never blocks and never fails.
func (t *Throttled) Record(_ context.Context, e Event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.countLocked(e)
	now := time.Now() // not e.Time: another server may have made the event, by its own clock
	if t.to == nil || !c.passed.IsZero() && now.Sub(c.passed) < t.every {
		return nil
	}
	select { // never blocks, so it may be done under the lock, which keeps the order
	case t.queue <- c.Event:
		c.passed = now
	default:
		t.dropped++
	}
	return nil
}

// Run passes events on until ctx ends, one at a time. Failures of the recorder
// are counted as dropped events, and their like waits for ThrottleOptions.Every all the
// same: a recorder that fails is not asked for each event.
func (t *Throttled) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-t.queue:
			if contain.Call(func() error { return t.to.Record(ctx, e) }) != nil {
				t.mu.Lock()
				t.dropped++
				t.mu.Unlock()
			}
		}
	}
}

// EventQuery says which events are wanted. The zero value is all of them.
type EventQuery struct {
	Kind  string    // empty: any
	Key   store.Key // zero: any
	Limit int       // how many at most; zero: no limit but what is kept
}

// Events gives the events that are kept, each once with its count and the time of
// the last, the newest first. With Kind and Key it looks at that object's alone.
func (t *Throttled) Events(q EventQuery) []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := &t.order
	if q.Kind != "" && q.Key != (store.Key{}) {
		if from = t.objects[objectID{q.Kind, q.Key}]; from == nil {
			return nil
		}
	}
	var found []Event
	for at := from.Back(); at != nil && (q.Limit <= 0 || len(found) < q.Limit); at = at.Prev() {
		e := at.Value.(*counted).Event
		if (q.Kind == "" || q.Kind == e.Kind) && (q.Key == store.Key{} || q.Key == e.Key) {
			found = append(found, e)
		}
	}
	return found
}

// Snapshot is all that Events gives.
func (t *Throttled) Snapshot() []Event { return t.Events(EventQuery{}) }

// Dropped is how many events were not passed on because the queue was full or
// the recorder failed.
func (t *Throttled) Dropped() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}

// countLocked finds the event's entry, or makes room for one, and moves it to
// the end of its lists: it was heard of last.
func (t *Throttled) countLocked(e Event) *counted {
	id := eventID{e.Kind, e.UID, e.Reason, e.Message, e.Key, e.Type}
	c := t.events[id]
	if c == nil {
		c = t.addLocked(e, id)
	}
	t.order.MoveToBack(c.all)
	t.objects[c.of()].MoveToBack(c.object)
	c.Count += max(e.Count, 1)
	c.Time = e.Time
	return c
}

func (t *Throttled) addLocked(e Event, id eventID) *counted {
	c := &counted{Event: e, id: id}
	c.Count = 0
	if own := t.objects[c.of()]; own != nil && own.Len() >= t.perObject {
		t.forgetLocked(own.Front())
	}
	if t.order.Len() >= t.keep {
		t.forgetLocked(t.order.Front())
	}
	own := t.objects[c.of()] // it may have gone with its last event
	if own == nil {
		own = list.New()
		t.objects[c.of()] = own
	}
	c.all, c.object = t.order.PushBack(c), own.PushBack(c)
	t.events[id] = c
	return c
}

func (t *Throttled) forgetLocked(at *list.Element) {
	c := at.Value.(*counted)
	delete(t.events, c.id)
	t.order.Remove(c.all)
	own := t.objects[c.of()]
	if own.Remove(c.object); own.Len() == 0 {
		delete(t.objects, c.of())
	}
}
