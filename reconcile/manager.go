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

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// A Runner is anything that runs until its context ends. A Manager treats its
// error like a controller's. It may also have
//
//	Name() string    else it is named for its type
//	Health() error   nil, or what is wrong: for the Manager's Health
//	Ready() error    nil, or what it waits for: for the Manager's Ready
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
	// Hosts are the names under which Health and Ready are served, besides
	// localhost and IP addresses; "*" allows all. See CheckHost. Default: none.
	Hosts []string
	// AllowCycles lets controllers wake each other in a circle, with a warning.
	// Default: Register refuses it.
	AllowCycles bool

	mu      sync.Mutex // guards what follows, what members and groups say, and managed
	members []*member  // replaced, never written to: others have the old one
	run     *managed   // of Run; nil before it
	samples []func()   // that Sample was given
}

// controller is a Controller[K] of any K, as a Manager needs it.
type controller interface {
	Runner
	Name() string
	made() error
	hasRun() bool
	caches() []Cached
	ownCache() Cached
	ownedCaches() []Cached
	adopt(l *slog.Logger, stop time.Duration)
	placementOf() lease.Placement
	setPlacement(p lease.Placement) error
	node() graphNode
	summarise(since Counts, in time.Duration) (now Counts)
}

// member is one runner of a Manager.
type member struct {
	Runner
	name  string
	cache bool // outlives the others: they need it to stop in order
	found bool // a cache that was not registered: it runs for the controllers that use it

	mu      *sync.Mutex // the Manager's; guards what follows
	state   string      // "waiting", "running", "ended", "failed"
	err     error
	cancel  context.CancelFunc
	done    chan struct{} // closed when Run has returned; nil: it was not called
	stopped bool          // by the func that Start gave: its error is for that caller
}

// Register adds runners. It fails, and adds none, on a nil runner, on one that
// is there already, on a name that is taken (ErrNameTaken), on controllers that
// would wake each other in a circle (ErrCycle), and after Run (ErrRunning).
func (m *Manager) Register(rs ...Runner) error {
	m.mu.Lock()
	members, cycle, err := m.withLocked(rs)
	if m.run != nil {
		err = ErrRunning
	}
	if err == nil {
		m.members = members
	}
	m.mu.Unlock()
	if err != nil {
		return fmt.Errorf("reconcile: Manager.Register: %w", err)
	}
	m.warn(cycle)
	return nil
}

// withLocked is the members with further ones, if these are allowed, and the cycle that
// AllowCycles allows.
func (m *Manager) withLocked(rs []Runner) (members []*member, cycle, err error) {
	members = slices.Clone(m.members)
	for _, r := range rs {
		if isNil(r) {
			return nil, nil, errors.New("nil runner")
		}
		if c, ok := r.(controller); ok && c.made() != nil {
			return nil, nil, c.made()
		}
		name := nameOf(r, len(members))
		for _, o := range members {
			if o.name == name || same(o.Runner, r) {
				return nil, nil, fmt.Errorf("%w: %q", ErrNameTaken, name)
			}
		}
		_, isCache := r.(Cached)
		members = append(members, &member{Runner: r, name: name, cache: isCache, mu: &m.mu, state: "waiting"})
	}
	cycle, err = m.checkCycles(members)
	return members, cycle, err
}

// same tells one that is registered twice also where it has no name.
func same(a, b Runner) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}

func nameOf(r Runner, n int) string {
	named, ok := r.(interface{ Name() string })
	if !ok {
		return fmt.Sprintf("%T#%d", r, n)
	}
	if _, isCache := r.(Cached); isCache {
		return "cache " + named.Name() // a controller may be named for the same kind
	}
	return named.Name()
}

// checkCycles gives the circle in which controllers wake each other: allowed, to be passed
// to warn, or as an error.
func (m *Manager) checkCycles(members []*member) (allowed, err error) {
	cycle := graphOf(members).cycle()
	if cycle == nil {
		return nil, nil
	}
	err = fmt.Errorf("%w: %s", ErrCycle, describeCycle(cycle))
	if !m.AllowCycles {
		return nil, fmt.Errorf("%w; leave one of these sources out, set Options.OnlyDeletes of a controller that does nothing but delete its objects, or set Manager.AllowCycles", err)
	}
	return err, nil
}

