package memory

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/tendhq/tend/store"
)

// maxPins is how many lists read page by page are held at most.
const maxPins = 16

// List implements [store.Backend]. Without a Limit the whole list is one page.
func (b *backend) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	return b.ListSlots(ctx, kind, store.AllSlots(), o)
}

// ListSlots implements [store.SlotReader].
func (b *backend) ListSlots(ctx context.Context, kind string, slots store.SlotSet, o store.ListOptions) (store.Page, error) {
	if err := store.CheckKind(kind); err != nil {
		return store.Page{}, err
	}
	if o.Limit < 0 {
		return store.Page{}, fmt.Errorf("%w: limit of %d", store.ErrInvalid, o.Limit)
	}
	if ctx.Err() != nil {
		return store.Page{}, ended(ctx)
	}
	if o.Cursor != "" {
		return b.nextPage(kind, slots, o)
	}
	p := &pin{kind: kind, namespace: o.Namespace, slots: slots}
	if err := b.fill(p, o.At); err != nil {
		return store.Page{}, err
	}
	if o.Limit == 0 || len(p.records) <= o.Limit {
		return store.Page{Records: p.records, Revision: p.revision}, nil
	}
	return b.pins.page(p, b.pins.add(p), 0, o.Limit), nil
}

// fill takes the records of one instant.
func (b *backend) fill(p *pin, at store.Revision) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return store.ErrClosed
	}
	p.revision = b.rev
	t := b.tables[p.kind]
	if at != 0 {
		if err := b.checkInstantLocked(t, at); err != nil {
			return err
		}
		p.revision = at
	}
	if t == nil {
		return nil
	}
	if p.namespace == "" {
		p.records = make([]store.Record, 0, len(t.entries)*p.slots.Len()/store.Slots)
	}
	for k, e := range entriesOf(t, p.slots) {
		if p.namespace == "" || p.namespace == k.Namespace {
			p.records = append(p.records, e.record(p.kind, k))
		}
	}
	return nil
}

// entriesOf yields the entries of some slots of a table.
func entriesOf(t *table, slots store.SlotSet) iter.Seq2[store.Key, entry] {
	all := slots == store.AllSlots()
	return func(yield func(store.Key, entry) bool) {
		for k, e := range t.entries {
			if (all || slots.HasKey(k)) && !yield(k, e) {
				return
			}
		}
	}
}

// checkInstantLocked accepts a past revision only if the kind has not changed
// since: older states are not kept.
func (b *backend) checkInstantLocked(t *table, at store.Revision) error {
	if at > b.rev {
		return fmt.Errorf("%w: list at %d, but the store is at %d", store.ErrInvalid, at, b.rev)
	}
	if t != nil && t.log.last() > at {
		return fmt.Errorf("%w: list of %s at %d, but it changed at %d", store.ErrCompacted, t.kind, at, t.log.last())
	}
	return nil
}

func (b *backend) nextPage(kind string, slots store.SlotSet, o store.ListOptions) (store.Page, error) {
	b.mu.RLock()
	closed := b.closed
	b.mu.RUnlock()
	if closed {
		return store.Page{}, store.ErrClosed
	}
	var id, from int
	n, err := fmt.Sscanf(o.Cursor, "%d:%d", &id, &from)
	if err != nil || n != 2 || o.Cursor != cursor(id, from) {
		return store.Page{}, fmt.Errorf("%w: cursor %.32q", store.ErrInvalid, o.Cursor)
	}
	p, err := b.pins.get(id)
	if err != nil {
		return store.Page{}, err
	}
	if p.kind != kind || p.namespace != o.Namespace || p.slots != slots || from <= 0 || from >= len(p.records) {
		return store.Page{}, fmt.Errorf("%w: cursor %q belongs to another list", store.ErrInvalid, o.Cursor)
	}
	return b.pins.page(p, id, from, o.Limit), nil
}

func cursor(id, from int) string { return fmt.Sprintf("%d:%d", id, from) }

// pin is a list at one instant. It is not modified once it was added to pins.
type pin struct {
	kind, namespace string
	slots           store.SlotSet
	revision        store.Revision
	records         []store.Record
}

// pins holds the lists that are being read page by page.
type pins struct {
	mu   sync.Mutex // guards what follows
	last int        // the id given last
	held map[int]*pin
	used []int // ids, the one used longest ago first
}

func (p *pins) add(list *pin) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(map[int]*pin)
	}
	p.last++
	p.held[p.last] = list
	p.used = append(p.used, p.last)
	if len(p.used) > maxPins {
		p.removeLocked(p.used[0])
	}
	return p.last
}

// get returns a list that is held and counts it as used.
func (p *pins) get(id int) (*pin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id <= 0 || id > p.last {
		return nil, fmt.Errorf("%w: cursor of no list", store.ErrInvalid)
	}
	list := p.held[id]
	if list == nil {
		return nil, fmt.Errorf("%w: too many lists have begun since this one", store.ErrCompacted)
	}
	p.removeLocked(id)
	p.held[id] = list
	p.used = append(p.used, id)
	return list, nil
}

// page cuts a page out of the list and lets the list go with its last page.
func (p *pins) page(list *pin, id, from, limit int) store.Page {
	to := len(list.records)
	if limit > 0 && limit < to-from {
		to = from + limit
	}
	page := store.Page{Records: list.records[from:to:to], Revision: list.revision}
	if to < len(list.records) {
		page.Cursor = cursor(id, to)
		return page
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(id)
	return page
}

func (p *pins) removeLocked(id int) {
	delete(p.held, id)
	for i, x := range p.used {
		if x == id {
			p.used = append(p.used[:i], p.used[i+1:]...)
			return
		}
	}
}

func (p *pins) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.used = nil, nil
}
