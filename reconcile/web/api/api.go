package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/body"
	"github.com/tendhq/tend/internal/origin"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// Access is what a request wants.
//
// A caller that may create or replace writes annotations. With package external and its default
// Options.Policy one of them, tend.policy, decides what may be done about the object's resource:
// such a caller can have a resource without a mark adopted by its name, and then deleted. One that
// may give the answers of [objects.Answer] can have a second resource made, or one that it names
// taken for the object's.
type Access struct {
	// Do is "list", "watch", "get", "create", "replace", "apply", "delete", "reconcile", "pause",
	// "resume", "remove-finalizer", or an [objects.Answer] about the object's external resource.
	// A list without a Kind is that of the kinds. A replace is a PUT, which replaces metadata
	// too: it may pause and resume the object, remove its finalizers, and have it reconciled. An apply, a PATCH,
	// may create the object.
	Do   string `json:"do"`
	Kind string `json:"kind,omitempty"`
	// Namespace is the only one that a list or a watch shows; empty: it shows all. Of
	// the others it is the key's.
	Namespace string    `json:"namespace,omitempty"`
	Key       store.Key `json:"key,omitzero"`
	Finalizer string    `json:"finalizer,omitempty"`
	// ExternalName is that of the resource, of [objects.Created] and [objects.Adopt].
	ExternalName string `json:"externalName,omitempty"`
}

// What Access.Do may be.
const (
	accessList            = "list"
	accessWatch           = "watch"
	accessGet             = "get"
	accessCreate          = "create"
	accessReplace         = "replace"
	accessApply           = "apply"
	accessDelete          = "delete"
	accessReconcile       = "reconcile"
	accessPause           = "pause"
	accessResume          = "resume"
	accessRemoveFinalizer = "remove-finalizer"

	accessCreated         = string(objects.Created)
	accessNotCreated      = string(objects.NotCreated)
	accessForgetLocation  = string(objects.ForgetLocation)
	accessAdopt           = string(objects.Adopt)
	accessOutputsRestored = string(objects.OutputsRestored)
)

// actions are what a POST may want.
var actions = []string{accessReconcile, accessPause, accessResume, accessRemoveFinalizer, accessCreated, accessNotCreated, accessForgetLocation, accessAdopt, accessOutputsRestored}

// Writes reports whether the access changes something.
func (a Access) Writes() bool { return a.Do != accessList && a.Do != accessWatch && a.Do != accessGet }

// Options say what may be done. Nil and zero fields mean the stated default. New copies
// them.
type Options struct {
	// Allow is asked about each request before anything is done; an error refuses it
	// and is told to the caller. It may look at r's headers and connection, not at its
	// body. Default: nothing is allowed.
	Allow func(r *http.Request, a Access) error
	// Hosts are the names that requests may ask for, as those of web.Options.
	Hosts []string
	// Timeout bounds a request that is no watch, its body with it; its answer has 30 s
	// more to go out. Default 30 s.
	Timeout time.Duration
	// Logger is told of each write and each refusal. Default: slog.Default().
	Logger *slog.Logger

	watches   int           // how many may go on at once: 100
	heartbeat time.Duration // how often a watch that has nothing to say sends a comment: 15 s
}

// handler serves objects.
type handler struct {
	kinds   []objects.Kind
	o       Options
	origin  *http.CrossOriginProtection
	watches chan struct{} // one for each that goes on
	lists   chan struct{} // one for each that is being made
}

// New makes a handler for the kinds. It fails on a nil kind, on two of one name, and on
// negative options.
func New(kinds []objects.Kind, o *Options) (http.Handler, error) {
	h := &handler{kinds: slices.Clone(kinds), origin: http.NewCrossOriginProtection()}
	if o != nil {
		h.o = *o
	}
	names := map[string]bool{}
	for _, k := range kinds {
		if k == nil {
			return nil, errors.New("api: New: nil kind")
		}
		if names[k.Kind()] {
			return nil, fmt.Errorf("api: New: two kinds %q", k.Kind())
		}
		names[k.Kind()] = true
	}
	if h.o.Timeout < 0 || h.o.watches < 0 || h.o.heartbeat < 0 {
		return nil, errors.New("api: New: a negative option")
	}
	h.o.Timeout = max(h.o.Timeout, 0)
	if h.o.Timeout == 0 {
		h.o.Timeout = 30 * time.Second
	}
	if h.o.watches == 0 {
		h.o.watches = 100
	}
	if h.o.heartbeat == 0 {
		h.o.heartbeat = 15 * time.Second
	}
	h.o.Hosts = slices.Clone(h.o.Hosts)
	h.watches = make(chan struct{}, h.o.watches)
	h.lists = make(chan struct{}, maxLists)
	slices.SortFunc(h.kinds, func(a, b objects.Kind) int { return strings.Compare(a.Kind(), b.Kind()) })
	return h, nil
}

