package debug

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/inspect"
)

// layout is a view as HTML and text show it: sections of tables.
type layout struct {
	Title    string
	Here     string // of this page; empty: the overview
	Trail    []cell // the way back
	At       string
	Done     string
	Formats  []cell // the same otherwise
	Refresh  int    // seconds; 0: the browser does not ask again
	Sections []section
	Says     string // the verdict, in a sentence or two
	Tone     string // of it: "good", "warn" or "bad"
	Jumps    []cell // to the sections of a long page
	Unfold   bool   // all sections
	folded   []section
}

type section struct {
	Title   string
	ID      string // for links to it; empty: none
	Of      string // what its table is of, for how it looks on a small screen: "causes", "kinds"
	Fold    bool   // it is shown when it is asked for
	Open    bool   // … and it was
	Toggle  string // a link that folds and unfolds it on a page that loads itself again; empty: the browser does
	Tiles   []cell // counts, each a link
	Note    string
	Bad     bool // the note is bad news
	Columns []string
	Rows    [][]cell
	Empty   string // shown in place of a table without rows
	Links   []cell
	Pre     string // shown as it is
	Filter  *filterForm
	Actions []cell // links to the questions before them
	Ask     *actionForm
	Picture *picture // of what the rows say
	Wide    bool     // the last column has long texts
	Field   []fieldRow
	Legend  []cell // of Field
	Charts  []charts
	Strip   []bar
}

// cell is a text that has been cleaned.
type cell struct {
	Text  string
	Link  string
	Look  string    // how it looks: "bad", "warn", "good", "dim", "num", "name", "long"
	Lead  string    // before Text, in the colour that Look says
	Parts []cell    // in place of Text, each with a link of its own
	Bar   []barPart // in place of Text, which says the same
}

type filterForm struct {
	Hidden         [][2]string
	Search, Hint   string
	States, Orders []choice
}

type choice struct {
	Value, Title string
	Selected     bool
}

type actionForm struct {
	Title           string
	Do              reconcile.Action
	Controller, Key string // exact
	Workers         string // for a number to be asked; empty: none is
	Back            string // where "no" leads
	Kind, Finalizer string // exact
}

// plain is long if it may have no place to be broken.
func plain(s string) cell {
	c := cell{Text: clean(s)}
	if len(c.Text) > 40 {
		c.Look = "long"
	}
	return c
}

func linked(s, link string) cell { return cell{Text: clean(s), Link: link, Look: "name"} }
func looks(look, s string) cell  { return cell{Text: clean(s), Look: look} }
func long(s string) cell         { return looks("long", s) }
func number[N ~int | ~int64 | ~uint64](n N) cell {
	return cell{Text: grouped(fmt.Sprint(n)), Look: "num"}
}

