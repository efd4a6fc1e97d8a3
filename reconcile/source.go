package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	// more to say: that is reported as ErrSourceEnded, and it stays ended. It
	// must not send anything after it returned.
	//
	// It is also started again when the server gets more keys to run (leases):
	// then it must list everything again.
	Run func(ctx context.Context, to Sink[K]) error
	// Relations say what objects of other kinds are to those that the source runs, for
	// [Manager.Graph]. They change nothing else.
	Relations []Relation

	kind   string       // of the objects that wake the controller
	mapped bool         // its keys are not those of the objects
	owns   bool         // it needs to know the controller's kind
	cache  Cached       // what it is fed by, or nil
	bad    error        // why it cannot be watched; nil: it can
	exists func(K) bool // whether a key is declared at all; nil: not known
}

// Relation is what objects of a kind are to those that a source runs.
type Relation struct {
	Kind string
	As   Role
}

// Role is what one object is to another.
type Role string

// The roles of a [Relation].
const (
	Needed  Role = "needed"  // the other waits for it, and it waits with its deletion: see package depend
	Watched Role = "watched" // the other refers to it, and waits for nothing
	Owner   Role = "owner"   // it owns the other (store.Meta.Owners)
	Owned   Role = "owned"   // the other owns it
)

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

// kernelSink is what the built-in sources ask of the controller beyond [Sink]. The sink
// that a controller gives to a source is one; of any other sink kernelSinkOf makes one.
type kernelSink[K comparable] interface {
	Sink[K]
	Reporter
	// addUnlessOwn is Add of a key whose object a cache shows at a revision: the add is
	// urgent unless the key's own run wrote that revision.
	addUnlessOwn(key K, from Cached, rev store.Revision, o queue.AddOptions) error
	// addIfForeign is Add of such a key, unless the key's own run wrote that revision. While
	// the key is running the question is left with the run.
	addIfForeign(key K, from Cached, rev store.Revision, o queue.AddOptions) error
	// supersede says that a cache shows a change of the key's object that a run should know.
	supersede(key K, from Cached, rev store.Revision)
	// took says that the source has turned the changes of the cache up to a revision
	// into adds.
	took(key K, from Cached, rev store.Revision)
	// caused names the change of an object that is about to add key.
	caused(key K, object store.Key, rev store.Revision)
	// skip counts something that is no use, and has the first one logged.
	skip(why string, attrs ...any)
	// mapperFailed reports that an object could not be mapped to keys.
	mapperFailed(object store.Key, attempt int, err error)
	// mappedAll reports that the last object was mapped that had failed.
	mappedAll()
	// kindOf is the kind of the objects that the controller is about; "": not known.
	kindOf() string
	// elsewhere reports whether Add drops the key, because another server runs it.
	elsewhere(key K) bool
	// inShards reports whether the key is in one of some shards, as far as that is known.
	inShards(key K, shards []int) bool
	// forShards is the same sink for the keys of some shards: it drops all others.
	forShards(shards []int) kernelSink[K]
	// again asks this run of the source to list once more, for the shards that gained gives
	// when the list begins, nil if none. A run that does not call it is ended instead, and
	// the source started again.
	again() <-chan struct{}
	gained() []int
	// keep stores a value for the next run of the source; kept gives it.
	keep(v any)
	kept() any
}

func kernelSinkOf[K comparable](to Sink[K]) kernelSink[K] {
	if s, ok := to.(kernelSink[K]); ok {
		return s
	}
	if w, ok := to.(interface{ Unwrap() Sink[K] }); ok {
		return &wrappedSink[K]{foreignSink[K]{Sink: to}, kernelSinkOf(w.Unwrap())}
	}
	return &foreignSink[K]{Sink: to}
}

// foreignSink is a sink that no controller made: nothing is known of its runs.
type foreignSink[K comparable] struct {
	Sink[K]
	value any
}

func (s *foreignSink[K]) addUnlessOwn(key K, _ Cached, _ store.Revision, o queue.AddOptions) error {
	return s.Add(key, o)
}

// addIfForeign adds nothing: the key's own run may have written that, and would wake itself.
func (s *foreignSink[K]) addIfForeign(K, Cached, store.Revision, queue.AddOptions) error { return nil }

// Failed implements Reporter.
func (s *foreignSink[K]) Failed(err error) {
	if r, ok := s.Sink.(Reporter); ok {
		r.Failed(err)
	}
}

func (s *foreignSink[K]) supersede(K, Cached, store.Revision) {}
func (s *foreignSink[K]) took(K, Cached, store.Revision)      {}
func (s *foreignSink[K]) caused(K, store.Key, store.Revision) {}
func (s *foreignSink[K]) skip(string, ...any)                 {}
func (s *foreignSink[K]) kindOf() string                      { return "" }
func (s *foreignSink[K]) elsewhere(K) bool                    { return false }
func (s *foreignSink[K]) inShards(K, []int) bool              { return true }
func (s *foreignSink[K]) forShards([]int) kernelSink[K]       { return s }
func (s *foreignSink[K]) again() <-chan struct{}              { return nil }
func (s *foreignSink[K]) gained() []int                       { return nil }
func (s *foreignSink[K]) keep(v any)                          { s.value = v }
func (s *foreignSink[K]) kept() any                           { return s.value }

// mapperFailed says so to a Reporter: the source is not well until mappedAll.
func (s *foreignSink[K]) mapperFailed(object store.Key, _ int, err error) {
	s.Failed(fmt.Errorf("mapping %v: %w", object, err))
}

func (s *foreignSink[K]) mappedAll() { s.Failed(nil) }

// wrappedSink is a sink around one of a controller. Keys and failures go to it; what the
// built-in sources ask of a controller, and what changes no key, goes to the one inside.
type wrappedSink[K comparable] struct {
	foreignSink[K]
	in kernelSink[K]
}

func (s *wrappedSink[K]) took(key K, from Cached, rev store.Revision) { s.in.took(key, from, rev) }

func (s *wrappedSink[K]) caused(key K, object store.Key, rev store.Revision) {
	s.in.caused(key, object, rev)
}

func (s *wrappedSink[K]) skip(why string, attrs ...any)        { s.in.skip(why, attrs...) }
func (s *wrappedSink[K]) kindOf() string                       { return s.in.kindOf() }
func (s *wrappedSink[K]) elsewhere(key K) bool                 { return s.in.elsewhere(key) }
func (s *wrappedSink[K]) inShards(key K, shards []int) bool    { return s.in.inShards(key, shards) }
func (s *wrappedSink[K]) forShards(shards []int) kernelSink[K] { return &shardsSink[K]{s, shards} }
func (s *wrappedSink[K]) again() <-chan struct{}               { return s.in.again() }
func (s *wrappedSink[K]) gained() []int                        { return s.in.gained() }
func (s *wrappedSink[K]) keep(v any)                           { s.in.keep(v) }
func (s *wrappedSink[K]) kept() any                            { return s.in.kept() }

// shardsSink lets the keys of some shards through.
type shardsSink[K comparable] struct {
	kernelSink[K]
	shards []int
}

// Add implements Sink.
func (s *shardsSink[K]) Add(key K, o queue.AddOptions) error {
	if !s.inShards(key, s.shards) {
		return nil
	}
	return s.kernelSink.Add(key, o)
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
