package inspect

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/cause"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// facts are the snapshots of a server that a verdict is made of.
type facts struct {
	at          time.Time
	controllers []controllerFacts
	kinds       []kindFacts
	checks      []reconcile.Check // of what is neither controller nor cache
	stores      []storeFacts      // that caches read
	caches      []introspect.Cache
	buckets     []ratelimit.Stats
	held        map[string]string // by kind, why nothing of it is pruned
	needs       func(kind string, key store.Key) []need
}

// outages are what keys may have failed for, as it is now.
type outages struct {
	checks []reconcile.Check
	stores []storeFacts
}

func (f *facts) outages() outages { return outages{f.checks, f.stores} }

type controllerFacts struct {
	snap   introspect.Controller
	stats  queue.Stats
	leases []introspect.Lease
	ended  string // why its Run has ended; empty: it has not
	keys   iter.Seq2[reconcile.KeySnapshot, error]
	told   int // keys that are ready or run, and whose state says how their objects are
}

type kindFacts struct {
	kind    string
	partial bool
	objects iter.Seq2[objects.Object, error]
}

type storeFacts struct {
	name string
	down *store.UnavailableError // nil: it answers
	warn string                  // it answers still, and a person has to act; empty: it warns of nothing
	back time.Time               // when it was first seen to answer again; zero: it was not seen down
	left int                     // keys that failed for it before that, and wait for their next try
}

// keyFact is what a key says of its object.
type keyFact struct {
	state string
	cause *Cause
}

// judging is one verdict in the making.
type judging struct {
	*facts
	v    *Verdict
	down string // what is said of a store that does not answer
	// storeCause is that store's: keys that fail for it are counted there.
	storeCause *Cause
	endpoints  map[string]*Cause // those of quotas that do not answer, by the name of the budget
	throttled  map[string]*Cause // the keys that wait for a bucket, by its name
	causes     map[string]*Cause
	keys       map[string]map[string]keyFact // by kind and printed key
	waits      []waiter
}

// waiter is an object that waits for its turn or for another object.
type waiter struct {
	kind  string
	key   store.Key
	since time.Time
	why   string // the reason of its condition, by which it is grouped
	says  string // the condition's whole text
}

const (
	maxNames   = 500 // causes that are told apart in one verdict
	maxWaiters = 20_000
)

// judge is pure: the same facts make the same verdict.
func judge(f *facts) *Verdict {
	j := &judging{facts: f, v: &Verdict{At: f.at, States: map[string]int{}, Kinds: []Kind{}, Causes: []Cause{}, Under: []Part{}}, causes: map[string]*Cause{}, endpoints: map[string]*Cause{}, throttled: map[string]*Cause{}, keys: map[string]map[string]keyFact{}}
	j.storesDown()
	j.endpointsDown()
	for i := range f.controllers {
		j.controller(&f.controllers[i])
	}
	for i := range f.kinds {
		j.kind(&f.kinds[i])
	}
	j.joinProviders()
	j.dependants()
	j.patience()
	j.rest()
	j.underneath()
	j.conclude()
	return j.v
}

// named gives the cause of that name, and makes it of one if it is new.
func (j *judging) named(name string, one Cause) *Cause {
	if len(j.causes) >= maxNames && j.causes[name] == nil {
		name, one.provider = one.Controller+"\x00"+one.Kind+"\x00"+one.What, "" // of the others together
	}
	c := j.causes[name]
	if c == nil {
		c = &one
		c.rank = slices.Index(whats, c.What)
		j.causes[name] = c
	}
	return c
}

// whats are the causes in the order in which they are told: what needs a person comes first.
var whats = []string{
	whatStore, whatStuck, whatGivenUp, whatEnded, whatHeld, whatPanics, whatFails, whatCannotList, whatSource, whatThrottled, whatIll, whatUndecodable,
	whatLeftAlone, whatDeletion, whatWaits, whatPatience, whatBusy, whatNoWorkers, whatSlowed, whatPaused, whatNotSynced,
}

const (
	whatStore       = "store"
	whatStuck       = "stuck"
	whatGivenUp     = "given up"
	whatEnded       = "ended"
	whatHeld        = "prune is held"
	whatPanics      = "panics"
	whatFails       = "fails"
	whatCannotList  = "cannot be listed"
	whatSource      = "source fails"
	whatThrottled   = "source is throttled"
	whatPatience    = "throttled"
	whatIll         = "is not well"
	whatUndecodable = "cannot be decoded"
	whatLeftAlone   = "left alone"
	whatDeletion    = "deletion waits"
	whatWaits       = "waits"
	whatBusy        = "workers busy"
	whatNoWorkers   = "no workers"
	whatSlowed      = "slowed"
	whatPaused      = "paused"
	whatNotSynced   = "runs nothing"
)

