package queue

import (
	"cmp"
	"slices"
	"sort"
)

// deque is the keys of one flow in order of arrival: cells of a sequence number and an
// index, in blocks, so that neither adding at the end nor taking from the head touches a
// neighbour's entry. A cell is found by its number, and so a key that leaves early
// takes its cell along, and one that comes back goes where it was. Blocks that fit into
// one are joined when a cell leaves.
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
	return d.spare == nil && (len(d.blocks) == 0 || cap(d.blocks[0].cells) <= firstBlock)
}

func (b *block) first() cell { return b.cells[b.at] }

// find is where the cell of a number is in a block, or belongs.
func (b *block) find(seq uint64) int {
	at, _ := slices.BinarySearchFunc(b.cells[b.at:], seq, func(c cell, seq uint64) int { return cmp.Compare(c.seq(), seq) })
	return b.at + at
}

// first is the first cell. There must be one.
func (d *deque) first() cell { return d.blocks[0].first() }

// find is the block that has the cell of a number, or in which it belongs. There must be one.
func (d *deque) find(seq uint64) (k int) {
	k = sort.Search(len(d.blocks), func(k int) bool { return d.blocks[k].first().seq() > seq })
	return max(k-1, 0)
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

// insert adds a cell where its number belongs, and tells how many it may have moved.
func (d *deque) insert(c cell) (moved int) {
	last := len(d.blocks) - 1
	if d.n == 0 || d.blocks[last].cells[len(d.blocks[last].cells)-1].seq() < c.seq() {
		d.push(c)
		return 0
	}
	k := d.find(c.seq())
	b := d.blocks[k]
	switch {
	case b.at > 0 && c.seq() < b.first().seq():
		b.at--
		b.cells[b.at] = c
		d.n++
		return 0
	case len(b.cells) < cap(b.cells):
	case b.at > 0:
		b.cells, b.at = slices.Delete(b.cells, 0, b.at), 0
	default:
		rest, half := d.block(), len(b.cells)/2
		rest.cells = append(rest.cells, b.cells[half:]...)
		b.cells = b.cells[:half]
		d.blocks = slices.Insert(d.blocks, k+1, rest)
		if rest.first().seq() < c.seq() {
			b = rest
		}
	}
	b.cells = slices.Insert(b.cells, b.find(c.seq()), c)
	d.n++
	return len(b.cells)
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
	k := d.find(seq)
	b := d.blocks[k]
	at := b.find(seq)
	b.cells = slices.Delete(b.cells, at, at+1)
	d.n--
	moved = len(b.cells) - at
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
	a.at = 0
	d.drop(k + 1)
	return moved
}

// drop removes a block with no cells that are left, and keeps the last one.
func (d *deque) drop(k int) {
	b := d.blocks[k]
	b.at, b.cells = 0, b.cells[:0]
	if len(d.blocks) == 1 {
		return
	}
	d.blocks = slices.Delete(d.blocks, k, k+1)
	if len(d.blocks) == 1 { // the list may have been long
		d.few = [2]*block{d.blocks[0]}
		d.blocks = d.few[:1]
	}
	if d.spare == nil || cap(d.spare.cells) < cap(b.cells) {
		d.spare = b
	}
}
