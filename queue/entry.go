package queue

// State says where a key is. A key is in exactly one state, and the links of
// its entry belong to the one list of that state.
type State uint8

// The states of a key.
const (
	free            State = iota
	StateIdle             // nothing to run; the entry is kept because it is held or cools down
	StateReady            // may run now
	StateDelayed          // waits for a time, by AddAfter or Item.After
	StateBackingOff       // waits after a failure
	StateThrottled        // waits for a bucket to have a token
	StateHeld             // due, but somebody holds it
	StateRunning          // on loan
	StateParked           // given up until an urgent add
	states
)

var stateNames = [states]string{"free", "idle", "ready", "delayed", "backing off", "throttled", "held", "running", "parked"}

func (s State) String() string {
	if s < states {
		return stateNames[s]
	}
	return "unknown"
}

// flag holds what is true of an entry beside its state.
type flag uint8

const (
	added    flag = 1 << iota // an add came during the run; when has its due time
	urgent                    // … and it, or one of them, was urgent
	removed                   // Remove came during the run: its result counts no more
	raised                    // an add raised the priority during the run
	inside                    // has a side record
	israre                    // has a rare record
	admitted                  // its bucket let it go on: do not send it back behind the others
)

// entry is all there is to know about a key that is not held, not failing and
// of no tenant: 32 bytes, two to a cache line, without a pointer, so that the
// collector never looks at it. The key itself lies in a chunk of its own.
//
// An entry never moves while its key lives. That is what lets an Item hold an
// index, lists link by index, and Snapshot walk without copying the queue.
type entry struct {
	next, prev uint32 // links of the one list the entry is in, index+1, 0: none
	hash       uint32 // of the key, so that removal compares integers only
	stamp      uint32 // run number << 8 | band
	when       int64  // ready, throttled: order; waiting or added: due, in ns since the queue's start
	since      uint32 // the tick in which it came into its state
	attempts   uint16 // failures in a row
	state      State
	flags      flag
}

func (e *entry) band() uint8     { return uint8(e.stamp) }
func (e *entry) setBand(b uint8) { e.stamp = e.stamp&^0xff | uint32(b) }
func (e *entry) is(f flag) bool  { return e.flags&f != 0 }

// fail counts a failure; the count stays at its maximum rather than wrap.
func (e *entry) fail() {
	if e.attempts != 1<<16-1 {
		e.attempts++
	}
}

// entries is the part of the slab that lists and wheel need: they link entries
// and never see a key.
type entries struct {
	chunks []*[chunkSize]entry
}

func (s *entries) at(i uint32) *entry {
	return &s.chunks[i>>chunkBits][i&chunkMask]
}

// list is a doubly linked list of entries by index+1. The zero list is empty.
type list struct {
	head, tail uint32
}

func (l *list) pushBack(es *entries, i uint32) {
	e := es.at(i)
	e.next, e.prev = 0, l.tail
	if l.tail == 0 {
		l.head = i + 1
	} else {
		es.at(l.tail - 1).next = i + 1
	}
	l.tail = i + 1
}

func (l *list) pushFront(es *entries, i uint32) {
	e := es.at(i)
	e.next, e.prev = l.head, 0
	if l.head == 0 {
		l.tail = i + 1
	} else {
		es.at(l.head - 1).prev = i + 1
	}
	l.head = i + 1
}

func (l *list) remove(es *entries, i uint32) {
	e := es.at(i)
	if e.prev == 0 {
		l.head = e.next
	} else {
		es.at(e.prev - 1).next = e.next
	}
	if e.next == 0 {
		l.tail = e.prev
	} else {
		es.at(e.next - 1).prev = e.prev
	}
	e.next, e.prev = 0, 0
}
