package external

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
)

// Changed is a source that adds the objects whose resource a list shows otherwise than
// the list before, or does not show any more, so that drift is mended when a list shows
// it and not an interval later. The object is the one that the resource's mark names,
// as the lists show it or Detail read it; a resource without such a mark of ours wakes
// nothing. What a write of ours may have changed is left out until the write has
// settled. Each controller needs a source of its own. It makes no list: the looks do.
func (v *Inventory[S, T, R]) Changed(name string) reconcile.Source[reconcile.Request] {
	return reconcile.Source[reconcile.Request]{Name: name, Run: func(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
		to.Synced()
		c := &changedKeys{keys: map[reconcile.Request]bool{}, more: make(chan struct{}, 1)}
		v.mu.Lock()
		v.changed = append(v.changed, c)
		v.mu.Unlock()
		defer func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			for i, other := range v.changed {
				if other == c {
					v.changed = append(v.changed[:i:i], v.changed[i+1:]...)
					return
				}
			}
		}()
		return c.feed(ctx, to)
	}}
}

// changedKeys are the keys that one source has not added yet.
type changedKeys struct {
	more chan struct{} // has a token when there may be keys

	mu   sync.Mutex // guards what follows
	keys map[reconcile.Request]bool
}

func (c *changedKeys) note(keys []reconcile.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		c.keys[k] = true
	}
	select {
	case c.more <- struct{}{}:
	default:
	}
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

func (c *changedKeys) feed(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.more:
		}
		for key := range c.take() {
			err := to.Add(key, queue.AddOptions{})
			for ; errors.Is(err, queue.ErrFull); err = to.Add(key, queue.AddOptions{}) {
				if !sleep.For(ctx, fullPause) {
					return nil
				}
			}
			if err != nil {
				return err
			}
		}
	}
}

// difference is what the resources were that a new list shows otherwise than the
// newest one: as Detail read them where it did.
func (v *Inventory[S, T, R]) difference(s snapshot[R]) (were []R) {
	v.mu.Lock()
	old, wanted := v.list, len(v.changed) > 0
	v.mu.Unlock()
	if !wanted || old.begun.IsZero() {
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
func (v *Inventory[S, T, R]) tell(were []R) {
	var keys []reconcile.Request
	for _, r := range were {
		if mark, marked := v.o.Owner(r); marked && mark.Installation == v.o.Installation && mark.Kind == v.o.Store.Kind() {
			keys = append(keys, mark.Key)
		}
	}
	if len(keys) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.changed {
		c.note(keys)
	}
}
