package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/tendhq/tend/store"
)

// An event is what one commit did to one record.
type event struct {
	addr    address
	row     row // a deletion's row is the last one, at the deletion's revision
	deleted bool
	was     *row // what the commit replaced; nil if nothing, or read back from the log
}

// An entry is all that one revision did.
type entry struct {
	revision store.Revision
	events   []event
}

func (e entry) size() int {
	n := 0
	for _, ev := range e.events {
		n += len(ev.addr) + len(ev.row.data)
		if ev.was != nil {
			n += len(ev.was.data)
		}
	}
	return n
}

// history is the tail of the log, in memory: what watches are fed and resumed
// from, and what a pinned list is rolled back with.
//
//	   forgotten │ entries, one per revision, without a hole
//	─────────────┼───────────────────────────────▶
//	           floor      checkpoint          head
type history struct {
	entries []entry
	floor   store.Revision // every revision after it is in entries
	bytes   int

	// What was forgotten concerns a kind up to lost[kind], and no kind beyond
	// unknown, which is where the log began at Open. So the watcher of a quiet
	// kind is not cut off because other kinds are busy.
	unknown store.Revision
	lost    map[string]store.Revision
}

func (h *history) head() store.Revision { return h.floor + store.Revision(len(h.entries)) }

func (h *history) append(e entry) {
	h.entries = append(h.entries, e)
	h.bytes += e.size()
}

// after returns the entries later than r; ok is false if some of them concerned
// the kind and are forgotten, or if r is yet to come. The slice stays valid:
// entries are never written again.
func (h *history) after(kind string, r store.Revision) (tail []entry, ok bool) {
	if r < h.floor && r >= max(h.unknown, h.lost[kind]) {
		r = h.floor
	}
	if r < h.floor || r > h.head() {
		return nil, false
	}
	return h.entries[r-h.floor : len(h.entries) : len(h.entries)], true
}

func (h *history) exceeds(count, size int) bool {
	return len(h.entries) > count || h.bytes > size
}

// cut returns the revision up to which history has to be forgotten so that at
// most count entries and size bytes stay. It never goes beyond limit.
func (h *history) cut(count, size int, limit store.Revision) store.Revision {
	drop, bytes := 0, h.bytes
	for drop < len(h.entries) && h.entries[drop].revision <= limit &&
		(len(h.entries)-drop > count || bytes > size) {
		bytes -= h.entries[drop].size()
		drop++
	}
	return h.floor + store.Revision(drop)
}

// forget drops everything up to floor.
func (h *history) forget(floor store.Revision) {
	n := int(floor - h.floor)
	if h.lost == nil {
		h.lost = make(map[string]store.Revision)
	}
	for _, e := range h.entries[:n] {
		h.bytes -= e.size()
		for i := range e.events {
			kind, _, _ := e.events[i].addr.split()
			h.lost[kind] = e.revision
		}
	}
	// A fresh slice: readers may still hold the old one, and reslicing alone
	// would keep the forgotten entries alive.
	h.entries, h.floor = slices.Clone(h.entries[n:]), floor
}

// A chunk is the entries of one group commit, as one value in the log. Its key
// is its last revision, so that the log is in order and a cut finds its place.
func chunkKey(last store.Revision) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(last))
}

const (
	opPut    = 1
	opDelete = 2
)

func appendChunk(b []byte, entries []entry) []byte {
	size := overhead
	for _, e := range entries {
		for _, ev := range e.events {
			size += len(ev.addr) + len(ev.row.data) + overhead
		}
	}
	b = slices.Grow(b, size)
	var head []byte
	for _, e := range entries {
		for _, ev := range e.events {
			op := uint64(opPut)
			if ev.deleted {
				op = opDelete
			}
			b = binary.AppendUvarint(b, op)
			b = binary.AppendUvarint(b, uint64(len(ev.addr)))
			b = append(b, ev.addr...)
			head = ev.row.appendHead(head[:0])
			b = binary.AppendUvarint(b, uint64(len(head)+len(ev.row.data)))
			b = append(b, head...)
			b = append(b, ev.row.data...)
		}
	}
	return b
}

// parseChunk reads a chunk back; its first revision must be first.
func parseChunk(b []byte, first store.Revision) ([]entry, error) {
	var entries []entry
	d := decoder{b: b}
	for len(d.b) > 0 && d.err == nil {
		ev := d.event()
		if d.err != nil {
			break
		}
		next := first + store.Revision(len(entries))
		switch n := len(entries); {
		case ev.row.revision == next:
			entries = append(entries, entry{revision: next, events: []event{ev}})
		case n > 0 && ev.row.revision == next-1:
			entries[n-1].events = append(entries[n-1].events, ev)
		default:
			return nil, fmt.Errorf("revision %d where %d is due", ev.row.revision, next)
		}
	}
	if d.err == nil && len(entries) == 0 {
		d.err = errShort
	}
	return entries, d.err
}

func (d *decoder) event() (ev event) {
	op := d.uvarint()
	ev.deleted = op == opDelete
	ev.addr = address(d.bytes())
	b := d.bytes()
	if d.err != nil {
		return ev
	}
	if op != opPut && op != opDelete {
		d.err = fmt.Errorf("unknown operation %d", op)
		return ev
	}
	if _, _, ok := ev.addr.split(); !ok {
		d.err = errors.New("malformed address")
		return ev
	}
	ev.row, d.err = parseRow(b)
	return ev
}

// overlay says what differs, at revision at, from what the objects bucket holds,
// which is base; nil means absent. Later entries of the same address win going
// forward, earlier ones going back.
func (h *history) overlay(at store.Revision, base base, in func(address) bool) map[address]*row {
	diff := make(map[address]*row)
	if at >= base.at {
		for _, e := range h.between(base.at, at) {
			for _, ev := range e.events {
				if in(ev.addr) {
					diff[ev.addr] = ev.after()
				}
			}
		}
		return diff
	}
	for _, entries := range [][]entry{base.ahead, h.between(at, base.at)} {
		for _, e := range slices.Backward(entries) {
			for _, ev := range e.events {
				if in(ev.addr) {
					diff[ev.addr] = ev.was
				}
			}
		}
	}
	return diff
}

// after is what the event left behind.
func (ev *event) after() *row {
	if ev.deleted {
		return nil
	}
	return &ev.row
}

// between returns the entries later than a, up to and including b.
func (h *history) between(a, b store.Revision) []entry {
	i := sort.Search(len(h.entries), func(i int) bool { return h.entries[i].revision > a })
	j := sort.Search(len(h.entries), func(i int) bool { return h.entries[i].revision > b })
	return h.entries[i:j]
}
