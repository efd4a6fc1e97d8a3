package queue

import "math"

// heap is a heap of four children whose elements know their place in it, so that each can
// be moved or removed in logarithmic time. Its memory comes and goes in chunks: no add
// waits while a million elements are copied.
type heap[T any] struct {
	by     ranking[T]
	chunks [][]T // of heapChunk elements each
	n      int
	swaps  int // so far
}

const heapChunk, heapChildren = 128, 4

// ranking is the order of a heap's elements. A place counts from 1; 0: it is in no heap.
type ranking[T any] interface {
	before(a, b T) bool
	place(x T) int
	moved(x T, place int)
}

// never is the time of what has none.
const never = math.MaxInt64

// ranked is an element that has its rank, the lowest first, and its place.
type ranked interface {
	rank() uint64
	placed() *int
}

// byRank is the ranking of such elements.
type byRank[T ranked] struct{}

func (byRank[T]) before(a, b T) bool   { return a.rank() < b.rank() }
func (byRank[T]) place(x T) int        { return *x.placed() }
func (byRank[T]) moved(x T, place int) { *x.placed() = place }

func (h *heap[T]) at(k int) *T { return &h.chunks[k/heapChunk][k%heapChunk] }

// first is the element that is before all others, if there is one.
func (h *heap[T]) first() (x T, ok bool) {
	if h.n == 0 {
		return x, false
	}
	return *h.at(0), true
}

// add puts x in.
func (h *heap[T]) add(x T) {
	if h.n == len(h.chunks)*heapChunk {
		h.chunks = append(h.chunks, make([]T, heapChunk))
	}
	*h.at(h.n) = x
	h.n++
	h.by.moved(x, h.n)
	h.fix(x)
}

// remove takes x out, if it is in.
func (h *heap[T]) remove(x T) {
	at, last := h.by.place(x)-1, h.n-1
	if at < 0 {
		return
	}
	y := *h.at(last)
	*h.at(last) = *new(T)
	h.n--
	if h.by.moved(x, 0); at < last {
		h.fill(at, y)
		h.fix(y)
	}
	if k := len(h.chunks) - 1; last <= (k-1)*heapChunk { // one empty chunk stays
		h.chunks[k] = nil
		h.chunks = h.chunks[:k]
	}
}

// fix is called when the rank of x has changed: others move into the gap that it leaves.
func (h *heap[T]) fix(x T) {
	at := h.by.place(x) - 1
	for at > 0 && h.by.before(x, *h.at((at - 1) / heapChildren)) {
		h.fill(at, *h.at((at - 1) / heapChildren))
		at = (at - 1) / heapChildren
	}
	for {
		least, first := x, heapChildren*at+1
		to := at
		for child := first; child < first+heapChildren && child < h.n; child++ {
			if y := *h.at(child); h.by.before(y, least) {
				least, to = y, child
			}
		}
		if to == at {
			break
		}
		h.fill(at, least)
		at = to
	}
	h.fill(at, x)
}

func (h *heap[T]) fill(at int, x T) {
	*h.at(at) = x
	h.by.moved(x, at+1)
	h.swaps++
}