// seen counts one more object or key of a cause, and reports whether it is the example from now on.
func (c *Cause) seen(key string, since, next time.Time) (example bool) {
	c.Count++
	first := since.Compare(c.Since)
	if example = c.Example == "" || !since.IsZero() && (first < 0 || first == 0 && key < c.Example); example {
		c.Example = store.Clip(key) // the least of the first ones, so that it is the same each time
	}
	c.begin(since)
	if !next.IsZero() && (c.Next.IsZero() || next.Before(c.Next)) {
		c.Next = next
	}
	return example
}

// holdUp counts n more objects of a kind that wait for the cause to end.
func (c *Cause) holdUp(kind string, n int) {
	if c.HoldsUp == nil {
		c.HoldsUp = map[string]int{}
	}
	c.HoldsUp[kind] += n
}

func (c *Cause) begin(since time.Time) {
	if !since.IsZero() && (c.Since.IsZero() || since.Before(c.Since)) {
		c.Since = since
	}
}

// ofKey gives the cause of a key that fails; nil: it does not.
func (j *judging) ofKey(c *introspect.Controller, k *reconcile.KeySnapshot, state string) *Cause {
	one := Cause{What: whatFails, Why: k.Error, Grave: true, Controller: c.Name, Kind: c.Kind, Do: []string{"why", "kick"}}
	if state == failing && j.ofStore(k.Error) {
		j.storeCause.holdUp(cmp.Or(c.Kind, c.Name), 1)
		return j.storeCause
	}
	if down := j.endpointOf(k.Error); state == failing && down != nil {
		down.holdUp(cmp.Or(c.Kind, c.Name), 1)
		return down
	}
	switch {
	case state == givenUp:
		one.What, one.Person, one.Do = whatGivenUp, true, answers(k.Error)
	case state == standingOff:
		one.What, one.Grave, one.Do = whatLeftAlone, false, []string{"why"}
	case state != failing:
		return nil
	case k.Panicked:
		one.What, one.Do = whatPanics, []string{"why", mendProgram}
	}
	name := c.Name + "\x00" + one.What + "\x00" + cause.Of(k.Error, k.Key)
	if one.What == whatFails && j.causes[name] == nil {
		if one.provider = cause.Provider(k.Error, k.Key); cause.Unauthorised(k.Error) {
			one.Do = []string{"why", renewCredentials, "kick"}
		}
	}
	found := j.named(name, one)
	since := k.FailingSince
	if since.IsZero() {
		since = k.Since
	}
	if found.seen(k.Key, since, k.Next) {
		found.Why = k.Error
	}
	return found
}

// renewCredentials is what to do about a provider that knows the caller no more.
const renewCredentials = "renew the credentials"

// mendProgram is what to do about panics: each try is another one.
const mendProgram = "roll back, or mend the program: the stack is in the log"

// answers are the commands for an object that is given up with this error. The words are those of
// package external's ErrCreateIncomplete and ErrLocationChanged.
func answers(err string) []string {
	switch {
	case strings.Contains(err, "a create was begun and its outcome is not known"):
		return []string{"why", "created", "not-created"}
	case strings.Contains(err, "another location than the one on record"):
		return []string{"edit", "forget-location"}
	}
	return []string{"edit", "kick"}
}

// controller judges a controller and its keys.
func (j *judging) controller(c *controllerFacts) {
	runs := map[string]bool{}
	for _, r := range c.snap.Running {
		if !r.Stuck {
			continue
		}
		found := j.named(c.snap.Name+"\x00"+whatStuck, Cause{
			What: whatStuck, Why: "its run goes on although its context ended: " + r.Ended, Grave: true, Person: true, Controller: c.snap.Name, Kind: c.snap.Kind, Do: []string{"why", "restart"},
		})
		for _, key := range r.Keys {
			runs[key] = true
			c.told++
			found.seen(key, r.Since, time.Time{})
			j.join(c.snap.Kind, key, keyFact{stuck, found})
		}
		if n := c.stats.Of(queue.StateReady).Keys; n > 0 && allStuck(c) && found.HoldsUp == nil {
			found.holdUp(cmp.Or(c.snap.Kind, c.snap.Name), n)
		}
	}
	for k, err := range c.keys {
		if err != nil {
			j.v.Notes = append(j.v.Notes, "the keys of "+c.snap.Name+" were not all looked at: "+err.Error())
			break
		}
		if runs[k.Key] {
			continue
		}
		if k.State == queue.StateReady.String() || k.State == queue.StateRunning.String() {
			c.told++
		}
		if bucket, waits := strings.CutPrefix(k.Why, throttledBy); waits {
			if j.throttled[bucket] == nil {
				j.throttled[bucket] = &Cause{}
			}
			j.throttled[bucket].holdUp(cmp.Or(c.snap.Kind, c.snap.Name), 1)
			j.throttled[bucket].begin(k.Since)
		}
		if _, at := j.outages().past(&k); at >= 0 {
			j.stores[at].left++
		}
		if state := j.outages().stateOf(&k); state != "" {
			j.join(c.snap.Kind, k.Key, keyFact{state, j.ofKey(&c.snap, &k, state)})
		}
	}
	j.ofController(c)
}

