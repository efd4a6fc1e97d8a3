package lifecycle

// mark is the form that a handler's finalizer has on an object.
type mark int

const (
	unmarked mark = iota // not there
	pending              // put before Add, and Add has not succeeded
	done                 // Add has succeeded
)

// view is all that decide looks at: one handler, one object, one moment.
type view struct {
	deleting bool
	mark     mark
	simple   bool // the handler has no finalizer
	known    bool // handled before, by this process, as the same object
	changed  bool // since it was handled, in what this handler minds
	woken    bool // the time has come that the handler asked for
	retry    Action
	due      bool // the retry's time has come
}

// verdict says what becomes of a handler in a run.
type verdict int

const (
	rest verdict = iota // nothing of this object concerns it
	idle                // nothing changed: call it if nothing else explains the run
	wait                // its retry is not due
	call
)

// decide says what a handler is called for in this run, if it is. It is the
// whole of the rules; what is done about it is elsewhere.
func decide(v view) (Action, verdict) {
	action := v.wanted()
	switch {
	case action == 0 && v.deleting:
		return 0, rest
	case v.retry == 0 && action == 0:
		return Resynced, idle
	case action == 0:
		action = v.retry
	}
	// A deletion does not wait for the retry of what it makes pointless.
	if v.retry != 0 && !v.due && (action != Deleted || v.retry == Deleted) {
		return action, wait
	}
	return action, call
}

// wanted is what the object's state asks for, or 0.
func (v view) wanted() Action {
	switch {
	case v.deleting && v.mark == unmarked:
		return 0 // nothing of ours to clean up, or it is done
	case v.deleting:
		return Deleted
	case v.mark != done && !v.simple, v.simple && !v.known:
		return Added
	case !v.known, v.woken && !v.changed:
		return Resynced // after a restart there is no old object to compare with
	case v.changed:
		return Updated
	}
	return 0
}
