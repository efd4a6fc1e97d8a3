package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/store"
)

// sources are the sources of a controller, and what comes of what they say.
type sources[K comparable] struct {
	k      *kernel[K]
	writes *pendingWrites[K]
	pool   *pool[K]

	// What follows is guarded by kernel.mu.
	feeds   []*feed[K]      // replaced, never written to: others have the old one
	removed []*feed[K]      // by Unwatch, which have not ended yet; replaced, never written to
	running context.Context // of Run; nil: it was not called
}

// feed is one source of a controller, and its sink. The supervisor starts and ends it; in
// between its goroutine runs the source, and starts it again when it fails.
//
//	idle ──start──▶ running ◀──▶ restarting      end: from any of them; idle when the
//	                   └──returns nil──▶ ended         goroutine has ended
type feed[K comparable] struct {
	of *sources[K]
	Source[K]

	value any // what the source keeps from one run to the next; its present run has it

	// What follows is guarded by kernel.mu.
	cancel     context.CancelCauseFunc
	done       <-chan struct{} // closed when the goroutine has ended; nil: there is none, or it is about to end
	ending     bool            // it was told to end
	stuck      *time.Timer     // reports that it has not, unless it does; while ending
	state      feedState
	began      time.Time // its present run
	err        error     // why it is not well
	failing    time.Time // since when err is not nil; of an err that counts no more: of the past
	failed     time.Time // when err came
	told       bool      // err comes from the source itself, which goes on
	complaints int       // how often in a row it has said so
	synced     bool
	restarts   int
	skipped    uint64        // keys and owners that were no use
	asks       chan struct{} // its present run lists once more for each value; nil: it cannot
	askers     int           // how many sources of this package its present run has called
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
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	return s.feeds
}

