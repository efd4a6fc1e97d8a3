package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// sources are the sources of a controller, and what comes of what they say.
type sources[K comparable] struct {
	pool[K]

	// What follows is guarded by kernel.mu.
	feeds   []*feed[K]      // replaced, never written to: others have the old one
	removed []*feed[K]      // by Unwatch; may not have ended yet
	kind    string          // of the objects that the controller is about, for the graph; "": not known
	running context.Context // of Run; nil: it was not called
}

// feed is one source of a controller. The supervisor starts and ends it; in between its
// goroutine runs the source, and starts it again when it fails.
//
//	idle ──start──▶ running ◀──▶ restarting      end: from any of them; idle when the
//	                   └──returns nil──▶ ended         goroutine has ended
type feed[K comparable] struct {
	of *sources[K]
	Source[K]

	// What follows is guarded by kernel.mu.
	cancel     context.CancelCauseFunc
	done       chan struct{} // closed as the goroutine's last act; nil: there is none
	over       bool          // done is about to be closed
	ending     bool          // it was told to end
	late       *time.Timer   // reports it if it does not
	removed    bool          // by Unwatch
	state      feedState
	began      time.Time // its present run
	err        error     // why it is not well
	told       bool      // err comes from the source itself, which goes on
	complaints int       // how often in a row it has said so
	synced     bool
	restarts   int
	skipped    uint64        // keys and owners that were no use
	value      any           // what the source keeps from one run to the next
	asks       chan struct{} // its present run lists once more for each value; nil: it cannot
	unlisted   []int         // shards that the next such list is for
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

// allFeeds gives the feeds; the slice is never written to.
func (s *sources[K]) allFeeds() []*feed[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feeds
}

// ownCache is the cache of the objects that the keys name; nil: no source says.
func (s *sources[K]) ownCache() Cached {
	for _, f := range s.allFeeds() {
		if !f.mapped && f.cache != nil {
			return f.cache
		}
	}
	return nil
}

// removedFeeds are those that were removed and have not ended.
func (s *sources[K]) removedFeeds() []*feed[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = slices.DeleteFunc(s.removed, func(f *feed[K]) bool { return f.done == nil || f.over })
	return slices.Clone(s.removed)
}

// addSources adds sources, or none if one of them cannot run.
func (s *sources[K]) addSources(list []Source[K]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	feeds := s.feeds
	for _, src := range list {
		err := src.check()
		if err == nil && slices.ContainsFunc(feeds, func(f *feed[K]) bool { return f.Name == src.Name }) {
			err = fmt.Errorf("%w: %q", ErrSourceExists, src.Name)
		}
		if err != nil {
			return err
		}
		feeds = append(slices.Clip(feeds), &feed[K]{of: s, Source: src})
	}
	s.feeds = feeds
	s.changedLocked()
	return nil
}

// removeSource takes a source out and tells it to end. It reports whether the source has
// ended before it counts as stuck and the end of Run's context.
func (s *sources[K]) removeSource(name string) (ended bool, err error) {
	s.mu.Lock()
	i := slices.IndexFunc(s.feeds, func(f *feed[K]) bool { return f.Name == name })
	if i < 0 {
		s.mu.Unlock()
		return false, fmt.Errorf("%w: %q", ErrNoSource, name)
	}
	f := s.feeds[i]
	s.feeds = slices.Concat(s.feeds[:i], s.feeds[i+1:])
	s.removed = append(s.removed, f)
	f.removed = true // the supervisor may be about to start it, with a list from before
	done, ctx := f.done, s.running
	s.changedLocked()
	s.mu.Unlock()
	if ctx == nil {
		ctx = context.Background()
	}
	f.end(errUnwatched)
	s.post(message{what: sourcesChanged}) // its end may be long in coming, and keys wait for it no more
	patience, cancel := context.WithTimeout(ctx, s.o.stuckAfter())
	defer cancel()
	ended = waitFor(patience, done)
	if !ended && ctx.Err() == nil {
		f.ignoredItsEnd(done)
	}
	s.removedFeeds() // forgets it if it has ended
	return ended, nil
}

var errUnwatched = errors.New("source was removed")

// changedLocked brings the view and the kind in line with the sources. A cache whose
// source was removed is still read.
func (s *sources[K]) changedLocked() {
	s.changeViewLocked(func(v *view[K]) {
		v.shows, v.exists = nil, nil
		for _, f := range s.feeds {
			if f.cache != nil && !slices.Contains(v.caches, f.cache) {
				v.caches = append(slices.Clip(v.caches), f.cache)
			}
			if f.cache != nil && !f.mapped {
				v.shows = append(v.shows, f.cache)
			}
			if f.exists != nil {
				v.exists = append(v.exists, f.exists)
			}
			if !f.mapped && s.kind == "" {
				s.kind = f.kind
			}
		}
	})
}

// unsynced names something that has not synced, and says why if that is known; "":
// everything has.
func (s *sources[K]) unsynced() (what string, why error) {
	for _, f := range s.allFeeds() {
		if synced, err := f.isSynced(); !synced {
			return "source " + f.Name, err
		}
	}
	for _, cached := range s.o.Reads {
		select {
		case <-cached.Synced():
		default:
			return "cache " + cached.Name(), healthOf(cached)
		}
	}
	return "", nil
}

// kindOf is the kind of the objects that the controller is about; "": not known.
func (s *sources[K]) kindOf() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kind
}

