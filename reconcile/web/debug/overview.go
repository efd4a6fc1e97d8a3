package debug

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/store"
)

func (h *handler) overview() *overview {
	v := &overview{
		Checks: h.manager.Health(), Graph: text(h.manager.Mermaid()), WakesWhat: h.manager.Graph(),
		// Empty lists: JSON's null is none, for those that go through them.
		Controllers: []summary{}, Running: []runRow{}, Caches: []cacheView{},
	}
	v.WakesWhat.Nodes = append([]introspect.Node{}, v.WakesWhat.Nodes...)
	v.WakesWhat.Edges = append([]introspect.Edge{}, v.WakesWhat.Edges...)
	for _, c := range h.controllers() {
		snap, stats := c.Snapshot(), c.QueueStats()
		v.Controllers = append(v.Controllers, summarise(snap, stats))
		for _, r := range snap.Running {
			v.Running = append(v.Running, runRow{c.Name(), fewKeys(r)})
		}
		for _, l := range c.Leases() {
			v.Leases = append(v.Leases, leaseView{c.Name(), l})
		}
	}
	slices.SortStableFunc(v.Running, func(a, b runRow) int { return a.Since.Compare(b.Since) })
	v.Busy = len(v.Running)
	v.Running = v.Running[:min(len(v.Running), someRows)]
	h.surroundings(v)
	v.History = h.history.view()
	v.Needs = h.kindsThatNeed()
	return v
}

// surroundings is what there is besides controllers.
func (h *handler) surroundings(v *overview) {
	for _, b := range h.buckets() {
		s := b.Stats()
		v.Buckets = append(v.Buckets, bucketView{s.Name, float64(s.PerSecond), s.Burst, s.Tokens, s.Until})
	}
	for _, r := range h.manager.Runners() {
		if c, ok := r.(interface{ Snapshot() introspect.Cache }); ok {
			v.Caches = append(v.Caches, cacheOf(c.Snapshot()))
		}
	}
	for _, i := range h.o.Inventories {
		v.Inventories = append(v.Inventories, inventoryOf(i.Snapshot()))
	}
	for _, s := range h.o.Sections {
		v.Sections = append(v.Sections, sectionView{s.Title, slices.Clone(s.Rows())})
	}
	v.Events = h.eventsOf("", store.Key{}, someRows)
}

func summarise(s introspect.Controller, q queue.Stats) summary {
	all := 0
	for _, row := range q.States {
		if row.State != queue.StateIdle {
			all += row.Keys
		}
	}
	keys := func(in queue.State) int { return q.Of(in).Keys }
	return summary{
		Name: s.Name, Kind: s.Kind, Placement: s.Placement, Shards: s.Shards, Held: s.Held,
		Workers: s.Workers, Active: s.Active,
		Keys: all, Ready: keys(queue.StateReady), Delayed: keys(queue.StateDelayed), BackingOff: keys(queue.StateBackingOff),
		Throttled: keys(queue.StateThrottled), Kept: keys(queue.StateHeld), Running: keys(queue.StateRunning), Parked: keys(queue.StateParked),
		Oldest: q.Of(queue.StateReady).Oldest,
		Paused: q.HeldBy, Waiting: s.Waiting, Error: s.Error, Slowed: s.Slowed, Runs: s.Runs,
	}
}

// fewKeys shortens a batch.
func fewKeys(r introspect.Run) introspect.Run {
	if n := len(r.Keys); n > fewRows {
		r.Keys = append(r.Keys[:fewRows:fewRows], fmt.Sprintf("… and %d more", n-fewRows))
	}
	return r
}

func cacheOf(s introspect.Cache) cacheView {
	v := cacheView{
		Name: s.Name, Kind: s.Kind, Objects: s.Objects, Revision: s.Revision, Synced: s.Synced,
		Connected: s.Connected, Idle: s.Idle, Since: s.Since, Undecodable: len(s.Undecodable),
		Snapshots: s.Snapshots, Restores: s.Restores, Waiters: s.Waiters,
	}
	for _, c := range s.Consumers {
		v.Pending = max(v.Pending, c.Pending)
	}
	if s.Err != nil {
		v.Error = fmt.Sprint(s.Err)
	}
	return v
}

