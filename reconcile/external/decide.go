package external

import (
	"slices"
	"time"
)

// Naming says how a resource can be found again when it is not known whether its
// creation succeeded.
type Naming uint8

const (
	// ByCloud is the zero value: the cloud chooses the name at creation. A
	// create of unknown outcome cannot be looked up; the object stops with
	// [ErrCreateIncomplete] until a human has looked and answered,
	// by the command "tend created" or "tend not-created" or by [objects.Answer].
	ByCloud Naming = iota
	// ByUs names the resource before it exists, the same at every try, and the
	// cloud refuses a second one of that name. A create of unknown outcome is
	// simply called again.
	ByUs
	// ByMark leaves the name to the cloud, but the create carries our ownership
	// mark (or a client token) and Observe finds the resource by it. After a
	// create of unknown outcome the resource is looked for until the creation
	// grace is over; only then is another one created. Observe and Create get no name on record
	// then: it would be that of an earlier resource. Where Observe finds nothing by a name on record, it
	// is called once more without, before another one is created or the object goes: the name may be that of a backup. An [Inventory] looks for the mark before a
	// first create too, see [InventoryOptions.IDOf], and not at the end of a deletion by such a name: a newer
	// resource is left to [Inventory.Prune] then.
	ByMark

	lastNaming = ByMark
)

// phase is how far the newest attempt at creating the resource got.
type phase uint8

const (
	untried phase = iota
	pending       // it was begun, and how it ended is not known
	succeeded
	failed
)

// view is all that [decide] looks at: one object and its resource, at one
// moment.
type view struct {
	paused    bool
	policy    Policy
	naming    Naming
	exclusive bool // Create refuses a name that is taken, and marks what it makes
	deleting  bool
	finalizer bool // ours is on the object
	others    bool // another's is
	phase     phase
	adopt     string    // the id of what it is to take over, see store.AnnotationAdopt; empty: nothing
	located   bool      // the spec says where the resource lies, see Options.Location
	moved     string    // says where the resource is on record and where the spec has it; empty: there
	young     bool      // graceEnd is not reached
	learned   time.Time // when this process learned of phase; zero: there is nothing to wait for
	graceEnd  time.Time // the creation grace after that; zero: it has none
	observed  bool      // seen is filled in
	seen      Observation
	rotates   bool // its outputs were lost, and the client replaces them
	deleted   bool // a deletion of ours succeeded, and may not be visible yet
}

// action is what to do next about a resource.
type action uint8

const (
	doNothing    action = iota
	doPause             // say that it is paused
	doReject            // say that the policy cannot be followed
	doMoved             // the resource is not where the spec says; say so, touch nothing
	doStop              // a create may have happened; say so and wait for a human
	doAwait             // others have to finish with the object first
	doObserve           // look, then decide again
	doWait              // it may not be visible yet
	doMissing           // it is not there and may not be created
	doCreate            // also finishes a create that was cut short
	doRefuse            // it is another's: say so, touch nothing
	doDelete            //
	doRelease           // nothing is left to do: the finalizer goes
	doUpdate            //
	doRotate            // its outputs were lost
	doTolerate          // it differs, and may not be changed
	doKeep              // it is as declared
	actionsCount        // for tests
)

func (a action) String() string {
	return [...]string{
		"nothing", "pause", "reject", "moved", "stop", "await", "observe", "wait", "missing", "create",
		"refuse", "delete", "release", "update", "rotate", "tolerate", "keep", "?",
	}[min(a, actionsCount)]
}

// decide is the whole of the rules. It is called twice in a run: before the
// resource was looked at, and, where it says doObserve, afterwards.
func decide(v view) action {
	switch {
	case v.paused:
		return doPause
	case v.policy.validate() != nil:
		return doReject
	case v.policy == Paused:
		return doPause
	case v.deleting && !v.finalizer:
		return doNothing // the finalizer comes before everything that would need undoing
	case v.deleting && !v.policy.has(Delete):
		return doRelease
	case v.moved != "": // before doStop: a look by a human has to go to the location on record
		return doMoved
	case v.phase == pending && v.naming == ByCloud:
		return doStop
	case v.deleting && v.others:
		return doAwait
	case !v.observed:
		return doObserve
	case v.seen.Exists && v.deleting:
		if next := v.decideDeletion(); next != doDelete || !v.deleted {
			return next
		}
		return doWait
	case v.seen.Exists:
		return v.decideExisting()
	}
	return v.decideMissing()
}

func (v view) decideMissing() action {
	switch {
	case v.adopt != "":
		return doMissing // what is named may be misspelt, or appear
	case v.young && v.phase == succeeded:
		return doWait
	case v.young && v.phase == pending && (v.deleting || v.naming == ByMark):
		// The request may still be under way. Letting the object go now, or
		// creating another, would leave the first one without an object.
		return doWait
	case v.deleting:
		return doRelease
	case !v.policy.has(Create):
		return doMissing
	}
	return doCreate
}

// listSuffices says whether a list that does not show the resource is enough to create
// it: the create itself then asks whether it is there. An end of a deletion needs a look
// at the resource, and so does a create of unknown outcome, or a young one.
func (v view) listSuffices() bool {
	return v.exclusive && !v.deleting && v.phase != pending && !(v.young && v.phase == succeeded)
}

func (v view) decideExisting() action {
	switch v.seen.Owner {
	case Foreign:
		return doRefuse
	case Unmarked:
		switch {
		case v.exclusive && v.phase == pending && v.young:
			return doWait // it may be ours: its mark may not be visible yet
		case v.exclusive && v.phase == pending && !v.policy.has(Adopt):
			return doRefuse // an exclusive create leaves nothing without a mark
		case v.phase == pending && v.naming == ByUs && v.policy.has(Create):
			return doCreate // cut short between creating and marking
		case v.phase != succeeded && v.adopt == "" && !v.policy.has(Adopt):
			return doRefuse
		}
	}
	// Taking a resource over means writing our mark, even if nothing else is
	// different.
	marked := v.seen.Owner == Unreported || v.seen.Owner == Ours
	switch {
	case v.seen.UpToDate && marked && v.rotates && v.policy.has(Update):
		return doRotate
	case v.seen.UpToDate && marked:
		return doKeep
	case v.policy.has(Update):
		return doUpdate
	}
	return doTolerate
}

// ofAnother reports whether what was seen is not, or may not be, the object's: no field of the
// object is filled in from it.
func (v view) ofAnother() bool {
	return v.seen.Exists && slices.Contains([]action{doRefuse, doWait}, v.decideExisting())
}

// decideDeletion deletes what carries our mark, with this object's uid. What
// we have no record of having made and is not marked as ours is let be; where
// the record says one thing and the mark another, a human has to look.
func (v view) decideDeletion() action {
	switch v.seen.Owner {
	case Unreported, Ours:
		return doDelete
	case Unmarked:
		switch {
		case v.policy.has(Adopt):
			return doDelete
		case v.exclusive && v.phase == pending && v.young:
			return doWait // its mark may not be visible yet
		case v.exclusive && v.phase == pending:
			return doRelease // an exclusive create leaves nothing without a mark
		case v.phase == succeeded || v.phase == pending:
			return doRefuse
		}
	}
	return doRelease
}
