package program

import (
	"context"
	"maps"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
)

// parkedEvery is how often a program with Options.Once looks for parked keys of the kinds whose
// runs are not tracked. Two looks must agree before an object counts as stuck.
const parkedEvery = time.Second

// parkedKey is a key whose last run failed with reconcile.Terminal, in this process.
type parkedKey struct {
	why        string
	generation int64 // of the object when it was found first
	sure       bool  // it was found again, and no edit had come between
}

// followParked tells the parts which keys are parked, until ctx ends: nothing else tells of a run
// that is not tracked, and waiting does not help its object.
func followParked(ctx context.Context, m *reconcile.Manager, parts []Part) {
	for sleep.For(ctx, parkedEvery) {
		for _, p := range parts {
			k, ok := p.(interface{ untracked() (kind string, is bool) })
			if !ok {
				continue
			}
			if kind, is := k.untracked(); is {
				p.(interface{ noteParked(why map[string]string) }).noteParked(parkedKeys(ctx, m, kind))
			}
		}
	}
}

// parkedKeys are the printed parked keys of a kind in this process, and why.
func parkedKeys(ctx context.Context, m *reconcile.Manager, kind string) map[string]string {
	parked := make(map[string]string)
	for _, r := range m.Runners() {
		c, ok := reconcile.Inspect(r)
		if !ok || c.Snapshot().Kind != kind || c.QueueStats().Of(queue.StateParked).Keys == 0 {
			continue
		}
		q := queue.PageOptions{States: []queue.State{queue.StateParked}, Limit: 1000}
		for more := true; more; {
			page, err := c.Keys(ctx, "", &q)
			if err != nil {
				break // ctx has ended
			}
			for _, key := range page.Entries {
				parked[key.Key] = key.Error
			}
			q.From, more = page.Next, page.More
		}
	}
	return parked
}

// untracked is the kind of the objects, and whether no run of them is tracked.
func (k *Kind[S, T]) untracked() (kind string, is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cache.Kind(), !k.tracked
}

// noteParked notes which of the keys are parked now. followParked alone calls it.
func (k *Kind[S, T]) noteParked(why map[string]string) {
	k.mu.Lock()
	before := k.parked
	k.mu.Unlock()
	if len(why) == 0 && len(before) == 0 {
		return
	}
	now := make(map[string]parkedKey, len(why))
	for o := range k.cache.All() {
		key := o.Key().String()
		if text, is := why[key]; is {
			was, again := before[key]
			now[key] = parkedKey{text, o.Generation, again && was.generation == o.Generation}
		}
	}
	if maps.Equal(now, before) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parked = now
	k.wake.notify()
}
