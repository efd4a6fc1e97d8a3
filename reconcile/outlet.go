package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// An outlet is a Sink as the built-in sources use it. Keys and failures go to the Sink, which may be the program's own;
// what else there is to ask and to tell goes to the feed that is in it. It is an interface, so that a package with sources of
// its own types does not compile all of a controller.
type outlet[K comparable] interface {
	Sink[K]
	Reporter
	// addChange adds the key of an object that changed, show says that the change was seen, and caused which change of an
	// object is about to add a key.
	addChange(ctx context.Context, at seen[K]) error
	show(at seen[K])
	caused(key K, object store.Key, rev store.Revision)
	// mapperFailed reports that an object could not be mapped to keys. A Sink of the program's is not well until
	// mappedAll.
	mapperFailed(object store.Key, attempt int, err error)
	mappedAll()
	// unanswered says that a function of the user's failed when it was asked about an object.
	unanswered(function string, object store.Key, err error)
	// specChanged tells the brake of a change: how long the run waits, and whether slowed is to say so.
	specChanged(key K, came, gone bool) (wait time.Duration, first bool)
	slowed(key K, now introspect.SlowedKey)
	// As of a feed.
	Again() <-chan struct{}
	Gained() []int
	cannotList()
	inShards(key K, shards []int) bool
	Skip(why string, attrs ...any)
	// about says whose the source is, and kept is what it keeps from one run to the next.
	about() (controller, source, kind string, log *slog.Logger)
	kept() *any
}

func outletOf[K comparable](to Sink[K]) outlet[K] {
	for in := to; ; {
		switch s := in.(type) {
		case interface{ outlet(to Sink[K]) outlet[K] }:
			return s.outlet(to)
		case interface{ Unwrap() Sink[K] }:
			in = s.Unwrap()
		default:
			return &strange[K]{Sink: to}
		}
	}
}

// strange is the outlet of a sink that no controller made: it tells nothing, slows nothing, and is asked for no list.
type strange[K comparable] struct {
	Sink[K]
	value any
}

func (t *strange[K]) addChange(ctx context.Context, at seen[K]) error {
	if at.byOthers {
		return nil // the key's own run may have written that, and would wake itself
	}
	return AddWaiting(ctx, t.Sink, at.key, at.add())
}

func (t *strange[K]) Failed(err error) {
	if r, ok := t.Sink.(Reporter); ok {
		r.Failed(err)
	}
}

func (t *strange[K]) mapperFailed(object store.Key, _ int, err error) {
	t.Failed(fmt.Errorf("mapping %v: %w", object, err))
}

func (t *strange[K]) mappedAll()                                      { t.Failed(nil) }
func (t *strange[K]) show(seen[K])                                    {}
func (t *strange[K]) caused(K, store.Key, store.Revision)             {}
func (t *strange[K]) unanswered(string, store.Key, error)             {}
func (t *strange[K]) specChanged(K, bool, bool) (time.Duration, bool) { return 0, false }
func (t *strange[K]) slowed(K, introspect.SlowedKey)                  {}
func (t *strange[K]) Again() <-chan struct{}                          { return nil }
func (t *strange[K]) Gained() []int                                   { return nil }
func (t *strange[K]) cannotList()                                     {}
func (t *strange[K]) inShards(K, []int) bool                          { return true }
func (t *strange[K]) Skip(string, ...any)                             {}
func (t *strange[K]) about() (controller, source, kind string, l *slog.Logger) {
	return "", "", "", slog.New(slog.DiscardHandler)
}
func (t *strange[K]) kept() *any { return &t.value }

// fed is the outlet of a controller's sink, or of one that has a controller's in it.
type fed[K comparable] struct {
	*feed[K]
	to Sink[K]
}

func (f *feed[K]) outlet(to Sink[K]) outlet[K] { return &fed[K]{f, to} }

// direct reports whether the sink is the controller's own.
func (t *fed[K]) direct() bool {
	_, ok := t.to.(*feed[K])
	return ok
}

func (t *fed[K]) Add(key K, o queue.AddOptions) error { return t.to.Add(key, o) }
func (t *fed[K]) Synced()                             { t.to.Synced() }

func (t *fed[K]) addChange(ctx context.Context, at seen[K]) error {
	switch {
	case t.direct():
		return t.feed.addChange(ctx, at)
	case at.byOthers:
		return nil // the key's own run may have written that, and would wake itself
	}
	t.caused(at.key, at.object(), at.rev)
	return AddWaiting(ctx, t.to, at.key, at.add())
}

func (t *fed[K]) show(at seen[K]) { t.of.writes.show(at) }

func (t *fed[K]) Failed(err error) {
	if r, ok := t.to.(Reporter); ok {
		r.Failed(err)
	}
}

func (t *fed[K]) mapperFailed(object store.Key, attempt int, err error) {
	if t.direct() {
		t.fail(fmt.Errorf("mapping %s %v: %w", t.kind, object, err), attempt)
		return
	}
	t.Failed(fmt.Errorf("mapping %v: %w", object, err))
}

func (t *fed[K]) mappedAll() {
	if !t.direct() {
		t.Failed(nil)
	}
}

func (t *fed[K]) unanswered(function string, object store.Key, err error) {
	k := t.of.k
	k.log().Error("reconcile: a function that was asked about an object failed",
		append([]any{"controller", k.name, "key", object, "function", function, "err", store.Brief(err)}, contain.Stack(err)...)...)
}

func (t *fed[K]) specChanged(key K, came, gone bool) (wait time.Duration, first bool) {
	if t.of.k.elsewhere(key) {
		return 0, false
	}
	return t.of.k.specChanged(key, came, gone)
}

func (t *fed[K]) slowed(key K, now introspect.SlowedKey) {
	k := t.of.k
	k.mu.Lock()
	k.brake.describe(key, now)
	k.mu.Unlock()
	k.log().Warn("reconcile: a key is slowed, because its spec changed and made it run more than 10 times in 10 s; if it goes on, two writers disagree",
		"controller", k.name, "key", key, "field", now.Field, "old", now.Old, "new", now.New,
		"oldRevision", uint64(now.OldRevision), "newRevision", uint64(now.NewRevision))
}

func (t *fed[K]) about() (controller, source, kind string, log *slog.Logger) {
	return t.of.k.name, t.Name, t.of.k.kindOf(), t.of.k.log()
}

func (t *fed[K]) kept() *any { return &t.value }
