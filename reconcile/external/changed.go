package external

import (
	"context"
	"errors"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// Changed is a source that adds the objects whose resource a list shows otherwise than
// the list before, or does not show any more, so that drift is mended when a list shows
// it and not an interval later. The object is the one that the resource's mark names,
// as the lists show it or Detail read it; a resource without such a mark of ours wakes
// nothing. What a write of ours may have changed is left out until the write has
// settled. Each controller needs a source of its own.
//
// While such a source runs, it makes the lists that looks of runs need, on its own
// goroutine and bounded by an hour. The runs end meanwhile, and their objects are added
// again when the list has ended: an account whose lists take long holds no worker. Such a
// run has found out nothing of its object, and package program does not count it.
func (v *Inventory[S, T, R]) Changed(name string) reconcile.Source[reconcile.Request] {
	return reconcile.Source[reconcile.Request]{Name: name, Run: func(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
		c := &changedKeys{keys: map[reconcile.Request]bool{}, more: make(chan struct{}, 1)}
		v.mu.Lock()
		v.changed = append(v.changed, c)
		v.mu.Unlock()
		to.Synced() // not before: a run that begins now already leaves the list to the source
		c.wake()    // for runs that waited for a source that has ended
		defer func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.changed = slices.DeleteFunc(v.changed, func(other *changedKeys) bool { return other == c })
		}()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-c.more:
			}
			v.listForOthers(ctx, to)
			if err := c.feed(ctx, to); err != nil {
				return err
			}
		}
	}}
}

// errListing ends a run whose look needs a list that a source of Changed is to make, or a
// newer one than is due yet; see notDueError.
var errListing = errors.New("external: inventory: a list is under way")

// notDueError is the errListing of a run that needs a newer list while the last one is
// recent. No source makes one for it, or wakes its key, so it says when one may be made.
type notDueError struct{ due time.Time }

func (*notDueError) Error() string { return "external: inventory: a newer list is not due yet" }
func (*notDueError) Unwrap() error { return errListing }

const (
	// listWait is the time after which a run that ended for want of a list is made again
	// though no source has added its key.
	listWait = time.Minute
	// minListWait is the least such time. A list of exactly Fresh ago is still recent.
	minListWait = time.Millisecond
)

// waitForList is the time after which a run that ended with that errListing is made again.
func waitForList(err error) time.Duration {
	if e, ok := errors.AsType[*notDueError](err); ok {
		return min(listWait, max(minListWait, time.Until(e.due)))
	}
	return listWait
}

// leave notes that the run of a key ends until there is a new list, and has a source
// make one. False: there is no source, nothing to wait for, or a fresh look is wanted. At is when the look was
// asked for: by the run that left, if this one comes back for it. Else a list that takes
// longer than Fresh would serve no run, and be made again and again.
func (v *Inventory[S, T, R]) leave(key store.Key, id string, fresh bool) (at time.Time, left bool) {
	at = time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, asked := range []time.Time{v.back[key], v.waiting[key]} {
		if recent(asked, longestLook, at) {
			at = asked
		}
	}
	delete(v.back, key)
	if _, known := v.recallLocked(v.o.Letters.id(id), at); known != nothing || len(v.changed) == 0 || fresh || recent(v.list.begun, v.o.Fresh, at) || recent(v.failed, v.o.Fresh/4, at) {
		delete(v.waiting, key) // or the list would end a backoff that this run may begin
		return at, false
	}
	if v.waiting == nil {
		v.waiting = map[store.Key]time.Time{}
	}
	v.waiting[key] = at
	v.changed[0].wake()
	return at, true
}

const (
	// longestList bounds a list that a source makes.
	longestList = time.Hour
	// budgetPause is the least time after which a list that was refused for want of a
	// budget is tried again: a server that has just begun has no part of it yet.
	budgetPause = time.Second
)

