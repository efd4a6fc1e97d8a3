package reconcile

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

	"github.com/tendhq/tend/internal/body"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// A Webhook is an http.Handler whose callers say which keys to look at. Serve it
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
// all refused calls are counted (Refused, SourceSnapshot.Skipped).
//
// Under a sharded placement no server takes every key, so have the handler that is
// called mark the object in the store (store.AnnotationReconcileNow) instead: that
// reaches the server that has its key.
type Webhook[K comparable] struct {
	name  string
	opts  WebhookOptions[K]
	calls chan struct{} // one for each call that is being answered

	mu      sync.Mutex // guards what follows
	refused uint64
	sink    *outlet[K] // nil while the source is not running
}

// WebhookOptions configure NewWebhook.
type WebhookOptions[K comparable] struct {
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
	maxCalledKey    = 4 << 10 // the longest key that is a text
)

// NewWebhook returns a webhook. It fails if Auth or Keys is missing.
func NewWebhook[K comparable](name string, given *WebhookOptions[K]) (*Webhook[K], error) {
	o := orZero(given)
	switch {
	case name == "":
		return nil, errors.New("reconcile: NewWebhook: no name")
	case o.Auth == nil:
		return nil, fmt.Errorf("reconcile: NewWebhook(%s): no Auth", name)
	case o.Keys == nil:
		return nil, fmt.Errorf("reconcile: NewWebhook(%s): no Keys", name)
	case o.MaxBody < 0:
		return nil, fmt.Errorf("reconcile: NewWebhook(%s): MaxBody is %d, want 0 or more", name, o.MaxBody)
	case o.MaxCalls < 0 || o.MaxCalls > maxWorkers:
		return nil, fmt.Errorf("reconcile: NewWebhook(%s): MaxCalls is %d, want 0 to %d", name, o.MaxCalls, maxWorkers)
	}
	o.MaxBody = cmp.Or(o.MaxBody, defaultMaxBody)
	o.MaxCalls = cmp.Or(o.MaxCalls, defaultMaxCalls)
	return &Webhook[K]{name: name, opts: o, calls: make(chan struct{}, o.MaxCalls)}, nil
}

// Source is the webhook for Controller.Watch. It is synced at once. One
// controller can run it at a time.
func (h *Webhook[K]) Source() Source[K] {
	return Source[K]{Name: h.name, Run: func(ctx context.Context, to Sink[K]) error {
		out := outletOf(to)
		again := out.feed.again() // first: what is gained from now on ends nothing
		if !h.swap(nil, out) {
			return fmt.Errorf("reconcile: webhook %q is run by another controller", h.name)
		}
		defer h.swap(out, nil)
		to.Synced()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-again: // there is nothing to list
				out.feed.gained()
			}
		}
	}}
}

// swap puts the sink now in the place of was; not ok: it was another.
func (h *Webhook[K]) swap(was, now *outlet[K]) (ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ok = h.sink == was; ok {
		h.sink = now
	}
	return ok
}

// Refused is how many calls were answered with another status than 202.
func (h *Webhook[K]) Refused() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

// ServeHTTP answers one call. One that is refused is counted, and the controller logs the first.
func (h *Webhook[K]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body.Within(w, r, bodyTimeout) // also where the body is not read
	status, say, why := h.take(w, r)
	if status == http.StatusAccepted {
		w.WriteHeader(status)
		return
	}
	h.mu.Lock()
	h.refused++
	to := h.sink
	h.mu.Unlock()
	if to != nil {
		why = cmp.Or(why, errors.New(say))
		to.feed.skip("a call was refused", "status", status, "from", r.RemoteAddr, "err", store.Brief(why))
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
		case v.Len() > maxCalledKey:
			return fmt.Errorf("a key of %d bytes", v.Len())
		}
	}
	return validKey(key)
}

// take queues what the request names. It gives the status, what to tell the caller,
// and what is not for the caller.
func (h *Webhook[K]) take(w http.ResponseWriter, r *http.Request) (status int, say string, why error) {
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
	if err := protect(func() error { return h.opts.Auth(r, body) }); err != nil {
		return http.StatusUnauthorized, "refused", err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var keys []K
	err = protect(func() (err error) {
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
func (h *Webhook[K]) queue(keys []K) (status int, say string, why error) {
	h.mu.Lock()
	to := h.sink
	h.mu.Unlock()
	if to == nil {
		return http.StatusServiceUnavailable, "not running", nil
	}
	status = http.StatusAccepted
	for _, k := range keys {
		known := false
		err := protect(func() error {
			known = h.opts.Known == nil || h.opts.Known(k)
			return nil
		})
		switch {
		case err != nil:
			status, say, why = http.StatusServiceUnavailable, "a key could not be checked", err
		case !known:
		case to.feed.of.k.elsewhere(k):
			status, say = http.StatusServiceUnavailable, ErrElsewhere.Error()
		default:
			if err := to.Add(k, queue.AddOptions{Priority: bandLive}); err != nil {
				status, say = http.StatusServiceUnavailable, err.Error() // one that is there already is taken all the same
			}
		}
	}
	return status, say, why
}
