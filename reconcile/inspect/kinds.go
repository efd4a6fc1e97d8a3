package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// kind judges the objects of a kind.
func (j *judging) kind(f *kindFacts) {
	k := Kind{Kind: f.kind, Partial: f.partial, States: map[string]int{}}
	var silent []int // cells
	silents, speaking := 0, false
	room := maxCells - j.v.Objects // for cells
	for o, err := range f.objects {
		if err != nil {
			k.Error = line(err.Error())
			if !j.follows(k.Error) {
				starts := slices.ContainsFunc(j.caches, func(c introspect.Cache) bool { return c.Kind == f.kind && !c.Synced })
				j.named(f.kind+"\x00"+whatCannotList, Cause{What: whatCannotList, Why: k.Error, Grave: !starts, Kind: f.kind})
			}
			break
		}
		k.Total++
		key := o.Key()
		printed := key.String()
		fact := j.keys[f.kind][printed]
		state, quiet := stateOf(o, fact.state)
		if quiet {
			silents++
			silent = append(silent, len(k.Cells))
		} else {
			k.States[state]++
			speaking = speaking || !isSilent(&o)
			j.ofObject(&o, printed, state, fact)
		}
		if k.Total <= room {
			k.Cells = append(k.Cells, introspect.Cell{Key: key, State: state})
		}
	}
	well := 0
	if silents > 0 && !speaking {
		well = j.silentAndWell(f, silents)
	}
	k.States[ready] += well
	k.States[waiting] += silents - well
	if well > 0 && j.v.silentAndWell == nil {
		j.v.silentAndWell = map[string]bool{}
	}
	if well > 0 {
		j.v.silentAndWell[f.kind] = true
	}
	if well == silents {
		for _, i := range silent {
			if i < len(k.Cells) {
				k.Cells[i].State = ready
			}
		}
	}
	j.addKind(k)
}

func (j *judging) addKind(k Kind) {
	slices.SortFunc(k.Cells, func(a, b introspect.Cell) int {
		return cmp.Or(strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.Name, b.Key.Name))
	})
	for state, n := range k.States {
		if n == 0 {
			delete(k.States, state)
			continue
		}
		j.v.States[state] += n
	}
	j.v.Objects += k.Total
	j.v.Declared += k.States[ready]
	j.v.Kinds = append(j.v.Kinds, k)
	if j.v.Objects > maxCells {
		for i := range j.v.Kinds {
			j.v.Kinds[i].Cells = nil
		}
	}
}

// silentAndWell is how many of the objects of a kind whose runs store nothing about them are as
// declared: those whose last run did not fail. It is known where a controller of the kind runs here.
func (j *judging) silentAndWell(f *kindFacts, n int) int {
	kind := f.kind
	pending, ran, elsewhere := 0, false, false
	for i := range j.controllers {
		c := &j.controllers[i]
		if c.snap.Kind != kind {
			continue
		}
		pending += c.stats.Of(queue.StateReady).Keys + c.stats.Of(queue.StateRunning).Keys - c.told
		ran = ran || c.snap.Runs.Runs() > 0
		elsewhere = elsewhere || c.snap.Held == 0 || c.snap.Held < c.snap.Shards && !f.partial
	}
	if elsewhere {
		j.v.Notes = append(j.v.Notes, fmt.Sprintf("%s of %s say nothing of themselves, and this server does not run them all: whether they are as declared is not known here", some(n, "object"), kind))
		j.v.unknown += n
	}
	if !ran || elsewhere {
		return 0
	}
	return max(n-pending, 0)
}

