package event

import (
	"cmp"
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/store"
)

// bounds is how much a [Log] keeps and passes on. Zero fields mean the
// stated default.
type bounds struct {
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

// Log keeps the recent events of every object: it counts repeated events
// instead of adding them, bounds what it keeps, never blocks, and answers
// [Log.Events]. It passes them on to another recorder, which may be slow or
// metered, if there is one: it is a Runner, Run passes events on, and without it
// they are only kept.
//
//	order     e1 ─ e2 ─ e3 ─ e4 ─ e5     all, the one heard of last at the end
//	objects   a: e1 ─ e4   b: e2 ─ e3 ─ e5
type Log struct {
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
	warning                    bool
}

type counted struct {
	Event
	id          eventID
	passed      time.Time     // when its like was last passed on
	all, object *list.Element // its places in the two lists
}

func (c *counted) of() objectID { return objectID{c.Kind, c.Key} }

// NewLog makes a recorder that counts, and hands on to to, which may be nil: then it
// only keeps them. It remembers 4096 different events, at most 32 of one object, and hands on
// one of the same object, reason and message every 5 minutes. Up to 1024 wait for to.
func NewLog(to Recorder) *Log {
	return newLog(to, bounds{})
}

func newLog(to Recorder, o bounds) *Log {
	return &Log{
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
func (l *Log) Record(_ context.Context, e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.countLocked(e)
	now := time.Now() // not e.Time: another server may have made the event, by its own clock
	if l.to == nil || !c.passed.IsZero() && now.Sub(c.passed) < l.every {
		return nil
	}
	select { // never blocks, so it may be done under the lock, which keeps the order
	case l.queue <- c.Event:
		c.passed = now
	default:
		l.dropped++
	}
	return nil
}

// Run passes events on until ctx ends, one at a time. Failures of the recorder
// are counted as dropped events, and their like waits for five minutes all the
// same: a recorder that fails is not asked for each event.
func (l *Log) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-l.queue:
			if contain.Call(func() error { return l.to(ctx, e) }) != nil {
				l.mu.Lock()
				l.dropped++
				l.mu.Unlock()
			}
		}
	}
}

// Events gives the events that are kept, each once with its count and the time of
// the last, the newest first: of all kinds if kind is empty, of all keys if key is zero, and
// not more than limit if that is above zero. With kind and key it looks at that object's alone.
func (l *Log) Events(kind string, key store.Key, limit int) []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := &l.order
	if kind != "" && key != (store.Key{}) {
		if from = l.objects[objectID{kind, key}]; from == nil {
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

// countLocked finds the event's entry, or makes room for one, and moves it to
// the end of its lists: it was heard of last.
func (l *Log) countLocked(e Event) *counted {
	id := eventID{e.Kind, e.UID, e.Reason, e.Message, e.Key, e.Warning}
	c := l.events[id]
	if c == nil {
		c = l.addLocked(e, id)
	}
	l.order.MoveToBack(c.all)
	l.objects[c.of()].MoveToBack(c.object)
	c.Count += max(e.Count, 1)
	c.Time = e.Time
	return c
}

func (l *Log) addLocked(e Event, id eventID) *counted {
	c := &counted{Event: e, id: id}
	c.Count = 0
	if own := l.objects[c.of()]; own != nil && own.Len() >= l.perObject {
		l.forgetLocked(own.Front())
	}
	if l.order.Len() >= l.keep {
		l.forgetLocked(l.order.Front())
	}
	own := l.objects[c.of()] // it may have gone with its last event
	if own == nil {
		own = list.New()
		l.objects[c.of()] = own
	}
	c.all, c.object = l.order.PushBack(c), own.PushBack(c)
	l.events[id] = c
	return c
}

func (l *Log) forgetLocked(at *list.Element) {
	c := at.Value.(*counted)
	delete(l.events, c.id)
	l.order.Remove(c.all)
	own := l.objects[c.of()]
	if own.Remove(c.object); own.Len() == 0 {
		delete(l.objects, c.of())
	}
}
