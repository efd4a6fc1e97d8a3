package queue

import "math"

// State says where a key is. A key is in exactly one state.
type State uint8

// The states of a key.
const (
	absent          State = iota
	StateIdle             // nothing to run; the entry is kept because the key is held
	StateReady            // may run now
	StateDelayed          // waits for a time, by AddAfter or Item.After
	StateBackingOff       // waits after a failure
	StateThrottled        // waits for a bucket to have a token
	StateHeld             // due, but held by Queue.Hold
	StateRunning          // a worker has its item
	StateParked           // given up until an urgent add
	states
)

var stateNames = [states]string{"absent", "idle", "ready", "delayed", "backing off", "throttled", "held", "running", "parked"}

func (s State) String() string {
	if s < states {
		return stateNames[s]
	}
	return "unknown"
}

// flag holds what is true of an entry beside its state. An entry without flags,
// but for the last two, has nothing but itself, and its key takes the short branches everywhere.
type flag uint16

const (
	added    flag = 1 << iota // an add came during the run; due is its time
	urgent                    // that add, or one of them, was urgent
	removed                   // Remove came during the run: the result counts no more
	raised                    // an add raised the priority during the run
	recorded                  // the entry has a record: error, reasons, tenant, holds, place in a line
	admitted                  // its bucket's line made it ready: it goes before others that wait
	asked                     // taken, but its run has not begun: its buckets are being asked
	restart                   // one of the urgent adds during the run starts the attempts from 0
	clocked                   // the clock was read when it became ready, and is when its run begins and ends
	sample                    // … and how long that takes counts for others of which it is not known

	// Of a request alone:
	replaces // AddOptions.Replace

	duringRun = added | urgent | removed | raised | restart
)

// Bands are numbered from 0; that of At(0) is the middle one.
const (
	middle   = 128
	maxBands = 256
)

// status is all of an entry that a transition reads or changes. The functions
// below are the two tables of the package comment; TestTablesAreTheCode compares
// them cell by cell. They know no lock, no structure, no clock and no callback.
//
// It has four fields, so that the compiler keeps it in registers. The band, which
// obeys one rule in every cell, is apart: see raises.
type status struct {
	// due is, of a delayed key and one that backs off, when it runs; of a running one
	// when what was added is due, 0: at once; of a throttled one the number of its
	// bucket's line.
	due      int64
	attempts uint16
	state    State
	flags    flag
}

// request is what an add asks for.
type request struct {
	due   int64 // 0: at once
	band  int16 // -1: keep
	flags flag  // urgent, restart, raised, which a running key takes over; replaces
}

func (r request) is(f flag) bool { return r.flags&f != 0 }

// outcome is what a run returned.
type outcome struct {
	kind outcomeKind
	due  int64 // when to run again, 0: at once
}

type outcomeKind uint8

const (
	done      outcomeKind = iota
	later                 // succeeded, runs again at due
	retry                 // failed, runs again at due
	again                 // was throttled: neither, runs again at due
	park                  // failed for good
	exhausted             // failed, and the policy gave up
)

// repeats tells whether the outcome alone makes the key run again.
func (k outcomeKind) repeats() bool { return k == later || k == retry || k == again }

// fails tells whether the outcome counts as a failed attempt.
func (k outcomeKind) fails() bool { return k == retry || k >= park }

// onAdd is the table of adds.
func onAdd(x status, r request) status {
	if x.state == StateRunning {
		return onAddDuringRun(x, r)
	}
	if r.is(restart) {
		x.attempts = 0
	}
	switch x.state {
	case absent, StateIdle:
		return x.start(r.due)
	case StateReady, StateThrottled, StateHeld:
		if r.is(replaces) && r.due > 0 {
			return x.start(r.due)
		}
	case StateDelayed:
		if r.is(replaces) || r.due < x.due {
			return x.start(r.due)
		}
	case StateBackingOff:
		switch {
		case r.is(urgent) && r.is(replaces):
			return x.start(r.due)
		case r.is(urgent):
			return x.start(min(r.due, x.due)) // no backoff any more, but at the time of the retry
		case r.is(replaces):
			x.due = max(x.due, r.due)
		}
	case StateParked:
		if r.is(urgent) {
			return x.start(r.due)
		}
	}
	return x
}

// onAddDuringRun keeps what came during a run as one add.
func onAddDuringRun(x status, r request) status {
	if x.flags&added == 0 || r.is(replaces) {
		x.due = r.due
	} else {
		x.due = min(x.due, r.due)
	}
	if r.is(replaces) {
		x.flags &^= urgent | restart
	}
	x.flags |= added | r.flags&duringRun
	return x
}

