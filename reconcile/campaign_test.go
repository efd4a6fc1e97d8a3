package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// A plant is a Manager with every kind of part, worked by many hands at once:
//
//	hands ──▶ store ──▶ cache ─┐
//	hands ──▶ channel ─────────┼──▶ controller ──▶ runs that end in every way
//	poll ──────────────────────┘       ▲
//	hands ──▶ lease, workers, pauses, sources and controllers that come and go
//
// User code ends in every way there is: with errors, also endless ones, with panics and
// with runtime.Goexit, in runs, sources, lists, hooks and functions of the queue. Each
// end of a source or a list must be reported, and no deadline may be missed.
// Whatever anybody does is a step; at one of them the plant is told to stop.
type plant struct {
	t      testing.TB
	seed   uint64
	things *things
	c      *reconcile.ObjectController[spec, status]
	m      reconcile.Manager
	lease  *lease.Manual
	pushed chan store.Key

	steps  *atomic.Int64 // of all plants
	n      atomic.Int64
	stopAt int64
	stop   context.CancelFunc
	rogue  func(p *plant, k store.Key) // what an ill-made reconciler does besides

	mu      sync.Mutex // guards what follows
	running map[store.Key]int
	edits   map[store.Key]int       // by hands, of the spec or the life of an object, begun
	edited  map[store.Key]time.Time // when the last of them had been made
	told    map[store.Key]int       // runs that were ended because of one
	deaths  map[string]int          // of sources and lists that ended by themselves
	heard   map[string]int          // of them, by OnError
	stopped time.Time               // when it was told to stop; zero: it was not
	over    bool                    // Run has returned
	wrong   []string
}

func newPlant(t testing.TB, seed uint64, steps *atomic.Int64) *plant {
	p := &plant{
		t: t, seed: seed, steps: steps, pushed: make(chan store.Key), running: make(map[store.Key]int),
		edits: make(map[store.Key]int), edited: make(map[store.Key]time.Time), told: make(map[store.Key]int), deaths: make(map[string]int), heard: make(map[string]int),
	}
	p.stopAt = 1 + rand.New(rand.NewPCG(seed, 1)).Int64N(400)
	b := need(memory.New(nil))
	t.Cleanup(func() { _ = b.Close() })
	p.things = need(store.New[spec, status](b, "thing", nil))
	p.lease = need(lease.NewManual(b, "plant"))
	p.lease.Set(true, 1)
	p.c = need(reconcile.For(p.things, p.reconcile, &reconcile.ForOptions[spec, status]{Options: reconcile.Options[store.Key]{
		Workers: 4, Placement: p.lease, Timeout: 200 * time.Millisecond, ReplaceStuck: seed%2 == 0, EndSuperseded: seed%3 == 0,
		StopTimeout: 1200 * time.Millisecond, CacheWait: 50 * time.Millisecond, Resync: time.Second,
		Queue: p.queue(),
		Hooks: reconcile.Hooks[store.Key]{
			OnError: p.hear,
			OnStuck: func(store.Key, time.Duration) { p.mayEnd(3) },
			OnDone:  func(store.Key, reconcile.Outcome, time.Duration) { p.mayEnd(50) },
		},
		Logger: slog.New(slog.DiscardHandler),
	}}))
	if err := p.c.Watch(reconcile.Chan("pushed", p.pushed), reconcile.Every("poll", 30*time.Millisecond, p.poll)); err != nil {
		t.Fatal(err)
	}
	if err := p.m.Register(p.c); err != nil {
		t.Fatal(err)
	}
	return p
}

