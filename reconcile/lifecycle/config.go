package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// Config is where a provider's configuration comes from: [StaticConfig] or
// [WatchedConfig]. A C with a method PollInterval() time.Duration says by it how often objects are
// looked at when nothing happens. 0 is never. Up to a tenth is added, so that objects that were run
// together do not stay together.
type Config[C any] interface {
	// current is a copy of the config, for one run. It is not loaded if there
	// is none. An error says that it could not be read and that there is no
	// last good one to go on with.
	current(ctx context.Context) (c C, loaded bool, err error)

	// news are of its changes.
	news() *news

	// follow keeps it up to date until ctx ends. keeps says whether this follower
	// does; it is kept from one call to the next.
	follow(ctx context.Context, keeps *bool) error

	// check says what is wrong with it.
	check() error
}

// poller is a config with an interval of its own; see [Config].
type poller interface{ PollInterval() time.Duration }

type loadedKey struct{}

// ConfigLoaded reports whether the config that a provider's or an access's
// func was given is one, rather than the zero value: Delete and Release do not
// wait for a config, since without one nothing could ever be deleted.
func ConfigLoaded(ctx context.Context) bool {
	loaded, _ := ctx.Value(loadedKey{}).(bool)
	return loaded
}

// StaticConfig is a config that does not change. Every run gets a deep copy; a
// type that cannot be copied (see [store.New]) is refused by [NewProvider].
func StaticConfig[C any](c C) Config[C] {
	copier, err := store.New[C, struct{}](new(nowhere), "config", nil)
	o := &store.Object[C, struct{}]{Spec: c}
	if err == nil {
		o = copier.Clone(o) // c may be edited
	}
	return static[C]{o, copier, err, new(news)}
}

type static[C any] struct {
	o      *store.Object[C, struct{}]
	copier *store.Store[C, struct{}]
	err    error
	never  *news
}

// nowhere is a backend for a store that only makes copies.
type nowhere struct{ store.Backend }

func (s static[C]) current(context.Context) (C, bool, error) {
	return s.copier.Clone(s.o).Spec, true, nil
}

func (s static[C]) news() *news { return s.never }

func (s static[C]) follow(ctx context.Context, _ *bool) error {
	<-ctx.Done()
	return nil
}

func (s static[C]) check() error { return s.err }

// firstRead bounds how long a run waits for a config that has not been read yet.
const firstRead = 5 * time.Second

// WatchedConfig is the spec of one object, named by its key, of any store: it
// may lie in another backend than the objects it is for. After a change of its
// spec every object is run again, spread out and in the low band; changes of
// other objects of the kind mean nothing.
//
// As long as it cannot be read the last good one stays in force. When the
// object is deleted there is no config: objects say so and nothing is torn
// down. Initial, if not nil, is in force until the object is first seen.
func WatchedConfig[C, T any](s *store.Store[C, T], key store.Key, initial *C) (Config[C], error) {
	if s == nil {
		return nil, errors.New("lifecycle: config: there is no store")
	}
	if err := key.Check(); err != nil {
		return nil, fmt.Errorf("lifecycle: config of kind %q: %w", s.Kind(), err)
	}
	w := &watched[C, T]{store: s, key: key}
	if initial != nil {
		w.now = s.Clone(&store.Object[C, T]{Spec: *initial})
	}
	return w, nil
}

type watched[C, T any] struct {
	store   *store.Store[C, T]
	key     store.Key
	changes news // of now, since a run may have used it

	mu        sync.Mutex          // guards what follows, and followers; not held while the store is read
	now       *store.Object[C, T] // in force; nil: none. Never modified.
	known     bool                // whether the store has told
	followers int                 // that keep now up to date
	asked     uint64              // readings begun
	answered  uint64              // of these, the newest that was taken
}

func (w *watched[C, T]) current(ctx context.Context) (c C, loaded bool, err error) {
	w.mu.Lock()
	now, ask := w.now, !w.known || w.followers == 0
	w.mu.Unlock()
	if ask {
		ctx, cancel := context.WithTimeout(ctx, firstRead)
		defer cancel()
		err = w.load(ctx)
		w.mu.Lock()
		now = w.now
		w.mu.Unlock()
	}
	if now != nil {
		return w.store.Clone(now).Spec, true, nil
	}
	return c, false, err
}

func (w *watched[C, T]) check() error { return nil }

func (w *watched[C, T]) news() *news { return &w.changes }

// follow watches the kind, and reads the one object whenever it may have
// changed.
func (w *watched[C, T]) follow(ctx context.Context, keeps *bool) error {
	defer func() {
		if ctx.Err() != nil { // else it is begun again in a moment
			w.keep(keeps, false)
		}
	}()
	for e, err := range w.store.Watch(ctx, 0) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("lifecycle: config %s %s: %w", w.store.Kind(), w.key, err)
		case e.Kind != store.BatchSnapshotEnd && (e.Kind != store.BatchChanges || e.Key != w.key):
			continue
		}
		if err := w.load(ctx); err != nil {
			return err
		}
		w.keep(keeps, true)
	}
	return nil
}

// keep notes whether a follower keeps the config up to date. While none does, each
// run reads it: it may have been altered since the last one stopped.
func (w *watched[C, T]) keep(keeps *bool, now bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case now && !*keeps:
		w.followers++
	case !now && *keeps:
		w.followers--
	}
	*keeps = now
}

// load reads the object. If it cannot be read, the one in force stays.
func (w *watched[C, T]) load(ctx context.Context) error {
	w.mu.Lock()
	w.asked++
	turn := w.asked
	w.mu.Unlock()
	o, err := w.store.Get(ctx, w.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		o = nil
	case err != nil:
		return fmt.Errorf("lifecycle: read config %s %s: %w", w.store.Kind(), w.key, err)
	case o.Deleting():
		o = nil
	case o.Newer:
		return fmt.Errorf("lifecycle: config %s %s: %w", w.store.Kind(), w.key, reconcile.CheckNewer(&o.Meta))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if turn < w.answered {
		return nil // one begun later was faster, and what this one found may be older
	}
	w.answered = turn
	if o == nil && !w.known && w.now != nil {
		return nil // what was given at construction stays until the first is seen
	}
	// Before the first reading nothing can have run with another config, unless
	// one was given at construction.
	if (w.known || w.now != nil) && version(o) != version(w.now) {
		w.changes.tell()
	}
	w.known, w.now = true, o
	return nil
}

type configVersion struct {
	uid        string
	generation int64
}

func version[C, T any](o *store.Object[C, T]) configVersion {
	if o == nil {
		return configVersion{}
	}
	return configVersion{o.UID, o.Generation}
}
