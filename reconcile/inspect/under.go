package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/internal/cause"
)

// mendStore is what to do about a store that does not answer.
const mendStore = "mend the store, nothing else"

// storesDown asks each store once. What follows from one that does not answer refers to it.
func (j *judging) storesDown() {
	for _, s := range j.stores {
		if s.warn != "" {
			j.named(whatIll+"\x00"+s.name, Cause{What: whatIll, Why: s.warn, Grave: true, Person: true, Kind: s.name})
		}
		if s.down == nil {
			continue
		}
		text := fmt.Sprintf("The store (%s) %s; what follows is from then.", s.name, cause.Down(s.down.Err, clock(s.down.Since, j.at)))
		found := j.named(whatStore+"\x00"+s.name, Cause{What: whatStore, Why: s.down.Err.Error(), Grave: true, Kind: s.name, Since: s.down.Since, Do: []string{mendStore}})
		if j.down == "" {
			j.down, j.storeCause = text, found
		}
	}
}

// endpointDown is how package quota says that calls are not answered, after the name of the budget.
const endpointDown = ": the endpoint is down"

// quotas is how package quota calls a set of budgets in the health of a Manager.
const quotas = "quotas"

// mendEndpoint is what to do about an endpoint that does not answer.
const mendEndpoint = "mend the endpoint or the way to it, nothing else"

// endpointsDown tells of the endpoints of quotas that do not answer, from which it follows that runs fail.
func (j *judging) endpointsDown() {
	for _, c := range j.checks {
		for text := range strings.Lines(c.Reason) {
			budget, says, is := strings.Cut(strings.TrimSpace(text), endpointDown)
			if c.OK || !is {
				continue
			}
			since, says, _ := strings.Cut(strings.TrimPrefix(says, " since "), ": ")
			began, _ := time.Parse(time.RFC3339, since)
			// Reads and writes may have budgets of their own; the endpoint is one.
			found := j.named(c.Name+"\x00"+budget[:max(strings.LastIndexByte(budget, '/'), 0)]+endpointDown, Cause{
				What: whatIll, Why: strings.TrimSpace(text), Grave: true, Kind: c.Name, Since: began, Do: []string{mendEndpoint}, endpoint: true, provider: cause.Provider(says, ""),
			})
			found.begin(began)
			j.endpoints[budget[strings.LastIndexByte(budget, ' ')+1:]] = found
		}
	}
}

// endpointOf is the endpoint that an error says is down; nil: it says so of none that is known.
func (j *judging) endpointOf(err string) *Cause {
	before, _, says := strings.Cut(err, endpointDown)
	if !says {
		return nil
	}
	return j.endpoints[before[strings.LastIndexByte(before, ' ')+1:]]
}

// joinProviders makes one cause of those for which a provider refuses all alike: it is told where
// it is an endpoint, and else where most keys fail for it.
func (j *judging) joinProviders() {
	type owner struct{ provider, controller, kind string }
	owners, providers := map[owner][]*Cause{}, map[string][]*Cause{}
	for _, c := range j.causes {
		if of := (owner{c.provider, c.Controller, c.Kind}); c.provider != "" {
			owners[of] = append(owners[of], c)
		}
	}
	for of, all := range owners {
		providers[of.provider] = append(providers[of.provider], joinAll(all))
	}
	for _, all := range providers {
		joinAll(all)
	}
	maps.DeleteFunc(j.causes, func(_ string, c *Cause) bool { return c.joined != nil })
}

// joinAll joins causes to the one that is told, which it returns.
func joinAll(all []*Cause) *Cause {
	slices.SortFunc(all, func(a, b *Cause) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(b.Count, a.Count), strings.Compare(a.Controller, b.Controller), strings.Compare(a.Why, b.Why))
	})
	for _, c := range all[1:] {
		all[0].take(c)
	}
	return all[0]
}

// take joins another cause to this one.
func (c *Cause) take(other *Cause) {
	other.joined = c
	c.begin(other.Since)
	if !other.Next.IsZero() && (c.Next.IsZero() || other.Next.Before(c.Next)) {
		c.Next = other.Next
	}
	switch {
	case c.Controller == other.Controller && c.Kind == other.Kind: // other calls
		c.Count += other.Count
	case c.endpoint && other.Count > 0:
		c.holdUp(cmp.Or(other.Kind, other.Controller), other.Count)
	default:
		c.Also = append(c.Also, other.many())
	}
}