// raises tells whether an add gives a key of a band its own one: the higher of the
// two counts, but that of the add for Replace, and for a key that has none yet.
func raises(x status, band uint8, r request) bool {
	return r.band >= 0 && (uint8(r.band) > band || r.is(replaces) || x.state <= StateIdle || x.reborn())
}

// reborn tells whether the next add is the first one after Remove.
func (x status) reborn() bool { return x.flags&(added|removed) == removed }

// onSettle is the table of results.
func onSettle(x status, o outcome, now int64) status {
	flags, due := x.flags, x.due
	x.flags &^= duringRun | asked | admitted
	x.due = 0
	if flags&removed != 0 {
		o.kind = done
	}
	switch {
	case o.kind <= later || flags&restart != 0:
		x.attempts = 0
	case o.kind.fails() && x.attempts < math.MaxUint16:
		x.attempts++
	}
	if flags&added == 0 {
		due = math.MaxInt64
	}
	if o.kind == later || o.kind.repeats() && flags&urgent != 0 {
		due = min(due, o.due)
	}
	switch {
	case flags&urgent != 0, o.kind == later, o.kind == done && flags&added != 0:
		if due <= now {
			due = 0
		}
		return x.start(due)
	case o.kind == done:
		x.state = StateIdle
	case o.kind.repeats() || flags&added != 0:
		x.state, x.due = StateBackingOff, o.due
	default:
		x.state = StateParked
	}
	return x
}

// onRefuse is what becomes of a key whose bucket has no token. It has not run, so
// what was added meanwhile is no news.
func onRefuse(x status, line int64) status {
	if x.flags&restart != 0 {
		x.attempts = 0
	}
	x.flags &^= duringRun | asked
	x.state, x.due = StateThrottled, line
	return x
}

// start makes the key run at due, or at once if that is 0.
func (x status) start(due int64) status {
	x.state, x.due = StateReady, due
	if due > 0 {
		x.state = StateDelayed
	}
	x.flags &^= admitted
	return x
}

// hold keeps a key that is due from running.
func (x status) hold() status {
	x.state, x.due = StateHeld, 0
	x.flags &^= admitted
	return x
}

// onDue ends the wait for a time.
func onDue(x status) status {
	return x.start(0)
}

// onRemove forgets the key, or at the end of its run; ok: there was something.
func onRemove(x status) (_ status, ok bool) {
	if x.state == StateRunning {
		ok = x.flags&removed == 0 || x.flags&added != 0
		x.flags = x.flags&^duringRun | removed
		return x, ok
	}
	ok = x.state > StateIdle
	x.state, x.due, x.attempts = StateIdle, 0, 0
	x.flags &^= admitted
	return x, ok
}

// onCancel takes back what was to run later; ok: there was something. A delayed key that failed stays:
// its delay took the place of a backoff, and a key that came back would begin with attempt 1.
func onCancel(x status) (_ status, ok bool) {
	switch {
	case x.state == StateDelayed && x.attempts == 0:
		x.state, x.due, ok = StateIdle, 0, true
	case x.state == StateRunning && x.flags&added != 0 && x.due > 0:
		x.flags &^= added | urgent | restart
		ok = true
	}
	return x, ok
}

// onPriority is the band of a run's key whose item asks for another one.
func onPriority(x status, band, wanted uint8) uint8 {
	if x.flags&removed == 0 && (x.flags&raised == 0 || wanted > band) {
		return wanted
	}
	return band
}

// word says what the queue as a whole may do: the phases open, draining and
// stopped, and the bit paused, which is set while a hold over the whole queue
// lasts.
//
//	                    add        ready key   no ready key   timers
//	open                taken      given       Get waits      run
//	open, paused        taken      Get waits   Get waits      run
//	draining            refused    given       Get fails      holds only
//	draining, paused    refused    Get waits   Get fails      holds only
//	stopped             refused    Get fails   Get fails      stand still
type word uint32

const (
	open     word = 0
	draining word = 1
	stopped  word = 3 // has the bit of draining: what moves on to a phase only sets bits
	paused   word = 4
)

func (w word) phase() word     { return w &^ paused }
func (w word) takesAdds() bool { return w.phase() == open }
func (w word) gives() bool     { return w < stopped }

// ends tells whether Get fails when nothing may run; heldBack: there are ready keys,
// which a hold keeps back.
func (w word) ends(heldBack bool) bool {
	return w.phase() == stopped || w.phase() == draining && !heldBack
}
