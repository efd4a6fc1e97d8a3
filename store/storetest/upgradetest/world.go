package upgradetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// patience bounds a hang. It measures nothing.
const patience = 3 * time.Minute

// A world is the cloud that both versions write, and what their runs came to.
type world struct {
	mu       sync.Mutex // guards what follows
	declared map[string][]string
	text     map[string]string // of the resources, by resource{}.String
	deleted  map[string]bool   // objects whose deletion version 2 asked for
	wrong    []string          // writes that were made from a half-read spec
	runs     map[run]int       // since the last call of begin
	changed  chan struct{}     // closed and replaced when something changes
}

// A resource belongs to one object and one controller.
type resource struct{ controller, name string }

func (r resource) String() string { return r.controller + "/" + r.name }

// A run is one of a version's runs of an object that stood off, or did not.
type run struct {
	version int
	resource
	off bool
}

func newWorld() *world {
	return &world{
		declared: map[string][]string{}, text: map[string]string{}, deleted: map[string]bool{},
		runs: map[run]int{}, changed: make(chan struct{}),
	}
}

func (w *world) notifyLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// declare says that from now on an object may have this text.
func (w *world) declare(name, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.declared[name] = append(w.declared[name], text)
}

// want is the text that an object has now.
func (w *world) wantLocked(name string) string {
	texts := w.declared[name]
	return texts[len(texts)-1]
}

func (w *world) exists(r resource) (text string, exists bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, exists = w.text[r.String()]
	return text, exists
}

// put writes a resource. A text that its object never had is one from a half-read spec.
func (w *world) put(version int, r resource, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.declared[r.name], text) {
		w.wrong = append(w.wrong, fmt.Sprintf("version %d wrote %q into %s", version, text, r))
	}
	w.text[r.String()] = text
	w.notifyLocked()
}

// remove removes a resource: of an object whose deletion version 2 stored, only version 2 may.
func (w *world) remove(version int, r resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if version != 2 || !w.deleted[r.name] {
		w.wrong = append(w.wrong, fmt.Sprintf("version %d removed %s", version, r))
	}
	delete(w.text, r.String())
	w.notifyLocked()
}

// begin forgets what runs came to.
func (w *world) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.runs)
}

// hooks count the runs of a controller.
func (w *world) hooks(version int, controller string) reconcile.Hooks[reconcile.Request] {
	return reconcile.Hooks[reconcile.Request]{OnDone: func(k reconcile.Request, o reconcile.Outcome, _ time.Duration) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.runs[run{version, resource{controller, k.Name}, errors.Is(o.Err, store.ErrNewer)}]++
		w.notifyLocked()
	}}
}

// offLocked reports whether version 1 left an object alone since begin.
func (w *world) offLocked(r resource) bool { return w.runs[run{1, r, true}] > 0 }

// servedLocked reports whether a resource is as declared.
func (w *world) servedLocked(r resource) bool {
	text, exists := w.text[r.String()]
	if w.deleted[r.name] {
		return !exists || !slices.Contains(cleaning, r.controller)
	}
	return exists && text == w.wantLocked(r.name)
}

// all are the resources of all objects.
func (w *world) allLocked() (all []resource) {
	for _, name := range slices.Sorted(maps.Keys(w.declared)) {
		for _, controller := range controllers {
			all = append(all, resource{controller, name})
		}
	}
	return all
}

// await waits until ok, which is called with w.mu locked, and wants that nothing went wrong.
func (w *world) await(t *testing.T, what string, ok func() (missing []string)) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(campaign.Context(t), patience, fmt.Errorf("it did not happen in %v", patience))
	defer cancel()
	for {
		w.mu.Lock()
		changed, wrong := w.changed, slices.Clone(w.wrong)
		missing := ok()
		w.mu.Unlock()
		if len(wrong) > 0 {
			t.Fatalf("%s: writes made from half-read specs: %q", what, wrong)
		}
		if len(missing) == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s: %v: %q", what, context.Cause(ctx), missing)
		}
	}
}

// awaitServed waits until each object is served or, where mayStandOff, version 1 has left it alone.
func (w *world) awaitServed(t *testing.T, what string, mayStandOff bool) {
	t.Helper()
	w.await(t, what, func() (missing []string) {
		for _, r := range w.allLocked() {
			if !w.servedLocked(r) && !(mayStandOff && w.offLocked(r)) {
				missing = append(missing, r.String())
			}
		}
		return missing
	})
}

// awaitRuns waits until a version has had a run that stood off, or one that did not, of each
// controller.
func (w *world) awaitRuns(t *testing.T, what string, version int, off bool) {
	t.Helper()
	w.await(t, what, func() (missing []string) {
		had := map[string]bool{}
		for r := range w.runs {
			if r.version == version && r.off == off {
				had[r.controller] = true
			}
		}
		for _, c := range controllers {
			if !had[c] {
				missing = append(missing, c)
			}
		}
		return missing
	})
}
