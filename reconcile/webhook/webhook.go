// Package webhook has HTTP calls wake the keys of a controller.
//
// Under a sharded placement no server takes every key, so have the handler that is
// called mark the object in the store (store.AnnotationReconcileNow) instead: that
// reaches the server that has its key.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/body"
	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// A Handler is an http.Handler whose callers say which keys to look at. Serve it
// anywhere, and give its Source to a controller. Calls only wake keys: what they
// carry is never trusted for anything else.
//
// It answers
//
//	202  the keys are queued (or unknown: see Known)
//	400  Keys refused the request, or named a key that cannot be: an empty text, one
//	     of more than 4 KiB, a Request without a name
//	401  Auth refused it
//	405  it was no POST
//	413  the body is larger than MaxBody
//	503  no controller is running the source; one of the keys is another server's,
//	     finds the queue full or makes Known panic, and the others are queued; or
//	     MaxCalls others are being answered
//
// The caller is not told why it was refused. The controller's log is, the first time;
// all refused calls are counted (Refused, and as Skipped of the source in reconcile.Controller.Snapshot).
type Handler[K comparable] struct {
	name  string
	opts  Options[K]
	calls chan struct{} // one for each call that is being answered

	mu      sync.Mutex // guards what follows
	refused uint64
	to      *inlet[K] // nil while the source is not running
}

// Options configure a Handler. New copies them.
type Options[K comparable] struct {
	// Auth lets a request in by returning nil. It gets the whole body, so that it
	// can verify a signature over it (GitHub, Stripe); compare with hmac.Equal.
	// r.Body gives the same bytes. Required: what is open to everybody must say so.
	Auth func(r *http.Request, body []byte) error
	// Keys reads from a request which keys it is about. r.Body gives the body once
	// more. Required.
	Keys func(r *http.Request, body []byte) ([]K, error)
	// Known drops keys that nothing is declared for, so that a caller cannot
	// fill the queue with inventions. Default: every key is taken.
	Known func(key K) bool
	// MaxBody bounds the body, in bytes. A body that has not come in after 10 s is
	// refused where the server can do that. Default 1 MiB.
	MaxBody int64
	// MaxCalls bounds how many calls are answered at once, and with MaxBody the
	// memory that refused callers can take. A call counts while its body comes in:
	// so many slow callers keep the others out. Default 64.
	MaxCalls int
}

const (
	defaultMaxBody  = 1 << 20
	defaultMaxCalls = 64
	most            = 10_000           // of MaxCalls
	maxKey          = 4 << 10          // the longest key that is a text
	bodyTimeout     = 10 * time.Second // for a body to come in
)

// New returns the handler of a webhook. It fails without a name, Auth or Keys, and on bounds that make no sense.
func New[K comparable](name string, given *Options[K]) (*Handler[K], error) {
	var o Options[K]
	if given != nil {
		o = *given
	}
	switch {
	case name == "":
		return nil, errors.New("webhook: New: no name")
	case o.Auth == nil:
		return nil, fmt.Errorf("webhook: New(%s): no Auth", name)
	case o.Keys == nil:
		return nil, fmt.Errorf("webhook: New(%s): no Keys", name)
	case o.MaxBody < 0:
		return nil, fmt.Errorf("webhook: New(%s): MaxBody is %d, want 0 or more", name, o.MaxBody)
	case o.MaxCalls < 0 || o.MaxCalls > most:
		return nil, fmt.Errorf("webhook: New(%s): MaxCalls is %d, want 0 to %d", name, o.MaxCalls, most)
	}
	o.MaxBody = cmp.Or(o.MaxBody, defaultMaxBody)
	o.MaxCalls = cmp.Or(o.MaxCalls, defaultMaxCalls)
	return &Handler[K]{name: name, opts: o, calls: make(chan struct{}, o.MaxCalls)}, nil
}

// An inlet is where the keys of calls go.
type inlet[K comparable] struct {
	reconcile.Sink[K]
	feed feed[K] // nil for a sink that no controller made: it is asked and told nothing
}

// A feed is what a controller's sink can do besides, for sources of this module.
type feed[K comparable] interface {
	Again() <-chan struct{}
	Gained() []int
	Elsewhere(key K) bool
	Skip(why string, attrs ...any)
}