// patience tells of the buckets that the other side pauses again and again while keys wait for them.
func (j *judging) patience() {
	for _, b := range j.buckets {
		if c := j.throttled[b.Name]; c != nil && j.endpoints[b.Name] == nil && b.Until.After(j.at) && j.at.Sub(c.Since) > patientWait {
			j.named(b.Name+"\x00"+whatPatience, Cause{
				What: whatPatience, Why: "the other side asks for patience, now for " + short(b.Until.Sub(j.at)), Kind: b.Name, Since: c.Since, HoldsUp: c.HoldsUp, Do: []string{askLess},
			})
		}
	}
}

// rest judges what is no controller and no object.
func (j *judging) rest() {
	for _, c := range j.checks {
		if c.OK || j.follows(c.Reason) {
			continue
		}
		lines := slices.DeleteFunc(strings.Split(c.Reason, "\n"), func(text string) bool { return strings.Contains(text, endpointDown) })
		if len(lines) > 0 {
			j.named(c.Name+"\x00"+whatIll, Cause{What: whatIll, Why: strings.Join(lines, "\n"), Grave: true, Kind: c.Name})
		}
	}
	for _, kind := range sorted(j.held) {
		if why := j.held[kind]; why != "" {
			j.named(kind+"\x00"+whatHeld, Cause{What: whatHeld, Why: why, Grave: true, Person: true, Kind: kind, Do: []string{"release prune"}})
		}
	}
}

func (j *judging) part(name, level, says string) {
	j.v.Under = append(j.v.Under, Part{name, level, says})
}

// underneath says how that is which all else stands on.
func (j *judging) underneath() {
	for _, s := range j.stores {
		switch {
		case s.down != nil:
			j.part("store", NotWell, s.name+" "+cause.Down(s.down.Err, clock(s.down.Since, j.at)))
		case s.warn != "":
			j.part("store", UnderWay, s.name+" answers, and warns: "+s.warn)
		case s.left == 1:
			j.part("store", UnderWay, s.name+" answers again, 1 key that failed for it waits for its next try")
		case s.left > 1:
			j.part("store", UnderWay, s.name+" answers again, "+some(s.left, "key")+" that failed for it wait for their next try")
		default:
			j.part("store", Well, s.name+" answers")
		}
	}
	j.leases()
	j.cachesPart()
	j.quotas()
	j.workers()
	j.sources()
}

func (j *judging) leases() {
	var here, lost, says []string
	level := Well
	for _, c := range j.controllers {
		switch {
		case len(c.leases) == 0:
			continue
		case len(c.leases) == 1 && c.leases[0].Held && c.leases[0].Running:
			here = append(here, c.snap.Name)
		case j.down != "" && !slices.ContainsFunc(c.leases, func(l introspect.Lease) bool { return l.Held || l.Running || l.Holder != "" }):
			lost = append(lost, c.snap.Name)
		default:
			says = append(says, c.snap.Name+" "+leaseText(&c.snap, c.leases))
		}
		if slices.ContainsFunc(c.leases, func(l introspect.Lease) bool {
			return l.Held != l.Running || len(c.leases) > 1 && nowhere(l)
		}) {
			level = UnderWay
		}
	}
	says = slices.Concat(alike(here, "runs here", "run here"), alike(lost, "has no lease until the store is mended", "have no lease until the store is mended"), says)
	if len(lost) > 0 {
		level = NotWell
	}
	switch {
	case len(says) > 0:
		j.part("leases", level, list(says))
	case len(j.controllers) > 0:
		j.part("leases", Well, "none needed")
	}
}

// alike is what is said of controllers of which the same holds: of one by its name.
func alike(names []string, one, several string) []string {
	switch len(names) {
	case 0:
		return nil
	case 1:
		return []string{names[0] + " " + one}
	}
	return []string{some(len(names), "controller") + " " + several}
}

// nowhere reports whether no server that this one knows of has the lease.
func nowhere(l introspect.Lease) bool { return !l.Held && !l.Running && l.Holder == "" }

