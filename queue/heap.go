package queue

// heap is a binary heap whose elements know their place in it, so that each can
// be moved or removed in logarithmic time.
type heap[T ranked] struct {
	items []T
	swaps int // so far: what tests count
}

// ranked is what a heap orders, lowest rank first. Place is where it keeps its
// place+1; 0: it is in no heap.
type ranked interface {
	rank() uint64
	place() *int
}

// first is the element of the lowest rank, if there is one.
func (h *heap[T]) first() (x T, ok bool) {
	if len(h.items) == 0 {
		return x, false
	}
	return h.items[0], true
}

// add puts x in.
func (h *heap[T]) add(x T) {
	h.items = append(h.items, x)
	*x.place() = len(h.items)
	h.fix(x)
}

// remove takes x out, if it is in.
func (h *heap[T]) remove(x T) {
	at, last := *x.place()-1, len(h.items)-1
	if at < 0 {
		return
	}
	h.swap(at, last)
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	if *x.place() = 0; at < last {
		h.fix(h.items[at])
	}
}

// fix is called when the rank of x has changed.
func (h *heap[T]) fix(x T) {
	at := *x.place() - 1
	for ; at > 0 && h.less(at, (at-1)/2); at = (at - 1) / 2 {
		h.swap(at, (at-1)/2)
	}
	for {
		child := 2*at + 1
		if child+1 < len(h.items) && h.less(child+1, child) {
			child++
		}
		if child >= len(h.items) || !h.less(child, at) {
			return
		}
		h.swap(at, child)
		at = child
	}
}

func (h *heap[T]) less(a, b int) bool { return h.items[a].rank() < h.items[b].rank() }

func (h *heap[T]) swap(a, b int) {
	h.items[a], h.items[b] = h.items[b], h.items[a]
	*h.items[a].place(), *h.items[b].place() = a+1, b+1
	h.swaps++
}
