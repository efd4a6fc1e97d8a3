package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// A Runner is anything that runs until its context ends. A Manager treats its
// error like a controller's. It may also have
//
//	Name() string    else it is named for its String, which is shown then, or its type; with #2 behind
//	                 it if another one is named so
//	Health() error   nil, or what is wrong: for the Manager's Health
//	Ready() error    nil, or what it waits for: for the Manager's Ready
//	EndsLast()       does nothing: a runner that has it is ended when all others have, as a
//	                 server that shows how they end
type Runner interface {
	Run(ctx context.Context) error
}

// A Manager runs controllers, the caches and leases they use, and any other
// Runner, as one. The zero Manager works; set its fields before Register. All
// methods are safe for concurrent use.
//
// To run until the process is told to end:
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	defer stop()
//	err := m.Run(ctx)
type Manager struct {
	// Logger is for the controllers that have none. Default: slog.Default().
	Logger *slog.Logger
	// StopTimeout is how long stopping may take in all. Default 45 s; a negative one is
	// an error of Run. Options.StopTimeout says what controllers do with it.
	StopTimeout time.Duration
	// Placement is for the controllers that have none. Default: a controller
	// whose objects are on a backend that another process can open too
	// (store.Leaser, Shared) runs on one server at a time, by a lease named
	// for it, in that backend; one on a backend of this process alone runs at once.
	// Where no source says whose objects the keys are, those of its caches count. To run on
	// every server in spite of a shared backend, say lease.EveryServer().
	Placement lease.Placement
	// Summary is how often a line is logged about each controller: how many runs
	// there were since the last one, how many failed, and how many keys wait for
	// what. Default 0: never.
	Summary time.Duration
	// AllowCycles lets controllers wake each other in a circle, with a warning.
	// Default: Register refuses it.
	AllowCycles bool

	mu       sync.Mutex      // guards what follows, and what members and groups say
	members  []*member       // replaced, never written to: others have the old one
	samples  []func()        // that Sample was given
	ctx      context.Context // of the runners; nil: Run was not called
	end      context.CancelFunc
	caching  bool    // nothing but caches was registered: they are what Run is for
	stopping bool    // Run ends all members
	errs     []error // of members, in the order in which they ended
}

// member is one runner of a Manager.
type member struct {
	Runner
	controller controller // nil: it is none
	name       string
	own        string   // the name by its method Name; empty: it has none
	cache      bool     // outlives the others: they need it to stop in order
	last       bool     // outlives even caches
	found      bool     // a cache that was not registered: it runs for the controllers that use it, and takes no name
	caches     []Cached // that it used when it was started, if it is a controller
	claim      any      // that it has among claims; nil: none

	// What follows is guarded by Manager.mu.
	cancel  context.CancelFunc
	done    chan struct{} // closed when Run has returned; nil: it was not called
	running bool          // done is there, and open
	err     error         // that Run has returned
	stopped bool          // by the func that Start gave, whose caller gets its error, or as a cache of no use: it ends nothing else
}

// Register adds runners. It fails, and adds none, on a nil runner, on one that
// is there already, on a name that is taken, on controllers that
// would wake each other in a circle (ErrCycle), on one that has run by itself, and after
// Run.
func (m *Manager) Register(rs ...Runner) error {
	m.mu.Lock()
	members, err := m.withLocked(rs...)
	if m.ctx != nil {
		err = errRunning
	}
	if err == nil {
		m.members = members
	}
	m.mu.Unlock()
	if err != nil {
		return fmt.Errorf("reconcile: Manager.Register: %w", err)
	}
	m.warnOfCycle()
	return nil
}

// withLocked is the members with further ones, if these are allowed.
func (m *Manager) withLocked(rs ...Runner) ([]*member, error) {
	members := slices.Clone(m.members)
	for _, r := range rs {
		if isNil(r) {
			return nil, errors.New("nil runner")
		}
		if c, ok := r.(interface{ machine() controller }); ok {
			if m := c.machine(); m == nil {
				return nil, errNotMade
			} else if err := m.startable(); err != nil {
				return nil, err
			}
		}
		mb := newMember(r)
		if mb.controller != nil {
			if p := mb.controller.placementOf(); p != nil && !reflect.ValueOf(p).Comparable() {
				return nil, fmt.Errorf("controller %q: placement %v cannot be compared with that of others: give it as a pointer", mb.name, p)
			}
		}
		for _, o := range members {
			if mb.own != "" && o.own == mb.own && !o.found || same(o.Runner, r) {
				return nil, fmt.Errorf("%w: %q", errNameTaken, mb.name)
			}
		}
		mb.distinguish(members)
		members = append(members, mb)
	}
	return members, m.checkCycles(members)
}

