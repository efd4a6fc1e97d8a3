package external

import (
	"cmp"
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/store"
)

// throttleOptions is how much a [Throttled] recorder keeps and passes on. Zero fields mean the
// stated default.
type throttleOptions struct {
	// every is the least time between two events of the same object, type, reason and message
	// that are passed on: 5 minutes. Those between are counted.
	every time.Duration
	// keep is how many different events are remembered: 4096. Beyond it the one not heard of
	// for longest is forgotten.
	keep int
	// keepPerObject is how many of them may be of one object: 32. So an object whose every
	// failure reads differently (a request id) drives out no other's events.
	keepPerObject int
	// queue is how many wait to be passed on: 1024. Beyond it they are dropped, and counted.
	queue int
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
	to        func(context.Context, Event) error
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
	warning                    bool
}

type counted struct {
	Event
	id          eventID
	passed      time.Time     // when its like was last passed on
	all, object *list.Element // its places in the two lists
}

func (c *counted) of() objectID { return objectID{c.Kind, c.Key} }

// NewThrottled makes a recorder that counts, and hands on to to, which may be nil: then it
// only keeps them. It remembers 4096 different events, at most 32 of one object, and hands on
// one of the same object, reason and message every 5 minutes. Up to 1024 wait for to.
func NewThrottled(to func(ctx context.Context, e Event) error) *Throttled {
	return newThrottled(to, throttleOptions{})
}

func newThrottled(to func(ctx context.Context, e Event) error, o throttleOptions) *Throttled {
	return &Throttled{
		to:        to,
		every:     cmp.Or(o.every, 5*time.Minute),
		keep:      cmp.Or(o.keep, 4096),
		perObject: cmp.Or(o.keepPerObject, 32),
		queue:     make(chan Event, cmp.Or(o.queue, 1024)),
		events:    map[eventID]*counted{},
		objects:   map[objectID]*list.List{},
	}
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
// are counted as dropped events, and their like waits for five minutes all the
// same: a recorder that fails is not asked for each event.
func (t *Throttled) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-t.queue:
			if contain.Call(func() error { return t.to(ctx, e) }) != nil {
				t.mu.Lock()
				t.dropped++
				t.mu.Unlock()
			}
		}
	}
}

// Events gives the events that are kept, each once with its count and the time of
// the last, the newest first: of all kinds if kind is empty, of all keys if key is zero, and
// not more than limit if that is above zero. With kind and key it looks at that object's alone.
func (t *Throttled) Events(kind string, key store.Key, limit int) []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := &t.order
	if kind != "" && key != (store.Key{}) {
		if from = t.objects[objectID{kind, key}]; from == nil {
			return nil
		}
	}
	var found []Event
	for at := from.Back(); at != nil && (limit <= 0 || len(found) < limit); at = at.Prev() {
		e := at.Value.(*counted).Event
		if (kind == "" || kind == e.Kind) && (key == store.Key{} || key == e.Key) {
			found = append(found, e)
		}
	}
	return found
}

// drops is how many events were not passed on because the queue was full or
// the recorder failed.
func (t *Throttled) drops() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}

// countLocked finds the event's entry, or makes room for one, and moves it to
// the end of its lists: it was heard of last.
func (t *Throttled) countLocked(e Event) *counted {
	id := eventID{e.Kind, e.UID, e.Reason, e.Message, e.Key, e.Warning}
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