// listForOthers makes the list that runs wait for, and has every source add their keys. A
// list that fails is the failure of the source that makes it, until the next one.
func (v *Inventory[S, T, R]) listForOthers(ctx context.Context, to reconcile.Sink[reconcile.Request]) {
	v.mu.Lock()
	wanted := len(v.waiting) > 0
	v.mu.Unlock()
	if !wanted {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, longestList)
	defer cancel()
	// An error is noted as such: the runs then look at their resources one by one.
	for {
		err := contain.Call(func() error { return v.refresh(bounded, time.Now()) })
		if until, throttled := ratelimit.ThrottledUntil(err); throttled && sleep.For(bounded, max(time.Until(until), budgetPause)) {
			continue
		}
		if r, ok := to.(reconcile.Reporter); ok && ctx.Err() == nil {
			r.Failed(err)
		}
		break
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.changed {
		c.note(maps.Keys(v.waiting), true)
	}
	v.back = without(v.back, func(_ store.Key, at time.Time) bool { return !recent(at, longestLook, time.Now()) })
	if len(v.back) == 0 {
		v.back = v.waiting // and not a copy: the map keeps room for all that waited for a first list
	} else {
		maps.Copy(v.back, v.waiting)
	}
	v.waiting = nil
}

// changedKeys are the keys that one source has not added yet.
type changedKeys struct {
	more chan struct{} // has a token when there may be keys

	mu   sync.Mutex                 // guards what follows
	keys map[reconcile.Request]bool // true: its run waited for a list
}

func (c *changedKeys) note(keys iter.Seq[reconcile.Request], waited bool) {
	c.mu.Lock()
	for k := range keys {
		c.keys[k] = c.keys[k] || waited
	}
	c.mu.Unlock()
	c.wake()
}

func (c *changedKeys) wake() {
	sleep.Wake(c.more)
}

func (c *changedKeys) take() map[reconcile.Request]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.keys
	c.keys = map[reconcile.Request]bool{}
	return keys
}

// fullPause is the time after which a queue that was full is tried again.
const fullPause = time.Second

// manyKeys are so many that they come after what else is to be run.
const manyKeys = 1000

// feed adds the keys. It returns an error if the queue is stopped.
func (c *changedKeys) feed(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
	keys, o := c.take(), queue.AddOptions{}
	if len(keys) > manyKeys {
		o.Priority = queue.At(-1)
	}
	for key, waited := range keys {
		// The wait ends, and if its runs failed before, the row of failures goes on.
		o.Urgent, o.KeepAttempts = waited, waited
		err := to.Add(key, o)
		for ; errors.Is(err, queue.ErrFull); err = to.Add(key, o) {
			if !sleep.For(ctx, fullPause) {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// difference is what the resources were that a new list shows otherwise than the
// newest one: as Detail read them where it did.
func (v *Inventory[S, T, R]) difference(s snapshot[R]) (were []R) {
	v.mu.Lock()
	old, wanted := v.list, len(v.changed) > 0
	v.mu.Unlock()
	if !wanted {
		return nil
	}
	for id, was := range old.byID {
		if is, on := s.byID[id]; on && reflect.DeepEqual(is, was) {
			continue
		}
		v.mu.Lock()
		if d, known := v.detail[id]; known {
			was = d.r
		}
		settled := v.settledLocked(id, s.begun)
		v.mu.Unlock()
		if settled {
			were = append(were, was)
		}
	}
	return were
}

// tell adds the objects of those resources to what the sources of Changed have to add.
func (v *Inventory[S, T, R]) tell(ctx context.Context, were []R) {
	keys := map[store.Key]bool{}
	for _, r := range were {
		if mark, marked := v.o.Owner(r); marked && v.ours(mark) {
			keys[mark.Key] = true
		}
	}
	if len(keys) == 0 {
		return
	}
	keys = v.declaredKeys(ctx, keys)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.changed {
		c.note(maps.Keys(keys), false)
	}
}
