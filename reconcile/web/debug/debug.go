package debug

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/body"
	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/internal/origin"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// Options is what a page can show besides what the Manager runs, and what may be
// done with it. Nil and zero fields mean the stated default. New copies them.
type Options struct {
	// Title is the page's. Default "tend".
	Title string
	// Buckets gives the buckets that are shown with their tokens, such as those of a
	// [github.com/tendhq/tend/reconcile/quota.Set]. It is called for each page and each
	// sample of the history: it must be quick, safe for concurrent use, and not panic; no
	// bucket is nil. Default: none is shown.
	Buckets func() []*ratelimit.Bucket
	// Events are the events to show: an *event.Log. Default: none.
	Events interface {
		Events(kind string, key store.Key, limit int) []event.Event
	}
	// Inventories are shown with their drift and orphans.
	Inventories []Inventory
	// Objects are the kinds whose objects are shown: [objects.Of] and [objects.OfCache].
	// Their secrets are not. A kind from a cache costs its backend nothing. Of a cache of
	// shards the objects of this server's shards are counted and listed.
	Objects []objects.Kind
	// Needs is what the objects need, watch and are owned by: for the pages of objects, and
	// for a drawing of the kinds. Default: nothing is said about it.
	Needs *depend.Graph
	// Servers gives the addresses of this page on the other servers of a sharded program, by
	// the names of the servers, see [github.com/tendhq/tend/reconcile/lease.Options]: the page
	// links to them. It is called for each page: it must be quick, safe for concurrent use, and
	// not panic. Addresses other than http:// and https:// are left out. Default: none.
	Servers func() map[string]string
	// Sections are what else the program has to say.
	Sections []Section

	// Authorise is asked before each action; an error refuses it, and is what
	// the caller is told. It may look at r's headers and connection. The body, which
	// names the action, has been read: 64 KiB at most, within Timeout. A host that
	// checks credentials before a body is read does so in front of the handler.
	// Default: nothing is allowed, and no action is offered.
	Authorise func(r *http.Request, a Action) error
	// Hosts are the names that requests may ask for, besides localhost and IP
	// addresses: the server's own, and those of a proxy that passes them on. Others
	// are refused, because any web site can give its own name the server's address
	// and read what is served there (DNS rebinding). A "*" allows all.
	Hosts []string
	// Timeout is how long one page may take to make. Default 5 s.
	Timeout time.Duration
	// Logger is told of every action. Default: slog.Default().
	Logger *slog.Logger
}

// Inventory is an *external.Inventory of any types, or something like it.
type Inventory interface {
	Snapshot() introspect.Inventory[external.Report]
}

// Section is a table of the program's own.
type Section struct {
	Title string
	// Rows gives names and values. It is called for each page, and should not
	// block.
	Rows func() [][2]string
}

// Action is what a request asks for. A field that the action does not need is empty,
// whatever the request names.
type Action struct {
	// Do is the action. On a controller it is one of reconcile's, "workers", which sets how
	// many keys it runs at once, or "retry-failed", which kicks every key whose last run failed.
	// On an object, on every server, it is "object-reconcile", see
	// [store.AnnotationReconcileNow], "object-pause" and "object-resume", which set
	// Meta.Paused, or "object-remove-finalizer", which takes a finalizer away by force.
	// "release-prune" lets the inventory of a kind prune again; it has no key.
	Do         reconcile.Action `json:"do"`
	Controller string           `json:"controller"`
	// Key is the key as it prints, so that it can be compared; empty: the controller, or the
	// kind, as a whole. Another text of a controller's key is refused, after Authorise.
	Key     string `json:"key,omitempty"`
	Workers int    `json:"workers,omitempty"`
	// Kind is that of the object whose key Key is, for the actions on objects; Controller
	// is empty then.
	Kind      string `json:"kind,omitempty"`
	Finalizer string `json:"finalizer,omitempty"` // that is taken away
}

// What Action.Do may be besides reconcile's.
const (
	actionWorkers     reconcile.Action = "workers"
	actionRetryFailed reconcile.Action = "retry-failed"
	objectReconcile   reconcile.Action = "object-reconcile"
	objectPause       reconcile.Action = "object-pause"
	objectResume      reconcile.Action = "object-resume"
	removeFinalizer   reconcile.Action = "object-remove-finalizer"
	releasePrune      reconcile.Action = "release-prune"
)

// onObjects reports whether an action is on an object or a kind, not on a controller.
func onObjects(a reconcile.Action) bool {
	return a == objectReconcile || a == objectPause || a == objectResume || a == removeFinalizer || a == releasePrune
}

// handler serves the page.
type handler struct {
	manager *reconcile.Manager
	o       Options
	origin  *http.CrossOriginProtection
	slots   chan struct{} // one for each page that is being made
	finds   chan struct{} // the same, for pages that look at all keys of a controller
	history history
	looker  *inspect.Looker
}