// shardsText says which server runs how many shards.
func shardsText(s *introspect.Controller, all []introspect.Lease) string {
	none, of := 0, map[string]int{}
	for _, l := range all {
		switch {
		case nowhere(l):
			none++
		case !l.Held && !l.Running:
			of[l.Holder]++
		}
	}
	says := []string{fmt.Sprintf("runs %d of %d shards here", s.Held, s.Shards)}
	for i, server := range sorted(of) {
		runs := " "
		if i == 0 {
			runs = " runs "
		}
		says = append(says, server+runs+number(of[server]))
	}
	text := list(says)
	if none > 0 {
		text += ", no server that is known here runs " + number(none)
	}
	return text
}

func leaseText(s *introspect.Controller, all []introspect.Lease) string {
	if len(all) > 1 {
		return shardsText(s, all)
	}
	l := all[0]
	switch {
	case l.Held && l.Running:
		return "runs here"
	case l.Held:
		return "is about to run here"
	case l.Running:
		return "lost its lease, its last runs are ending"
	case l.Holder != "":
		return "runs on " + l.Holder
	}
	return "waits for its lease, whose holder is not known"
}

func (j *judging) cachesPart() {
	var says []string
	level := Well
	for _, c := range j.caches {
		switch {
		case !c.Synced:
			says = append(says, c.Name+" is not synced yet")
		case !c.Connected && !c.Idle:
			text := c.Name + " has had no watch since " + clock(c.Since, j.at)
			if c.Err != nil && j.down == "" {
				text += ": " + line(c.Err.Error())
				j.named("cache "+c.Name, Cause{What: whatIll, Why: text, Grave: true, Kind: "cache " + c.Name, Since: c.Since})
			}
			says = append(says, text)
		case c.Restores > 0:
			says = append(says, c.Name+": the store went back in time")
		default:
			continue
		}
		level = UnderWay
	}
	switch {
	case j.down != "" && len(says) > 0:
		j.part("caches", NotWell, "as of when the store last answered")
	case len(says) > 0:
		j.part("caches", level, list(says))
	case len(j.caches) > 0:
		j.part("caches", Well, some(len(j.caches), "cache")+" connected")
	}
}

func (j *judging) quotas() {
	if len(j.buckets) == 0 {
		return
	}
	var says []string
	for _, b := range j.buckets {
		if b.Until.After(j.at) {
			says = append(says, fmt.Sprintf("%s is paused for %s", b.Name, short(b.Until.Sub(j.at))))
		}
	}
	wait := 0
	for _, c := range j.controllers {
		wait += c.stats.Of(queue.StateThrottled).Keys
	}
	if wait > 0 {
		says = append(says, some(wait, "key")+" wait")
	}
	if len(says) == 0 {
		j.part("quotas", Well, some(len(j.buckets), "quota")+", nothing waits")
		return
	}
	j.part("quotas", UnderWay, list(says))
}

func (j *judging) workers() {
	var says []string
	level, active, all := Well, 0, 0
	for i := range j.controllers {
		c := &j.controllers[i]
		active, all = active+c.snap.Active, all+c.snap.Workers
		stuck := 0
		for _, r := range c.snap.Running {
			if r.Stuck {
				stuck++
			}
		}
		if busy(c) {
			says = append(says, j.busyText(c))
			if level == Well {
				level = UnderWay
			}
		}
		switch stuck {
		case 0:
			continue
		case 1:
			says = append(says, "1 of "+c.snap.Name+" is stuck")
		default:
			says = append(says, number(stuck)+" of "+c.snap.Name+" are stuck")
		}
		level = NotWell
	}
	if len(j.controllers) > 0 {
		j.part("workers", level, list(append([]string{number(active) + " of " + number(all) + " are busy"}, says...)))
	}
}

func (j *judging) sources() {
	var says []string
	level := Well
	all := 0
	for _, c := range j.controllers {
		for _, s := range c.snap.Sources {
			all++
			switch {
			case s.Error != "":
				level = NotWell
				says = append(says, s.Name+" of "+c.snap.Name+" fails")
			case !s.Synced && c.snap.Held > 0:
				says = append(says, s.Name+" of "+c.snap.Name+" has not listed everything yet")
				if level == Well {
					level = UnderWay
				}
			}
		}
	}
	switch {
	case len(says) > 0:
		j.part("sources", level, list(says))
	case all > 0:
		j.part("sources", Well, some(all, "source")+" synced")
	}
}

// list is a few of the texts.
func list(all []string) string {
	const few = 8
	if n := len(all) - few; n > 0 {
		all = append(slices.Clone(all[:few]), fmt.Sprintf("and %d more", n))
	}
	return strings.Join(all, ", ")
}