func newMember(r Runner) *member {
	mb := &member{Runner: r, name: strings.TrimPrefix(fmt.Sprintf("%T", r), "*")}
	if s, ok := r.(fmt.Stringer); ok {
		mb.name = s.String()
	}
	if c, ok := r.(interface{ machine() controller }); ok {
		mb.controller = c.machine()
	}
	_, mb.cache = r.(Cached)
	_, mb.last = r.(interface{ EndsLast() })
	if named, ok := r.(interface{ Name() string }); ok && named.Name() != "" {
		mb.name = named.Name()
		if mb.cache {
			mb.name = "cache " + mb.name // a controller may be named for the same kind
		}
		mb.own = mb.name
	}
	return mb
}

// distinguish puts a number behind the name of a member that another one goes by, as two can of which one
// has no name of its own.
func (mb *member) distinguish(members []*member) {
	is := mb.name
	for n := 2; slices.ContainsFunc(members, func(o *member) bool { return o.name == mb.name && !o.found }); n++ {
		mb.name = fmt.Sprintf("%s#%d", is, n)
	}
}

// same tells one that is registered twice also where it has no name.
func same(a, b Runner) bool {
	return reflect.ValueOf(a).Comparable() && a == b
}

// checkCycles refuses controllers that wake each other in a circle.
func (m *Manager) checkCycles(members []*member) error {
	err := checkCycles(graphOf(members))
	if err == nil || m.AllowCycles {
		return nil
	}
	return fmt.Errorf("%w; leave one of these sources out, set Options.OnlyDeletes of a controller that does nothing but delete its objects, or set Manager.AllowCycles", err)
}

// warnOfCycle logs a cycle that is allowed. It is called without the lock: a log handler may
// ask the Manager how it is.
func (m *Manager) warnOfCycle() {
	if err := checkCycles(graphOf(m.present())); err != nil {
		m.log().Warn("reconcile: controllers wake each other in a circle", "err", store.Brief(err))
	}
}

func graphOf(members []*member) (g []graphNode) {
	for _, mb := range members {
		if mb.controller != nil {
			g = append(g, mb.controller.node())
		}
	}
	return g
}

func (m *Manager) log() *slog.Logger { return cmp.Or(m.Logger, slog.Default()) }

// Run runs everything that was registered and the caches that controllers use,
// and blocks. Caches start first. When ctx ends, or a runner fails, everything is
// stopped: controllers and other runners first, each controller giving its lease
// back after its last run; then caches, when they have shown what the last runs wrote, or
// a second later; at the end the runners that have EndsLast, such as the page of package web.
//
// Run returns after the last of them has, with the first error and everything
// else that failed, joined. At StopTimeout it returns anyway, with an error
// that names those that have not. It returns nil if ctx ended
// and all went well, or if all runners but the caches returned nil by themselves. A
// second Run is an error. So is a cache that another Manager runs, and a controller without a
// placement of whose name another Manager of this process runs one over the same backend: no
// lease would keep both from running each key.
func (m *Manager) Run(ctx context.Context) (err error) {
	if err := m.begin(ctx); err != nil {
		return fmt.Errorf("reconcile: Manager.Run: %w", err)
	}
	m.warnOfCycle()
	began := time.Now()
	m.sayStarted()
	defer func() {
		attrs := []any{"after", time.Since(began).Round(time.Millisecond)}
		if err != nil {
			m.log().Warn("reconcile: manager ended", append(attrs, "err", store.Brief(err))...)
		} else {
			m.log().Info("reconcile: manager ended", attrs...)
		}
	}()
	var aside sync.WaitGroup // what goes on to the end of Run and is no member
	asideCtx, endAside := context.WithCancel(context.WithoutCancel(ctx))
	aside.Go(func() { m.sample(asideCtx) })
	aside.Go(func() { m.summarise(asideCtx) })
	defer aside.Wait()
	defer endAside()

	<-m.ctx.Done()
	m.mu.Lock()
	m.stopping = true
	m.mu.Unlock()
	limit, cancel := context.WithTimeout(context.Background(), m.stopTimeout())
	defer cancel()
	left := m.stopAll(limit, func(mb *member) bool { return !mb.cache && !mb.last })
	m.awaitLastWrites(limit)
	left = append(left, m.stopAll(limit, func(mb *member) bool { return mb.cache && !mb.last })...) // caches serve the controllers while these drain
	left = append(left, m.stopAll(limit, func(mb *member) bool { return mb.last })...)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(left) > 0 {
		return errors.Join(append(m.errs, &leftoverError{Names: left})...)
	}
	return errors.Join(m.errs...)
}

