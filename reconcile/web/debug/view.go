package debug

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// What the views are made of. This is also what ?format=json gives.
type (
	// view is one page; what it does not show is empty.
	view struct {
		Title   string    `json:"title"`
		At      time.Time `json:"at"`
		Actions bool      `json:"actions"`           // may be asked for
		Refresh int       `json:"refresh,omitempty"` // seconds until the browser asks again; 0: it does not
		Done    string    `json:"done,omitempty"`    // what the request before this one did
		Unfold  bool      `json:"-"`                 // what is folded
		Open    []string  `json:"-"`                 // the same, of these sections

		Overview *overview        `json:"overview,omitempty"`
		Verdict  *inspect.Verdict `json:"verdict,omitempty"` // of the page and of view=status
		// Seen is when a run of each kind last succeeded, in the last hour or before.
		Seen       map[string]time.Time `json:"lastSeen,omitempty"`
		Controller *oneView             `json:"controller,omitempty"`
		Key        *keyView             `json:"key,omitempty"`
		Events     *eventsView          `json:"events,omitempty"`
		Drift      *driftView           `json:"drift,omitempty"`
		Search     *searchView          `json:"search,omitempty"`
		Objects    *objectsView         `json:"objects,omitempty"`
		Object     *objectView          `json:"object,omitempty"`
		Ask        *askView             `json:"ask,omitempty"`
	}

	overview struct {
		Checks      []reconcile.Check `json:"checks"`
		Controllers []summary         `json:"controllers"`
		History     *historyView      `json:"history,omitempty"` // of an hour
		Running     []runRow          `json:"running"`           // longest first
		Busy        int               `json:"busy"`              // of which these are some
		Buckets     []bucketView      `json:"buckets,omitempty"`
		Leases      []leaseView       `json:"leases,omitempty"`
		Caches      []cacheView       `json:"caches"`
		Inventories []inventoryView   `json:"inventories,omitempty"`
		Events      []eventView       `json:"events,omitempty"`
		Sections    []sectionView     `json:"sections,omitempty"`
		Graph       text              `json:"graph"` // Mermaid
		WakesWhat   reconcile.Graph   `json:"wakes"`
		Needs       *needsView        `json:"needs,omitempty"` // what needs what, by kind
	}

	summary struct {
		Name      string `json:"name"`
		Kind      string `json:"kind,omitempty"`
		Placement string `json:"placement"`
		Shards    int    `json:"shards"`
		Held      int    `json:"held"`
		Workers   int    `json:"workers"`
		Active    int    `json:"active"`
		Keys      int    `json:"keys"`

		Ready      int       `json:"ready"`
		Delayed    int       `json:"delayed"`
		BackingOff int       `json:"backingOff"`
		Throttled  int       `json:"throttled"`
		Kept       int       `json:"kept"` // held or paused
		Running    int       `json:"running"`
		Parked     int       `json:"parked"`
		Oldest     time.Time `json:"oldestReady,omitzero"`

		Paused  string                `json:"paused,omitempty"`
		Waiting string                `json:"waiting,omitempty"` // for this to sync
		Error   string                `json:"error,omitempty"`
		Slowed  []reconcile.SlowedKey `json:"slowed,omitempty"`
		Runs    reconcile.Counts      `json:"runs"`
	}

	runRow struct {
		Controller string `json:"controller"`
		reconcile.RunSnapshot
	}

	// controllerKey is a key with the controller that it is a key of.
	controllerKey struct {
		Controller string `json:"controller"`
		keyRow
		Recent []reconcile.RunRecord `json:"recent,omitempty"` // its last runs, the newest first
	}

	// keyRow is a key and why it does not run.
	keyRow struct {
		reconcile.KeySnapshot
		Because string `json:"because"`
		exact   string // the key, uncut, for links
	}

	bucketView struct {
		Name      string    `json:"name"`
		PerSecond float64   `json:"perSecond"`
		Burst     int       `json:"burst"`
		Tokens    float64   `json:"tokens"`
		Until     time.Time `json:"pausedUntil,omitzero"`
	}

	leaseView struct {
		Controller string `json:"controller"`
		reconcile.LeaseSnapshot
	}

	cacheView struct {
		Name        string         `json:"name"`
		Kind        string         `json:"kind"`
		Objects     int            `json:"objects"`
		Revision    store.Revision `json:"revision"`
		Synced      bool           `json:"synced"`
		Connected   bool           `json:"connected"`
		Idle        bool           `json:"idle,omitempty"` // it holds no shard, and needs no watch
		Since       time.Time      `json:"since,omitzero"`
		Error       string         `json:"error,omitempty"`
		Undecodable int            `json:"undecodable"`
		Pending     int            `json:"pending"` // changes that the slowest consumer has not taken
		Snapshots   int            `json:"snapshots"`
		Restores    int            `json:"restores"`
		Waiters     int            `json:"waiters"`
	}

	inventoryView struct {
		Kind     string    `json:"kind"`
		Listed   int       `json:"listed"`
		Held     string    `json:"pruneHeld,omitempty"`
		At       time.Time `json:"at,omitzero"` // when the list of the report was begun; zero: there is none
		Declared int       `json:"declared"`
		Ours     int       `json:"ours"`
		Foreign  int       `json:"foreign"`
		// Findings is how many there are of each.
		Findings map[string]int `json:"findings"`
	}

	eventView struct {
		Time    time.Time `json:"time"`
		Type    string    `json:"type"`
		Reason  string    `json:"reason"`
		Message string    `json:"message,omitempty"`
		Kind    string    `json:"kind"`
		Key     string    `json:"key"`
		Count   int       `json:"count"`
	}

	sectionView struct {
		Title string      `json:"title"`
		Rows  [][2]string `json:"rows"`
	}

	// oneView is one controller.
	oneView struct {
		Summary summary                    `json:"summary"`
		History *historyView               `json:"history,omitempty"` // of an hour
		Running []reconcile.RunSnapshot    `json:"running"`
		Sources []reconcile.SourceSnapshot `json:"sources"`
		Leases  []reconcile.LeaseSnapshot  `json:"leases,omitempty"`
		Events  []eventView                `json:"events,omitempty"`
		Keys    keysView                   `json:"keys"`
	}

	keysView struct {
		Keys   []keyRow `json:"keys"`
		Looked int      `json:"looked"`
		Next   text     `json:"next,omitempty"` // the query of the next page
		filter filter
	}

	keyView struct {
		Controller string  `json:"controller"`
		Key        string  `json:"key"`
		State      *keyRow `json:"state,omitempty"` // nil: the queue does not know it
		// Elsewhere says which server runs the key, if this one does not, or that none does yet.
		Elsewhere string      `json:"elsewhere,omitempty"`
		Events    []eventView `json:"events,omitempty"`
		// Run is the run that goes on, and Stack where it stands.
		Run   *reconcile.RunSnapshot `json:"run,omitempty"`
		Stack text                   `json:"stack,omitempty"`
		// Recent are its last runs, the newest first.
		Recent []reconcile.RunRecord `json:"recent,omitempty"`
		// Object is what the key is the key of, if that is shown.
		Object *objectView `json:"object,omitempty"`
		exact  string
	}

	searchView struct {
		Contains string          `json:"contains"`
		Keys     []controllerKey `json:"keys"`
		// More are the controllers that have more such keys than are shown.
		More      []string    `json:"more,omitempty"`
		Objects   []objectRow `json:"objects,omitempty"`
		MoreKinds []string    `json:"moreKinds,omitempty"` // kinds with more such objects
		Unlisted  []string    `json:"unlisted,omitempty"`  // kinds that were not looked through, and why
	}

	// askView is the question before an action.
	askView struct {
		Action
		Question string `json:"question"`
		exact    Action // uncut, for the form
	}

	eventsView struct {
		Kind     string      `json:"kind,omitempty"`
		Key      string      `json:"key,omitempty"`
		Contains string      `json:"contains,omitempty"` // part of kind, key, reason or message
		Type     string      `json:"only,omitempty"`     // "warnings"; empty: all
		Events   []eventView `json:"events"`
	}

	driftView struct {
		Kind     string        `json:"kind"`
		List     string        `json:"list"`
		Total    int           `json:"total"`
		Skip     int           `json:"skip"`
		Findings []findingView `json:"findings"`
		Next     text          `json:"next,omitempty"`
	}

	findingView struct {
		Key  string `json:"key"`
		ID   string `json:"id,omitempty"`
		Mark string `json:"mark,omitempty"`
		Diff string `json:"diff,omitempty"`
	}
)

