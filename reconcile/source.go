package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
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
	// then it must list everything anew.
	Run func(ctx context.Context, to Sink[K]) error

	kind   string                 // of the objects that wake the controller
	mapped bool                   // its keys are not those of the objects
	cache  Cached                 // what it is fed by, or nil
	bad    error                  // why it cannot be watched; nil: it can
	exists func(K) bool           // whether a key is declared at all; nil: not known
	relist func(to Sink[K]) error // lists anew beside Run, without waiting; nil: Run is started again
}

// A Sink takes the keys that a Source finds. It is safe for concurrent use.
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

// report tells the sink of an error if it cares to know.
func report[K comparable](to Sink[K], err error) {
	if r, ok := to.(Reporter); ok {
		r.Failed(err)
	}
}

// Cached is what a controller needs to know of a cache; *cache.Cache is one.
type Cached interface {
	Name() string
	Kind() string
	Backend() store.Backend
	Revision() store.Revision
	OnRevision(r store.Revision, f func()) (stop func() bool)
	Synced() <-chan struct{}
	Run(ctx context.Context) error
}

// Priorities of what sources add: what was there at the start comes after what
// happens.
var (
	bandInitial = queue.At(-100)
	bandLive    = queue.At(0)
)

// feed is one source of a running controller: it runs and restarts it, takes
// what it says, and knows how it is.
type feed[K comparable] struct {
	c *Controller[K]
	Source[K]

	mu         sync.Mutex // guards what follows
	cancel     context.CancelCauseFunc
	done       chan struct{} // closed when the goroutine has ended; nil: not started
	removed    bool          // by Unwatch
	state      feedState
	began      time.Time // its present life
	err        error     // why it is not well
	told       bool      // err comes from the living source
	complaints int       // how often in a row it has said so
	synced     bool
	restarts   int
	skipped    uint64 // keys and owners that were no use
	kept       any    // what the source keeps from one run to the next
}

type feedState uint8

const (
	feedIdle feedState = iota
	feedRunning
	feedWaiting // for its restart
	feedEnded
)

func (s feedState) String() string {
	return [...]string{"idle", "running", "restarting", "ended"}[s]
}

// errRelist ends one run of a source that is to start anew, without blame.
var errRelist = errors.New("source is started anew")

// start runs the source until ctx ends or end is called, unless it was removed.
func (f *feed[K]) start(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.removed {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	f.cancel, f.done, f.synced = cancel, done, false
	go func() { // ended by end; waited for by wait
		defer close(done)
		defer cancel(nil)
		f.supervise(ctx)
	}()
}

func (f *feed[K]) started() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done != nil
}

// end tells the source to end.
func (f *feed[K]) end(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cancel != nil {
		f.cancel(cause)
	}
}

// remove is end, and the source is never started again: the governor may be about
// to, with a list of sources from before.
func (f *feed[K]) remove(cause error) {
	f.mu.Lock()
	f.removed = true
	f.mu.Unlock()
	f.end(cause)
}