// ofObject judges one object beyond what its key says.
func (j *judging) ofObject(o *objects.Object, printed, state string, fact keyFact) {
	one := Cause{Grave: true, Kind: o.Kind, Do: []string{"why"}}
	var since time.Time
	name := ""
	switch {
	case state == undecodable:
		one.What, one.Why = whatUndecodable, o.Err.Error()
	case state == failing && fact.cause == nil: // no key here says so
		c := conditionOf(*o, store.ConditionSynced)
		one.What, one.Do, since, name = whatFails, []string{"why", "kick"}, c.Since, c.Reason
	case state == standingOff && fact.cause == nil:
		one.What, one.Person = whatLeftAlone, true
		if c := conditionOf(*o, store.ConditionSynced); c != nil && c.Status == store.False {
			since, name = c.Since, c.Reason
		}
		if o.Newer || o.Err != nil {
			one.Person, one.Grave, one.Why = false, false, "a newer version of the program stored it"
		}
	case state == deleting && fact.cause == nil && j.at.Sub(o.Deleted) > graveWait:
		one.What, one.Why, since = whatDeletion, "its finalizers are not removed: "+strings.Join(o.Finalizers, ", "), o.Deleted
		name = strings.Join(o.Finalizers, " ")
		one.Do = append(one.Do, "remove-finalizer")
	case state == waiting && len(j.waits) < maxWaiters:
		j.waits = append(j.waits, waiterOf(o))
		return
	default:
		return
	}
	found := j.named(o.Kind+"\x00object "+one.What+"\x00"+name, one)
	if !found.seen(printed, since, time.Time{}) {
		return
	}
	if found.Why = one.Why; one.Why == "" { // texts cost: see conclude
		example := *o
		found.object = &example
	}
}

// textOf is what the condition Synced of an object says.
func textOf(o objects.Object) string {
	c := conditionOf(o, store.ConditionSynced)
	if c == nil {
		return ""
	}
	return strings.Trim(c.Reason+": "+c.Message, ": ")
}

func waiterOf(o *objects.Object) waiter {
	w := waiter{kind: o.Kind, key: o.Key()}
	if c := conditionOf(*o, dependencies); c != nil && c.Status == store.False {
		w.why, w.since = cmp.Or(c.Reason, "not met"), c.Since
		w.says = strings.TrimSuffix(w.why+": "+c.Message, ": ")
	}
	return w
}

// dependencies is package depend's condition of an object that waits for others.
const dependencies = "Dependencies"

// need is an object that another one needs, and why it cannot be used yet. An empty unmet says
// that it can.
type need struct {
	kind  string
	key   store.Key
	unmet string
}

// dependants counts the objects that wait for others at what these fail for.
func (j *judging) dependants() {
	memo := map[need]*Cause{}
	whole := j.needs != nil
	for _, w := range j.waits {
		if !whole {
			j.waitsFor(w, w.why, w.says)
			continue
		}
		for _, n := range j.needs(w.kind, w.key) {
			if n.unmet == "" {
				continue
			}
			if c := j.rootOf(n, w, memo, 0); c != nil {
				c.holdUp(w.kind, 1)
			}
			break // it is counted once
		}
	}
	if len(j.waits) == maxWaiters {
		j.v.Notes = append(j.v.Notes, fmt.Sprintf("of the objects that wait, what they wait for was asked of the first %s", number(maxWaiters)))
	}
}

// declareNeeded is what to do about objects that wait for what is not there.
const declareNeeded = "declare what it waits for"

// waitsFor notes that an object waits for something that has no cause of its own.
func (j *judging) waitsFor(w waiter, name, why string) {
	if name == "" {
		return // for its turn
	}
	c := j.named(w.kind+"\x00"+whatWaits+"\x00"+name, Cause{What: whatWaits, Why: why, Kind: w.kind, Do: []string{"why", declareNeeded}})
	if c.seen(w.key.String(), w.since, time.Time{}) {
		c.Why = why
	}
	c.Grave = !c.Since.IsZero() && j.at.Sub(c.Since) > graveWait
}

// rootOf finds what a need waits for in the end: the cause for which a needed object fails. Of one
// that is not there the object waits, and that is a cause.
func (j *judging) rootOf(n need, w waiter, memo map[need]*Cause, depth int) *Cause {
	if c, known := memo[n]; known && (c == nil || c.What != whatWaits) {
		return c
	}
	memo[n] = nil // of a circle
	c := j.keys[n.kind][n.key.String()].cause
	for c != nil && c.joined != nil {
		c = c.joined
	}
	if c == nil && n.unmet == "NotFound" {
		j.waitsFor(w, n.kind+" "+n.key.String(), n.kind+" "+n.key.String()+" does not exist")
		delete(memo, n)
		return nil
	}
	if c == nil && depth < 16 {
		for _, next := range j.needs(n.kind, n.key) {
			if next.unmet == "" {
				continue
			}
			if next.unmet == "NotFound" { // the needed object says so itself
				break
			}
			c = j.rootOf(next, w, memo, depth+1)
			break
		}
	}
	memo[n] = c
	return c
}