// warn logs an allowed cycle; nil: there is none. It is called without the lock: a log
// handler may ask the Manager how it is.
func (m *Manager) warn(cycle error) {
	if cycle != nil {
		m.log().Warn("reconcile: controllers wake each other in a circle", "err", store.Brief(cycle))
	}
}

// controllersOf are the controllers among members.
func controllersOf(members []*member) (cs []controller) {
	for _, mb := range members {
		if c, ok := mb.Runner.(controller); ok {
			cs = append(cs, c)
		}
	}
	return cs
}

func graphOf(members []*member) (g graph) {
	for _, c := range controllersOf(members) {
		g = append(g, c.node())
	}
	return g
}

func (m *Manager) log() *slog.Logger {
	if m.Logger != nil {
		return m.Logger
	}
	return slog.Default()
}

// Run runs everything that was registered and the caches that controllers use,
// and blocks. Caches start first. When ctx ends, or a runner fails, everything is
// stopped: controllers and other runners first, each controller giving its lease
// back after its last run; caches last.
//
// Run returns after the last of them has, with the first error and everything
// else that failed, joined. At StopTimeout it returns anyway, with an error
// that names those that have not (*LeftoverError). It returns nil if ctx ended
// and all went well, or if all runners but the caches returned nil by themselves. A
// second Run is ErrRunning.
func (m *Manager) Run(ctx context.Context) (err error) {
	r, cycle, err := m.begin(ctx)
	if err != nil {
		return fmt.Errorf("reconcile: Manager.Run: %w", err)
	}
	m.warn(cycle)
	began := time.Now()
	m.sayStarted()
	defer func() {
		if err != nil {
			m.log().Warn("reconcile: manager ended", "after", time.Since(began).Round(time.Millisecond), "err", store.Brief(err))
		} else {
			m.log().Info("reconcile: manager ended", "after", time.Since(began).Round(time.Millisecond))
		}
	}()
	defer r.wait()
	defer r.stopCaches()
	defer r.stopRunners()
	r.await(ctx)
	m.mu.Lock()
	r.stopping = true
	m.mu.Unlock()
	r.stopRunners()
	limit, cancel := context.WithTimeout(context.Background(), m.stopTimeout())
	defer cancel()
	r.waitWhile(limit, func() bool { return r.anyLeftLocked(func(mb *member) bool { return !mb.cache }) })
	r.stopCaches()
	r.waitWhile(limit, func() bool { return len(r.left) > 0 })
	return r.result()
}

// SampleEvery is how often a Manager calls what Sample was given.
const SampleEvery = 10 * time.Second

// Sample has the Manager call f every SampleEvery while it runs, for pages that show a
// history: the first time when Run begins or, if it has begun, after SampleEvery at most.
// All such functions are called on one goroutine, which there is only with such a function
// and ends before Run returns. f must be quick and must not panic: a panic ends the
// process. Before and after Run it is not called.
func (m *Manager) Sample(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.samples = append(m.samples, f)
	if m.run != nil {
		m.sampleLocked(m.run)
	}
}

// sampleLocked starts the calls, if there is something to call and Run goes on.
func (m *Manager) sampleLocked(r *managed) {
	if len(m.samples) > 0 && !r.sampling {
		r.sampling = true
		r.aside.Go(func() { m.sample(r.cacheCtx) })
	}
}

func (m *Manager) sample(ctx context.Context) {
	for again := true; again; again = sleep.For(ctx, SampleEvery) {
		m.mu.Lock()
		fs := slices.Clone(m.samples)
		m.mu.Unlock()
		for _, f := range fs {
			f()
		}
	}
}

// Start runs a further runner while Run does, and the caches that it uses, with the checks
// of Register. It fails when Run was not called, or is stopping, with a controller that
// has run before, with one whose placement another one has (Manager.Placement included),
// and with one of For whose cache runs already, for others that use it.
//
// stop ends the runner and returns when it has ended, with its error, which does not end
// the Manager; caches that nothing else uses any more end after it. The name is free then.
// A runner that has not ended after StopTimeout is named in the error, a *LeftoverError,
// and keeps its name and its caches until it ends; an error that it ends with is logged.
// Calling stop again gives the same. A runner that ends by itself is one that was
// registered: an error ends the Manager.
func (m *Manager) Start(r Runner) (stop func() error, err error) {
	mb, cycle, err := m.start(r)
	if err != nil {
		return nil, fmt.Errorf("reconcile: Manager.Start: %w", err)
	}
	m.warn(cycle)
	return sync.OnceValue(func() error { return m.stop(mb) }), nil
}

