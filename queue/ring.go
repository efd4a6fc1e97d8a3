package queue

// ring is the ready keys of one band in order of arrival: cells of a sequence
// number and an index, appended at one end and taken at the other, so that neither
// touches a neighbour's entry. A key that leaves early leaves its cell behind: it
// is dead, because the entry has another sequence number by then. Dead cells are
// dropped when they come up, and by a sweep that takes one block now and then.
//
//	head ▶ [ 17·a  18·b† ] ▶ [ 21·c  22·d  23·e† ] ▶ [ 30·f ] ◀ tail
type ring struct {
	head, tail *block
	live, dead int
	since      uint8  // changes since the last step of the sweep
	spare      *block // the block that was emptied last
	swept      *block // how far the sweep has got; nil: it begins at the head
}

// block is a part of a ring.
type block struct {
	next  *block
	at    int // the first cell that was not taken
	cells []cell
}

// cell is 12 bytes: its sequence number is in two halves, for alignment.
type cell struct{ high, low, i uint32 }

func (c cell) seq() uint64 { return uint64(c.high)<<32 | uint64(c.low) }

func cellOf(seq uint64, i uint32) cell { return cell{uint32(seq >> 32), uint32(seq), i} }

// isLive tells whether the key of a cell is where the cell is.
func isLive(es *slab, c cell) bool {
	e := es.get(c.i)
	return e != nil && e.order == c.seq()
}

const (
	firstBlock = 4
	lastBlock  = 256
	sweepEvery = 4
	// maxDropped bounds the dead cells beyond the live ones of a ring.
	maxDropped = 1024
)

// isSmall tells whether an empty ring has no more memory than a few cells take.
func (r *ring) isSmall() bool {
	return r.spare == nil && (r.head == nil || cap(r.head.cells) <= firstBlock)
}

// push adds a cell at the end.
func (r *ring) push(c cell) {
	b := r.tail
	if b == nil || len(b.cells) == cap(b.cells) {
		b = r.grow()
	}
	b.cells = append(b.cells, c)
	r.live++
}

// grow adds a block at the end: the spare one, or one for as many as there are.
func (r *ring) grow() *block {
	b := r.spare
	if r.spare = nil; b == nil {
		size := firstBlock
		for size < lastBlock && size < r.live {
			size *= 4
		}
		b = &block{cells: make([]cell, 0, size)}
	}
	if r.tail == nil {
		r.head = b
	} else {
		r.tail.next = b
	}
	r.tail = b
	return b
}

// pushFront adds a cell at the head.
func (r *ring) pushFront(c cell) {
	if r.head == nil || len(r.head.cells) == 0 {
		r.push(c)
		return
	}
	if r.head.at == 0 {
		r.head = &block{next: r.head, cells: make([]cell, firstBlock), at: firstBlock}
	}
	r.head.at--
	r.head.cells[r.head.at] = c
	r.live++
}

// first is the entry of the first live cell. There must be one; nil: the search used
// its steps up on dead cells, and is to be repeated.
func (r *ring) first(es *slab) (i uint32, e *entry) {
	for {
		c := &r.head.cells[r.head.at]
		if e := es.get(c.i); e != nil && e.order == c.seq() {
			return c.i, e
		}
		if es.tired() {
			return 0, nil
		}
		es.touched++
		r.dead--
		r.drop()
	}
}

// take removes the first cell, which is live.
func (r *ring) take(es *slab) {
	r.live--
	r.drop()
	if r.dead > 0 {
		r.clean(es)
	}
}

// leave is called when the key of a cell has left early.
func (r *ring) leave(es *slab) {
	r.live--
	r.dead++
	r.clean(es)
}

// drop removes the first cell.
func (r *ring) drop() {
	b := r.head
	if b.at++; b.at < len(b.cells) {
		return
	}
	b.at, b.cells = 0, b.cells[:0]
	if b.next == nil {
		return
	}
	r.head = b.next
	if r.swept == b {
		r.swept = nil
	}
	b.next = nil
	if r.spare == nil || cap(r.spare.cells) < cap(b.cells) {
		r.spare = b
	}
}

// clean keeps the dead cells fewer than the live ones and 1,024: it drops all
// when none is live, and sweeps a block at each fourth change while the dead are
// more than half of that. A sweep of the whole ring ends long before the other
// half is reached.
func (r *ring) clean(es *slab) {
	if r.live == 0 {
		r.head, r.swept, r.dead = r.tail, nil, 0
		r.tail.at, r.tail.cells = 0, r.tail.cells[:0]
		return
	}
	if r.dead*2 > r.live+maxDropped {
		if r.since++; r.since%sweepEvery == 0 {
			es.touched += r.sweep(es)
		}
	}
}

// sweep drops the dead cells of the next block and moves the live ones into the
// block before, if there is room. It tells how many cells it touched.
func (r *ring) sweep(es *slab) (touched int) {
	before, b := r.swept, r.head
	if before != nil {
		b = before.next
	}
	if b == nil {
		r.swept = nil
		return 0
	}
	touched = len(b.cells) - b.at
	kept := b.cells[:0]
	for _, c := range b.cells[b.at:] {
		if isLive(es, c) {
			kept = append(kept, c)
		}
	}
	r.dead -= touched - len(kept)
	b.cells, b.at = kept, 0
	switch {
	case before == nil && len(kept) == 0 && b.next != nil:
		r.head = b.next
	case before == nil || len(before.cells)-before.at+len(kept) > cap(before.cells):
		r.swept = b
	default:
		touched += len(before.cells)
		n := copy(before.cells, before.cells[before.at:])
		before.cells, before.at = append(before.cells[:n], kept...), 0
		if before.next = b.next; r.tail == b {
			r.tail = before
		}
	}
	return touched
}