func (p *printer) overview(v *overview, verdict *inspect.Verdict, seen map[string]time.Time) {
	p.verdict(verdict, seen)
	p.add(section{Filter: searchForm("")})
	for _, s := range p.folded {
		p.add(s)
	}
	unfolded := len(p.Sections)
	defer func() {
		for i := unfolded; i < len(p.Sections); i++ {
			p.Sections[i].Fold = true
		}
	}()
	p.historyCharts(v.History)
	p.controllers(v.Controllers)
	p.runningNow(v)
	p.inventories(v.Inventories)
	p.buckets(v.Buckets)
	p.leases(v.Leases)
	p.caches(v.Caches)
	if v.Events != nil {
		p.events("Events", v.Events, true)
		p.Sections[len(p.Sections)-1].Links = []cell{{Text: "more events", Link: link("view", "events")}}
	}
	for _, s := range v.Sections {
		var rows [][]cell
		for _, r := range s.Rows {
			rows = append(rows, []cell{plain(r[0]), long(r[1])})
		}
		p.add(section{Title: clean(s.Title), Rows: rows, Empty: "nothing"})
	}
	p.needs(v.Needs)
	p.graph(v.WakesWhat)
	p.health(v.Checks)
}

// later has a section added after those that are not folded.
func (p *printer) later(s section) { p.folded = append(p.folded, s) }

func (p *printer) health(checks []reconcile.Check) {
	var rows [][]cell
	for _, c := range checks {
		if !c.OK {
			rows = append(rows, []cell{plain(c.Name), bad(c.Reason)})
		}
	}
	s := section{Title: "Health", Note: fmt.Sprintf("%d of %d are well", len(checks)-len(rows), len(checks)), Bad: len(rows) > 0}
	if s.Rows = rows; len(rows) > 0 {
		s.Columns = []string{"what", "why it is not well"}
	}
	p.add(s)
}

func (p *printer) controllers(all []summary) {
	s := section{
		Title: "Controllers", Empty: "none is registered",
		Columns: []string{"name", "workers", "ready", "running", "delayed", "backing off", "throttled", "held", "parked", "runs", "failed", "throttled runs", "remarks"},
	}
	for _, c := range all {
		at := func(state string, n int, look string) cell {
			x := some(n, look)
			if n > 0 {
				x.Link = filter{controller: c.Name, state: state}.link()
			}
			return x
		}
		s.Rows = append(s.Rows, []cell{
			linked(c.Name, link("c", c.Name)),
			{Text: fmt.Sprintf("%d of %d", c.Active, c.Workers), Look: "num"},
			at("ready", c.Ready, ""), at("running", c.Running, ""), at("delayed", c.Delayed, ""),
			at("backing off", c.BackingOff, "bad"), at("throttled", c.Throttled, "warn"), at("held", c.Kept, "warn"), at("parked", c.Parked, "bad"),
			number(c.Runs.Runs()), number(c.Runs.Error + c.Runs.Terminal), number(c.Runs.Throttled), p.remarks(c),
		})
	}
	p.add(s)
}

// remarks is what is out of the ordinary.
func (p *printer) remarks(c summary) cell {
	var says []string
	if c.Error != "" {
		says = append(says, c.Error)
	}
	if c.Paused != "" {
		says = append(says, "paused: "+c.Paused)
	}
	if c.Waiting != "" {
		says = append(says, "waits for "+c.Waiting+" to sync")
	}
	if len(c.Slowed) > 0 {
		says = append(says, fmt.Sprintf("keys that are slowed, since their spec changes too often: %d", len(c.Slowed)))
	}
	if wait := p.now.Sub(c.Oldest); !c.Oldest.IsZero() && wait > time.Minute {
		says = append(says, "the oldest ready key waits for "+short(wait))
	}
	if len(says) > 0 {
		return bad(strings.Join(says, "; "))
	}
	if c.Held < c.Shards { // which is as it should be: others have the rest
		return looks("dim", fmt.Sprintf("runs %d of %d shards", c.Held, c.Shards))
	}
	return cell{}
}

