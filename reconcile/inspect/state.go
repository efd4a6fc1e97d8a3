package inspect

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/declared"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// The states of an object, of which it is in one.
const (
	undecodable = "undecodable"  // what is stored cannot be read
	stuck       = "stuck"        // its run goes on although its context ended
	givenUp     = "given up"     // its last run failed in a way that no retry mends
	failing     = "failing"      // its last run failed
	standingOff = "standing off" // its runs leave it alone: it is not ours, or of a newer version
	deleting    = "deleting"
	paused      = "paused"
	throttled   = "throttled" // its run waits for a quota
	waiting     = "waiting"   // for its turn, or for another object
	ready       = "ready"     // as declared
)

var states = []string{undecodable, stuck, givenUp, failing, standingOff, deleting, paused, throttled, waiting, ready}

// States are the states that an object can be in, the worst first. The last one is as declared.
func States() []string { return slices.Clone(states) }

// worse gives the worse of two states; "" is none.
func worse(a, b string) string {
	i, j := slices.Index(states, a), slices.Index(states, b)
	if i < 0 || j >= 0 && j < i {
		return b
	}
	return a
}

// keyState is the state that a key gives to its object; "": none, what is stored tells.
func keyState(k reconcile.KeySnapshot, isStuck bool) string {
	switch {
	case isStuck:
		return stuck
	case k.State == queue.StateParked.String():
		return givenUp
	case k.Newer:
		return standingOff
	case k.Failing:
		return failing
	case k.Paused:
		return paused
	case k.Throttled, k.State == queue.StateThrottled.String():
		return throttled
	case k.State == queue.StateBackingOff.String():
		return waiting // it asked to be run again
	}
	return ""
}

// stateOf is keyState of a key that is not stuck, but for one that failed for what is over: it waits for its
// next try.
func (o outages) stateOf(k *reconcile.KeySnapshot) string {
	if over, _ := o.past(k); over {
		return waiting
	}
	return keyState(*k, false)
}

// past reports whether a key failed for what is over, and has not been tried since; of a store that answers again, at is
// its place, and else -1.
func (o outages) past(k *reconcile.KeySnapshot) (over bool, at int) {
	if keyState(*k, false) != failing {
		return false, -1
	}
	tried := k.Since // last, if it waits for the next try
	if k.State != queue.StateBackingOff.String() {
		tried = time.Time{} // the next one has begun, or is about to
	}
	at = o.before(k.Error, tried)
	return at >= 0 || o.answersAgain(k.Error), at
}

// before gives the store that says an error, and that answers again since a later time; -1: there is none.
func (o outages) before(err string, at time.Time) int {
	return slices.IndexFunc(o.stores, func(s storeFacts) bool {
		return s.down == nil && at.Before(s.back) && saysStore(s.name, err)
	})
}

// answersAgain reports whether an error says that its key waits for an endpoint, and the endpoint is not down any more.
func (o outages) answersAgain(err string) bool {
	before, _, waits := strings.Cut(err, endpointDown)
	if !waits {
		return false
	}
	down := before[strings.LastIndexByte(before, ' ')+1:] + endpointDown
	known := slices.ContainsFunc(o.checks, func(c reconcile.Check) bool { return strings.HasPrefix(c.Name, quotas) })
	return known && !slices.ContainsFunc(o.checks, func(c reconcile.Check) bool { return strings.Contains(c.Reason, " "+down) })
}

// standOffs are the reasons with which packages external and lifecycle leave an object alone
// although no run fails.
var standOffs = []string{"NotOurs", "Missing", "DeletesHeld"}

// StateOf is the state of an object, one of [States], as far as what is stored tells: the key in
// the queue of a server may know better, see [Looker.States].
func StateOf(o objects.Object) string {
	state, _ := stateOf(o, "")
	return state
}

// stateOf joins an object and the state of its key, and tells apart an object about which nothing is stored but
// its declaration. It is a pure function.
func stateOf(o objects.Object, key string) (state string, silent bool) {
	synced := conditionOf(o, store.ConditionSynced)
	unsynced := synced != nil && synced.Status == store.False
	switch {
	case o.Err != nil && !errors.Is(o.Err, store.ErrNewer):
		return undecodable, false
	case key == stuck:
		return stuck, false
	case o.Paused:
		return paused, false
	case key == givenUp, key == failing:
		return key, false
	case key == standingOff, o.Err != nil, o.Newer, unsynced && slices.Contains(standOffs, synced.Reason):
		return standingOff, false
	case unsynced && key != throttled:
		return failing, false
	case o.Deleting():
		return deleting, false
	case key == paused:
		return paused, false
	case declared.Is(&o.Meta, o.Conditions, false):
		return ready, false
	case key != "":
		return key, false
	}
	return waiting, isSilent(&o)
}

// isSilent reports whether no run has stored anything about the object.
func isSilent(o *objects.Object) bool {
	return o.Phase == "" && o.ObservedGeneration == 0 && len(o.Conditions) == 0
}

func conditionOf(o objects.Object, name string) *store.Condition {
	if i := slices.IndexFunc(o.Conditions, func(c store.Condition) bool { return c.Type == name }); i >= 0 {
		return &o.Conditions[i]
	}
	return nil
}
