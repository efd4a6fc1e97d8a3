package debug

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/tendhq/tend/internal/ascii"
	"github.com/tendhq/tend/reconcile"
)

// doneText is what a page says after an action.
var doneText = map[string]string{
	string(reconcile.ActionKick):   "The key was kicked.",
	string(reconcile.ActionForget): "The key was forgotten.",
	string(reconcile.ActionPause):  "Paused, in this process.",
	string(reconcile.ActionResume): "Resumed.",
	string(SetWorkers):             "The number of workers was set.",
}

// maxWorkers bounds what a form can ask for: a slip of the finger must not start a
// million goroutines.
const maxWorkers = 10_000

// act answers POST.
func (h *Handler) act(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if h.o.Authorise == nil {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this page only shows", http.StatusMethodNotAllowed)
		return
	}
	if err := h.origin.Check(r); err != nil {
		http.Error(w, "this came from another site's page", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	a, err := readAction(r)
	if err != nil {
		code := http.StatusBadRequest
		if tooBig := new(http.MaxBytesError); errors.As(err, &tooBig) {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, clean(err.Error()), code)
		return
	}
	log := h.log().With("action", a.Do, "controller", clean(a.Controller), "key", clean(a.Key), "workers", a.Workers, "from", r.RemoteAddr)
	if err := h.o.Authorise(r, a); err != nil {
		log.Warn("debug: action refused", "err", err)
		http.Error(w, clean(err.Error()), http.StatusForbidden)
		return
	}
	c, ok := h.controller(a.Controller)
	if !ok {
		http.Error(w, "there is no controller of that name", http.StatusNotFound)
		return
	}
	if err := a.carryOut(ctx, c); err != nil {
		log.Warn("debug: action failed", "err", err)
		http.Error(w, clean(err.Error()), http.StatusConflict)
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
	w.Header().Set("Location", link("c", a.Controller, "key", a.Key, "done", string(a.Do)))
	w.WriteHeader(http.StatusSeeOther)
}

func readAction(r *http.Request) (Action, error) {
	if err := r.ParseForm(); err != nil {
		return Action{}, err
	}
	f := r.PostForm
	a := Action{Do: reconcile.Action(f.Get("do")), Controller: f.Get("c"), Key: f.Get("key")}
	if doneText[string(a.Do)] == "" {
		return a, errors.New("do is none of kick, forget, pause, resume, workers")
	}
	if a.Do == SetWorkers {
		n, err := strconv.Atoi(f.Get("workers"))
		if err != nil || n < 0 || n > maxWorkers {
			return a, errors.New("workers is a number from 0 to " + strconv.Itoa(maxWorkers))
		}
		a.Workers = n
	}
	return a, nil
}

func (a Action) carryOut(ctx context.Context, c controller) error {
	if a.Do == SetWorkers {
		return c.SetWorkers(a.Workers)
	}
	return c.Do(ctx, a.Do, a.Key, "by the debug page")
}

func (h *Handler) log() *slog.Logger {
	if h.o.Logger != nil {
		return h.o.Logger
	}
	return slog.Default()
}
