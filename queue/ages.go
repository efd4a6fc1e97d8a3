package queue

// ages says since when the run goes on that began first. The runs that began at one time,
// many in a busy shard, share a cell, which counts them; the last time has none yet.
type ages struct {
	deque
	cells    int64 // runs in cells
	at, here int64 // the last time, and how many began then
	sum      int64 // of the times at which all of them began
}

func (a *ages) runs() int64 { return a.cells + a.here }

func (a *ages) begin(at int64) {
	if at != a.at {
		a.turn(at)
	}
	a.here++
	a.sum += at
}

// turn begins another time, which is later.
func (a *ages) turn(at int64) {
	if a.here > 0 {
		a.push(cellOf(uint64(a.at), uint32(a.here)))
		a.cells += a.here
	}
	a.at, a.here = at, 0
}

// end tells how many cells it moved.
func (a *ages) end(at int64) (moved int) {
	a.sum -= at
	if at != a.at {
		return a.leave(uint64(at))
	}
	a.here--
	return 0
}

func (a *ages) leave(at uint64) (moved int) {
	a.cells--
	b := a.blocks[a.find(at)]
	c := &b.cells[b.find(at)]
	if c.i--; c.i == 0 {
		return a.remove(at)
	}
	return 0
}

// oldest is the first of the times. There must be a run.
func (a *ages) oldest() int64 {
	if a.n > 0 {
		return int64(a.first().seq())
	}
	return a.at
}