var errNotStartable = errors.New("the Manager is not running: Register is for what runs from the beginning")

func (m *Manager) start(r Runner) (mb *member, cycle, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil || m.run.stopping {
		return nil, nil, errNotStartable
	}
	members, cycle, err := m.withLocked([]Runner{r})
	if err != nil {
		return nil, nil, err
	}
	mb = members[len(members)-1]
	if c, ok := r.(controller); ok {
		if c.hasRun() {
			return nil, nil, fmt.Errorf("controller %q: %w", mb.name, ErrRunning)
		}
		for _, cached := range c.ownedCaches() {
			if slices.ContainsFunc(m.members, func(o *member) bool { return same(o.Runner, cached) }) {
				return nil, nil, fmt.Errorf("controller %q: its cache runs already, for those that use it: start it before them", mb.name)
			}
		}
		if other := placedLike(m.members, cmp.Or(c.placementOf(), m.Placement)); other != "" {
			return nil, nil, fmt.Errorf("controller %q: its placement is that of %q, which runs already: give it one of its own", mb.name, other)
		}
		if err := m.place([]*member{mb}); err != nil {
			return nil, nil, err
		}
	}
	m.members = members
	if c, ok := r.(controller); ok {
		m.bringCachesLocked(c.caches())
	}
	m.run.startLocked(mb)
	return mb, cycle, nil
}

// placedLike names a controller of that placement; "": none has it.
func placedLike(members []*member, p lease.Placement) string {
	for _, c := range controllersOf(members) {
		if leased(p) && ungrouped(c.placementOf()) == p {
			return c.Name()
		}
	}
	return ""
}

// stop ends a member that start has started.
func (m *Manager) stop(mb *member) error {
	m.mu.Lock()
	mb.stopped = true
	m.mu.Unlock()
	mb.cancel()
	limit, cancel := context.WithTimeout(context.Background(), m.stopTimeout())
	defer cancel()
	if !waitFor(limit, mb.done) {
		go func() { // ends with the runner, which nothing waits for any more
			<-mb.done
			if err := m.forget(mb); err != nil {
				m.log().Warn("reconcile: runner that was left behind has ended", "runner", mb.name, "err", store.Brief(err))
			}
		}()
		return &LeftoverError{Names: []string{mb.name}}
	}
	return m.forget(mb)
}

// forget takes out a member that was stopped and has ended, with the caches that only it
// used, and gives its error.
func (m *Manager) forget(mb *member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members = slices.DeleteFunc(slices.Clone(m.members), func(o *member) bool { return o == mb })
	if c, ok := mb.Runner.(controller); ok && !m.run.stopping {
		m.bringCachesLocked(c.ownedCaches()) // which it ran itself, for others that use them
	}
	return mb.err
}

// bringCachesLocked starts those of the caches that controllers use and no member runs, and
// ends what was started so and no controller uses any more. A cache that came to a
// controller while it ran is the program's to run: see Watch.
func (m *Manager) bringCachesLocked(of []Cached) {
	used := usedCaches(m.members)
	var members []*member
	for _, cached := range used {
		if slices.Contains(of, cached) && !slices.ContainsFunc(m.members, func(o *member) bool { return same(o.Runner, cached) }) {
			f := &member{Runner: cached, name: nameOf(cached, 0), cache: true, found: true, mu: &m.mu}
			members = append(members, f)
			m.run.startLocked(f)
		}
	}
	for _, o := range m.members {
		if cached, ok := o.Runner.(Cached); ok && o.found && !slices.Contains(used, cached) {
			o.stopped = true
			o.cancel()
		} else {
			members = append(members, o)
		}
	}
	m.members = members
}

// usedCaches are the caches that controllers use, but for those that were registered and
// those that a controller runs itself.
func usedCaches(members []*member) (used []Cached) {
	var others []Cached
	for _, mb := range members {
		if cached, ok := mb.Runner.(Cached); ok && !mb.found {
			others = append(others, cached)
		}
	}
	cs := controllersOf(members)
	for _, c := range cs {
		others = append(others, c.ownedCaches()...)
	}
	for _, c := range cs {
		for _, cached := range c.caches() {
			if !slices.Contains(others, cached) && !slices.Contains(used, cached) {
				used = append(used, cached)
			}
		}
	}
	return used
}