// wait waits until the source has ended, and makes it ready for another start. It
// reports false if ctx ended before.
func (f *feed[K]) wait(ctx context.Context) bool {
	f.mu.Lock()
	done := f.done
	f.mu.Unlock()
	if done == nil {
		return true
	}
	select {
	case <-done:
	default: // what has ended counts as ended, even if ctx has too
		late := time.AfterFunc(f.c.o.StuckAfter, func() { f.deaf(done) })
		defer late.Stop()
		select {
		case <-done:
		case <-ctx.Done():
			return false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done == done { // else somebody else who waited has, and it may run again
		f.cancel, f.done, f.state, f.err = nil, nil, feedIdle, nil
	}
	return true
}

// deaf reports a source that ignores the end of its context, unless it has just
// taken notice or was reported.
func (f *feed[K]) deaf(done chan struct{}) {
	f.mu.Lock()
	if f.done != done || errors.Is(f.err, ErrSourceRunning) {
		f.mu.Unlock()
		return
	}
	f.err, f.told = ErrSourceRunning, true
	f.mu.Unlock()
	f.fail(ErrSourceRunning, 0)
}

// waitRemoved waits for a source that was removed until ctx ends, and for StuckAfter
// at most. It reports whether the source has ended.
func (f *feed[K]) waitRemoved(ctx context.Context) bool {
	late, cancel := context.WithTimeout(ctx, f.c.o.StuckAfter)
	defer cancel()
	if f.wait(late) {
		return true
	}
	f.mu.Lock()
	done := f.done
	f.mu.Unlock()
	if ctx.Err() == nil {
		f.deaf(done)
	}
	return false
}

// hasEnded reports whether the source's goroutine has.
func (f *feed[K]) hasEnded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done == nil {
		return true
	}
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// listAgain has a running source list everything once more, because shards were
// gained; keys of the others are not wanted.
func (f *feed[K]) listAgain(ctx, until context.Context, gained []int) {
	if f.relist != nil && f.relist(&gainedSink[K]{sink: (*sink[K])(f), gained: gained}) == nil {
		return
	}
	f.end(errRelist)
	if f.wait(until) {
		f.c.life.startSource(ctx, f)
	}
}

// gainedSink lets the keys of some shards through.
type gainedSink[K comparable] struct {
	*sink[K]
	gained []int
}

func (s *gainedSink[K]) Add(key K, o queue.AddOptions) error {
	if !slices.Contains(s.gained, s.c.shardOf(key)) {
		return nil
	}
	return s.sink.Add(key, o)
}

// A life longer than this had started well: whatever ended it is news, and it
// is started again at once.
const healthyLife = 2 * time.Second

func (f *feed[K]) supervise(ctx context.Context) {
	for failures, again := 0, 0; ; again++ {
		began := time.Now()
		f.live(began)
		err := isolate(func() error { return f.Run(ctx, (*sink[K])(f)) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			f.fail(ErrSourceEnded, 0)
			f.set(feedEnded, ErrSourceEnded)
			f.Synced() // it will not say so any more
			return
		}
		if time.Since(began) > healthyLife {
			again = 0
		}
		f.fail(err, again)
		f.set(feedWaiting, err)
		if time.Since(began) > healthyLife {
			failures = 0
		} else {
			failures++
		}
		if failures > 0 && !sleep.For(ctx, restartDelay(failures-1)) {
			return
		}
		f.mu.Lock()
		f.restarts++
		f.mu.Unlock()
	}
}

// restartDelay doubles from 500 ms to 1 min, ±25 %, so that what fell over
// together does not come back together.
func restartDelay(n int) time.Duration {
	d := time.Minute
	if n < 7 {
		d = min(500*time.Millisecond<<n, d)
	}
	return d*3/4 + rand.N(d/2)
}

// live begins a life; what ended the one before still counts for a while.
func (f *feed[K]) live(began time.Time) {
	f.mu.Lock()
	f.state, f.began, f.told = feedRunning, began, false
	f.mu.Unlock()
}

func (f *feed[K]) set(s feedState, err error) {
	f.mu.Lock()
	f.state, f.err = s, err
	f.mu.Unlock()
}

// health is nil, or why the source is not well: it says so itself, it is not
// running, or the life before ended with an error and this one is young.
func (f *feed[K]) health() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == feedRunning && !f.told && f.synced && time.Since(f.began) > healthyLife {
		return nil
	}
	return f.err
}

// fail reports a failure of the source, after so many others in a row.
func (f *feed[K]) fail(err error, before int) {
	f.c.failed(Failure[K]{Controller: f.c.name, Source: f.Name, Attempt: before, Err: err}, before > 0)
}

// skip counts something a source could not use, and says so the first time.
func (f *feed[K]) skip(why string, attrs ...any) {
	f.mu.Lock()
	f.skipped++
	first := f.skipped == 1
	f.mu.Unlock()
	if first {
		f.c.log().Warn("reconcile: source gave something that is no use; further ones are only counted",
			append([]any{"source", f.Name, "why", why}, attrs...)...)
	}
}

// Synced records that the source has listed everything.
func (f *feed[K]) Synced() {
	f.mu.Lock()
	was := f.synced
	f.synced = true
	f.mu.Unlock()
	if !was {
		f.c.life.poke()
	}
}

// isSynced also gives why the source is not well, if it is not.
func (f *feed[K]) isSynced() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.synced, f.err
}

// sink is a feed as its source sees it.
type sink[K comparable] feed[K]

func (s *sink[K]) Synced() { (*feed[K])(s).Synced() }

func (s *sink[K]) Add(key K, o queue.AddOptions) error {
	f := (*feed[K])(s)
	if err := validKey(key); err != nil {
		f.skip("invalid key", "key", key, "err", store.Brief(err))
		return nil
	}
	return f.c.admit(key, o)
}

// elsewhere tells that Add would drop the key, because another server runs it.
func (s *sink[K]) elsewhere(key K) bool { return s.c.elsewhere(key) }

// Failed reports an error that the source survives.
func (s *sink[K]) Failed(err error) {
	f := (*feed[K])(s)
	err = checkError(err)
	f.mu.Lock()
	before := f.complaints
	if f.complaints++; err == nil {
		f.complaints = 0
	}
	f.err, f.told = err, err != nil
	f.mu.Unlock()
	switch {
	case err != nil:
		f.fail(err, before)
	case before > 0:
		f.c.recovered("source", f.Name, "failures", before)
	}
}

// keep stores what a source of this package wants to find again: when it is
// started again, or when it is to list anew.
func keep[K comparable](to Sink[K], v any) {
	if s, ok := to.(interface{ keep(v any) }); ok {
		s.keep(v)
	}
}

// kept gives what keep stored.
func kept[K comparable](to Sink[K]) any {
	if s, ok := to.(interface{ keptValue() any }); ok {
		return s.keptValue()
	}
	return nil
}

func (s *sink[K]) keep(v any) {
	s.mu.Lock()
	s.kept = v
	s.mu.Unlock()
}

func (s *sink[K]) keptValue() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// validKey refuses what cannot be the key of anything.
func validKey[K comparable](key K) error {
	if k, ok := any(key).(store.Key); ok {
		return k.Check()
	}
	return nil
}

// addWaiting adds a key, and waits while the queue is full. It is for sources
// that are not pushed: they can afford to wait, and need not list again.
func addWaiting[K comparable](ctx context.Context, to Sink[K], key K, o queue.AddOptions) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := to.Add(key, o)
		if !errors.Is(err, queue.ErrFull) {
			return err
		}
		if !sleep.For(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// SourceSnapshot is how one source is at a moment.
type SourceSnapshot struct {
	Name     string `json:"name"`
	Kind     string `json:"kind,omitempty"`
	State    string `json:"state"`
	Synced   bool   `json:"synced"`
	Restarts int    `json:"restarts"`
	Skipped  uint64 `json:"skipped"`
	Error    string `json:"error,omitempty"`
}

func (f *feed[K]) snapshot() SourceSnapshot {
	s := f.describe()
	if err := f.health(); err != nil {
		s.Error = store.Clip(err.Error())
	}
	return s
}

func (f *feed[K]) describe() SourceSnapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := SourceSnapshot{
		Name: f.Name, Kind: f.kind, State: f.state.String(),
		Synced: f.synced, Restarts: f.restarts, Skipped: f.skipped,
	}
	return s
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