func need[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// queue is the queue's part of the options, whose functions panic now and then.
func (p *plant) queue() (o queue.Options[store.Key]) {
	policy := queue.Backoff{Base: time.Millisecond, Max: 100 * time.Millisecond}.Policy()
	mayPanic := func() {
		if p.step()%17 == 0 {
			panic("boom")
		}
	}
	o.Policy = func(attempt int, err error) time.Duration { mayPanic(); return policy(attempt, err) }
	switch p.seed % 3 {
	case 0:
		o.Tenant = func(k store.Key) string { mayPanic(); return k.Name[:1] }
	case 1:
		o.Buckets = func(_ store.Key, dst []*ratelimit.Bucket) []*ratelimit.Bucket { mayPanic(); return dst }
	}
	return o
}

// mayEnd ends the goroutine once in so many calls.
func (p *plant) mayEnd(often int64) {
	if p.step()%often == 0 {
		runtime.Goexit()
	}
}

// hear is OnError.
func (p *plant) hear(f reconcile.Failure[store.Key]) {
	p.mu.Lock()
	if f.Source != "" && !errors.Is(f.Err, reconcile.ErrSourceRunning) {
		p.heard[f.Source]++
	}
	p.mu.Unlock()
	p.mayEnd(20)
}

// dies notes that a source or its list is about to end by itself, which must be
// reported unless the source is told to end in the same moment.
func (p *plant) dies(ctx context.Context, source string) {
	p.mu.Lock()
	p.deaths[source]++
	p.mu.Unlock()
	at := time.Now()
	context.AfterFunc(ctx, func() {
		if told := !errors.Is(context.Cause(ctx), context.Canceled); told && time.Now().Equal(at) {
			p.mu.Lock()
			p.deaths[source]--
			p.mu.Unlock()
		}
	})
}

func (p *plant) poll(ctx context.Context) (map[store.Key]int64, error) {
	n := p.step()
	if n%7 != 0 {
		return map[store.Key]int64{key("k0"): n, key("k9"): 0}, nil
	}
	p.dies(ctx, "poll")
	switch n % 4 {
	case 0:
		runtime.Goexit()
	case 1:
		panic("boom")
	case 2:
		return nil, &loop{}
	}
	return nil, errBoom
}

// step counts, and stops the plant at the one that was drawn.
func (p *plant) step() int64 {
	p.steps.Add(1)
	n := p.n.Add(1)
	if n == p.stopAt {
		p.stop()
	}
	return n
}

func (p *plant) complain(format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
}

// enter notes that a run begins, and judges whether it may.
func (p *plant) enter(k store.Key) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		p.complain("a run of %s began after Run had returned", k)
	}
	if p.running[k]++; p.running[k] > 1 {
		p.complain("%s runs %d times at once", k, p.running[k])
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.running[k]--; p.running[k] == 0 {
			delete(p.running, k)
		}
		if p.over {
			p.complain("a run of %s ended after Run had returned", k)
		}
	}
}

func (p *plant) reconcile(ctx context.Context, o *thing) (result, error) {
	defer p.enter(o.Key())()
	n := p.step()
	if p.rogue != nil {
		p.rogue(p, o.Key())
	}
	r := rand.New(rand.NewPCG(p.seed, uint64(n)))
	wait := time.Duration(r.IntN(10)) * time.Millisecond
	switch r.IntN(12) {
	case 0:
		wait = 400 * time.Millisecond // past its deadline, and past the drain
	case 1:
		time.Sleep(250 * time.Millisecond) // ignores its context for a while
	}
	began := time.Now()
	select {
	case <-after(wait):
		p.judgeEnd(o.Key(), began, nil)
		if time.Since(began) > 300*time.Millisecond {
			p.mu.Lock()
			p.complain("a run of %s missed its deadline of 200 ms", o.Key())
			p.mu.Unlock()
		}
	case <-ctx.Done():
		p.judgeEnd(o.Key(), began, context.Cause(ctx))
		return result{}, context.Cause(ctx)
	}
	p.step()
	switch r.IntN(14) {
	case 0:
		return result{}, errBoom
	case 1:
		return result{}, reconcile.Terminal(errBoom)
	case 2:
		panic("boom")
	case 3:
		runtime.Goexit()
	case 4:
		return result{RequeueAfter: wait}, nil
	case 5:
		return result{Requeue: true}, nil
	case 12:
		return result{}, &loop{}
	case 13:
		panic(reconcile.RetryAfter(nil, wait))
	}
	o.Status.Size++
	_, err := p.things.UpdateStatus(ctx, o)
	return result{}, err
}

// judgeEnd judges why the context of a run ended (nil: it has not), which began to wait at
// a time. Each edit ends one run at most; with EndSuperseded no run goes on for a
// millisecond after an edit, unless sources ended meanwhile.
func (p *plant) judgeEnd(k store.Key, began time.Time, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(cause, reconcile.ErrSuperseded):
		if p.told[k]++; p.told[k] > p.edits[k] {
			p.complain("%d runs of %s were ended because it changed, and it has changed %d times", p.told[k], k, p.edits[k])
		}
	case !errors.Is(cause, reconcile.ErrLeaseLost) && p.seed%3 == 0:
		until := p.stopped
		if until.IsZero() {
			until = time.Now()
		}
		if at := p.edited[k]; at.After(began) && until.Sub(at) >= time.Millisecond {
			p.complain("a run of %s was not told that it had changed, for %v: it ended by %v", k, until.Sub(at), cause)
		}
	}
}

