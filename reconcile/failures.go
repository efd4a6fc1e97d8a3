package reconcile

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/queue"
)

// failures are the keys of a controller that fail: since when, and for which cause. The log goes
// by causes, so that a fault of what many keys need is a handful of lines:
//
//	the first few keys of a cause    a line each, at once, and one when it works again
//	the keys after these             one line for all: after ten seconds, then ever more seldom
//	a key that fails for another     a line, unless keys fail for that already
//	the last one works again         one line
//
// Retries are there at debug level.
type failures[K comparable] struct {
	n atomic.Int64 // len(of): a run that succeeds asks for no more while nothing fails

	mu        sync.Mutex // guards what follows; a leaf, nothing is logged under it
	of        map[K]failingKey
	causes    map[string]*failureCause
	exhausted map[K]struct{} // the queue has given them up, and the log does not know yet
}

// failingKey is a key that fails.
type failingKey struct {
	cause *failureCause
	since time.Time
}

// failureCause is why some keys fail.
type failureCause struct {
	name  string
	keys  int // that fail for it now
	total int // that did since it began
	first string
	text  error
	began time.Time
	next  time.Time // when a line about all of them is due
}

// remindFrom is the attempt at which a row of failures of one key is logged again, and then
// whenever their number has doubled.
const remindFrom = 16

const (
	namedKeys  = 3 // of a cause, that have lines of their own
	maxFailing = 100_000
	maxCauses  = 200
	causePace  = 10 * time.Second // from the begin of a cause to the first line about all of its keys
)

// saying is what the log is to be told of a failure.
type saying struct {
	key     bool // the key's own line
	summary bool // one about all keys of the cause, which is a copy
	of      failureCause
}

// has reports whether the key fails.
func (f *failures[K]) has(key K) bool {
	if f.n.Load() == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, has := f.of[key]
	return has
}

// since is since when the key fails; zero: it does not, or that is not known.
func (f *failures[K]) since(key K) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[key].since
}

// causeOfLocked gives the cause of that name, and makes it if it is new.
func (f *failures[K]) causeOfLocked(name string, key K, err error, now time.Time) (c *failureCause, created bool) {
	if len(f.causes) >= maxCauses && f.causes[name] == nil {
		name = "" // of the others together
	}
	if c = f.causes[name]; c != nil {
		return c, false
	}
	if f.causes == nil {
		f.causes, f.of = make(map[string]*failureCause), make(map[K]failingKey)
	}
	c = &failureCause{name: name, first: fmt.Sprint(key), text: err, began: now, next: now.Add(causePace)}
	f.causes[name] = c
	return c, true
}

// note notes that a run of the key failed for a cause. parked says that no retry follows.
func (f *failures[K]) note(key K, name string, err error, attempt int, parked bool) (say saying) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	was, had := f.of[key]
	c, created := f.causeOfLocked(name, key, err, now)
	moved := !had || was.cause != c
	switch {
	case !had && len(f.of) >= maxFailing: // not counted; its cause is told
		say.key = created
	case moved:
		c.keys++
		c.total++
		if !had {
			was.since = now
		} else {
			f.leaveLocked(was.cause)
		}
		f.of[key] = failingKey{c, was.since}
		f.n.Store(int64(len(f.of)))
		say.key = c.total <= namedKeys
	default:
		say.key = c.total <= namedKeys && (parked || attempt >= remindFrom && attempt&(attempt-1) == 0)
	}
	say.summary = c.dueLocked(now)
	say.of = *c
	return say
}

// dueLocked reports whether a line about all keys of the cause is due, and when the next is.
func (c *failureCause) dueLocked(now time.Time) bool {
	if c.total <= namedKeys || c.keys == 0 || now.Before(c.next) {
		return false
	}
	c.next = now.Add(min(max(2*now.Sub(c.began), causePace), time.Hour))
	return true
}

// leaveLocked notes that a key fails for the cause no more.
func (f *failures[K]) leaveLocked(c *failureCause) {
	if c.keys--; c.keys <= 0 {
		delete(f.causes, c.name)
	}
}

// well notes that the key works again. had: it did not; ended: it was the last one of its cause.
func (f *failures[K]) well(key K) (of failureCause, had, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, had := f.of[key]
	if !had {
		return of, false, false
	}
	f.leaveLocked(was.cause)
	delete(f.of, key)
	f.n.Store(int64(len(f.of)))
	return *was.cause, true, was.cause.keys == 0
}

// gaveUp notes that the queue has given the key up, for the log line that follows.
func (f *failures[K]) gaveUp(key K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exhausted == nil {
		f.exhausted = make(map[K]struct{})
	}
	f.exhausted[key] = struct{}{}
}

// takeGivenUp reports whether the queue has just given the key up.
func (f *failures[K]) takeGivenUp(key K) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, gone := f.exhausted[key]
	delete(f.exhausted, key)
	return gone
}

// sweep forgets the keys that the queue knows no failure of any more, as those that were removed,
// and gives the causes about which a line is due.
func (f *failures[K]) sweep(lookup func(K) (queue.Entry[K], bool)) (due []failureCause) {
	f.mu.Lock()
	keys := make([]K, 0, len(f.of))
	for key := range f.of {
		keys = append(keys, key)
	}
	f.mu.Unlock()
	for _, key := range keys {
		if e, ok := lookup(key); !ok || e.LastError == nil && e.State != queue.StateRunning {
			f.well(key)
		}
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.causes {
		if c.keys <= 0 {
			delete(f.causes, c.name) // of keys that are not counted
		} else if c.dueLocked(now) {
			due = append(due, *c)
		}
	}
	return due
}
