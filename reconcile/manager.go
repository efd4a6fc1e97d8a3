package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

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
	// whose caches are on a backend that another process can open too
	// (store.Leaser, Shared) runs on one server at a time, by a lease named
	// for it; one on a backend of this process alone runs at once. To run on
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

	mu      sync.Mutex // guards what follows, and what members and groups say
	running bool
	members []*member
}

// controller is a Controller[K] of any K, as a Manager needs it.
type controller interface {
	Runner
	Name() string
	made() error
	caches() []Cached
	ownedCaches() []Cached
	adopt(l *slog.Logger, stop time.Duration)
	placementOf() lease.Placement
	setPlacement(p lease.Placement) error
	node() graphNode
}

// member is one runner of a Manager.
type member struct {
	Runner
	name  string
	cache bool // outlives the others: they need it to stop in order

	mu    *sync.Mutex // the Manager's; guards what follows
	state string      // "waiting", "running", "ended", "failed"
	err   error
}

// Register adds runners. It fails, and adds none, on a nil runner, on one that
// is there already, on a name that is taken (ErrNameTaken), on controllers that
// would wake each other in a circle (ErrCycle), and after Run (ErrRunning).
func (m *Manager) Register(rs ...Runner) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running {
		return fmt.Errorf("reconcile: Manager.Register: %w", ErrRunning)
	}
	members := slices.Clone(m.members)
	for _, r := range rs {
		if isNil(r) {
			return errors.New("reconcile: Manager.Register: nil runner")
		}
		if c, ok := r.(controller); ok && c.made() != nil {
			return fmt.Errorf("%w: Manager.Register", c.made())
		}
		name := nameOf(r, len(members))
		for _, o := range members {
			if o.name == name || same(o.Runner, r) {
				return fmt.Errorf("reconcile: Manager.Register: %w: %q", ErrNameTaken, name)
			}
		}
		_, isCache := r.(Cached)
		members = append(members, &member{Runner: r, name: name, cache: isCache, mu: &m.mu, state: "waiting"})
	}
	if err := m.checkCycles(members); err != nil {
		return err
	}
	m.members = members
	return nil
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

func (m *Manager) checkCycles(members []*member) error {
	cycle := graphOf(members).cycle()
	if cycle == nil {
		return nil
	}
	err := fmt.Errorf("%w: %s", ErrCycle, describeCycle(cycle))
	if !m.AllowCycles {
		return fmt.Errorf("reconcile: Manager: %w; leave one of these sources out, set Options.OnlyDeletes of a controller that does nothing but delete its objects, or set Manager.AllowCycles", err)
	}
	m.log().Warn("reconcile: controllers wake each other in a circle", "err", store.Brief(err))
	return nil
}