// grouped writes 1000000 as 1,000,000.
func grouped(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// some is a number that is only of interest if it is not zero.
func some(n int, look string) cell {
	c := number(n)
	if n == 0 {
		c.Look += " dim"
	} else if look != "" {
		c.Look += " " + look
	}
	return c
}

func bad(s string) cell {
	if s == "" {
		return cell{}
	}
	return looks("long bad", s)
}

// moment is a time as people read it, with the exact one beside it.
func moment(t, now time.Time) cell {
	if t.IsZero() {
		return cell{Text: "–", Look: "dim"}
	}
	exact := t.UTC().Format("2006-01-02 15:04:05Z")
	if t.UTC().Format(time.DateOnly) == now.UTC().Format(time.DateOnly) {
		exact = t.UTC().Format("15:04:05Z")
	}
	if d := t.Sub(now); d > 0 {
		return plain("in " + short(d) + " (" + exact + ")")
	}
	return plain(short(now.Sub(t)) + " ago (" + exact + ")")
}

// layOut makes a layout of a view; self is the query that the view came from.
func layOut(v *view, self string) *layout {
	l := &layout{Title: clean(v.Title), At: v.At.UTC().Format("2006-01-02 15:04:05 UTC"), Done: v.Done}
	if len(self) <= 2*linkBytes {
		l.Formats = []cell{{Text: "JSON", Link: with(self, "format=json")}, {Text: "text", Link: with(self, "format=text")}}
		switch {
		case v.Ask != nil:
		case v.Refresh > 0:
			l.Refresh = v.Refresh
			l.Formats = append(l.Formats, cell{Text: fmt.Sprintf("stop loading every %d s", v.Refresh), Link: self})
		default:
			l.Formats = append(l.Formats, cell{Text: "load every 5 s", Link: with(self, "refresh=5")})
		}
		if v.Overview != nil && !v.Unfold && len(v.Open) == 0 {
			l.Formats = append(l.Formats, cell{Text: "unfold all", Link: with(self, "unfold=all")})
		}
	}
	p := printer{layout: l, now: v.At, may: v.Actions}
	l.Unfold = v.Unfold
	switch {
	case v.Overview != nil:
		p.overview(v.Overview, v.Verdict, v.Seen)
	case v.Verdict != nil:
		p.here("Status")
		p.verdict(v.Verdict, v.Seen)
	case v.Controller != nil:
		p.one(v.Controller)
	case v.Key != nil:
		p.key(v.Key)
	case v.Events != nil:
		p.eventsPage(v.Events)
	case v.Drift != nil:
		p.drift(v.Drift)
	case v.Objects != nil:
		p.objectsPage(v.Objects)
	case v.Object != nil:
		p.object(v.Object)
	case v.Search != nil:
		p.search(v.Search)
	case v.Ask != nil:
		p.ask(v.Ask)
	}
	p.jumps(v)
	return l
}

// jumps gives each section with a title an address, links to it from the top of a long page, and
// keeps open what was opened, also when the page loads itself again.
func (p *printer) jumps(v *view) {
	for i := range p.Sections {
		s := &p.Sections[i]
		if s.Title == "" {
			continue
		}
		if s.ID == "" {
			s.ID = idOf(s.Title)
		}
		p.Jumps = append(p.Jumps, cell{Text: s.Title, Link: "#" + s.ID})
		if s.Open = s.Fold && (v.Unfold || slices.Contains(v.Open, s.ID)); !s.Fold || v.Refresh == 0 {
			continue
		}
		open := slices.DeleteFunc(slices.Clone(v.Open), func(id string) bool { return id == s.ID })
		if !s.Open {
			open = append(open, s.ID)
		}
		q := url.Values{"refresh": {strconv.Itoa(v.Refresh)}, "open": open}
		s.Toggle = "?" + q.Encode() + "#" + s.ID
	}
	if len(p.Jumps) < 4 {
		p.Jumps = nil
	}
}

// idOf is a title as an address in the page.
func idOf(title string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(title))
}

// with adds a pair to a query.
func with(self, pair string) string {
	if self == "?" {
		return "?" + pair
	}
	return self + "&" + pair
}

// printer adds sections to a layout.
type printer struct {
	*layout
	now time.Time
	may bool // actions are offered
}

// add adds a section, without the columns of its table that have no value.
func (p *printer) add(s section) {
	for i := len(s.Columns) - 1; i >= 0 && len(s.Rows) > 0; i-- {
		if !slices.ContainsFunc(s.Rows, func(r []cell) bool { return r[i].Text != "" }) {
			s.Columns = slices.Delete(slices.Clone(s.Columns), i, i+1)
			for j, r := range s.Rows {
				s.Rows[j] = slices.Delete(r, i, i+1)
			}
		}
	}
	s.Wide = len(s.Columns) > 0 && slices.ContainsFunc(s.Rows, func(r []cell) bool { return len(r[len(r)-1].Text) > 40 })
	p.Sections = append(p.Sections, s)
}

func (p *printer) here(title string, trail ...cell) {
	p.Here = clean(title)
	p.Trail = append([]cell{{Text: p.Title, Link: "?"}}, trail...)
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
		s.Rows = append(s.Rows, append([]cell{linked(r.Controller, link("c", r.Controller))}, p.run(r.Controller, r.RunSnapshot)...))
	}
	p.add(s)
}