// failure is an answer that is no success.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(code int, format string, args ...any) error {
	return &failure{code, fmt.Errorf(format, args...)}
}

// codes gives the status of an error of a store.
var codes = []struct {
	err  error
	code int
}{
	{store.ErrNotFound, http.StatusNotFound},
	{objects.ErrBare, http.StatusMethodNotAllowed},
	{store.ErrExists, http.StatusConflict},
	{store.ErrConflict, http.StatusPreconditionFailed},
	{objects.ErrNotPending, http.StatusPreconditionFailed},
	{store.ErrOwned, http.StatusPreconditionFailed},
	{store.ErrDeleting, http.StatusConflict},
	{store.ErrInvalid, http.StatusUnprocessableEntity},
	{store.ErrNewer, http.StatusConflict},
	{os.ErrDeadlineExceeded, http.StatusRequestTimeout}, // the body did not come in
}

func codeOf(err error) int {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return http.StatusServiceUnavailable
}

const (
	// maxBody leaves room for a form of the object that is longer than the stored one.
	maxBody  = 2 * store.MaxValue
	maxQuery = 8 << 10
)

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.Header().Set("Cache-Control", "no-store")
	body.Within(w, r, h.o.Timeout) // also where the body is not read
	a, q, err := h.prepare(r)
	if err == nil {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		err = h.serve(w, r, a, q)
	}
	if a.Writes() && a.Do != "" {
		h.audit(r, a, err)
	} else if err != nil && codeOf(err) == http.StatusForbidden {
		h.audit(r, a, err)
	}
	if err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(codeOf(err))
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
	}
}

func (h *handler) audit(r *http.Request, a Access, err error) {
	log := h.o.Logger
	if log == nil {
		log = slog.Default()
	}
	log = log.With("action", a.Do, "kind", store.Clip(a.Kind), "key", a.Key.String(), "from", r.RemoteAddr)
	if a.Finalizer != "" {
		log = log.With("finalizer", store.Clip(a.Finalizer))
	}
	if a.ExternalName != "" {
		log = log.With("externalName", store.Clip(a.ExternalName))
	}
	if err != nil {
		log.Warn("api: refused", "status", codeOf(err), "err", store.Brief(err))
		return
	}
	log.Info("api: written")
}

// prepare finds out what a request wants, and whether that is allowed.
func (h *handler) prepare(r *http.Request) (a Access, q url.Values, err error) {
	if err := origin.CheckHost(r, h.o.Hosts); err != nil {
		return a, nil, &failure{http.StatusForbidden, err}
	}
	// Reads too: a browser sends those of any page, and a watch takes a place.
	if err := origin.Check(h.origin, &http.Request{Method: http.MethodPost, Host: r.Host, Header: r.Header, URL: r.URL}, h.o.Hosts); err != nil {
		return a, nil, fail(http.StatusForbidden, "this came from another site's page")
	}
	if len(r.URL.RawQuery) > maxQuery { // before anything of it is logged
		return a, nil, fail(http.StatusRequestURITooLong, "the query is longer than %d bytes", maxQuery)
	}
	if q, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		return a, nil, fail(http.StatusBadRequest, "the query cannot be understood")
	}
	if a, err = accessOf(r, q); err != nil {
		return a, q, err
	}
	if h.o.Allow == nil {
		return a, q, fail(http.StatusForbidden, "nothing is allowed here")
	}
	if err := h.o.Allow(r, a); err != nil {
		return a, q, &failure{http.StatusForbidden, err}
	}
	return a, q, nil
}