// needsKind names a source that cannot run because that kind is not known; "": all can.
func (s *sources[K]) needsKind() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.feeds, func(f *feed[K]) bool { return f.owns })
	if s.kind != "" || i < 0 {
		return ""
	}
	return s.feeds[i].Name
}

// healthOf asks what is wrong with something that may be able to tell.
func healthOf(v any) error {
	if h, ok := v.(interface{ Health() error }); ok {
		return h.Health()
	}
	return nil
}

// admit takes a key from a source. A key of another server is dropped: the server that
// gets its shard lists it then.
func (s *sources[K]) admit(key K, o queue.AddOptions) error {
	if s.elsewhere(key) {
		return nil
	}
	s.holdIfBehind(key)
	return s.enqueue(key, o)
}

// admitUnlessOwn is admit of a change that is urgent unless the key's own run made it.
// The store's watch can be faster than the call that wrote: while the key is running,
// the question is left with the run.
func (s *sources[K]) admitUnlessOwn(at seen[K], o queue.AddOptions) error {
	if s.elsewhere(at.key) {
		return nil
	}
	running := s.askRunning(at) // before what is remembered: a run notes that before it ends
	k := s.lookup(at.key)
	o.Urgent = !running && !at.in(k.writes)
	s.holdPending(at.key, k)
	return s.enqueue(at.key, o)
}

// start runs the source until it is told to end, unless it was removed or its
// goroutine has not ended. Only the supervisor calls it.
func (f *feed[K]) start(ctx context.Context) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.removed || f.done != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	f.cancel, f.done, f.over, f.ending, f.synced = cancel, done, false, false, false
	go func() { // ended by end; what waits for it waits for done
		defer close(done)
		defer f.ended()
		defer cancel(nil)
		f.runAgain(ctx)
	}()
}

// ended tells the supervisor that the goroutine is about to end.
func (f *feed[K]) ended() {
	f.of.mu.Lock()
	f.over = true
	if f.late != nil {
		f.late.Stop()
	}
	f.of.mu.Unlock()
	f.of.post(message{what: sourceEnded})
}

// end tells the source to end, and has it reported if it goes on for too long.
func (f *feed[K]) end(cause error) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.done == nil || f.ending {
		return
	}
	f.ending, f.synced = true, false
	f.cancel(cause)
	if done := f.done; !f.over {
		f.late = time.AfterFunc(f.of.o.stuckAfter(), func() { f.ignoredItsEnd(done) })
	}
}

// reap makes a source that was told to end, and has, ready for another start. It
// reports whether the source has no goroutine any more.
func (f *feed[K]) reap() (gone bool) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.ending && f.over {
		f.cancel, f.done, f.ending, f.late = nil, nil, false, nil
		f.state, f.err, f.told = feedIdle, nil, false
	}
	return f.done == nil
}

// wait waits until the source has ended, or reports false when ctx ends.
func (f *feed[K]) wait(ctx context.Context) bool {
	f.of.mu.Lock()
	done := f.done
	f.of.mu.Unlock()
	return waitFor(ctx, done) && f.reap()
}

// ignoredItsEnd reports a source that ignores the end of its context, unless it has
// just taken notice or was reported.
func (f *feed[K]) ignoredItsEnd(done chan struct{}) {
	f.of.mu.Lock()
	if f.done != done || f.over || errors.Is(f.err, ErrSourceRunning) {
		f.of.mu.Unlock()
		return
	}
	f.err, f.told = ErrSourceRunning, true
	f.of.mu.Unlock()
	f.fail(ErrSourceRunning, 0)
}

// listAgain has the source list everything once more, for shards that were gained. One
// that cannot do that while it runs is ended, and started again when it has.
func (f *feed[K]) listAgain(gained []int) {
	f.of.mu.Lock()
	asks := f.asks
	f.unlisted = append(f.unlisted, gained...)
	f.of.mu.Unlock()
	if asks == nil {
		f.end(errRelist)
		return
	}
	sleep.Wake(asks)
}

// healthyRun is how long a run of a source is at least that had started well: whatever
// ended it is news, and it is started again at once.
const healthyRun = 2 * time.Second