func (p *printer) runningNow(v *overview) {
	s := section{Title: "Running now", Columns: []string{"controller", "key", "for", "attempt", "remarks"}, Empty: "nothing"}
	if v.Busy > len(v.Running) {
		s.Note = fmt.Sprintf("the longest %d of %d", len(v.Running), v.Busy)
	}
	for _, r := range v.Running {
		s.Rows = append(s.Rows, append([]cell{linked(r.Controller, link("c", r.Controller))}, p.run(r.Controller, r.Run)...))
	}
	p.add(s)
}

// run is one run: what, for how long, which attempt, what is wrong.
func (p *printer) run(controller string, r introspect.Run) []cell {
	what := plain(strings.Join(r.Keys, ", "))
	if len(r.Keys) == 1 {
		what = linked(r.Keys[0], keyLink(controller, r.Keys[0]))
	}
	remark := bad(r.Ended)
	if r.Stuck {
		remark = bad("stuck: " + r.Ended)
	}
	return []cell{what, plain(short(p.now.Sub(r.Since))), some(r.Attempt, "bad"), remark}
}

func (p *printer) buckets(all []bucketView) {
	if len(all) == 0 {
		return
	}
	s := section{Title: "Rate limits", Columns: []string{"bucket", "per second", "burst", "tokens now", "paused until"}}
	for _, b := range all {
		until := cell{}
		if !b.Until.IsZero() {
			until = moment(b.Until, p.now)
			until.Look = "bad"
		}
		s.Rows = append(s.Rows, []cell{
			plain(b.Name), looks("num", strconv.FormatFloat(b.PerSecond, 'g', 6, 64)), number(b.Burst),
			looks("num", strconv.FormatFloat(b.Tokens, 'f', 1, 64)), until,
		})
	}
	p.add(s)
}

func (p *printer) leases(all []leaseView) {
	if len(all) == 0 {
		return
	}
	s := section{Title: "Leases", Columns: []string{"controller", "shard", "lease", "here", "holder"}}
	for _, l := range all {
		s.Rows = append(s.Rows, append([]cell{linked(l.Controller, link("c", l.Controller))}, p.lease(l.Lease)...))
	}
	p.add(s)
}

func (p *printer) lease(l introspect.Lease) []cell {
	here := looks("dim", "no")
	switch {
	case l.Held && l.Running:
		here = looks("good", "held, runs its keys")
	case l.Held:
		here = looks("warn", "held, does not run its keys yet")
	case l.Running:
		here = looks("bad", "lost, its last runs are ending")
	}
	holder := plain(cmp.Or(l.Holder, "not known"))
	if l.Held {
		holder = plain(cmp.Or(l.Holder, "this server"))
	}
	holder.Link = p.pages[l.Holder]
	return []cell{number(l.Shard), plain(l.Name), here, holder}
}

func (p *printer) caches(all []cacheView) {
	if len(all) == 0 {
		return
	}
	s := section{Title: "Caches", Columns: []string{"cache", "objects", "revision", "watch", "since", "behind", "remarks"}}
	for _, c := range all {
		watch := looks("good", "connected")
		switch {
		case !c.Synced:
			watch = looks("bad", "not synced yet")
		case c.Idle && c.Error == "":
			watch = looks("dim", "none: no shard is held")
		case !c.Connected:
			watch = looks("bad", "not connected")
		}
		var says []string
		if c.Error != "" {
			says = append(says, c.Error)
		}
		if c.Undecodable > 0 {
			says = append(says, fmt.Sprintf("%d of its objects cannot be decoded", c.Undecodable))
		}
		if c.Restores > 0 {
			says = append(says, fmt.Sprintf("the store went back in time %d times", c.Restores))
		}
		if c.Waiters > 0 {
			says = append(says, fmt.Sprintf("keys that wait for it to see their write: %d", c.Waiters))
		}
		s.Rows = append(s.Rows, []cell{
			plain(c.Name), number(c.Objects), number(uint64(c.Revision)), watch, moment(c.Since, p.now), some(c.Pending, "warn"), bad(strings.Join(says, "; ")),
		})
	}
	p.add(s)
}