// stopAll ends the members that which picks, and names those that have not ended with
// limit. No member is added any more.
func (m *Manager) stopAll(limit context.Context, which func(*member) bool) (left []string) {
	for _, mb := range m.present() {
		if which(mb) {
			mb.cancel()
		}
	}
	for _, mb := range m.present() {
		if which(mb) && !waitFor(limit.Done(), mb.done) {
			left = append(left, mb.name)
		}
	}
	return left
}

// lastWritesWait bounds how long caches go on after the last run. One whose store does not
// answer must not hold up the end of the process.
const lastWritesWait = time.Second

// awaitLastWrites waits until the caches have shown what the last runs wrote, for what reads
// them after Run: whether all is as declared is asked then.
func (m *Manager) awaitLastWrites(limit context.Context) {
	limit, cancel := context.WithTimeout(limit, lastWritesWait)
	defer cancel()
	for _, mb := range m.present() {
		if mb.controller == nil {
			continue
		}
		for cached, revision := range mb.controller.unseen() {
			reached := make(chan struct{})
			stop := cached.OnRevision(revision, func() { close(reached) })
			waitFor(limit.Done(), reached)
			stop()
		}
	}
}

// Sample has the Manager call f every ten seconds while it runs, for pages that show a
// history: the first time when Run begins or, if it has begun, after ten seconds at most.
// All such functions are called on one goroutine, which ends before Run returns. f must be
// quick and must not panic: a panic ends the process. Before and after Run it is not called.
func (m *Manager) Sample(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.samples = append(m.samples, f)
}

func (m *Manager) sample(ctx context.Context) {
	for again := true; again; again = sleep.For(ctx, introspect.SampleEvery) {
		m.mu.Lock()
		fs := slices.Clone(m.samples)
		m.mu.Unlock()
		for _, f := range fs {
			f()
		}
	}
}

// summarise has each controller log a line about itself every so often.
func (m *Manager) summarise(ctx context.Context) {
	for m.Summary > 0 && sleep.For(ctx, m.Summary) {
		for _, mb := range m.present() {
			if mb.controller != nil {
				mb.controller.summarise(m.Summary)
			}
		}
	}
}

// Start runs a further runner while Run does, and the caches that it uses, with the checks
// of Register. It fails when Run was not called, or is stopping, and with a controller whose
// placement another one has (Manager.Placement included).
//
// stop ends the runner and returns when it has ended, with its error, which does not end
// the Manager; caches that nothing else uses any more end after it, and what they fail with
// is in the error of Manager.Run. The name is free then.
// A runner that has not ended after StopTimeout is named in the error,
// and keeps its name and its caches until it ends; an error that it ends with is logged.
// Calling stop again gives the same. A runner that ends by itself is one that was
// registered: an error ends the Manager.
func (m *Manager) Start(r Runner) (stop func() error, err error) {
	mb, err := m.start(r)
	if err != nil {
		return nil, fmt.Errorf("reconcile: Manager.Start: %w", err)
	}
	m.warnOfCycle()
	return sync.OnceValue(func() error { return m.stop(mb) }), nil
}

var errNotStartable = errors.New("the Manager is not running: Register is for what runs from the beginning")

func (m *Manager) start(r Runner) (*member, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx == nil || m.stopping {
		return nil, errNotStartable
	}
	members, err := m.withLocked(r)
	if err == nil {
		err = m.place(members)
	}
	if err != nil {
		return nil, err
	}
	mb := members[len(members)-1]
	members = withCaches(members)
	if err := claimLocked(members); err != nil {
		return nil, err
	}
	m.members = members
	m.adjustLocked()
	return mb, nil
}