// inletOf finds the feed in a sink, which may be the program's own around it.
func inletOf[K comparable](to reconcile.Sink[K]) *inlet[K] {
	for in := to; ; {
		switch s := in.(type) {
		case feed[K]:
			return &inlet[K]{to, s}
		case interface{ Unwrap() reconcile.Sink[K] }:
			in = s.Unwrap()
		default:
			return &inlet[K]{to, nil}
		}
	}
}

// Source is the webhook for Controller.Watch. It is synced at once. One
// controller can run it at a time.
func (h *Handler[K]) Source() reconcile.Source[K] {
	return reconcile.Source[K]{Name: h.name, Run: func(ctx context.Context, to reconcile.Sink[K]) error {
		in := inletOf(to)
		var again <-chan struct{}
		if in.feed != nil {
			again = in.feed.Again() // first: what is gained from now on ends nothing
		}
		if !h.swap(nil, in) {
			return fmt.Errorf("webhook: %q is run by another controller", h.name)
		}
		defer h.swap(in, nil)
		to.Synced()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-again: // there is nothing to list
				in.feed.Gained()
			}
		}
	}}
}

// swap puts the inlet now in the place of was; not ok: it was another.
func (h *Handler[K]) swap(was, now *inlet[K]) (ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ok = h.to == was; ok {
		h.to = now
	}
	return ok
}

// Refused is how many calls were answered with another status than 202.
func (h *Handler[K]) Refused() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

// ServeHTTP answers one call. One that is refused is counted, and the controller logs the first.
func (h *Handler[K]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body.Within(w, r, bodyTimeout) // also where the body is not read
	status, say, why := h.take(w, r)
	if status == http.StatusAccepted {
		w.WriteHeader(status)
		return
	}
	h.mu.Lock()
	h.refused++
	to := h.to
	h.mu.Unlock()
	if to != nil && to.feed != nil {
		why = cmp.Or(why, errors.New(say))
		to.feed.Skip("a call was refused", "status", status, "from", r.RemoteAddr, "err", store.Brief(why))
	}
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	http.Error(w, say, status)
}

// checkNamed refuses a key that names nothing, and a text that is too long to be one: the queue
// keeps it.
func checkNamed[K comparable](key K) error {
	if v := reflect.ValueOf(key); v.Kind() == reflect.String {
		switch {
		case v.Len() == 0:
			return errors.New(`the key ""`)
		case v.Len() > maxKey:
			return fmt.Errorf("a key of %d bytes", v.Len())
		}
	}
	if k, ok := any(key).(store.Key); ok {
		return k.Check()
	}
	return nil
}

// take queues what the request names. It gives the status, what to tell the caller,
// and what is not for the caller.
func (h *Handler[K]) take(w http.ResponseWriter, r *http.Request) (status int, say string, why error) {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, "want POST", nil
	}
	select {
	case h.calls <- struct{}{}:
		defer func() { <-h.calls }()
	default:
		return http.StatusServiceUnavailable, "too many calls at once", nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.MaxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("body is larger than %d bytes", h.opts.MaxBody), nil
	}
	if err != nil {
		return http.StatusBadRequest, "body could not be read", err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := contain.Call(func() error { return h.opts.Auth(r, body) }); err != nil {
		return http.StatusUnauthorized, "refused", err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var keys []K
	err = contain.Call(func() (err error) {
		keys, err = h.opts.Keys(r, body)
		return err
	})
	for _, k := range keys {
		err = cmp.Or(err, checkNamed(k))
	}
	if err != nil {
		return http.StatusBadRequest, "the request names no keys", err
	}
	return h.queue(keys)
}

// queue queues the keys, as far as that is possible; it returns what take does.
func (h *Handler[K]) queue(keys []K) (status int, say string, why error) {
	h.mu.Lock()
	to := h.to
	h.mu.Unlock()
	if to == nil {
		return http.StatusServiceUnavailable, "not running", nil
	}
	status = http.StatusAccepted
	for _, k := range keys {
		known := false
		err := contain.Call(func() error {
			known = h.opts.Known == nil || h.opts.Known(k)
			return nil
		})
		switch {
		case err != nil:
			status, say, why = http.StatusServiceUnavailable, "a key could not be checked", err
		case !known:
		case to.feed != nil && to.feed.Elsewhere(k):
			status, say = http.StatusServiceUnavailable, reconcile.ErrElsewhere.Error()
		default:
			if err := to.Add(k, queue.AddOptions{Priority: queue.At(0)}); err != nil {
				status, say = http.StatusServiceUnavailable, err.Error() // one that is there already is taken all the same
			}
		}
	}
	return status, say, why
}