// edit makes a change that a run of the object should know.
func (p *plant) edit(k store.Key, change func() error) {
	p.mu.Lock()
	p.edits[k]++
	p.mu.Unlock()
	err := change()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.edits[k]--
	} else {
		p.edited[k] = time.Now()
	}
}

// guest is a controller that comes to the Manager while it runs, and goes.
func (p *plant) guest(id int) (stop func() error) {
	var gone atomic.Bool
	c := need(reconcile.New(fmt.Sprint("guest", id), reconcile.Func[store.Key](func(ctx context.Context, k store.Key) (result, error) {
		if gone.Load() {
			p.mu.Lock()
			p.complain("a run of guest %d began after it was stopped", id)
			p.mu.Unlock()
		}
		k.Namespace = fmt.Sprint("guest", id)
		defer p.enter(k)()
		select {
		case <-time.After(3 * time.Millisecond):
		case <-ctx.Done():
		}
		return result{}, nil
	}), &reconcile.Options[store.Key]{Logger: slog.New(slog.DiscardHandler)}))
	if err := c.Watch(reconcile.From(p.c.Cache())); err != nil {
		panic(err)
	}
	end, err := p.m.Start(c)
	if err != nil {
		if p.n.Load() < p.stopAt || !strings.Contains(err.Error(), "is not running") {
			p.mu.Lock()
			p.complain("Start of guest %d: %v", id, err)
			p.mu.Unlock()
		}
		return nil
	}
	return func() error {
		err := end()
		gone.Store(true)
		return err
	}
}

// hand works the plant until quit is closed.
func (p *plant) hand(id int, quit <-chan struct{}) {
	r := rand.New(rand.NewPCG(p.seed, 1000+uint64(id)))
	var guest func() error // that was started; nil: none
	dismiss := func() {
		if guest == nil {
			return
		}
		if err := guest(); err != nil {
			p.mu.Lock()
			p.complain("guest %d was stopped: %v", id, err)
			p.mu.Unlock()
		}
		guest = nil
	}
	defer dismiss()
	ctx := context.Background()
	for {
		select {
		case <-quit:
			return
		case <-after(time.Duration(r.IntN(4)) * time.Millisecond):
		}
		p.step()
		k := key(fmt.Sprint("k", r.IntN(10)))
		switch r.IntN(18) {
		case 0, 1:
			p.edit(k, func() error {
				_, err := p.things.Create(ctx, &thing{Meta: store.Meta{Name: k.Name}})
				return err
			})
		case 2, 3:
			p.edit(k, func() error {
				_, err := p.things.Mutate(ctx, k, func(o *thing) error { o.Spec.Size++; return nil })
				return err
			})
		case 4:
			if o, err := p.things.Get(ctx, k); err == nil {
				p.edit(k, func() error { return p.things.Delete(ctx, o) })
			}
		case 5:
			select {
			case p.pushed <- k:
			case <-time.After(time.Millisecond):
			}
		case 6:
			_ = p.c.SetWorkers(r.IntN(8))
		case 7:
			p.lease.Set(r.IntN(3) > 0, 1)
		case 8:
			p.c.Queue().Hold(p.c.Queue().Whole(), queue.Hold{Name: "hand", Reason: "hand", Max: time.Duration(r.IntN(20)) * time.Millisecond})
		case 9:
			p.c.Queue().Release(p.c.Queue().Whole(), "hand")
		case 10:
			p.c.Queue().Hold(p.c.Queue().OfKey(k), queue.Hold{Name: "hand", Reason: "hand", Max: time.Duration(1+r.IntN(20)) * time.Millisecond})
		case 11:
			p.c.Queue().Release(p.c.Queue().OfKey(k), "hand")
		case 12:
			name := fmt.Sprint("extra", id)
			_ = p.c.Watch(reconcile.Source[store.Key]{Name: name, Run: func(ctx context.Context, to reconcile.Sink[store.Key]) error {
				return p.extra(ctx, name, to)
			}})
		case 13:
			_ = p.c.Unwatch(fmt.Sprint("extra", id))
		case 14:
			_, _ = p.c.Snapshot(), p.m.Health()
			if err := p.c.Run(ctx); !errors.Is(err, reconcile.ErrRunning) {
				p.mu.Lock()
				p.complain("a second Run: %v", err)
				p.mu.Unlock()
			}
		case 15:
			if guest == nil {
				guest = p.guest(id)
			}
		case 16:
			dismiss()
		default:
			_ = p.c.Kick(k)
		}
	}
}