// addSources adds sources, or none if one of them cannot run.
func (s *sources[K]) addSources(list []Source[K]) error {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	feeds := s.feeds
	for _, src := range list {
		if err := src.check(); err != nil {
			return err
		}
		named := func(f *feed[K]) bool { return f.Name == src.Name }
		switch {
		case slices.ContainsFunc(feeds, named):
			return fmt.Errorf("%w: %q", ErrSourceExists, src.Name)
		case slices.ContainsFunc(s.removed, named):
			return fmt.Errorf("%w: %q", errSourceRunning, src.Name)
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
	s.k.mu.Lock()
	i := slices.IndexFunc(s.feeds, func(f *feed[K]) bool { return f.Name == name })
	if i < 0 {
		s.k.mu.Unlock()
		return false, fmt.Errorf("%w: %q", errNoSource, name)
	}
	f, ctx := s.feeds[i], s.running
	done := f.done
	s.feeds = slices.Concat(s.feeds[:i], s.feeds[i+1:])
	if done != nil {
		s.removed = append(slices.Clip(s.removed), f)
	}
	f.endLocked(errUnwatched)
	s.changedLocked()
	s.k.mu.Unlock()
	s.k.wake() // its end may be long in coming, and keys wait for it no more
	if done == nil {
		return true, nil
	}
	patience, cancel := context.WithTimeout(ctx, s.k.o.stuckAfter())
	defer cancel()
	return waitFor(patience.Done(), done), nil
}

var errUnwatched = errors.New("source was removed")

// changedLocked brings the view in line with the sources. A cache whose source was removed
// is still read, and the controller is still about its kind.
func (s *sources[K]) changedLocked() {
	s.k.changeViewLocked(func(v *view[K]) {
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
			if !f.mapped && v.kind == "" {
				v.kind = f.kind
			}
		}
	})
}

// unsynced names something that has not synced, and says why if that is known; "":
// everything has.
func (s *sources[K]) unsynced() (what string, why error) {
	s.k.mu.Lock()
	for _, f := range s.feeds {
		if !f.synced && what == "" {
			what, why = "source "+f.Name, f.err
		}
	}
	s.k.mu.Unlock()
	if what != "" {
		return what, why
	}
	for _, cached := range s.k.o.Reads {
		if !closed(cached.Synced()) {
			return "cache " + cached.Name(), healthOf(cached)
		}
	}
	return "", nil
}

// healthOf asks what is wrong with something that may be able to tell.
func healthOf(v any) error {
	if h, ok := v.(interface{ Health() error }); ok {
		return h.Health()
	}
	return nil
}

// isOwn reports whether the key's own run made a change, as far as is known. The store's
// watch can be faster than the call that wrote: while the key is running, the question is
// left with the run.
func (s *sources[K]) isOwn(at seen[K]) bool {
	return at.in(s.writes.lookup(at.key, false).writes) || s.pool.askRunning(at) ||
		at.in(s.writes.lookup(at.key, false).writes) // a run that ended meanwhile had noted before what it wrote
}

// start runs the source until it is told to end, unless it runs, or said that it has nothing
// more to say, or was removed. Only the supervisor calls it.
func (f *feed[K]) start(ctx context.Context) {
	s := f.of
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	if f.state != feedIdle || !slices.Contains(s.feeds, f) { // the supervisor's list may be from before Unwatch
		return
	}
	ctx, f.cancel = context.WithCancelCause(ctx)
	f.state, f.synced = feedRunning, false
	f.done = s.k.work.startLocked("source "+f.Name, func() { // ended by end
		defer f.ended()
		f.runAgain(ctx)
	})
}

// ended is the goroutine's last act.
func (f *feed[K]) ended() {
	s := f.of
	s.k.mu.Lock()
	f.cancel(nil)
	f.done = nil
	if f.ending {
		f.stuck.Stop() // it keeps the controller, and what that knows, in memory
		f.idleLocked()
	}
	s.removed = slices.DeleteFunc(slices.Clone(s.removed), func(r *feed[K]) bool { return r == f })
	s.k.mu.Unlock()
	s.k.wake()
}

// idleLocked makes a source whose goroutine has ended ready for another start.
func (f *feed[K]) idleLocked() {
	f.state, f.ending, f.synced = feedIdle, false, false
	f.failsLocked(nil)
	f.told = false
}

// end tells the source to end, and has it reported if it goes on for too long. It reports
// whether it has ended.
func (f *feed[K]) end(cause error) (ended bool) {
	f.of.k.mu.Lock()
	defer f.of.k.mu.Unlock()
	return f.endLocked(cause)
}

func (f *feed[K]) endLocked(cause error) (ended bool) {
	done := f.done
	switch {
	case done == nil:
		f.idleLocked()
	case !f.ending:
		f.ending, f.synced = true, false
		f.cancel(cause)
		f.stuck = time.AfterFunc(f.of.k.o.stuckAfter(), func() { f.ignoredItsEnd(done) })
	}
	return done == nil
}

// ignoredItsEnd reports a source that ignores the end of its context, unless it has
// just taken notice or was reported.
func (f *feed[K]) ignoredItsEnd(done <-chan struct{}) {
	f.of.k.mu.Lock()
	report := f.done == done && !errors.Is(f.err, errSourceRunning)
	if report {
		f.failsLocked(errSourceRunning)
		f.told = true
	}
	f.of.k.mu.Unlock()
	if report {
		f.fail(errSourceRunning, 0)
	}
}

// listAgain has the source list everything once more, for shards that were gained. One
// that cannot do that while it runs is ended, and started again when it has.
func (f *feed[K]) listAgain(gained []int) {
	f.of.k.mu.Lock()
	defer f.of.k.mu.Unlock()
	if f.asks == nil || f.done == nil {
		f.endLocked(errRelist)
		return
	}
	f.unlisted = append(f.unlisted, gained...)
	sleep.Wake(f.asks)
}

// healthyRun is how long a run of a source is at least that had started well: whatever
// ended it is news, and it is started again at once.
const healthyRun = 2 * time.Second

// runAgain runs the source, and runs it again when it fails, until ctx ends or the
// source has nothing more to say.
func (f *feed[K]) runAgain(ctx context.Context) {
	backoff := restarts()
	for again := 0; ; again++ {
		began := f.begin()
		err := isolate(func() error { return f.Run(ctx, f) })
		if ctx.Err() != nil {
			if p := new(PanicError); errors.As(err, &p) && !onlyCanceled(err) {
				f.fail(err, 0) // other errors mostly say that it was told to end
			}
			return
		}
		if err == nil {
			f.cannotList() // what was gained that this run has not listed, and what is gained from now on, is for another
			f.down(feedEnded, errSourceEnded, 0)
			f.Synced() // it will not say so any more
			return
		}
		healthy := time.Since(began) > healthyRun
		if healthy {
			again = 0
			backoff.Reset()
		}
		f.down(feedWaiting, err, again)
		if !healthy && !backoff.Wait(ctx) {
			return
		}
	}
}

// begin notes that a run of the source begins; what ended the one before still counts
// for a while.
func (f *feed[K]) begin() time.Time {
	f.of.k.mu.Lock()
	defer f.of.k.mu.Unlock()
	if f.state == feedWaiting {
		f.restarts++
	}
	f.state, f.began, f.told = feedRunning, time.Now(), false
	f.asks, f.askers, f.unlisted = nil, 0, nil // it lists everything
	return f.began
}

// down reports and notes why no run of the source goes on, after so many failures in a row.
func (f *feed[K]) down(s feedState, err error, before int) {
	f.fail(err, before)
	f.of.k.mu.Lock()
	f.failsLocked(err)
	f.state = s
	f.of.k.mu.Unlock()
}

// wellLocked reports whether nothing is wrong with the source: an error of the run before counts
// while the present one is young.
func (f *feed[K]) wellLocked() bool {
	return f.err == nil || f.state == feedRunning && !f.told && f.synced && time.Since(f.began) > healthyRun
}

// failsLocked notes why the source is not well, and since when.
func (f *feed[K]) failsLocked(err error) {
	now := time.Now()
	if f.wellLocked() {
		f.failing = now
	}
	f.err, f.failed = err, now
}

// fail reports a failure of the source, after so many others in a row. To be asked for a pause is none
// that needs a line.
func (f *feed[K]) fail(err error, before int) {
	f.of.k.report(Failure[K]{Controller: f.of.k.name, Source: f.Name, Attempt: before, Err: err}, before > 0 || ratelimit.IsThrottled(err))
}

// Add implements Sink. A key of another server is dropped: the server that gets its shard
// lists it then.
func (f *feed[K]) Add(key K, o queue.AddOptions) error {
	if err := validKey(key); err != nil {
		f.Skip("invalid key", "key", key, "err", store.Brief(err))
		return nil
	}
	return f.of.writes.admit(key, o)
}

// Synced implements Sink. What a source says that was told to end does not count.
func (f *feed[K]) Synced() {
	f.of.k.mu.Lock()
	f.synced = !f.ending
	f.of.k.mu.Unlock()
	f.of.k.wake()
}

// Failed implements Reporter.
func (f *feed[K]) Failed(err error) {
	err = contain.Check(err)
	f.of.k.mu.Lock()
	before := f.complaints
	switch {
	case err == nil:
		f.complaints = 0
	case !ratelimit.IsThrottled(err):
		f.complaints++
	}
	f.failsLocked(err)
	f.told = err != nil
	f.of.k.mu.Unlock()
	switch {
	case err != nil:
		f.fail(err, before)
	case before > 0:
		f.of.k.recovered(slog.String("source", f.Name), slog.Int("failures", before))
	}
}

// addChange adds the key of an object that changed. It waits for room in the queue.
func (f *feed[K]) addChange(ctx context.Context, at seen[K]) error {
	s := f.of
	if s.k.elsewhere(at.key) {
		return nil
	}
	own := (at.urgent || at.byOthers || at.supersedes) && s.isOwn(at)
	if own && at.byOthers {
		return nil
	}
	f.caused(at.key, at.object(), at.rev)
	o := at.add()
	o.Urgent = at.urgent && !own
	err := waitForRoom(ctx, func() error { return s.writes.admit(at.key, o) })
	if at.supersedes {
		s.pool.endSuperseded(at.key) // after the add: the run that ends is followed by one more
	}
	return err
}

// caused tells Hooks.OnAdd which change of an object is about to add key.
func (f *feed[K]) caused(key K, object store.Key, rev store.Revision) {
	if hook := f.of.k.o.Hooks.OnAdd; hook != nil && !f.of.k.elsewhere(key) {
		f.of.k.containHere("OnAdd", func() {
			hook(key, Origin{Controller: f.of.k.name, Source: f.Name, Kind: f.kind, Key: object, Revision: rev})
		})
	}
}

// Skip counts something that is no use, and has the first one logged.
func (f *feed[K]) Skip(why string, attrs ...any) {
	f.of.k.mu.Lock()
	f.skipped++
	first := f.skipped == 1
	f.of.k.mu.Unlock()
	if first {
		f.of.k.log().Warn("reconcile: source gave something that is no use; further ones are only counted",
			append([]any{"source", f.Name, "why", why}, attrs...)...)
	}
}

// Again asks this run of the source to list once more for each value, for the shards that
// Gained gives when the list begins. A run that does not call it is ended instead, and the
// source started again; so is one that calls several sources.
func (f *feed[K]) Again() <-chan struct{} { return f.listing(true) }

// cannotList is called in place of Again by a source that lists at the start of its run alone,
// and at the end of a run that nothing follows.
func (f *feed[K]) cannotList() { f.listing(false) }

func (f *feed[K]) listing(again bool) <-chan struct{} {
	f.of.k.mu.Lock()
	defer f.of.k.mu.Unlock()
	f.asks = nil
	switch f.askers++; {
	case again && f.askers == 1: // a request would reach one of several
		f.asks = make(chan struct{}, 1)
	case len(f.unlisted) > 0: // a request that one of them may not have taken
		f.endLocked(errRelist)
	}
	return f.asks
}

// Gained are the shards that the list is for which begins now.
func (f *feed[K]) Gained() (shards []int) {
	f.of.k.mu.Lock()
	defer f.of.k.mu.Unlock()
	shards = slices.Clone(f.unlisted)
	if len(f.asks) == 0 { // else some may have come after the list was taken: the next one is for them too
		f.unlisted = nil
	}
	return shards
}

// Elsewhere reports whether the key is another server's.
func (f *feed[K]) Elsewhere(key K) bool { return f.of.k.elsewhere(key) }

// inShards reports whether the key is in one of some shards, as far as that is known.
func (f *feed[K]) inShards(key K, shards []int) bool {
	shard, ok := f.of.k.shardOf(key)
	return !ok || slices.Contains(shards, shard)
}