// summarise has each controller log a line about itself every so often, until ctx ends.
func (m *Manager) summarise(ctx context.Context) {
	before := make(map[controller]Counts) // by controller: a name may be used again
	for sleep.For(ctx, m.Summary) {
		m.mu.Lock()
		list := controllersOf(m.members)
		m.mu.Unlock()
		counts := make(map[controller]Counts)
		for _, c := range list {
			counts[c] = c.summarise(before[c], m.Summary)
		}
		before = counts
	}
}

// sayStarted logs what runs.
func (m *Manager) sayStarted() {
	m.mu.Lock()
	members := m.members
	m.mu.Unlock()
	var controllers, others []string
	for _, mb := range members {
		if _, ok := mb.Runner.(controller); ok {
			controllers = append(controllers, mb.name)
		} else {
			others = append(others, mb.name)
		}
	}
	m.log().Info("reconcile: manager started", "controllers", controllers, "others", others)
}

// begin freezes the Manager, works out what runs, and starts it, caches first.
func (m *Manager) begin(ctx context.Context) (r *managed, cycle, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run != nil {
		return nil, nil, ErrRunning
	}
	if len(m.members) == 0 {
		return nil, nil, errors.New("nothing is registered")
	}
	if m.StopTimeout < 0 {
		return nil, nil, fmt.Errorf("StopTimeout is %v, want 0 or more", m.StopTimeout)
	}
	// Sources may have been added since Register.
	if cycle, err = m.checkCycles(m.members); err != nil {
		return nil, nil, err
	}
	if err := m.place(m.members); err != nil {
		return nil, nil, err
	}
	r = &managed{mu: &m.mu, news: make(chan struct{}, 1)}
	// Caches serve the controllers while these drain.
	r.cacheCtx, r.stopCaches = context.WithCancel(context.WithoutCancel(ctx))
	r.runCtx, r.stopRunners = context.WithCancel(ctx)
	m.run = r
	registered := m.members
	m.bringCachesLocked(usedCaches(registered))
	for _, caches := range []bool{true, false} {
		for _, mb := range registered {
			if mb.cache == caches {
				r.startLocked(mb)
			}
		}
	}
	m.sampleLocked(r)
	if m.Summary > 0 {
		r.aside.Go(func() { m.summarise(r.cacheCtx) })
	}
	return r, cycle, nil
}

func (m *Manager) stopTimeout() time.Duration {
	limit := min(m.StopTimeout, maxTime)
	setDefault(&limit, defaultStopTimeout)
	return limit
}