func (j *judging) join(kind, key string, f keyFact) {
	of := j.keys[kind]
	if of == nil {
		of = map[string]keyFact{}
		j.keys[kind] = of
	}
	if was, ok := of[key]; !ok || worse(was.state, f.state) != was.state {
		of[key] = f
	}
}

// ofController judges what is wrong with a controller as a whole.
func (j *judging) ofController(c *controllerFacts) {
	s := &c.snap
	say := func(what, why string, grave bool, since time.Time, do ...string) {
		j.named(s.Name+"\x00"+what+"\x00"+why, Cause{What: what, Why: why, Grave: grave, Controller: s.Name, Since: since, Do: do})
	}
	if c.ended != "" {
		say(whatEnded, c.ended, true, time.Time{}, "restart")
		return
	}
	for _, x := range s.Sources {
		if x.Error != "" && !j.follows(x.Error) && j.outages().before(x.Error, x.Failed) < 0 {
			j.source(s, &x)
		}
	}
	for text := range strings.Lines(s.Error) {
		text = strings.TrimSpace(text)
		if !strings.HasPrefix(text, "source ") && !strings.HasPrefix(text, "run of ") && text != "" && !j.follows(text) && !j.toldBySource(s, text) {
			say(whatIll, text, true, time.Time{})
		}
	}
	switch {
	case s.Waiting != "" && s.Error == "": // else a source says why
		since, do := unsyncedSince(s), []string(nil)
		grave := !since.IsZero() && j.at.Sub(since) > graveWait
		if grave {
			do = []string{giveTimeout}
		}
		say(whatNotSynced, s.Waiting+" has not listed everything yet", grave, since, do...)
	case c.stats.HeldBy != "":
		say(whatPaused, c.stats.HeldBy, false, time.Time{}, "resume")
	case s.Workers == 0:
		say(whatNoWorkers, "it has no workers", false, time.Time{}, "set workers")
	case allStuck(c): // which is told, with the keys that wait
	case busy(c), !c.stats.Of(queue.StateReady).Oldest.IsZero() && j.at.Sub(c.stats.Of(queue.StateReady).Oldest) > busyWait:
		say(whatBusy, j.busyText(c), j.at.Sub(c.stats.Of(queue.StateReady).Oldest) > busyWait, c.stats.Of(queue.StateReady).Oldest)
	}
	if n := len(s.Slowed); n > 0 {
		k := s.Slowed[0]
		why := "its spec changes too often"
		if k.Field != "" {
			why += " (" + k.Field + ": " + k.Old + ", then " + k.New + ")"
		}
		found := j.named(s.Name+"\x00"+whatSlowed, Cause{What: whatSlowed, Why: why, Controller: s.Name, Kind: s.Kind, Do: []string{"why"}})
		found.Count, found.Example = n, k.Key
	}
}

// unsyncedSince is since when the first of the sources lists.
func unsyncedSince(s *introspect.Controller) (first time.Time) {
	for _, x := range s.Sources {
		if !x.Synced && !x.Since.IsZero() && (first.IsZero() || x.Since.Before(first)) {
			first = x.Since
		}
	}
	return first
}

// source judges a source whose last list failed, or was refused for a time.
func (j *judging) source(s *introspect.Controller, x *introspect.Source) {
	one := Cause{
		What: whatSource, Why: x.Name + ": " + x.Error, Grave: true, Controller: s.Name, Since: x.FailingSince,
		Do: []string{"mend what it lists, nothing else"}, provider: cause.Provider(x.Error, ""),
	}
	switch {
	case cause.Unauthorised(x.Error):
		one.Do = []string{renewCredentials}
	case strings.Contains(x.Error, tooManyGone):
		one.Do = []string{"see whether the list is right; raise MaxGone if it is"}
	}
	if x.Throttled {
		one.What, one.Grave, one.Do, one.provider = whatThrottled, j.at.Sub(x.FailingSince) > graveWait, []string{askLess}, ""
	}
	j.named(s.Name+"\x00"+one.What+"\x00"+one.Why, one)
}

// askLess is what to do about a provider that asks for patience.
const askLess = "ask less often, or for more quota"

