package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/tendhq/tend/queue"
)

// A Webhook is an http.Handler whose callers say which keys to look at. Serve it
// anywhere, and give its Source to a controller. Calls only wake keys: what they
// carry is never trusted for anything else.
//
// It answers
//
//	202  the keys are queued (or unknown: see Known)
//	400  Keys refused the request
//	401  Auth refused it
//	405  it was no POST
//	413  the body is larger than MaxBody
//	503  no controller is running the source, or one of the keys is another
//	     server's or finds the queue full; the others are queued
//
// Under a sharded placement no server takes every key, so have the handler that is
// called mark the object in the store (store.AnnotationReconcileNow) instead: that
// reaches whoever has its key.
type Webhook[K comparable] struct {
	name string
	opts WebhookOptions[K]

	mu   sync.Mutex // guards sink
	sink Sink[K]    // nil while the source is not running
}

// WebhookOptions configure NewWebhook.
type WebhookOptions[K comparable] struct {
	// Auth lets a request in by returning nil. Required: what is open to
	// everybody must say so.
	Auth func(r *http.Request) error
	// Keys reads from a request which keys it is about. Required.
	Keys func(r *http.Request, body []byte) ([]K, error)
	// Known drops keys that nothing is declared for, so that a caller cannot
	// fill the queue with inventions. Default: every key is taken.
	Known func(key K) bool
	// MaxBody bounds the body, in bytes. Default 1 MiB.
	MaxBody int64
}

const defaultMaxBody = 1 << 20

// NewWebhook returns a webhook. It fails if Auth or Keys is missing.
func NewWebhook[K comparable](name string, o WebhookOptions[K]) (*Webhook[K], error) {
	switch {
	case name == "":
		return nil, errors.New("reconcile: NewWebhook: no name")
	case o.Auth == nil:
		return nil, fmt.Errorf("reconcile: NewWebhook(%s): no Auth", name)
	case o.Keys == nil:
		return nil, fmt.Errorf("reconcile: NewWebhook(%s): no Keys", name)
	case o.MaxBody < 0:
		return nil, fmt.Errorf("reconcile: NewWebhook(%s): MaxBody is %d, want 0 or more", name, o.MaxBody)
	}
	setDefault(&o.MaxBody, defaultMaxBody)
	return &Webhook[K]{name: name, opts: o}, nil
}

// Source is the webhook for Controller.Watch. It is synced at once. One
// controller can run it at a time.
func (h *Webhook[K]) Source() Source[K] {
	return Source[K]{Name: h.name, Run: func(ctx context.Context, to Sink[K]) error {
		if !h.attach(to) {
			return fmt.Errorf("reconcile: webhook %q is run by another controller", h.name)
		}
		defer h.detach()
		to.Synced()
		<-ctx.Done()
		return nil
	}}
}

func (h *Webhook[K]) attach(to Sink[K]) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sink != nil {
		return false
	}
	h.sink = to
	return true
}

func (h *Webhook[K]) detach() {
	h.mu.Lock()
	h.sink = nil
	h.mu.Unlock()
}

// ServeHTTP answers one call.
func (h *Webhook[K]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, why := h.take(w, r)
	if status == http.StatusAccepted {
		w.WriteHeader(status)
		return
	}
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	http.Error(w, why, status)
}

// take queues what the request names and says how to answer it.
func (h *Webhook[K]) take(w http.ResponseWriter, r *http.Request) (status int, why string) {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, "want POST"
	}
	if err := h.opts.Auth(r); err != nil {
		return http.StatusUnauthorized, "refused" // the reason is for us, not for the caller
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.MaxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("body is larger than %d bytes", h.opts.MaxBody)
	}
	if err != nil {
		return http.StatusBadRequest, "body could not be read"
	}
	keys, err := h.opts.Keys(r, body)
	if err != nil {
		return http.StatusBadRequest, err.Error()
	}
	return h.queue(keys)
}

func (h *Webhook[K]) queue(keys []K) (status int, why string) {
	h.mu.Lock()
	to := h.sink
	h.mu.Unlock()
	if to == nil {
		return http.StatusServiceUnavailable, "not running"
	}
	status = http.StatusAccepted
	others, _ := to.(interface{ elsewhere(key K) bool })
	for _, k := range keys {
		if h.opts.Known != nil && !h.opts.Known(k) {
			continue
		}
		if others != nil && others.elsewhere(k) {
			status, why = http.StatusServiceUnavailable, ErrElsewhere.Error()
			continue
		}
		if err := to.Add(k, queue.AddOptions{Priority: bandLive}); err != nil {
			status, why = http.StatusServiceUnavailable, err.Error() // one that is there already is taken all the same
		}
	}
	return status, why
}
