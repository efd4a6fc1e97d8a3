package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// A tally is how far the world is from the file: what is declared, what the
// store says of it, and what the endpoint has confirmed since this process
// began. A stored "ready" alone proves nothing after a restart.
type tally struct {
	mu       sync.Mutex // guards everything below
	declared map[string]BucketSpec
	objects  map[string]standing
	seen     map[string]looked // by this process
	failures map[string]failure
	vanished map[string]bool // gone from the store, perhaps declared again
	changed  chan struct{}   // closed, and replaced, when something changes
}

// A standing is one object as the tally needs it.
type standing struct {
	spec     BucketSpec
	ready    bool
	deleting bool
	blocked  string // why nothing is done about it until another acts
}

// looked is what the endpoint showed of a bucket when it was last looked at.
type looked struct {
	exists bool
	diff   string // to what is declared; "" if there is none
}

func (l looked) asDeclared() bool { return l.exists && l.diff == "" }

// A failure is why the last run for a name failed.
type failure struct {
	reason   string
	hopeless bool // waiting will not cure it
}

func newTally() *tally {
	return &tally{
		declared: map[string]BucketSpec{}, objects: map[string]standing{},
		seen: map[string]looked{}, failures: map[string]failure{}, vanished: map[string]bool{}, changed: make(chan struct{}),
	}
}

// A count is a tally at one moment.
type count struct {
	Declared, Ready, Failing, Hopeless, Deleting, Vanished int
}

// Converged: everything is as declared, and nothing is left to delete.
func (c count) Converged() bool { return c.Ready == c.Declared && c.Deleting == 0 }

// Stuck: nothing moves any more without help.
func (c count) Stuck() bool {
	return c.Hopeless > 0 && c.Ready+c.Hopeless == c.Declared+c.Deleting
}

func (c count) String() string {
	s := fmt.Sprintf("%d of %d as declared", c.Ready, c.Declared)
	if c.Failing > 0 {
		s += fmt.Sprintf(", %d failing", c.Failing)
	}
	if c.Deleting > 0 {
		s += fmt.Sprintf(", %d being deleted", c.Deleting)
	}
	return s
}

// change runs f and wakes what waits.
func (t *tally) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	close(t.changed)
	t.changed = make(chan struct{})
}

// Declare says what should be.
func (t *tally) Declare(declared map[string]BucketSpec) {
	t.change(func() {
		t.declared = declared
		maps.DeleteFunc(t.vanished, func(name string, _ bool) bool { return !has(declared, name) })
	})
}

// Object says what the store holds of a name.
func (t *tally) Object(name string, s standing) {
	t.change(func() {
		t.objects[name] = s
		delete(t.vanished, name)
	})
}

// Gone says that the store holds it no longer.
func (t *tally) Gone(name string) {
	t.change(func() {
		delete(t.objects, name)
		delete(t.seen, name)
		delete(t.failures, name)
		t.vanished[name] = true
	})
}

// Failed says why the last run for a name failed, "" that it did not, and
// reports whether that is news.
func (t *tally) Failed(name, reason string, hopeless bool) (news bool) {
	t.mu.Lock()
	had := t.failures[name]
	t.mu.Unlock()
	if now := (failure{reason, hopeless}); now != had {
		t.change(func() {
			t.failures[name] = now
			if reason == "" {
				delete(t.failures, name)
			}
		})
		return reason != ""
	}
	return false
}

// Seen says what the endpoint shows of a name.
func (t *tally) Seen(name string, l looked) {
	t.mu.Lock()
	was, before := t.seen[name]
	t.mu.Unlock()
	if !before || was != l {
		t.change(func() { t.seen[name] = l })
	}
}

// Count returns the present state, and a channel that is closed when it changes.
func (t *tally) Count() (count, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := count{Declared: len(t.declared), Failing: len(t.failures)}
	for name, o := range t.objects {
		if o.deleting || !has(t.declared, name) {
			c.Deleting++
		} else if t.asDeclaredLocked(name) {
			c.Ready++
		}
		if o.blocked != "" {
			c.Failing++
			c.Hopeless++
		}
	}
	for name := range t.vanished {
		if has(t.declared, name) {
			c.Vanished++
		}
	}
	for _, f := range t.failures {
		if f.hopeless {
			c.Hopeless++
		}
	}
	return c, t.changed
}

func has(m map[string]BucketSpec, name string) bool { _, ok := m[name]; return ok }

func (t *tally) asDeclaredLocked(name string) bool {
	o := t.objects[name]
	return o.ready && o.spec == t.declared[name] && t.seen[name].asDeclared() && t.failures[name] == failure{}
}

// Wait blocks until done says so of a count, or ctx ends.
func (t *tally) Wait(ctx context.Context, done func(count) bool) (count, error) {
	for {
		c, changed := t.Count()
		if done(c) {
			return c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return c, context.Cause(ctx)
		}
	}
}

// Left says of each name that is not as declared why, in order.
func (t *tally) Left() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := map[string]string{}
	for name := range t.declared {
		if !t.asDeclaredLocked(name) {
			left[name] = "not yet as declared"
		}
	}
	for name, o := range t.objects {
		if o.deleting || !has(t.declared, name) {
			left[name] = "being deleted"
		}
		if o.blocked != "" {
			left[name] = o.blocked
		}
	}
	for name, f := range t.failures {
		left[name] = f.reason
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(left)) {
		lines = append(lines, name+": "+left[name])
	}
	return lines
}
