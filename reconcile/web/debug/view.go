package debug

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/store"
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
		Servers    []serverView         `json:"servers,omitempty"`
	}

	// serverView is another server.
	serverView struct {
		Name string `json:"name"`
		Page text   `json:"page"`
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
		WakesWhat   introspect.Graph  `json:"wakes"`
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

		Paused  string                 `json:"paused,omitempty"`
		Waiting string                 `json:"waiting,omitempty"` // for this to sync
		Error   string                 `json:"error,omitempty"`
		Slowed  []introspect.SlowedKey `json:"slowed,omitempty"`
		Runs    introspect.Counts      `json:"runs"`
	}

	runRow struct {
		Controller string `json:"controller"`
		introspect.Run
	}

	// controllerKey is a key with the controller that it is a key of.
	controllerKey struct {
		Controller string `json:"controller"`
		keyRow
		Recent []introspect.Ended `json:"recent,omitempty"` // its last runs, the newest first
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
		introspect.Lease
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
		Summary summary             `json:"summary"`
		History *historyView        `json:"history,omitempty"` // of an hour
		Running []introspect.Run    `json:"running"`
		Sources []introspect.Source `json:"sources"`
		Leases  []introspect.Lease  `json:"leases,omitempty"`
		Events  []eventView         `json:"events,omitempty"`
		Keys    keysView            `json:"keys"`
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
		Server    string      `json:"server,omitempty"` // that runs it
		Events    []eventView `json:"events,omitempty"`
		// Run is the run that goes on, and Stack where it stands.
		Run   *introspect.Run `json:"run,omitempty"`
		Stack text            `json:"stack,omitempty"`
		// Recent are its last runs, the newest first.
		Recent []introspect.Ended `json:"recent,omitempty"`
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
	v := &view{Title: h.o.Title, At: time.Now(), Servers: h.servers(), Actions: h.o.Authorise != nil, Done: actionTexts[reconcile.Action(q.Get("done"))].done}
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