// extra is a source that may end in every way, and late.
func (p *plant) extra(ctx context.Context, name string, to reconcile.Sink[store.Key]) error {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.over {
			p.complain("source %s ended after Run had returned", name)
		}
	}()
	to.Synced()
	for n := p.step(); ; n++ {
		_ = to.Add(key(fmt.Sprint("k", n%10)), queue.AddOptions{})
		select {
		case <-ctx.Done():
			if n%3 == 0 {
				time.Sleep(30 * time.Millisecond) // longer than a source may go on unreported
			}
			return nil
		case <-time.After(5 * time.Millisecond):
		}
		if n%13 > 4 {
			continue
		}
		p.dies(ctx, name)
		switch n % 13 {
		case 0:
			return errBoom
		case 1:
			panic("boom")
		case 2:
			return nil
		case 3:
			return &loop{}
		}
		runtime.Goexit()
	}
}

// live runs the plant until it was stopped, and says what was wrong.
func (p *plant) live() []string {
	ctx, stop := context.WithCancel(context.Background())
	p.stop = func() {
		p.mu.Lock()
		p.stopped = time.Now()
		p.mu.Unlock()
		stop()
	}
	ended := make(chan error, 1)
	go func() { ended <- p.m.Run(ctx) }() // awaited below
	synctest.Wait()
	quit := make(chan struct{})
	var hands sync.WaitGroup
	for id := range 6 {
		hands.Go(func() { p.hand(id, quit) })
	}
	err := <-ended
	p.mu.Lock()
	p.over = true
	for k := range p.running {
		p.complain("%s is still running", k)
	}
	if err != nil {
		p.complain("Run: %v", err)
	}
	if took := time.Since(p.stopped); took > 1100*time.Millisecond {
		p.complain("stopping took %v, want at most 1.1 s", took)
	}
	p.mu.Unlock()
	time.Sleep(20 * time.Millisecond) // the hands do not know yet
	close(quit)
	hands.Wait()
	time.Sleep(5 * time.Second) // late callers come now
	if err := p.c.Add(key("k1")); !errors.Is(err, queue.ErrStopped) && !errors.Is(err, reconcile.ErrElsewhere) {
		p.complain("Add after the stop: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, n := range p.deaths {
		if p.heard[name] < n {
			p.complain("source %s or its list ended %d times by itself, and %d of them were reported", name, n, p.heard[name])
		}
	}
	return p.wrong
}

// The plant is told to stop at a random step of a random life. Run returns in
// time and without an error, no run begins or ends afterwards, no key ever runs
// twice at once, and no goroutine is left (the bubble says so). Every source that ended
// by itself was reported, and every run that honours its context kept its deadline.
//
// promise Q2, Q8, R3. Negative control: TestShutdownCheckCatchesWhatOutlivesRun.
func TestShutdownAtAnyStepLeavesNothingBehind(t *testing.T) {
	var steps atomic.Int64
	for seed := range campaign.Seeds(t, 150, campaign.Length()) {
		bubble(t, func(t *testing.T) {
			for _, wrong := range newPlant(t, seed, &steps).live() {
				t.Errorf("seed %d: %s", seed, wrong)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("campaign: %d operations", steps.Load())
}

// A reconciler that leaves a goroutine behind, and one that starts a run of its
// own key by itself, are each found.
func TestShutdownCheckCatchesWhatOutlivesRun(t *testing.T) {
	for what, rogue := range map[string]func(p *plant, k store.Key){
		"after Run had returned": func(p *plant, k store.Key) {
			go func() {
				time.Sleep(2 * time.Second)
				p.enter(k)()
			}()
		},
		"times at once": func(p *plant, k store.Key) { p.enter(k)() },
	} {
		bubble(t, func(t *testing.T) {
			var steps atomic.Int64
			p := newPlant(t, 1, &steps)
			p.stopAt, p.rogue = 300, rogue
			if wrong := strings.Join(p.live(), "\n"); !strings.Contains(wrong, what) {
				t.Errorf("what was found: %q, want %q", wrong, what)
			}
		})
	}
}