// How much the views show at a time.
const (
	fewRows   = 10
	someRows  = 20
	manyRows  = 200
	pageRows  = 100
	linkBytes = maxText // a key longer than this has no link: what is shown of it may be cut
)

// Errors that a request deserves.
var (
	errNoView   = errors.New("there is no such page")
	errBadQuery = errors.New("the query cannot be understood")
)

// makeView works out what the request asks for.
func (h *handler) makeView(ctx context.Context, q url.Values) (*view, error) {
	slots := h.slots
	if q.Has("c") || slices.Contains([]string{"search", "objects", "object"}, q.Get("view")) { // slow ones have places of their own: they lock out each other only
		slots = h.finds
	}
	select { // at most so many at once: a page looks at every key
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	v := &view{Title: h.o.Title, At: time.Now(), Actions: h.o.Authorise != nil, Done: actionTexts[reconcile.Action(q.Get("done"))].done}
	var err error
	v.Unfold, v.Open = q.Get("unfold") == "all", q["open"]
	if v.Refresh, err = readRefresh(q.Get("refresh")); err != nil {
		return nil, err
	}
	switch {
	case q.Has("ask"):
		v.Ask, err = h.ask(ctx, q)
	case q.Get("view") == "objects":
		v.Objects, err = h.objectPage(ctx, q)
	case q.Get("view") == "status":
		v.Verdict, err = h.looker.Look(ctx)
		v.Seen = h.lastSeen(v.At)
	case q.Get("view") == "object":
		v.Object, err = h.object(ctx, q.Get("kind"), q.Get("key"))
	case q.Get("view") == "search":
		v.Search, err = h.search(ctx, q.Get("q"))
	case q.Get("view") == "events":
		v.Events, err = h.events(q)
	case q.Get("view") == "drift":
		v.Drift, err = h.drift(q)
	case q.Get("view") != "":
		err = errNoView
	case q.Has("c") && q.Has("key"):
		v.Key, err = h.key(ctx, q.Get("c"), q.Get("key"))
	case q.Has("c"):
		v.Controller, err = h.one(ctx, q)
	default:
		if v.Verdict, err = h.looker.Look(ctx); err == nil {
			v.Overview, v.Seen = h.overview(), h.lastSeen(v.At)
		}
	}
	if err != nil {
		return nil, err
	}
	verdict := v.Verdict // has cut its texts itself, and is others' too
	v.Verdict = nil
	cutAll(reflect.ValueOf(v))
	v.Verdict = verdict
	return v, nil
}

func (h *handler) overview() *overview {
	v := &overview{
		Checks: h.manager.Checks(), Graph: text(h.manager.Mermaid()), WakesWhat: h.manager.Graph(),
		// Empty lists: JSON's null is none, for those that go through them.
		Controllers: []summary{}, Running: []runRow{}, Caches: []cacheView{},
	}
	v.WakesWhat.Nodes = append([]reconcile.GraphNode{}, v.WakesWhat.Nodes...)
	v.WakesWhat.Edges = append([]reconcile.GraphEdge{}, v.WakesWhat.Edges...)
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
		if c, ok := r.(interface{ Snapshot() cache.Snapshot }); ok {
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

func summarise(s reconcile.Snapshot, q queue.Stats) summary {
	return summary{
		Name: s.Name, Kind: s.Kind, Placement: s.Placement, Shards: s.Shards, Held: s.Held,
		Workers: s.Workers, Active: s.Active,
		Keys:  q.Ready + q.Delayed + q.BackingOff + q.Throttled + q.Held + q.Running + q.Parked,
		Ready: q.Ready, Delayed: q.Delayed, BackingOff: q.BackingOff, Throttled: q.Throttled,
		Kept: q.Held, Running: q.Running, Parked: q.Parked, Oldest: q.OldestReady,
		Paused: q.HeldBy, Waiting: s.Waiting, Error: s.Error, Slowed: s.Slowed, Runs: s.Runs,
	}
}

// fewKeys shortens a batch.
func fewKeys(r reconcile.RunSnapshot) reconcile.RunSnapshot {
	if n := len(r.Keys); n > fewRows {
		r.Keys = append(r.Keys[:fewRows:fewRows], fmt.Sprintf("… and %d more", n-fewRows))
	}
	return r
}

func cacheOf(s cache.Snapshot) cacheView {
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

func (h *handler) one(ctx context.Context, q url.Values) (*oneView, error) {
	c, ok := h.controller(q.Get("c"))
	if !ok {
		return nil, fmt.Errorf("%w: no controller of that name", errNoView)
	}
	f, err := readFilter(q)
	if err != nil {
		return nil, err
	}
	page, err := c.Keys(ctx, f.query)
	if err != nil {
		return nil, err
	}
	snap := c.Snapshot()
	v := &oneView{
		Summary: summarise(snap, c.QueueStats()), History: h.history.view().one(c.Name()), Leases: c.Leases(),
		Running: []reconcile.RunSnapshot{}, Sources: append([]reconcile.SourceSnapshot{}, snap.Sources...),
		Keys: keysView{Keys: make([]keyRow, 0, len(page.Keys)), Looked: page.Looked, filter: f},
	}
	for _, r := range snap.Running {
		v.Running = append(v.Running, fewKeys(r))
	}
	for _, k := range page.Keys {
		v.Keys.Keys = append(v.Keys.Keys, rowOf(k, snap))
	}
	if page.More {
		v.Keys.Next = text(f.at(page.Next).link())
	}
	if snap.Kind != "" && f.plain() {
		v.Events = h.eventsOf(snap.Kind, store.Key{}, fewRows)
	}
	return v, nil
}

func (h *handler) key(ctx context.Context, name, printed string) (*keyView, error) {
	c, ok := h.controller(name)
	if !ok {
		return nil, fmt.Errorf("%w: no controller of that name", errNoView)
	}
	snap := c.Snapshot()
	if k, err := store.ParseKey(printed); err == nil && snap.Kind != "" {
		printed = k.String() // of an object: "/a" is "a"
	}
	v := &keyView{Controller: name, Key: printed, exact: printed, Recent: c.RecentRuns(ctx, printed)}
	if k, ok := c.Key(ctx, printed); ok {
		row := rowOf(k, snap)
		v.State = &row
		if r, ok := runOf(printed, snap); ok {
			r = fewKeys(r)
			stack, _ := c.Stack(printed)
			v.Run, v.Stack = &r, text(stack)
		}
	} else if l, ok := c.LeaseOf(ctx, printed); ok && !l.Running {
		v.Elsewhere = elsewhere(l, snap)
	}
	if _, err := h.objectKind(snap.Kind); err == nil {
		if o, err := h.object(ctx, snap.Kind, printed); err == nil {
			o.Keys, o.Events = nil, nil // they are on this page
			v.Object = o
		}
	}
	if key, err := store.ParseKey(printed); err == nil && snap.Kind != "" {
		v.Events = h.eventsOf(snap.Kind, key, manyRows)
	}
	return v, nil
}

// elsewhere says which server runs the keys of a lease whose keys this one does not run; c is the
// controller.
func elsewhere(l reconcile.LeaseSnapshot, c reconcile.Snapshot) string {
	switch {
	case l.Held && slices.Contains(c.Loading, l.Shard):
		return fmt.Sprintf("This server holds the lease of this key, %s, and runs the key once cache %s has listed its shard. Until then no server does.", l.Name, c.LoadingFrom)
	case l.Held:
		return fmt.Sprintf("This server holds the lease of this key, %s, and does not run the key yet. Until then no server does.", l.Name)
	case l.Holder == "":
		return fmt.Sprintf("This server does not hold the lease of this key, %s, and has not heard of one that does.", l.Name)
	}
	return fmt.Sprintf("This server does not hold the lease of this key, %s: %s does, and runs the key.", l.Name, l.Holder)
}

// search looks for keys in all controllers.
func (h *handler) search(ctx context.Context, contains string) (*searchView, error) {
	v := &searchView{Contains: contains, Keys: []controllerKey{}}
	if contains == "" {
		return v, nil
	}
	for _, c := range h.controllers() {
		page, err := c.Keys(ctx, reconcile.KeyQuery{Contains: contains, Limit: someRows})
		if err != nil {
			return nil, err
		}
		snap := c.Snapshot()
		for _, k := range page.Keys {
			v.Keys = append(v.Keys, controllerKey{Controller: c.Name(), keyRow: rowOf(k, snap)})
		}
		if page.More {
			v.More = append(v.More, c.Name())
		}
	}
	h.searchObjects(ctx, v)
	return v, nil
}

// ask gives the question that comes before an action.
func (h *handler) ask(ctx context.Context, q url.Values) (*askView, error) {
	a := Action{Do: reconcile.Action(q.Get("ask")), Controller: q.Get("c"), Key: q.Get("key"), Kind: q.Get("kind"), Finalizer: q.Get("finalizer")}.fields()
	says, known := actionTexts[a.Do]
	c, ok := h.controller(a.Controller)
	switch {
	case !known:
		return nil, fmt.Errorf("%w: %w", errBadQuery, errNoAction)
	case h.o.Authorise == nil:
		return nil, fmt.Errorf("%w: no action is allowed", errNoView)
	case onObjects(a.Do):
		return &askView{a, says.question, a}, ctx.Err()
	case !ok:
		return nil, fmt.Errorf("%w: no controller of that name", errNoView)
	}
	a.Workers = c.Snapshot().Workers
	return &askView{a, says.question, a}, ctx.Err()
}

// readRefresh reads after how many seconds the page is to be loaded again.
func readRefresh(s string) (seconds int, err error) {
	if s == "" {
		return 0, nil
	}
	seconds, err = strconv.Atoi(s)
	if err != nil || seconds < 1 || seconds > 3600 {
		return 0, fmt.Errorf("%w: refresh is a number of seconds from 1 to 3600", errBadQuery)
	}
	return seconds, nil
}

func (h *handler) events(q url.Values) (*eventsView, error) {
	if h.o.Events == nil {
		return nil, fmt.Errorf("%w: no events are kept", errNoView)
	}
	kind, of := q.Get("kind"), store.Key{}
	if text := q.Get("key"); text != "" {
		key, err := store.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBadQuery, err)
		}
		of = key
	}
	v := &eventsView{Kind: kind, Key: q.Get("key"), Contains: q.Get("q"), Type: q.Get("state"), Events: []eventView{}}
	if v.Type != "" && v.Type != warnings {
		return nil, fmt.Errorf("%w: state is %q or nothing", errBadQuery, warnings)
	}
	for _, e := range h.eventsOf(kind, of, 0) {
		if v.wants(e) && len(v.Events) < manyRows {
			v.Events = append(v.Events, e)
		}
	}
	return v, nil
}

// warnings is the one filter of events besides their text.
const warnings = "warnings"

func (v *eventsView) wants(e eventView) bool {
	return (v.Type == "" || e.Type == "Warning") &&
		strings.Contains(strings.Join([]string{e.Kind, e.Key, e.Reason, e.Message}, " "), v.Contains)
}

func (h *handler) eventsOf(kind string, key store.Key, limit int) []eventView {
	if h.o.Events == nil {
		return nil
	}
	events := h.o.Events.Events(kind, key, limit)
	rows := make([]eventView, 0, len(events))
	for _, e := range events {
		sort := "Normal"
		if e.Warning {
			sort = "Warning"
		}
		rows = append(rows, eventView{e.Time, sort, e.Reason, e.Message, e.Kind, e.Key.String(), e.Count})
	}
	return rows
}

// The lists of a report, in the order in which they matter.
var lists = []string{"orphans", "different", "missing", "unclaimed", "duplicates", "letter case", "unreadable", "unsettled"}

func findings(r *external.Report, list string) ([]external.Finding, bool) {
	switch list {
	case "orphans":
		return r.Orphans, true
	case "different":
		return r.Different, true
	case "missing":
		return r.Missing, true
	case "unclaimed":
		return r.Unclaimed, true
	case "duplicates":
		return r.Duplicates, true
	case "letter case":
		return r.LetterCase, true
	case "unreadable":
		return r.Unreadable, true
	case "unsettled":
		return r.Unsettled, true
	}
	return nil, false
}

func inventoryOf(s external.InventorySnapshot) inventoryView {
	v := inventoryView{Kind: s.Kind, Listed: s.Listed, Held: s.Held, Findings: map[string]int{}}
	if r := s.Report; r != nil {
		v.At, v.Declared, v.Ours, v.Foreign = r.Listed, r.Declared, r.Ours, r.Foreign
		for _, list := range lists {
			found, _ := findings(r, list)
			v.Findings[list] = len(found)
		}
	}
	return v
}

func (h *handler) drift(q url.Values) (*driftView, error) {
	v := &driftView{Kind: q.Get("kind"), List: q.Get("list"), Findings: []findingView{}}
	skip, err := strconv.Atoi(cmp.Or(q.Get("skip"), "0"))
	if err != nil || skip < 0 {
		return nil, fmt.Errorf("%w: skip", errBadQuery)
	}
	for _, i := range h.o.Inventories {
		s := i.Snapshot()
		if s.Kind != v.Kind || s.Report == nil {
			continue
		}
		found, ok := findings(s.Report, v.List)
		if !ok {
			return nil, fmt.Errorf("%w: no list of that name", errNoView)
		}
		v.Total, v.Skip = len(found), min(skip, len(found))
		found = found[v.Skip:]
		if len(found) > pageRows {
			found = found[:pageRows]
			v.Next = text(link("view", "drift", "kind", v.Kind, "list", v.List, "skip", strconv.Itoa(v.Skip+pageRows)))
		}
		for _, f := range found {
			v.Findings = append(v.Findings, findingOf(f))
		}
		return v, nil
	}
	return nil, fmt.Errorf("%w: no report about that kind", errNoView)
}

func findingOf(f external.Finding) findingView {
	v := findingView{Key: f.Key.String(), ID: f.ID, Diff: f.Diff}
	if f.Mark != nil {
		v.Mark = fmt.Sprintf("%s/%s %s %s", f.Mark.Installation, f.Mark.Kind, f.Mark.Key, f.Mark.UID)
	}
	return v
}

// link is the query of a view.
func link(pairs ...string) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return "?"
	}
	return "?" + q.Encode()
}

func keyLink(controller, key string) string {
	if key == "" || len(key) > linkBytes {
		return ""
	}
	return link("c", controller, "key", key)
}

// status is the answer's code for an error.
func status(err error) int {
	switch {
	case errors.Is(err, errNoView):
		return http.StatusNotFound
	case errors.Is(err, errBadQuery):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}
