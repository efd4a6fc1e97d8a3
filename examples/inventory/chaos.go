package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// chaosAtOnce bounds the alterations that wait to be put back.
const chaosAtOnce = 32

// chaosTries is how many buckets are looked at for one that can be altered.
const chaosTries = 8

// chaosPause is the wait after a call that failed: the endpoint may be away.
const chaosPause = time.Second

// A chaos alters buckets behind the kernel's back and sees to it, by its own
// reads of the endpoint, that each is put back.
type chaos struct {
	buckets *buckets
	entries func() []Entry // what is declared now
	say     func(format string, args ...any)
	random  *rand.Rand

	waiting map[string]alteration // altered, not put back yet
	made    map[string]int        // alterations by what they did
	slowest time.Duration

	mu      sync.Mutex      // guards changed
	changed map[string]bool // buckets that the kernel has touched since the last look
	wake    chan struct{}   // holds one token while changed isn't empty
}

type alteration struct {
	what string
	at   time.Time
}

func newChaos(b *buckets, entries func() []Entry, seed uint64, say func(string, ...any)) *chaos {
	return &chaos{
		buckets: b, entries: entries, say: say,
		random:  rand.New(rand.NewPCG(seed, 0)),
		waiting: map[string]alteration{}, made: map[string]int{},
		changed: map[string]bool{}, wake: make(chan struct{}, 1),
	}
}

// Touched tells that the kernel has changed a bucket; it never blocks.
func (c *chaos) Touched(name string) {
	c.note(name)
	select {
	case c.wake <- struct{}{}:
	default: // the token is there already
	}
}

// note remembers to look at a bucket, at the next wake or after the next pause.
func (c *chaos) note(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed[name] = true
}

// Run makes n alterations and returns when all have been put back, or when ctx
// ends, which is an error that counts those that were not.
func (c *chaos) Run(ctx context.Context, n int) error {
	for started := 0; started < n || len(c.waiting) > 0; {
		if started < n && len(c.waiting) < chaosAtOnce {
			if c.alterOne(ctx) {
				started++
				continue
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("chaos: %d of %d alterations made, %d not put back", started, n, len(c.waiting))
		case <-c.wake:
		case <-time.After(chaosPause): // nothing to alter just now, or a read that failed
		}
		c.check(ctx)
	}
	return nil
}

// Summary says what was altered.
func (c *chaos) Summary() string {
	var parts []string
	total := 0
	for _, what := range slices.Sorted(maps.Keys(c.made)) {
		parts = append(parts, fmt.Sprintf("%d %s", c.made[what], what))
		total += c.made[what]
	}
	return fmt.Sprintf("chaos: %d alterations (%s), %d put back, the slowest after %v",
		total, strings.Join(parts, ", "), total-len(c.waiting), c.slowest.Round(time.Millisecond))
}

// alterOne alters one bucket that is as declared now, and reports whether it
// found one.
func (c *chaos) alterOne(ctx context.Context) bool {
	candidates := slices.DeleteFunc(c.entries(), func(e Entry) bool { return c.waits(e.Name) })
	c.random.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
	for _, e := range candidates[:min(len(candidates), chaosTries)] {
		seen, err := c.buckets.look(ctx, e.Name, e.Region)
		if err != nil || len(seen.differences(e.spec())) > 0 {
			continue
		}
		what, err := c.alter(ctx, e, seen)
		if err != nil {
			continue
		}
		c.say("! %s  %s behind our back", e.Name, what)
		c.waiting[e.Name] = alteration{what, time.Now()}
		c.made[what]++
		return true
	}
	return false
}

func (c *chaos) waits(name string) bool { _, ok := c.waiting[name]; return ok }

func (c *chaos) alter(ctx context.Context, e Entry, seen sighting) (what string, err error) {
	kinds := 2
	if seen.described {
		kinds = 3
	}
	switch c.random.IntN(kinds) {
	case 0:
		return "deleted", c.buckets.remove(ctx, e.Name, e.Region)
	case 1:
		return "versioning switched", c.buckets.setVersioning(ctx, e.Name, e.Region, !e.Versioning)
	default:
		seen.labels.Owner = "other@elsewhere.example"
		return "given to another owner", c.buckets.label(ctx, e.Name, e.Region, seen.labels)
	}
}

// check looks at the altered buckets that the kernel has touched.
func (c *chaos) check(ctx context.Context) {
	declared := map[string]Entry{}
	for _, e := range c.entries() {
		declared[e.Name] = e
	}
	for name := range c.touched() {
		a, waiting := c.waiting[name]
		e, ok := declared[name]
		switch {
		case !waiting:
		case !ok:
			delete(c.waiting, name) // taken out of the file meanwhile
		default:
			c.checkOne(ctx, e, a)
		}
	}
}

func (c *chaos) checkOne(ctx context.Context, e Entry, a alteration) {
	switch seen, err := c.buckets.look(ctx, e.Name, e.Region); {
	case err != nil:
		c.note(e.Name)
	case len(seen.differences(e.spec())) == 0:
		c.slowest = max(c.slowest, time.Since(a.at))
		delete(c.waiting, e.Name)
	}
}

func (c *chaos) touched() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.changed
	c.changed = map[string]bool{}
	return was
}
