package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// A Source tells a controller which keys to look at. It is a named function;
// nothing else is needed to write one:
//
//	reconcile.Source[reconcile.Request]{
//		Name: "orders",
//		Run: func(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
//			to.Synced() // nothing to list at the start
//			for { ... to.Add(key, queue.AddOptions{}) ... }
//		},
//	}
type Source[K comparable] struct {
	// Name is unique among a controller's sources.
	Name string
	// Run feeds the sink until ctx ends. If it ends before, with an error, a panic
	// or runtime.Goexit, it is started again: at once if it had run for more than
	// two seconds, else after a growing backoff (500 ms to 1 min, ±25 %). Meanwhile
	// the controller is not healthy. If it ends before with nil, it has nothing
	// more to say: that is reported, and it stays ended. It
	// must not send anything after it returned.
	//
	// It is also started again when the server gets more keys to run (leases):
	// then it must list everything again. One that hands its sink to one Source of From,
	// Map, Chan or package webhook leaves that to it, and is not started again: the keys that it lists
	// itself need a Source of their own.
	Run func(ctx context.Context, to Sink[K]) error
	// Relations say what objects of other kinds are to those that the source runs, for
	// [Manager.Graph]. They change nothing else. Packages of tend set them.
	Relations []introspect.Relation

	kind   string       // of the objects that wake the controller
	mapped bool         // its keys are not those of the objects
	owns   bool         // it needs to know the controller's kind
	cache  Cached       // what it is fed by, or nil
	bad    error        // why it cannot be watched; nil: it can
	exists func(K) bool // whether a key is declared at all; nil: not known
}

// A Sink takes the keys that a Source finds. It is safe for concurrent use.
//
// A Sink of your own around the one that a controller gave, for the Run of another Source,
// may have a method Unwrap() Sink[K] that returns that one. The other Source then asks the
// controller whatever it asks without yours: the kind of its objects ([Owns]), and to list
// beside its Run for keys that the server has gained. Without Unwrap it is ended and started
// again for those, and changes that wait to be mapped then ([Map]) are lost.
type Sink[K comparable] interface {
	// Add queues the key. It does not wait for anything. It fails with
	// queue.ErrStopped when the controller is stopping, and with queue.ErrFull
	// when there is no room: the key must then be added again later.
	Add(key K, o queue.AddOptions) error
	// Synced says that everything there was at the start has been added. No key
	// is run before all sources have said so (promise R4). Later calls do
	// nothing.
	Synced()
}

// A Reporter is a Sink that also takes bad news. Every controller's sink is one.
type Reporter interface {
	// Failed reports an error that the source survives: it goes to OnError, and
	// to Health until Failed(nil).
	Failed(err error)
}

// errRelist ends one run of a source that is to list again. It is no failure.
var errRelist = errors.New("source is started again")

// restarts is the backoff of a source that fails, and of a list that does.
func restarts() *sleep.Backoff {
	return &sleep.Backoff{Min: 500 * time.Millisecond, Max: time.Minute}
}

// validKey refuses what cannot be the key of anything.
func validKey[K comparable](key K) error {
	if k, ok := any(key).(store.Key); ok {
		return k.Check()
	}
	return nil
}

// AddWaiting adds a key, and waits while the queue is full, until ctx ends: then it returns
// the cause. It is for sources that nothing waits for: a key that such a source dropped
// would be missing until its next list. Safe for concurrent use.
func AddWaiting[K comparable](ctx context.Context, to Sink[K], key K, o queue.AddOptions) error {
	return waitForRoom(ctx, func() error { return to.Add(key, o) })
}

// waitForRoom calls add again as long as it finds the queue full.
func waitForRoom(ctx context.Context, add func() error) error {
	err := add()
	for full := (sleep.Backoff{Min: 10 * time.Millisecond, Max: time.Second}); errors.Is(err, queue.ErrFull); err = add() {
		if !full.Wait(ctx) {
			return context.Cause(ctx)
		}
	}
	return err
}

// check refuses a source that cannot run.
func (s Source[K]) check() error {
	switch {
	case s.bad != nil:
		return s.bad
	case s.Name == "":
		return errors.New("source has no name")
	case s.Run == nil:
		return fmt.Errorf("source %q has no Run", s.Name)
	}
	return nil
}