func graphOf(members []*member) (g graph) {
	for _, mb := range members {
		if c, ok := mb.Runner.(controller); ok {
			g = append(g, c.node())
		}
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
func (m *Manager) Run(ctx context.Context) error {
	members, err := m.begin()
	if err != nil {
		return fmt.Errorf("reconcile: Manager.Run: %w", err)
	}
	r := &managed{ended: make(chan *member, len(members)), left: slices.Clone(members)}
	// Caches serve the controllers while these drain.
	base := context.WithoutCancel(ctx)
	cacheCtx, stopCaches := context.WithCancel(base)
	defer stopCaches()
	runCtx, stopRunners := context.WithCancel(ctx)
	defer stopRunners()
	for _, mb := range members {
		if mb.cache {
			r.start(cacheCtx, mb)
		}
	}
	for _, mb := range members {
		if !mb.cache {
			r.start(runCtx, mb)
		}
	}
	if m.Summary > 0 {
		done := make(chan struct{})
		defer func() { stopCaches(); <-done }()
		go func() { // ends with the caches; waited for above
			defer close(done)
			summarise(cacheCtx, m.Summary, summarisedOf(members))
		}()
	}
	r.await(ctx)
	stopRunners()
	timer := time.NewTimer(m.stopTimeout())
	defer timer.Stop()
	r.collect(timer.C, func(mb *member) bool { return !mb.cache })
	stopCaches()
	r.collect(timer.C, func(*member) bool { return true })
	return r.result()
}

// summarisedOf are the controllers among members.
func summarisedOf(members []*member) (list []summarised) {
	for _, mb := range members {
		if c, ok := mb.Runner.(summarised); ok {
			list = append(list, c)
		}
	}
	return list
}

// begin freezes the Manager and works out what runs.
func (m *Manager) begin() ([]*member, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running {
		return nil, ErrRunning
	}
	if len(m.members) == 0 {
		return nil, errors.New("nothing is registered")
	}
	if m.StopTimeout < 0 {
		return nil, fmt.Errorf("StopTimeout is %v, want 0 or more", m.StopTimeout)
	}
	// Sources may have been added since Register.
	if err := m.checkCycles(m.members); err != nil {
		return nil, err
	}
	if err := m.place(); err != nil {
		return nil, err
	}
	m.running = true
	m.members = append(m.foundCaches(), m.members...)
	return m.members, nil
}

func (m *Manager) stopTimeout() time.Duration {
	limit := min(m.StopTimeout, maxTime)
	setDefault(&limit, defaultStopTimeout)
	return limit
}

// foundCaches makes members of the caches that controllers use.
func (m *Manager) foundCaches() (found []*member) {
	var known []Cached
	for _, mb := range m.members {
		if cached, ok := mb.Runner.(Cached); ok {
			known = append(known, cached)
		}
		if c, ok := mb.Runner.(controller); ok {
			known = append(known, c.ownedCaches()...)
		}
	}
	for _, mb := range m.members {
		c, ok := mb.Runner.(controller)
		if !ok {
			continue
		}
		for _, cached := range c.caches() {
			if !slices.Contains(known, cached) {
				known = append(known, cached)
				found = append(found, &member{Runner: cached, name: "cache " + cached.Name(), cache: true, mu: &m.mu, state: "waiting"})
			}
		}
	}
	return found
}

// place gives every controller its logger, its time to stop and its placement. A
// placement that several share is run once for all of them.
func (m *Manager) place() error {
	limit := m.stopTimeout()
	shared := make(map[lease.Placement][]controller)
	for _, mb := range m.members {
		c, ok := mb.Runner.(controller)
		if !ok {
			continue
		}
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
	for _, cached := range c.caches() {
		b := cached.Backend()
		if l, ok := b.(store.Leaser); ok && l.Shared() {
			return lease.NewSingleton(b, c.Name(), &lease.Options{Logger: m.log()})
		}
	}
	return nil, nil
}

// managed is one Run of a Manager. Its fields belong to Run's goroutine.
type managed struct {
	ended chan *member // capacity for all: no sender blocks on a Run that gave up
	left  []*member
	errs  []error
	late  bool
}

func (r *managed) start(ctx context.Context, mb *member) {
	mb.set("running", nil)
	go func() { // ended by ctx; waited for through ended
		err := errGoexit
		defer func() {
			if ctx.Err() != nil && onlyCanceled(err) {
				err = nil // it only says that it was told to stop
			}
			if err != nil {
				mb.set("failed", err)
			} else {
				mb.set("ended", nil)
			}
			r.ended <- mb
		}()
		err = protect(func() error { return mb.Run(ctx) })
	}()
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
	others := slices.ContainsFunc(r.left, func(mb *member) bool { return !mb.cache })
	for slices.ContainsFunc(r.left, func(mb *member) bool { return !mb.cache || !others }) {
		select {
		case <-ctx.Done():
			return
		case mb := <-r.ended:
			r.take(mb)
			if len(r.errs) > 0 {
				return
			}
		}
	}
}

// collect waits until every member that which picks has ended, or time is up.
func (r *managed) collect(timeout <-chan time.Time, which func(*member) bool) {
	for !r.late && slices.ContainsFunc(r.left, which) {
		select {
		case mb := <-r.ended:
			r.take(mb)
		case <-timeout:
			r.late = true
		}
	}
}

func (r *managed) take(mb *member) {
	r.left = slices.DeleteFunc(r.left, func(o *member) bool { return o == mb })
	if _, err := mb.status(); err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", mb.name, err))
	}
}

func (r *managed) result() error {
	if len(r.left) > 0 {
		e := &LeftoverError{}
		for _, mb := range r.left {
			e.Names = append(e.Names, mb.name)
		}
		r.errs = append(r.errs, e)
	}
	return errors.Join(r.errs...)
}

// A LeftoverError names what had not returned when a Manager's time to stop was
// over. It goes on alone.
type LeftoverError struct{ Names []string }

func (e *LeftoverError) Error() string {
	return "reconcile: still running when the time to stop was over: " + strings.Join(e.Names, ", ")
}

func (mb *member) set(state string, err error) {
	mb.mu.Lock()
	mb.state, mb.err = state, err
	mb.mu.Unlock()
}

func (mb *member) status() (state string, err error) {
	mb.mu.Lock()
	defer mb.mu.Unlock()
	return mb.state, mb.err
}