// stop ends a member that start has started.
func (m *Manager) stop(mb *member) error {
	m.mu.Lock()
	mb.stopped = true
	m.adjustLocked() // it may have ended by itself
	m.mu.Unlock()
	mb.cancel()
	limit, cancel := context.WithTimeout(context.Background(), m.stopTimeout())
	defer cancel()
	if waitFor(limit.Done(), mb.done) {
		return mb.err
	}
	go func() { // ends with the runner, which nothing waits for any more
		if <-mb.done; mb.err != nil {
			m.log().Warn("reconcile: runner that was left behind has ended", "runner", mb.name, "err", store.Brief(mb.err))
		}
	}()
	return &leftoverError{Names: []string{mb.name}}
}

// adjustLocked takes out the members that were stopped and have ended. Unless all are to end,
// it starts those that were not started, the caches that controllers use included, and ends
// a cache that it found and none of them uses any more.
func (m *Manager) adjustLocked() {
	m.members = slices.DeleteFunc(slices.Clone(m.members), func(mb *member) bool { return mb.stopped && !mb.running })
	if m.stopping {
		return
	}
	m.members = withCaches(m.members)
	for _, caches := range []bool{true, false} {
		for _, mb := range m.members {
			if mb.cache == caches && mb.done == nil {
				m.startLocked(mb)
			}
		}
	}
	used := usedCaches(m.members)
	for _, mb := range m.members {
		if mb.found && !mb.stopped && !slices.ContainsFunc(used, mb.runs) {
			mb.stopped = true
			mb.cancel()
		}
	}
}

// withCaches are the members, and one for each cache that controllers use and none of them
// runs.
func withCaches(members []*member) []*member {
	members = slices.Clip(members)
	for _, cached := range usedCaches(members) {
		if !slices.ContainsFunc(members, func(mb *member) bool { return mb.runs(cached) }) {
			mb := newMember(cached)
			mb.found = true
			members = append(members, mb)
		}
	}
	return members
}

func (mb *member) runs(cached Cached) bool { return same(mb.Runner, cached) }

// usedCaches are the caches that controllers use. One that came to a controller while it ran
// is the program's to run: see Watch.
func usedCaches(members []*member) (used []Cached) {
	for _, mb := range members {
		if mb.controller != nil && mb.done == nil {
			used = append(used, mb.controller.caches()...)
		}
		used = append(used, mb.caches...)
	}
	return used
}

// sayStarted logs what runs.
func (m *Manager) sayStarted() {
	var controllers, others []string
	for _, mb := range m.present() {
		if mb.controller != nil {
			controllers = append(controllers, mb.name)
		} else {
			others = append(others, mb.name)
		}
	}
	m.log().Info("reconcile: manager started", "controllers", controllers, "others", others)
}

// present are the members and, before Run, those that it will run besides.
func (m *Manager) present() []*member {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx == nil {
		return withCaches(m.members)
	}
	return m.members
}

// begin starts everything.
func (m *Manager) begin(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.ctx != nil:
		return errRunning
	case len(m.members) == 0:
		return errors.New("nothing is registered")
	case m.StopTimeout < 0:
		return fmt.Errorf("StopTimeout is %v, want 0 or more", m.StopTimeout)
	}
	// Sources may have been added since Register.
	if err := m.checkCycles(m.members); err != nil {
		return err
	}
	if err := m.place(m.members); err != nil {
		return err
	}
	members := withCaches(m.members)
	if err := claimLocked(members); err != nil {
		return err
	}
	m.members = members
	m.caching = !slices.ContainsFunc(m.members, func(mb *member) bool { return !mb.cache })
	m.ctx, m.end = context.WithCancel(ctx)
	m.adjustLocked()
	return nil
}

func (m *Manager) stopTimeout() time.Duration {
	return min(cmp.Or(m.StopTimeout, defaultStopTimeout), maxTime)
}

