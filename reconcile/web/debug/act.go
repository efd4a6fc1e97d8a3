package debug

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"

	"github.com/tendhq/tend/internal/ascii"
	"github.com/tendhq/tend/internal/origin"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// actionText is what pages say about an action.
type actionText struct {
	button   string
	question string // what it does, for the page that asks before it is done
	done     string
}

var actionTexts = map[reconcile.Action]actionText{
	reconcile.ActionKick: {
		"run now", "This runs the key at once: it ends a backoff and a park, and the attempts begin from 0.", "The key was kicked.",
	},
	reconcile.ActionForget: {
		"forget", "This takes the key out of the queue, and its attempts with it. It comes back as soon as a source names it.", "The key was forgotten.",
	},
	reconcile.ActionPause: {
		"pause here, until a restart", "Nothing of this runs in this process until it is resumed or the process restarts. Runs that have begun go on, and other servers are not told.", "Paused, in this process.",
	},
	reconcile.ActionResume: {
		"resume here", "What was paused on this page runs again.", "Resumed.",
	},
	actionWorkers: {
		"set workers", "This is how many keys the controller runs at once, in this process, until it restarts. Runs that have begun go on.", "The number of workers was set.",
	},
	objectReconcile: {
		"reconcile now", "The object is reconciled at once, on the server that runs it, also if it was given up. A paused one is left alone.", "The object is reconciled, if it is not paused.",
	},
	objectPause: {
		"pause on every server, until resumed", "Every server is asked to leave the object alone until it is resumed, in its deletion too. Packages external and lifecycle do; other reconcilers have to look at Paused. This lasts over restarts.", "The object is paused.",
	},
	objectResume: {
		"resume on every server", "The object is reconciled again.", "The object is reconciled again.",
	},
	removeFinalizer: {
		"remove finalizer", "The finalizer is taken away by force. What it protects, such as a resource in a cloud, may be left behind. If it is the last one and deletion was asked for, the object is gone.", "The finalizer was removed.",
	},
	releasePrune: {
		"release prune", "What is not declared any more is deleted again, as far as Prune's limits allow. Look first whether the declarations are as they should be.", "The inventory may prune again.",
	},
	actionRetryFailed: {
		"retry all that failed", "Every key of this controller whose last run failed runs at once, also those that were given up.", "The keys that failed run again.",
	},
}

// maxWorkers bounds what a form can ask for: a slip of the finger must not start a
// million goroutines.
const maxWorkers = 10_000

// act answers POST.
func (h *handler) act(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if h.o.Authorise == nil {
		w.Header().Set("Allow", "GET, HEAD")
		h.refuse(w, r, http.StatusMethodNotAllowed, "this page only shows")
		return
	}
	if err := origin.Check(h.origin, r, h.o.Hosts); err != nil {
		h.refuse(w, r, http.StatusForbidden, "this came from another site's page")
		return
	}
	if r.ContentLength > maxBody {
		h.refuse(w, r, http.StatusRequestEntityTooLarge, "the body is too long")
		return
	}
	// The action stands in the body, so that the body is read before Authorise is asked:
	// up to maxBody, and for as long as a page may take, see ServeHTTP.
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	a, err := readAction(r)
	if err != nil {
		h.refuse(w, r, bodyStatus(err), err.Error())
		return
	}
	log := h.log().With("action", a.Do, "kind", clean(a.Kind), "finalizer", clean(a.Finalizer), "controller", clean(a.Controller), "key", clean(a.Key), "workers", a.Workers, "from", r.RemoteAddr)
	if err := h.o.Authorise(r, a); err != nil {
		log.Warn("debug: action refused", "err", err)
		h.refuse(w, r, http.StatusForbidden, err.Error())
		return
	}
	if err := h.carryOut(ctx, a); err != nil {
		log.Warn("debug: action failed", "err", err)
		code := status(err)
		if code == http.StatusServiceUnavailable {
			code = http.StatusConflict
		}
		h.refuse(w, r, code, err.Error())
		return
	}
	log.Info("debug: action done")
	if f, _ := formatOf(r, r.URL.Query()); f == formatJSON {
		w.Header().Set("Content-Type", "application/json")
		_ = ascii.EncodeJSON(w, struct {
			Done Action `json:"done"`
		}{a}, "")
		return
	}
	// Not http.Redirect, which needs to know the path that we are mounted at.
	w.Header().Set("Location", a.page("done", string(a.Do)))
	w.WriteHeader(http.StatusSeeOther)
}