func accessOf(r *http.Request, q url.Values) (a Access, err error) {
	a.Kind, a.Finalizer, a.ExternalName = q.Get("kind"), q.Get("finalizer"), q.Get("externalName")
	if text := q.Get("key"); text != "" {
		if a.Key, err = store.ParseKey(text); err != nil {
			return a, &failure{http.StatusBadRequest, err}
		}
	}
	one := a.Kind != "" && q.Get("key") != ""
	if a.Namespace = q.Get("namespace"); one {
		a.Namespace = a.Key.Namespace
	}
	switch {
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && one:
		a.Do = accessGet
	case r.Method == http.MethodGet && q.Get("watch") == "true" && a.Kind != "":
		a.Do = accessWatch
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		a.Do = accessList
	case !one:
		return a, fail(http.StatusBadRequest, "%s needs a kind and a key", r.Method)
	case r.Method == http.MethodPut && r.Header.Get("If-None-Match") == "*":
		a.Do = accessCreate
	case r.Method == http.MethodPut:
		a.Do = accessReplace
	case r.Method == http.MethodPatch:
		a.Do = accessApply
	case r.Method == http.MethodDelete:
		a.Do = accessDelete
	case r.Method == http.MethodPost && slices.Contains(actions, q.Get("do")):
		a.Do = q.Get("do")
	case r.Method == http.MethodPost:
		return a, fail(http.StatusBadRequest, "do is none of %s", strings.Join(actions, ", "))
	default:
		return a, fail(http.StatusMethodNotAllowed, "GET, HEAD, PUT, PATCH, DELETE and POST")
	}
	return a, nil
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request, a Access, q url.Values) error {
	if a.Kind == "" {
		return answer(w, map[string]any{"kinds": h.names()})
	}
	i := slices.IndexFunc(h.kinds, func(k objects.Kind) bool { return k.Kind() == a.Kind })
	if i < 0 {
		return fail(http.StatusNotFound, "there is no kind %.100q here", a.Kind)
	}
	k := h.kinds[i]
	if a.Do == accessWatch {
		return h.watch(w, r, k, a.Namespace, q)
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.o.Timeout)
	defer cancel()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.o.Timeout + writeTime)) // where it can be set
	switch a.Do {
	case accessList:
		page, err := h.list(ctx, k, a.Namespace, q)
		if err != nil {
			return err
		}
		return answer(w, page) // a caller that reads slowly keeps no other from its list
	case accessGet:
		o, err := k.Get(ctx, a.Key)
		return object(w, o, err)
	}
	return write(ctx, w, r, k, a)
}

func (h *handler) names() []string {
	names := make([]string, len(h.kinds))
	for i, k := range h.kinds {
		names[i] = k.Kind()
	}
	return names
}

func answer(w http.ResponseWriter, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(data, '\n')) // a reader that went away is no news
	return nil
}

// object answers with an object, or returns the error.
func object(w http.ResponseWriter, o objects.Object, err error) error {
	if err != nil {
		return err
	}
	data, err := o.JSON()
	if err != nil {
		return fmt.Errorf("%s: %w", o.Key(), err)
	}
	w.Header().Set("ETag", strconv.Quote(o.Revision.String()))
	return answer(w, json.RawMessage(data))
}

// changed answers with the metadata of an object, or returns the error: the rest is for callers
// that may Get it.
func changed(w http.ResponseWriter, o objects.Object, err error) error {
	if err != nil {
		return err
	}
	data, err := o.JSON() // its labels and annotations are without secrets
	if err != nil {
		return err
	}
	var head struct {
		Meta json.RawMessage `json:"meta"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	w.Header().Set("ETag", strconv.Quote(o.Revision.String()))
	return answer(w, head)
}

// revision reads the revision that the object must have; any reports a "*".
func revision(r *http.Request) (at store.Revision, anyRevision bool, err error) {
	text := r.Header.Get("If-Match")
	if text == "" {
		return 0, false, fail(http.StatusPreconditionRequired, `the header If-Match with the object's revision in quotes is missing`)
	}
	if text == "*" {
		return 0, true, nil
	}
	n, err := strconv.ParseUint(strings.Trim(text, `"`), 10, 64)
	if err != nil || n == 0 {
		return 0, false, fail(http.StatusBadRequest, "If-Match is no revision in quotes")
	}
	return store.Revision(n), false, nil
}