// place gives those of the members that were not started their placement. One that several
// share is run once for all of them, so that no further one can join when it runs.
func (m *Manager) place(members []*member) (err error) {
	shared := make(map[lease.Placement][]*member)
	for _, mb := range members {
		if mb.controller == nil {
			continue
		}
		p := ungrouped(mb.controller.placementOf())
		if p == nil && mb.done == nil {
			if p, err = m.defaultPlacement(mb.controller); err != nil {
				return fmt.Errorf("placement of %q: %w", mb.name, err)
			}
		}
		shared[p] = append(shared[p], mb)
	}
	for p, of := range shared {
		fresh := slices.DeleteFunc(slices.Clone(of), func(mb *member) bool { return mb.done != nil })
		switch {
		case !leased(p) || len(of) == 1 || len(fresh) == 0:
		case len(fresh) < len(of):
			return fmt.Errorf("controller %q: its placement is that of %q, which runs already: give it one of its own", fresh[0].name, of[0].name)
		default:
			p = &group{Placement: p, size: len(of), mu: &m.mu, done: make(chan struct{})}
		}
		for _, mb := range fresh {
			if err := mb.controller.setPlacement(p); err != nil {
				return fmt.Errorf("placement of %q: %w", mb.name, err)
			}
		}
	}
	return nil
}

func (m *Manager) defaultPlacement(c controller) (lease.Placement, error) {
	if m.Placement != nil {
		return m.Placement, nil
	}
	caches := c.caches()
	if shown := c.shown(); len(shown) > 0 {
		caches = shown[:1] // a lease in another backend would fence every write to this one
	}
	for _, cached := range caches {
		b := cached.Backend()
		if l, ok := b.(store.Leaser); ok && l.Shared() {
			return lease.NewSingleton(b, c.Name(), &lease.Options{Logger: m.log()})
		}
	}
	return nil, nil
}

// startLocked runs a member. ctx ends for most runners when everything is stopped, and for
// caches and those that end last later.
func (m *Manager) startLocked(mb *member) {
	ctx := m.ctx
	if mb.cache || mb.last {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	if mb.controller != nil {
		mb.controller.adopt(m.log(), m.stopTimeout())
		mb.caches = mb.controller.caches()
	}
	mb.cancel, mb.done, mb.running = cancel, make(chan struct{}), true
	go func() { // ended by ctx; waited for through done
		err := contain.ErrGoexit
		defer func() {
			if ctx.Err() != nil && onlyCanceled(err) {
				err = nil // it only says that it was told to stop
			}
			cancel()
			m.ended(mb, err)
		}()
		err = protect(func() error { return mb.Run(ctx) })
	}()
}

// ended notes that a member's Run has returned. Everything is stopped when one has failed,
// or all but the caches have ended.
func (m *Manager) ended(mb *member, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mb.err, mb.running = err, false
	unclaim(mb.claim)
	close(mb.done)
	failed := err != nil && !mb.stopped
	if failed || err != nil && mb.found {
		m.errs = append(m.errs, fmt.Errorf("%s: %w", mb.name, err))
	}
	m.adjustLocked()
	left := slices.ContainsFunc(m.members, func(mb *member) bool { return mb.running && (!mb.cache || m.caching) })
	if failed || !left {
		m.end()
	}
}

// A leftoverError names what had not returned when a Manager's time to stop was
// over. It goes on alone.
type leftoverError struct{ Names []string }

func (e *leftoverError) Error() string {
	return "reconcile: still running when the time to stop was over: " + strings.Join(e.Names, ", ")
}

// claimLocked claims what the members that were not started must have for themselves.
func claimLocked(members []*member) error {
	var fresh []*member
	var keys []any
	for _, mb := range members {
		if key := mb.claimable(); mb.done == nil && key != nil {
			fresh, keys = append(fresh, mb), append(keys, key)
		}
	}
	if i, ok := claim(keys); !ok {
		return fresh[i].taken()
	}
	for i, mb := range fresh {
		mb.claim = keys[i]
	}
	return nil
}

// claimable is what the member must have for itself; nil: nothing.
func (mb *member) claimable() any {
	if mb.cache {
		return keyable(mb.Runner)
	}
	if mb.controller == nil || mb.controller.placementOf() != nil {
		return nil
	}
	caches := mb.controller.shown()
	if len(caches) == 0 {
		caches = mb.controller.caches()
	}
	if len(caches) == 0 || keyable(caches[0].Backend()) == nil {
		return nil
	}
	return unplaced{caches[0].Backend(), mb.name}
}

// taken is why a member must not run: what it must have for itself is another's.
func (mb *member) taken() error {
	if mb.cache {
		return fmt.Errorf("%s: another Manager runs it: make a cache for each Manager, or register the controllers that read it with one", mb.name)
	}
	return fmt.Errorf("controller %q: one of this name runs already over the same store in this process, and each key would be run by both: use one Manager, or give both the placement that is meant, as lease.EveryServer()", mb.name)
}
