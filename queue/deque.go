package queue

import (
	"cmp"
	"slices"
	"sort"
)

// deque is the keys of one flow in order of arrival: cells of a sequence number and
// an index, in blocks, so that neither adding at an end nor taking from one touches a
// neighbour's entry. A cell is found by its number, and so a key that leaves early
// takes its cell along; blocks that fit into one are joined then.
//
//	[ 17·a  18·b ]  [ 21·c  22·d  23·e ]  [ 30·f ]
type deque struct {
	n      int       // cells
	blocks []*block  // in order; none is empty, but for one that is alone
	few    [2]*block // the memory of blocks until there are three: beside what else an add changes
	spare  *block    // the largest that was emptied
}

// block is a part of a deque.
type block struct {
	at    int // the first cell that was not taken
	cells []cell
}

// cell is 12 bytes: its sequence number is in two halves, for alignment.
type cell struct{ high, low, i uint32 }

func (c cell) seq() uint64 { return uint64(c.high)<<32 | uint64(c.low) }

func cellOf(seq uint64, i uint32) cell { return cell{uint32(seq >> 32), uint32(seq), i} }

const (
	firstBlock = 4
	lastBlock  = 256
)

// isSmall tells whether an empty deque has no more memory than a few cells take.
func (d *deque) isSmall() bool {
	return d.spare == nil && cap(d.blocks) <= firstBlock && (len(d.blocks) == 0 || cap(d.blocks[0].cells) <= firstBlock)
}

// first is the first cell. There must be one.
func (d *deque) first() cell {
	b := d.blocks[0]
	return b.cells[b.at]
}

// push adds a cell at the end.
func (d *deque) push(c cell) {
	if d.blocks == nil {
		d.blocks = d.few[:0]
	}
	last := len(d.blocks) - 1
	if last < 0 || len(d.blocks[last].cells) == cap(d.blocks[last].cells) {
		d.blocks = append(d.blocks, d.block())
		last++
	}
	b := d.blocks[last]
	b.cells = append(b.cells, c)
	d.n++
}

// block is an empty one: the spare one, or one for as many cells as there are.
func (d *deque) block() *block {
	b := d.spare
	if d.spare = nil; b == nil {
		size := firstBlock
		for size < lastBlock && size < d.n {
			size *= 4
		}
		b = &block{cells: make([]cell, 0, size)}
	}
	return b
}

// pushFront adds a cell before all others.
func (d *deque) pushFront(c cell) {
	if d.n == 0 {
		d.push(c)
		return
	}
	if d.blocks[0].at == 0 {
		d.blocks = slices.Insert(d.blocks, 0, &block{at: firstBlock, cells: make([]cell, firstBlock)})
	}
	b := d.blocks[0]
	b.at--
	b.cells[b.at] = c
	d.n++
}

// take removes the first cell.
func (d *deque) take() {
	b := d.blocks[0]
	b.at++
	d.n--
	if b.at == len(b.cells) {
		d.drop(0)
	}
}

// remove takes out the cell of a number, which must be there, and tells how many it
// moved.
func (d *deque) remove(seq uint64) (moved int) {
	if d.first().seq() == seq {
		d.take()
		return 0
	}
	k := sort.Search(len(d.blocks)-1, func(k int) bool {
		next := d.blocks[k+1]
		return next.cells[next.at].seq() > seq
	})
	b := d.blocks[k]
	at, _ := slices.BinarySearchFunc(b.cells[b.at:], seq, func(c cell, seq uint64) int { return cmp.Compare(c.seq(), seq) })
	moved = len(b.cells) - b.at - at - 1
	b.cells = slices.Delete(b.cells, b.at+at, b.at+at+1)
	d.n--
	if b.at == len(b.cells) {
		d.drop(k)
		return moved + d.join(k-1)
	}
	return moved + d.join(k) + d.join(k-1)
}

// join makes one of a block and the next, if there are both and they fit into the
// first, and tells how many cells it moved.
func (d *deque) join(k int) (moved int) {
	if k < 0 || k+1 >= len(d.blocks) {
		return 0
	}
	a, b := d.blocks[k], d.blocks[k+1]
	moved = len(a.cells) - a.at + len(b.cells) - b.at
	if moved > cap(a.cells) {
		return 0
	}
	a.cells = append(slices.Delete(a.cells, 0, a.at), b.cells[b.at:]...)
	a.at, b.at, b.cells = 0, 0, b.cells[:0]
	d.drop(k + 1)
	return moved
}

// drop removes an empty block, unless it is alone.
func (d *deque) drop(k int) {
	b := d.blocks[k]
	b.at, b.cells = 0, b.cells[:0]
	if len(d.blocks) == 1 {
		return
	}
	d.blocks = slices.Delete(d.blocks, k, k+1)
	if d.spare == nil || cap(d.spare.cells) < cap(b.cells) {
		d.spare = b
	}
}