// place gives every controller its logger, its time to stop and its placement. A
// placement that several share is run once for all of them.
func (m *Manager) place(members []*member) error {
	limit := m.stopTimeout()
	shared := make(map[lease.Placement][]controller)
	for _, c := range controllersOf(members) {
		c.adopt(m.log(), limit)
		p := c.placementOf()
		if p == nil {
			var err error
			if p, err = m.defaultPlacement(c); err != nil {
				return fmt.Errorf("placement of %q: %w", c.Name(), err)
			}
			if err := c.setPlacement(p); err != nil {
				return fmt.Errorf("placement of %q: %w", c.Name(), err)
			}
		}
		if leased(p) {
			shared[p] = append(shared[p], c)
		}
	}
	for p, cs := range shared {
		if len(cs) < 2 {
			continue
		}
		g := &group{Placement: p, size: len(cs), mu: &m.mu, done: make(chan struct{})}
		for _, c := range cs {
			if err := c.setPlacement(g); err != nil {
				return err
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
	if own := c.ownCache(); own != nil {
		caches = []Cached{own} // a lease in another backend would fence every write to this one
	}
	for _, cached := range caches {
		b := cached.Backend()
		if l, ok := b.(store.Leaser); ok && l.Shared() {
			return lease.NewSingleton(b, c.Name(), &lease.Options{Logger: m.log()})
		}
	}
	return nil, nil
}

// managed is one Run of a Manager.
type managed struct {
	cacheCtx, runCtx        context.Context
	stopCaches, stopRunners context.CancelFunc
	news                    chan struct{}  // capacity 1: a member was started or has ended
	aside                   sync.WaitGroup // what ends with cacheCtx and is no member

	mu       *sync.Mutex // the Manager's; guards what follows
	stopping bool
	sampling bool      // what Sample was given is called, or not any more
	left     []*member // that have not ended
	errs     []error
}

func (r *managed) startLocked(mb *member) {
	base := r.runCtx
	if mb.cache {
		base = r.cacheCtx
	}
	ctx, cancel := context.WithCancel(base)
	mb.state, mb.cancel, mb.done = "running", cancel, make(chan struct{})
	var before []*member // runs of the same cache that are ending: nothing used it any more
	for _, o := range r.left {
		if same(o.Runner, mb.Runner) {
			before = append(before, o)
		}
	}
	r.left = append(r.left, mb)
	sleep.Wake(r.news)
	go func() { // ended by ctx; waited for through done and left
		err := errGoexit
		defer func() {
			if ctx.Err() != nil && onlyCanceled(err) {
				err = nil // it only says that it was told to stop
			}
			cancel()
			r.ended(mb, err)
		}()
		for _, o := range before {
			if !waitFor(ctx, o.done) {
				err = nil
				return
			}
		}
		err = protect(func() error { return mb.Run(ctx) })
	}()
}

// ended notes that a member's Run has returned.
func (r *managed) ended(mb *member, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mb.state, mb.err = "ended", err
	if err != nil {
		mb.state = "failed"
	}
	r.left = slices.DeleteFunc(r.left, func(o *member) bool { return o == mb })
	if err != nil && !mb.stopped {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", mb.name, err))
	}
	close(mb.done)
	sleep.Wake(r.news)
}

// onlyCanceled reports whether err says nothing but that a context was cancelled.
// Of errors that were joined each must: the others are news.
func onlyCanceled(err error) bool {
	if reflect.TypeOf(err) == reflect.TypeOf(errors.Join(context.Canceled)) {
		parts := err.(interface{ Unwrap() []error }).Unwrap()
		return !slices.ContainsFunc(parts, func(e error) bool { return !onlyCanceled(e) })
	}
	return errors.Is(err, context.Canceled)
}

// await returns when everything is to be stopped: ctx ended, a member failed, or
// all but the caches have ended. Where there is nothing but caches, they are what is
// run for.
func (r *managed) await(ctx context.Context) {
	r.mu.Lock()
	others := r.anyLeftLocked(func(mb *member) bool { return !mb.cache })
	r.mu.Unlock()
	r.waitWhile(ctx, func() bool {
		return len(r.errs) == 0 && r.anyLeftLocked(func(mb *member) bool { return !mb.cache || !others })
	})
}

// wait waits for what is no member. The contexts have ended.
func (r *managed) wait() {
	r.mu.Lock()
	r.sampling = true
	r.mu.Unlock()
	r.aside.Wait()
}

// anyLeftLocked reports whether a member that which picks has not ended.
func (r *managed) anyLeftLocked(which func(*member) bool) bool {
	return slices.ContainsFunc(r.left, which)
}

// waitWhile waits until goesOn reports false, or ctx ends. goesOn is called with the lock.
func (r *managed) waitWhile(ctx context.Context, goesOn func() bool) {
	for {
		r.mu.Lock()
		over := !goesOn()
		r.mu.Unlock()
		if over {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-r.news:
		}
	}
}

func (r *managed) result() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.left) > 0 {
		e := &LeftoverError{}
		for _, mb := range r.left {
			e.Names = append(e.Names, mb.name)
		}
		return errors.Join(append(r.errs, e)...)
	}
	return errors.Join(r.errs...)
}

// A LeftoverError names what had not returned when a Manager's time to stop was
// over. It goes on alone.
type LeftoverError struct{ Names []string }

func (e *LeftoverError) Error() string {
	return "reconcile: still running when the time to stop was over: " + strings.Join(e.Names, ", ")
}

// status is how it is, and why it failed if it has: the error of one that was stopped is
// for the caller of stop.
func (mb *member) status() (state string, err error) {
	mb.mu.Lock()
	defer mb.mu.Unlock()
	if mb.stopped {
		return mb.state, nil
	}
	return mb.state, mb.err
}