// runAgain runs the source, and runs it again when it fails, until ctx ends or the
// source has nothing more to say.
func (f *feed[K]) runAgain(ctx context.Context) {
	backoff := restarts()
	for again := 0; ; again++ {
		began := time.Now()
		f.begins(began)
		err := isolate(func() error { return f.Run(ctx, (*sink[K])(f)) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			f.fail(ErrSourceEnded, 0)
			f.set(feedEnded, ErrSourceEnded)
			(*sink[K])(f).Synced() // it will not say so any more
			return
		}
		healthy := time.Since(began) > healthyRun
		if healthy {
			again = 0
			backoff.Reset()
		}
		f.fail(err, again)
		f.set(feedWaiting, err)
		if !healthy && !backoff.Wait(ctx) {
			return
		}
		f.of.mu.Lock()
		f.restarts++
		f.of.mu.Unlock()
	}
}

// begins notes that a run of the source begins; what ended the one before still counts
// for a while.
func (f *feed[K]) begins(now time.Time) {
	f.of.mu.Lock()
	f.state, f.began, f.told = feedRunning, now, false
	f.asks, f.unlisted = nil, nil // it lists everything
	f.of.mu.Unlock()
}

func (f *feed[K]) set(s feedState, err error) {
	f.of.mu.Lock()
	f.state, f.err = s, err
	f.of.mu.Unlock()
}

// isSynced also gives why the source is not well, if it is not.
func (f *feed[K]) isSynced() (bool, error) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return f.synced, f.err
}

// fail reports a failure of the source, after so many others in a row.
func (f *feed[K]) fail(err error, before int) {
	f.of.report(Failure[K]{Controller: f.of.name, Source: f.Name, Attempt: before, Err: err}, before > 0)
}

// sink is a feed as its source sees it.
type sink[K comparable] feed[K]

// Add implements Sink.
func (s *sink[K]) Add(key K, o queue.AddOptions) error {
	if err := validKey(key); err != nil {
		s.skip("invalid key", "key", key, "err", store.Brief(err))
		return nil
	}
	return s.of.admit(key, o)
}

// Synced implements Sink. What a source says that was told to end does not count.
func (s *sink[K]) Synced() {
	s.of.mu.Lock()
	news := !s.synced && !s.ending
	s.synced = s.synced || news
	s.of.mu.Unlock()
	if news {
		s.of.post(message{what: sourceSynced})
	}
}

// Failed implements Reporter.
func (s *sink[K]) Failed(err error) {
	err = checkError(err)
	s.of.mu.Lock()
	before := s.complaints
	if s.complaints++; err == nil {
		s.complaints = 0
	}
	s.err, s.told = err, err != nil
	s.of.mu.Unlock()
	switch {
	case err != nil:
		(*feed[K])(s).fail(err, before)
	case before > 0:
		s.of.recovered(nil, "source", s.Name, "failures", before)
	}
}

func (s *sink[K]) addUnlessOwn(key K, from Cached, rev store.Revision, o queue.AddOptions) error {
	return s.of.admitUnlessOwn(seen[K]{key, from, rev, false}, o)
}

func (s *sink[K]) addIfForeign(key K, from Cached, rev store.Revision, o queue.AddOptions) error {
	at := seen[K]{key, from, rev, true}
	if s.of.elsewhere(key) || s.of.askRunning(at) || at.in(s.of.lookup(key).writes) {
		return nil
	}
	s.caused(key, at.object(), rev)
	return s.of.admit(key, o)
}

func (s *sink[K]) supersede(key K, from Cached, rev store.Revision) {
	s.of.supersede(seen[K]{key, from, rev, false})
}

func (s *sink[K]) took(key K, from Cached, rev store.Revision) {
	s.of.show(seen[K]{key, from, rev, false})
}

func (s *sink[K]) kindOf() string { return s.of.kindOf() }

func (s *sink[K]) elsewhere(key K) bool { return s.of.elsewhere(key) }

func (s *sink[K]) caused(key K, object store.Key, rev store.Revision) {
	if hook := s.of.o.Hooks.OnAdd; hook != nil && !s.of.elsewhere(key) {
		s.of.containHere("OnAdd", func() {
			hook(key, Origin{Controller: s.of.name, Source: s.Name, Kind: s.kind, Key: object, Revision: rev})
		})
	}
}

func (s *sink[K]) skip(why string, attrs ...any) {
	s.of.mu.Lock()
	s.skipped++
	first := s.skipped == 1
	s.of.mu.Unlock()
	if first {
		s.of.log().Warn("reconcile: source gave something that is no use; further ones are only counted",
			append([]any{"source", s.Name, "why", why}, attrs...)...)
	}
}

func (s *sink[K]) mapperFailed(object store.Key, attempt int, err error) {
	(*feed[K])(s).fail(fmt.Errorf("mapping %s %v: %w", s.kind, object, err), attempt)
}

func (s *sink[K]) mappedAll() {} // what failed was reported for itself, and is not in the source's health

func (s *sink[K]) keep(v any) {
	s.of.mu.Lock()
	s.value = v
	s.of.mu.Unlock()
}

func (s *sink[K]) kept() any {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.value
}

func (s *sink[K]) again() <-chan struct{} {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.asks = make(chan struct{}, 1)
	return s.asks
}

func (s *sink[K]) gained() (shards []int) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	shards, s.unlisted = s.unlisted, nil
	return shards
}

func (s *sink[K]) inShards(key K, shards []int) bool {
	shard, ok := s.of.shardOf(key)
	return !ok || slices.Contains(shards, shard)
}

func (s *sink[K]) forShards(shards []int) kernelSink[K] { return &shardsSink[K]{s, shards} }