func write(ctx context.Context, w http.ResponseWriter, r *http.Request, k objects.Kind, a Access) error {
	switch a.Do {
	case accessCreate, accessReplace:
		var at store.Revision
		if a.Do == accessReplace {
			var star bool
			var err error
			if at, star, err = revision(r); err == nil && star {
				err = fail(http.StatusPreconditionRequired, "a replacement needs the revision of what it replaces")
			}
			if err != nil {
				return err
			}
		}
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		o, err := k.Put(ctx, a.Key, at, data)
		return object(w, o, err)
	case accessApply:
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		q := r.URL.Query()
		o, err := k.Apply(ctx, a.Key, q.Get("owner"), q.Get("force") == "true", data)
		return object(w, o, err)
	case accessDelete:
		at, _, err := revision(r)
		if err == nil {
			err = k.Delete(ctx, a.Key, at)
		}
		if err != nil {
			return err
		}
		o, err := k.Get(ctx, a.Key)
		if errors.Is(err, store.ErrNotFound) {
			return answer(w, map[string]bool{"gone": true})
		}
		if err != nil { // the deletion has taken effect all the same
			return answer(w, map[string]bool{"requested": true})
		}
		return changed(w, o, err)
	case accessRemoveFinalizer:
		if a.Finalizer == "" {
			return fail(http.StatusBadRequest, "remove-finalizer needs a finalizer")
		}
		o, err := k.RemoveFinalizer(ctx, a.Key, a.Finalizer)
		return changed(w, o, err)
	case accessCreated, accessNotCreated, accessForgetLocation, accessAdopt, accessOutputsRestored:
		o, err := k.Answer(ctx, a.Key, objects.Answer(a.Do), a.ExternalName)
		return changed(w, o, err)
	}
	o, err := objects.Do(ctx, k, a.Key, a.Do)
	return changed(w, o, err)
}

const (
	maxPage      = 500
	maxPageBytes = 8 << 20 // with one object more; objects may be of 1 MiB
	maxLists     = 16      // at once; the next ones wait
)

// broken is an object that cannot be decoded.
type broken struct {
	Key   string `json:"key"`
	Error string `json:"error"`
}

// objectsPage is the answer to a list.
type objectsPage struct {
	Kind    string            `json:"kind"`
	Objects []json.RawMessage `json:"objects"`
	Broken  []broken          `json:"broken,omitempty"`
	Next    string            `json:"next,omitempty"` // the key to ask for what is after
}

// list makes a page of objects in the order of their keys.
func (h *handler) list(ctx context.Context, k objects.Kind, namespace string, q url.Values) (*objectsPage, error) {
	sel, err := store.ParseSelector(q.Get("labels"))
	if err != nil {
		return nil, &failure{http.StatusBadRequest, err}
	}
	sel.Namespace = namespace
	limit := maxPage
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return nil, fail(http.StatusBadRequest, "limit is a number from 1 to %d", maxPage)
		}
	}
	select {
	case h.lists <- struct{}{}:
		defer func() { <-h.lists }()
	case <-ctx.Done():
		return nil, fail(http.StatusServiceUnavailable, "%d lists are made already", maxLists)
	}
	page, more, err := objects.List(ctx, k, objects.Query{Selector: sel, Contains: q.Get("q"), After: q.Get("after"), Limit: limit})
	if err != nil {
		return nil, err
	}
	out := &objectsPage{Kind: k.Kind(), Objects: []json.RawMessage{}}
	size := 0
	for i, o := range page {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if size >= maxPageBytes {
			page, more = page[:i], true
			break
		}
		var data []byte
		err := o.Err
		if err == nil {
			data, err = o.JSON()
		}
		if err != nil {
			text := err.Error()
			size += len(text)
			out.Broken = append(out.Broken, broken{o.Key().String(), text})
			continue
		}
		size += len(data)
		out.Objects = append(out.Objects, data)
	}
	if more {
		out.Next = page[len(page)-1].Key().String()
	}
	return out, nil
}