// run is one run: what, for how long, which attempt, what is wrong.
func (p *printer) run(controller string, r reconcile.RunSnapshot) []cell {
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

// attempts is bad news unless the key only asked to be run again.
func attempts(k keyRow) cell {
	if !k.Failing {
		return some(k.Attempts, "")
	}
	return some(k.Attempts, "bad")
}

// failingSince is since when a key fails, if it does.
func failingSince(k keyRow, now time.Time) cell {
	if k.FailingSince.IsZero() {
		return cell{}
	}
	return moment(k.FailingSince, now)
}

// lastError is bad news unless the run was only asked to wait.
func lastError(k keyRow) cell {
	c := bad(k.Error)
	if !k.Failing {
		c.Look = "long warn"
	}
	return c
}

func searchForm(contains string) *filterForm {
	return &filterForm{Hidden: [][2]string{{"view", "search"}}, Search: contains, Hint: "any key contains"}
}

func stuckLook(r *reconcile.RunSnapshot) string {
	if r != nil && r.Stuck {
		return "long bad"
	}
	return "long"
}

func (p *printer) search(v *searchView) {
	p.here("Search")
	s := section{
		Filter: searchForm(v.Contains), Columns: []string{"key", "controller", "state", "why it is not running", "last error"},
		Empty: "no key that a queue knows contains this text",
	}
	for _, k := range v.Keys {
		s.Rows = append(s.Rows, []cell{
			linked(k.Key, keyLink(k.Controller, k.exact)), linked(k.Controller, link("c", k.Controller)),
			looks(stateLook(k.keyRow), k.State), long(k.Because), lastError(k.keyRow),
		})
	}
	for _, c := range v.More {
		s.Links = append(s.Links, cell{Text: "more of " + clean(c), Link: filter{controller: c, search: v.Contains}.link()})
	}
	p.add(s)
	if len(v.Objects)+len(v.Unlisted) == 0 {
		return
	}
	s = p.objectTable(v.Objects, true)
	s.Title = "Objects"
	if len(v.Unlisted) > 0 {
		s.Note, s.Bad = clean("not looked through: "+strings.Join(v.Unlisted, "; ")), true
	}
	for _, kind := range v.MoreKinds {
		s.Links = append(s.Links, cell{Text: "more of " + clean(kind), Link: link("view", "objects", "kind", kind, "q", v.Contains)})
	}
	p.add(s)
}

// ask is the page with the question before an action.
func (p *printer) ask(v *askView) {
	says, of := actionTexts[v.Do], v.exact
	p.here(strings.TrimSpace(fmt.Sprintf("%s: %s %s", cmp.Or(v.Key, v.Controller, v.Kind), says.button, v.Finalizer)) + "?")
	if v.Controller != "" {
		p.Trail = append(p.Trail, cell{Text: clean(v.Controller), Link: link("c", of.Controller)})
	}
	if v.Key != "" {
		p.Trail = append(p.Trail, cell{Text: clean(v.Key), Link: of.page()})
	}
	form := &actionForm{Title: says.button, Do: of.Do, Controller: of.Controller, Key: of.Key, Kind: of.Kind, Finalizer: of.Finalizer, Back: of.page()}
	if v.Do == actionWorkers {
		form.Workers = strconv.Itoa(v.Workers)
	}
	p.add(section{Note: v.Question, Ask: form})
}

// actions are links to the questions before actions on a key, or with an empty one
// on the controller.
func actions(controller, key string, do ...reconcile.Action) (links []cell) {
	for _, a := range do {
		links = append(links, cell{Text: actionTexts[a].button, Link: link("c", controller, "key", key, "ask", string(a))})
	}
	return links
}

func stateLook(k keyRow) string {
	switch {
	case k.State == "parked", k.State == "backing off" && k.Failing:
		return "bad"
	case k.State == "throttled", k.State == "held", k.Throttled:
		return "warn"
	}
	return ""
}

func (p *printer) inventories(all []inventoryView) {
	for _, v := range all {
		s := section{Title: "Drift and orphans: " + clean(v.Kind)}
		switch {
		case v.At.IsZero():
			s.Note = "there has been no report yet"
			if v.Listed > 0 {
				s.Note = fmt.Sprintf("%d resources are listed; %s", v.Listed, s.Note)
			}
		default:
			s.Note = fmt.Sprintf("%d declared, %d ours, %d of others; listed %s", v.Declared, v.Ours, v.Foreign, moment(v.At, p.now).Text)
			if len(slices.DeleteFunc(slices.Collect(maps.Values(v.Findings)), func(n int) bool { return n == 0 })) == 0 {
				s.Empty = "all is as declared, and nothing is left over"
				break
			}
			s.Columns = lists
			var row []cell
			for _, list := range lists {
				c := some(v.Findings[list], "warn")
				if v.Findings[list] > 0 {
					c.Link = link("view", "drift", "kind", v.Kind, "list", list)
				}
				row = append(row, c)
			}
			s.Rows = [][]cell{row}
		}
		if v.Held != "" {
			s.Note, s.Bad = s.Note+"; nothing is pruned: "+clean(v.Held), true
			if p.may {
				s.Actions = []cell{{Text: actionTexts[releasePrune].button, Link: link("ask", string(releasePrune), "kind", v.Kind)}}
			}
		}
		p.add(s)
	}
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
		s.Rows = append(s.Rows, append([]cell{linked(l.Controller, link("c", l.Controller))}, lease(l.LeaseSnapshot)...))
	}
	p.add(s)
}

