package queue

// heap is a binary heap whose elements know their place in it, so that each can
// be moved or removed in logarithmic time.
type heap[T ranked] []T

// ranked is what a heap orders, lowest rank first. Place is where it keeps its
// place+1; 0: it is in no heap.
type ranked interface {
	rank() uint64
	place() *int
}

func (h heap[T]) less(a, b int) bool { return h[a].rank() < h[b].rank() }

func (h heap[T]) swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	*h[a].place(), *h[b].place() = a+1, b+1
}

// add puts x in.
func (h *heap[T]) add(x T) {
	*h = append(*h, x)
	*x.place() = len(*h)
	h.up(len(*h) - 1)
}

// fix is called when the rank of x has changed.
func (h *heap[T]) fix(x T) {
	at := *x.place() - 1
	h.up(at)
	h.down(*x.place() - 1)
}

// remove takes x out, if it is in.
func (h *heap[T]) remove(x T) {
	at := *x.place() - 1
	if at < 0 {
		return
	}
	last := len(*h) - 1
	h.swap(at, last)
	var none T
	(*h)[last] = none
	*h = (*h)[:last]
	*x.place() = 0
	if at < last {
		h.up(at)
		h.down(at)
	}
}

func (h heap[T]) up(at int) {
	for at > 0 && h.less(at, (at-1)/2) {
		h.swap(at, (at-1)/2)
		at = (at - 1) / 2
	}
}

func (h heap[T]) down(at int) {
	for {
		child := 2*at + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h.less(child+1, child) {
			child++
		}
		if !h.less(child, at) {
			return
		}
		h.swap(at, child)
		at = child
	}
}