// throttledBy is how package queue says which bucket a key waits for.
const throttledBy = "throttled by "

// tooManyGone is how package reconcile says that a list was refused for what it lacks.
const tooManyGone = "more keys are gone than EachOptions.MaxGone allows"

// giveTimeout is what to do about a first list that does not end.
const giveTimeout = "see in a goroutine dump what its list waits for; give that a timeout, and restart"

// toldBySource reports whether a line of a controller's error is the rest of a source's.
func (j *judging) toldBySource(s *introspect.Controller, text string) bool {
	return slices.ContainsFunc(s.Sources, func(x introspect.Source) bool { return strings.Contains(x.Error, text) })
}

// follows reports whether an error says only that the store does not answer, or what it warns of,
// which is told once.
func (j *judging) follows(text string) bool {
	return j.down != "" && strings.Contains(text, unavailable) ||
		slices.ContainsFunc(j.stores, func(s storeFacts) bool { return s.warn != "" && strings.Contains(text, s.warn) })
}

// ofStore reports whether the store that is down says an error, or is what it is about.
func (j *judging) ofStore(err string) bool {
	return j.down != "" && saysStore(j.storeCause.Kind, err)
}

// saysStore reports whether a store of this name says an error, or is what it is about.
func saysStore(name, err string) bool {
	says := name + ":"
	says = says[:strings.IndexAny(says, " :")] + ": " // what its errors begin with: the name of its package
	for at := err; ; {
		before, after, found := strings.Cut(at, says)
		switch {
		case !found:
			return strings.Contains(err, unavailable)
		case before == "" || strings.HasSuffix(before, " "):
			return true
		}
		at = after
	}
}

// unavailable begins the text of a store.UnavailableError.
const unavailable = "store: unavailable since"

// busy reports whether keys wait because all workers run others.
func busy(c *controllerFacts) bool {
	return c.snap.Workers > 0 && c.snap.Active >= c.snap.Workers && c.stats.Of(queue.StateReady).Keys > 0
}

// allStuck reports whether stuck runs have all workers.
func allStuck(c *controllerFacts) bool {
	n := 0
	for _, r := range c.snap.Running {
		if r.Stuck {
			n++
		}
	}
	return n > 0 && n >= c.snap.Workers
}

func (j *judging) busyText(c *controllerFacts) string {
	wait := ""
	if !c.stats.Of(queue.StateReady).Oldest.IsZero() {
		wait = ", the first for " + short(j.at.Sub(c.stats.Of(queue.StateReady).Oldest))
	}
	keys := some(c.stats.Of(queue.StateReady).Keys, "key") + " wait"
	if c.stats.Of(queue.StateReady).Keys == 1 {
		keys += "s"
	}
	if !busy(c) {
		return keys + wait
	}
	all := "all " + number(c.snap.Workers) + " workers of " + c.snap.Name + " are busy, "
	if c.snap.Workers == 1 {
		all = "the worker of " + c.snap.Name + " is busy, "
	}
	return all + keys + wait
}

// conclude sorts the causes, and says what they come to.
func (j *judging) conclude() {
	v := j.v
	all := slices.Collect(maps.Values(j.causes))
	slices.SortFunc(all, func(a, b *Cause) int {
		return cmp.Or(
			cmp.Compare(weight(b), weight(a)), cmp.Compare(a.rank, b.rank), cmp.Compare(b.Count, a.Count), a.Since.Compare(b.Since),
			strings.Compare(a.Controller, b.Controller), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Why, b.Why), strings.Compare(a.Example, b.Example))
	})
	v.Level = Well
	if v.left() > 0 || len(all) > 0 {
		v.Level = UnderWay
	}
	for _, c := range all {
		if c.Person {
			v.Person++
		}
		if c.Grave {
			v.Level = NotWell
			if !c.Since.IsZero() && (v.Since.IsZero() || c.Since.Before(v.Since)) {
				v.Since = c.Since
			}
		}
		v.Causes = append(v.Causes, *c)
	}
	v.More = max(len(all)-maxCauses, 0)
	v.Causes = v.Causes[:len(all)-v.More]
	for i := range v.Causes {
		c := &v.Causes[i]
		if c.object != nil {
			c.Why, c.object = textOf(c.object.WithTexts()), nil
		}
		c.Why = line(c.Why)
	}
	v.say(j.down)
}

// weight is what a cause weighs: one from which others follow most, and one that needs a person more
// than one that may end by itself.
func weight(c *Cause) int {
	switch {
	case c.What == whatStore:
		return 4
	case c.endpoint:
		return 3
	case c.Person:
		return 2
	case c.Grave:
		return 1
	}
	return 0
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