func lease(l reconcile.LeaseSnapshot) []cell {
	here := looks("dim", "no")
	switch {
	case l.Held && l.Running:
		here = looks("good", "held, runs its keys")
	case l.Held:
		here = looks("warn", "held, does not run its keys yet")
	case l.Running:
		here = looks("bad", "lost, its last runs are ending")
	}
	holder := cmp.Or(l.Holder, "not known")
	if l.Held {
		holder = cmp.Or(l.Holder, "this server")
	}
	return []cell{number(l.Shard), plain(l.Name), here, plain(holder)}
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

// events shows events; about says to which key each belongs.
func (p *printer) events(title string, all []eventView, about bool) {
	s := section{Title: title, Columns: []string{"when", "reason", "times", "message"}, Empty: "none"}
	if about {
		s.Columns = []string{"when", "kind", "key", "reason", "times", "message"}
	}
	for _, e := range all {
		reason := plain(e.Reason)
		if e.Type == "Warning" {
			reason.Look = "bad"
		}
		row := []cell{moment(e.Time, p.now)}
		if about {
			row = append(row, plain(e.Kind), linked(e.Key, link("view", "events", "kind", e.Kind, "key", e.Key)))
		}
		s.Rows = append(s.Rows, append(row, reason, number(e.Count), long(e.Message)))
	}
	p.add(s)
}

func (p *printer) eventsPage(v *eventsView) {
	p.here(strings.TrimSpace("Events " + v.Kind + " " + v.Key))
	if v.Kind != "" || v.Key != "" {
		p.Trail = append(p.Trail, cell{Text: "Events", Link: link("view", "events")})
	}
	p.events("Events, the newest first", v.Events, true)
	s := &p.Sections[len(p.Sections)-1]
	s.Filter = &filterForm{
		Hidden: [][2]string{{"view", "events"}, {"kind", v.Kind}, {"key", v.Key}}, Search: v.Contains, Hint: "kind, key, reason or message contains",
		States: []choice{{"", "all events", v.Type == ""}, {warnings, "warnings only", v.Type == warnings}},
	}
}

func (p *printer) drift(v *driftView) {
	p.here(v.Kind + ": " + v.List)
	s := section{
		Title: fmt.Sprintf("%s %s", grouped(strconv.Itoa(v.Total)), clean(v.List)), Note: driftNotes[v.List],
		Columns: []string{"key", "id", "mark", "difference"}, Empty: "none",
	}
	for _, f := range v.Findings {
		s.Rows = append(s.Rows, []cell{plain(f.Key), plain(f.ID), plain(f.Mark), long(f.Diff)})
	}
	if v.Next != "" {
		s.Links = append(s.Links, cell{Text: "next page", Link: string(v.Next)})
	}
	p.add(s)
}

var driftNotes = map[string]string{
	"orphans":     "ours by their mark, and not declared",
	"different":   "there, ours, and not as declared",
	"missing":     "declared, and not there",
	"unclaimed":   "declared and there, without our mark or with an earlier one",
	"duplicates":  "carry the mark of an object whose resource is another",
	"letter case": "differ from a declaration in case only: set InventoryOptions.Letters; until then nothing is pruned",
	"unreadable":  "are on the list, and their details could not be read",
	"unsettled":   "written since the list was begun, or shortly before: it does not tell how they are",
}

func (p *printer) one(v *oneView) {
	name := v.Summary.Name
	p.here(name)
	p.head(v)
	s := section{Title: "Workers", Columns: []string{"key", "for", "attempt", "remarks"}, Empty: "nothing is running"}
	s.Note = fmt.Sprintf("%d of %d are busy", v.Summary.Active, v.Summary.Workers)
	for i, r := range v.Running {
		if i == pageRows {
			s.Note += fmt.Sprintf("; these are the %d longest", i)
			break
		}
		s.Rows = append(s.Rows, p.run(name, r))
	}
	p.add(s)
	p.historyCharts(v.History)
	p.keys(v)
	p.sources(v.Sources)
	if len(v.Leases) > 0 {
		s := section{Title: "Leases", Note: clean(v.Summary.Placement), Columns: []string{"shard", "lease", "here", "holder"}}
		for _, l := range v.Leases {
			s.Rows = append(s.Rows, lease(l))
		}
		p.add(s)
	}
	if v.Events != nil {
		p.events("Events", v.Events, true)
	}
}

func (p *printer) head(v *oneView) {
	c := v.Summary
	again := c.Runs.Requeue + c.Runs.RequeueAfter
	counts := fmt.Sprintf("%d succeeded, %d of them to run again at a time of their own; %d failed, %d given up, %d throttled, %d called off; %d panics, %d past their deadline",
		c.Runs.Success+again, again, c.Runs.Error, c.Runs.Terminal, c.Runs.Throttled, c.Runs.Canceled, c.Runs.Panic, c.Runs.Timeout)
	s := section{Rows: [][]cell{
		{plain("kind"), plain(cmp.Or(c.Kind, "–"))},
		{plain("runs on"), plain(fmt.Sprintf("%s; %d of %d shards here", c.Placement, c.Held, c.Shards))},
		{plain("keys"), number(c.Keys)},
		{plain("runs so far"), long(counts)},
	}}
	if r := p.remarks(c); r.Text != "" {
		s.Rows = append(s.Rows, []cell{plain("remarks"), r})
	}
	if p.may {
		pause := reconcile.ActionPause
		if c.Paused != "" {
			pause = reconcile.ActionResume
		}
		s.Actions = actions(c.Name, "", pause, actionWorkers, actionRetryFailed)
	}
	p.add(s)
}

func (p *printer) keys(v *oneView) {
	f := v.Keys.filter
	s := section{
		Title: "Keys", Columns: []string{"key", "state", "since", "attempts", "why it is not running", "last error"},
		Filter: f.form(), Empty: "there are none of that sort",
		Note: fmt.Sprintf("%d here, of %s that were looked at", len(v.Keys.Keys), grouped(strconv.Itoa(v.Keys.Looked))),
	}
	for _, k := range v.Keys.Keys {
		why := k.Because
		if len(k.Reasons) > 0 {
			why += "; added for: " + strings.Join(k.Reasons, ", ")
		}
		s.Rows = append(s.Rows, []cell{
			linked(k.Key, keyLink(v.Summary.Name, k.exact)), looks(stateLook(k), k.State), moment(k.Since, p.now), attempts(k), long(why), lastError(k),
		})
	}
	if f.from != "" {
		s.Links = append(s.Links, cell{Text: "first page", Link: f.first().link()})
	}
	if v.Keys.Next != "" {
		s.Links = append(s.Links, cell{Text: "next page", Link: string(v.Keys.Next)})
	}
	p.add(s)
}

func (f filter) form() *filterForm {
	form := &filterForm{Hidden: [][2]string{{"c", f.controller}}, Search: f.search, Hint: "key contains"}
	form.States = []choice{{"", "in any state", f.state == ""}, {failed, "whose last run failed", f.state == failed}}
	for _, s := range states() {
		form.States = append(form.States, choice{s.String(), s.String(), f.state == s.String()})
	}
	for _, o := range ordersByName {
		form.Orders = append(form.Orders, choice{o.name, o.title, f.order == o.name})
	}
	return form
}

func (p *printer) sources(all []reconcile.SourceSnapshot) {
	s := section{Title: "Sources", Columns: []string{"source", "kind", "state", "synced", "restarts", "remarks"}, Empty: "it watches nothing"}
	for _, x := range all {
		synced := looks("good", "yes")
		if !x.Synced {
			synced = looks("bad", "not yet")
		}
		says := x.Error
		if x.Skipped > 0 {
			says = strings.TrimPrefix(fmt.Sprintf("%s; keys that were of no use: %d", says, x.Skipped), "; ")
		}
		s.Rows = append(s.Rows, []cell{plain(x.Name), plain(x.Kind), plain(x.State), synced, some(x.Restarts, "warn"), bad(says)})
	}
	p.add(s)
}

func (p *printer) key(v *keyView) {
	p.here(v.Key, linked(v.Controller, link("c", v.Controller)))
	s := section{Title: "State"}
	if k := v.State; k != nil {
		why := "why it is not running"
		if v.Run != nil {
			why = "how it runs"
		}
		s.Rows = [][]cell{
			{plain("state"), plain(k.State)},
			{plain(why), looks(stuckLook(v.Run), k.Because)},
			{plain("since"), moment(k.Since, p.now)},
			{plain("runs next"), moment(k.Next, p.now)},
			{plain("failures in a row"), attempts(*k)},
			{plain("failing since"), failingSince(*k, p.now)},
			{plain("last error"), lastError(*k)},
			{plain("added for"), long(strings.Join(k.Reasons, ", "))},
			{plain("priority"), looks("num", strconv.Itoa(k.Priority))},
		}
		s.Rows = append(s.Rows, []cell{plain("tenant"), plain(k.Tenant)})
		if !k.Failing {
			s.Rows[4][0].Text = "runs again in a row"
		}
		if k.Attempts == 0 {
			s.Rows[4][1] = cell{} // left out
		}
		s.Rows = slices.DeleteFunc(s.Rows, func(r []cell) bool { return r[1].Text == "" })
	} else if v.Elsewhere != "" {
		s.Note = v.Elsewhere
	} else {
		s.Note = "The queue does not know this key: there is nothing to run for it, or it never was."
	}
	if p.may && v.exact != "" {
		do := []reconcile.Action{reconcile.ActionKick, reconcile.ActionPause, reconcile.ActionForget}
		if v.State == nil { // it may be paused all the same
			do = []reconcile.Action{reconcile.ActionKick, reconcile.ActionPause, reconcile.ActionResume}
		} else if v.State.State == queue.StateHeld.String() {
			do[1] = reconcile.ActionResume
		}
		s.Actions = actions(v.Controller, v.exact, do...)
	}
	p.add(s)
	p.strip(v.Recent)
	if v.Object != nil {
		p.objectSections(v.Object, false)
	}
	if v.Stack != "" {
		p.add(section{Title: "Where its run stands", Note: "the innermost call first", Pre: printable(string(v.Stack))})
	}
	if v.Events != nil {
		p.events("Events", v.Events, false)
	}
}