const (
	defaultTimeout = 5 * time.Second
	maxBody        = 64 << 10
	maxQuery       = 8 << 10
	maxAtOnce      = 4
	writeTime      = 30 * time.Second // for the answer to go out
)

var errSlow = errors.New("the page took longer than Options.Timeout")

// New makes a page about what m runs, also about what is registered later. It
// fails on a nil m, and on options that make no sense.
//
// The query says what is shown. In brackets is what narrows it; what is left out is
// everything, from the start.
//
//	                                the overview
//	view=status                     the verdict alone
//	c=CONTROLLER                    its keys [q state order limit from]
//	c=CONTROLLER&key=KEY            a key
//	view=objects&kind=KIND          the objects of a kind [q state after]
//	view=object&kind=KIND&key=KEY   an object
//	view=search&q=TEXT              keys and objects that contain a text
//	view=events                     events [kind key q state]
//	view=drift&kind=KIND&list=LIST  what an inventory found [skip]
//
// q is part of a key, and of the texts of events. state is one that the page's filter
// offers, order "next", "age" or "failures", and limit 1 to 1,000. from, after and skip go on
// after a page: they come with its link to the next one. Each view takes format ("html",
// "json", "text") and refresh (in seconds), the overview unfold=all and open=SECTION too;
// ask=ACTION is the question before an action, on what c, key, kind and finalizer name; done is what
// is said after it.
func New(m *reconcile.Manager, o *Options) (http.Handler, error) {
	if m == nil {
		return nil, errors.New("debug: New: nil Manager")
	}
	h := &handler{manager: m, origin: http.NewCrossOriginProtection(), slots: make(chan struct{}, maxAtOnce), finds: make(chan struct{}, maxAtOnce)}
	if o != nil {
		h.o = *o
	}
	if err := h.o.check(); err != nil {
		return nil, err
	}
	if h.o.Title == "" {
		h.o.Title = "tend"
	}
	if h.o.Timeout == 0 {
		h.o.Timeout = defaultTimeout
	}
	h.o.Inventories = slices.Clone(h.o.Inventories)
	h.o.Sections = slices.Clone(h.o.Sections)
	h.o.Objects = slices.Clone(h.o.Objects)
	slices.SortFunc(h.o.Objects, func(a, b objects.Kind) int { return strings.Compare(a.Kind(), b.Kind()) })
	h.o.Hosts = slices.Clone(h.o.Hosts)
	var err error
	if h.looker, err = h.newLooker(); err != nil {
		return nil, err
	}
	h.keep()
	m.Sample(h.keep)
	return h, nil
}

func (h *handler) buckets() []*ratelimit.Bucket {
	if h.o.Buckets == nil {
		return nil
	}
	return h.o.Buckets()
}

func (o *Options) check() error {
	switch {
	case o.Timeout < 0:
		return errors.New("debug: Options.Timeout is negative")
	case slices.Contains(o.Inventories, nil):
		return errors.New("debug: Options.Inventories holds a nil inventory")
	case slices.Contains(o.Objects, nil):
		return errors.New("debug: Options.Objects holds a nil kind")
	case slices.ContainsFunc(o.Sections, func(s Section) bool { return s.Title == "" || s.Rows == nil }):
		return errors.New("debug: Options.Sections holds one without Title or Rows")
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.o.Timeout + writeTime)) // where it can be set
	body.Within(w, r, h.o.Timeout)
	protect(w.Header())
	if err := origin.CheckHost(r, h.o.Hosts); err != nil {
		h.refuse(w, r, http.StatusForbidden, err.Error())
		return
	}
	if len(r.URL.RawQuery) > maxQuery {
		h.refuse(w, r, http.StatusRequestURITooLong, "the query is too long")
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), h.o.Timeout, errSlow)
	defer cancel()
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		h.show(ctx, w, r)
	case http.MethodPost:
		h.act(ctx, w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		h.refuse(w, r, http.StatusMethodNotAllowed, "only GET and POST")
	}
}

// protect says what a browser may do with the answer: show it, and nothing else.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	// Addresses hold keys. Not no-referrer: that makes the browser hide where a
	// POST comes from, and ours would be refused.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
}

func (h *handler) controllers() (cs []reconcile.Inspection) {
	for _, r := range h.manager.Runners() {
		if c, ok := reconcile.Inspect(r); ok {
			cs = append(cs, c)
		}
	}
	slices.SortFunc(cs, func(a, b reconcile.Inspection) int { return strings.Compare(a.Name(), b.Name()) })
	return cs
}

func (h *handler) controller(name string) (reconcile.Inspection, bool) {
	for _, c := range h.controllers() {
		if c.Name() == name {
			return c, true
		}
	}
	return nil, false
}
