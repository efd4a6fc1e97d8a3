package cache

import (
	"context"
	"fmt"
	"slices"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/store"
)

// listPage is how many records a page of a list has at most.
const listPage = 1000

// readLists lists the parts that are not ready each time that Run has taken some up, until ctx
// ends. A list that failed is tried again after a pause.
func (c *core) readLists(ctx context.Context) {
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-c.feed.unread:
		}
		if err := c.listParts(ctx, failures > 0); err == nil {
			failures = 0
			continue
		}
		sleep.For(ctx, reopen.After(failures))
		failures++
		sleep.Wake(c.feed.unread)
	}
}

// listParts lists those parts, if there are any. again says that the list before it
// failed. One that Run gives up has not.
func (c *core) listParts(ctx context.Context, again bool) error {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	slots, from := c.beginList(giveUp)
	o := store.ListOptions{Limit: listPage}
	for more := slots.Len() > 0; more && ctx.Err() == nil; more = o.Cursor != "" {
		page, err := store.ListSlots(ctx, c.backend, c.kind, slots, o)
		if err = c.takePage(ctx, page, err, from, again); err != nil {
			return err
		}
		o.Cursor = page.Cursor
	}
	return nil
}

// beginList forgets the parts that are not wanted any more, and says which slots are to be listed,
// none if there is nothing to list or a snapshot shows it, and what the list must not be older than.
func (c *core) beginList(giveUp func()) (slots store.SlotSet, from store.Revision) {
	f := &c.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	c.mu.Lock()
	gone := f.forgetLocked()
	if unready := f.unready(); len(unready) > 0 && !f.startOver {
		f.giveUp = giveUp
		for shard := range unready {
			slots = slots.Union(store.SlotsOf(shard, c.opts.Shards))
		}
	}
	c.mu.Unlock()
	c.dropParts(gone)
	return slots, c.at()
}

// takePage applies a page of the list, or does what is to be done where there is none.
func (c *core) takePage(ctx context.Context, page store.Page, err error, from store.Revision, again bool) error {
	f := &c.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case ctx.Err() != nil: // Run has given the list up, or ends
		return nil
	case err != nil:
		c.mu.Lock()
		f.endListLocked()
		f.stirLocked() // for what has waited for this
		c.mu.Unlock()
		c.dropParts(f.unready()) // what was shown of them may be gone by the next list
		c.reportWatch(fmt.Errorf("cache: list of %s: %w", c.name, err), again)
		return err
	case page.Revision < from: // the store is older than what was seen of it
		c.mu.Lock()
		defer c.mu.Unlock()
		f.startOver = true
		f.endListLocked()
		f.stopLocked()
		return nil
	}
	steps := f.steps[:0]
	for _, rec := range page.Records {
		p := f.parts[c.shardOf(rec.Key)]
		if p == nil || p.ready {
			continue
		}
		if st, ok := c.read(rec, page.Revision); ok {
			st.initial = true // a part that was ready once, and is not, is read by a snapshot
			steps = append(steps, st)
		}
	}
	c.applyScratch(steps)
	if page.Cursor == "" {
		c.endList(page.Revision)
	}
	return nil
}

// endList applies what has changed since the list, which then has shown all as of a revision.
func (c *core) endList(at store.Revision) {
	f := &c.feed
	c.takeChanges(slices.DeleteFunc(f.late, func(ch store.Change) bool {
		return ch.Revision <= at || f.parts[c.shardOf(ch.Key)] == nil
	}))
	c.mu.Lock()
	defer c.mu.Unlock()
	f.endListLocked()
	f.completeLocked(at)
}