// bodyStatus is the answer's code for an error of readAction.
func bodyStatus(err error) int {
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return http.StatusRequestEntityTooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return http.StatusRequestTimeout
	}
	return http.StatusBadRequest
}

var errNoAction = errors.New("do is none of kick, forget, pause, resume, workers, retry-failed, object-reconcile, object-pause, object-resume, object-remove-finalizer, release-prune")

// page is the address of what the action is about.
func (a Action) page(more ...string) string {
	switch {
	case a.Do == releasePrune:
		return link(more...)
	case onObjects(a.Do):
		return link(append([]string{"view", "object", "kind", a.Kind, "key", a.Key}, more...)...)
	}
	return link(append([]string{"c", a.Controller, "key", a.Key}, more...)...)
}

func readAction(r *http.Request) (Action, error) {
	if err := r.ParseForm(); err != nil {
		return Action{}, err
	}
	f := r.PostForm
	a := Action{Do: reconcile.Action(f.Get("do")), Controller: f.Get("c"), Key: f.Get("key"), Kind: f.Get("kind"), Finalizer: f.Get("finalizer")}
	if _, known := actionTexts[a.Do]; !known {
		return a, errNoAction
	}
	if a.Do == actionWorkers {
		n, err := strconv.Atoi(f.Get("workers"))
		if err != nil || n < 0 || n > maxWorkers {
			return a, errors.New("workers is a number from 0 to " + strconv.Itoa(maxWorkers))
		}
		a.Workers = n
	}
	a = a.fields()
	if onObjects(a.Do) && a.Do != releasePrune {
		// As it prints: Authorise compares, and "/a" is read as "a".
		key, err := store.ParseKey(a.Key)
		if err != nil {
			return a, fmt.Errorf("%w: %w", errBadQuery, err)
		}
		a.Key = key.String()
	}
	return a, nil
}

// fields is the action with the fields that it has, without others that a request names:
// Authorise may allow it for any of them.
func (a Action) fields() Action {
	if onObjects(a.Do) {
		a.Controller = ""
	} else {
		a.Kind = ""
	}
	if a.Do != removeFinalizer {
		a.Finalizer = ""
	}
	if a.Do == actionWorkers || a.Do == actionRetryFailed || a.Do == releasePrune {
		a.Key = "" // they are on a controller, or a kind, as a whole
	}
	return a
}

func (h *handler) carryOut(ctx context.Context, a Action) error {
	if onObjects(a.Do) {
		return h.carryOutOn(ctx, a)
	}
	c, ok := h.controller(a.Controller)
	if !ok {
		return fmt.Errorf("%w: there is no controller of that name", errNoView)
	}
	switch a.Do {
	case actionWorkers:
		return c.SetWorkers(a.Workers)
	case actionRetryFailed:
		return retryFailed(ctx, c)
	}
	return c.Do(ctx, a.Do, a.Key, "by the debug page")
}

// retryFailed kicks every key whose last run failed.
func retryFailed(ctx context.Context, c reconcile.Inspection) error {
	q := queue.PageOptions{Failed: true, Limit: 1000}
	for {
		page, err := c.Keys(ctx, "", &q)
		if err != nil {
			return err
		}
		for _, k := range page.Entries {
			err := c.Do(ctx, reconcile.ActionKick, k.Key, "")
			if errors.Is(err, reconcile.ErrElsewhere) {
				err = nil // it moved to another server
			}
			if err != nil && !errors.Is(err, reconcile.ErrNoKey) { // one that has left needs no retry
				return err
			}
		}
		if !page.More {
			return nil
		}
		q.From = page.Next
	}
}

func (h *handler) log() *slog.Logger {
	if h.o.Logger != nil {
		return h.o.Logger
	}
	return slog.Default()
}
