package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// pool is a controller's workers. They run while it is open, and as many as was
// asked for; a worker that is told to go finishes its run first.
type pool[K comparable] struct {
	k       *kernel[K]
	settler settler[K]
	alarm   *alarm

	// What follows is guarded by kernel.mu.
	open  bool // workers may run
	want  int
	slots map[*slot[K]]struct{} // of all workers
	gone  introspect.Counts     // of workers that ended
	took  time.Duration         // all their runs together
	stops bool                  // a worker left because the program stopped the queue
	looks int                   // at the runs, by watch
}

// change changes what is asked of the pool, and then starts workers, or tells some to go.
func (p *pool[K]) change(f func()) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	f()
	n := p.want
	if !p.open {
		n = 0
	}
	staying := 0
	for s := range p.slots {
		if s.ctx.Err() != nil {
			continue
		}
		if staying++; staying > n {
			s.cancel()
		}
	}
	for ; staying < n; staying++ {
		p.startLocked()
	}
}

// replace starts another worker in place of one that is stuck or whose goroutine
// was ended under it. The stuck one goes when its run has returned after all.
func (p *pool[K]) replace(s *slot[K]) { p.change(s.cancel) }

func (p *pool[K]) startLocked() {
	s := &slot[K]{k: p.k, alarm: p.alarm, worker: fmt.Sprint(lastID.Add(1))}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.labels = pprof.WithLabels(context.Background(), pprof.Labels(labelController, p.k.name, labelWorker, s.worker))
	p.slots[s] = struct{}{}
	w := &worker[K]{p: p, slot: s}
	p.k.work.startLocked(partWorkers, w.loop) // ended by cancel, or by the queue's stop
}

// leave is a worker's last act.
func (p *pool[K]) leave(s *slot[K], why error) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.stops = p.stops || errors.Is(why, queue.ErrStopped)
	s.cancel()
	delete(p.slots, s)
	n, took := s.count()
	merge(&p.gone, n)
	p.took += took
}

const partWorkers = "workers"

// all gives every slot that may be running something.
func (p *pool[K]) all() []*slot[K] {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	return slices.Collect(maps.Keys(p.slots))
}

// askRunning leaves the question whose a change is with the key's run, if there is
// one. A run that is about to begin has written nothing yet; one that is about to be
// settled has noted what it wrote.
func (p *pool[K]) askRunning(at seen[K]) bool {
	if _, running := p.k.q.Running(at.key); !running {
		return false
	}
	return slices.ContainsFunc(p.all(), func(s *slot[K]) bool { return s.ask(at) })
}

// endSuperseded tells the run of a key, if there is one, that its object has changed.
func (p *pool[K]) endSuperseded(key K) {
	if p.k.o.EndSuperseded {
		for _, s := range p.all() {
			s.endSuperseded(key)
		}
	}
}

// totals are how all runs ended, and how long they took together where that is
// measured.
func (p *pool[K]) totals() (n introspect.Counts, took time.Duration) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	n, took = p.gone, p.took
	for s := range p.slots {
		m, d := s.count()
		merge(&n, m)
		took += d
	}
	return n, took
}

// watch looks at the runs whenever one is due, until ctx ends.
func (p *pool[K]) watch(ctx context.Context) {
	for p.alarm.wait(ctx, p.k.epoch) {
		p.k.mu.Lock()
		p.looks++
		p.k.mu.Unlock()
		now := p.k.since()
		for _, s := range p.all() {
			x := s.look(now)
			if x == nil {
				continue
			}
			// The log and the hook are the user's code, which may hang: no other
			// run's deadline waits for them.
			p.k.parts.start("hook OnStuck", func() { p.reportStuck(x, now-x.started) })
			if p.k.o.ReplaceStuck {
				p.replace(s)
			}
		}
	}
}

// reportStuck says that a run goes on after the end of its context.
func (p *pool[K]) reportStuck(x *run[K], since time.Duration) {
	_, cause := x.soFar()
	_ = protect(func() error { // a log handler that panics ends neither the process nor the report
		for _, key := range x.keys {
			attrs := append([]slog.Attr{
				slog.String("controller", p.k.name), slog.Any("key", key), slog.Duration("running", since), slog.Any("cause", store.Brief(cause)),
			}, x.toLog()...)
			p.k.log().LogAttrs(context.Background(), slog.LevelError, "reconcile: run is stuck: "+x.does(), attrs...)
		}
		return nil
	})
	told := p.k.o.Hooks.OnStuck
	if told == nil {
		return
	}
	for _, key := range x.keys {
		p.k.contain("OnStuck", func() { told(key, since) })
	}
}

// cancelRuns ends the contexts of the runs that which picks; with a nil cause it
// leaves them alone. It gives a channel for each that is closed when it returns.
func (p *pool[K]) cancelRuns(which func(*run[K]) bool, cause error) (ended []<-chan struct{}) {
	for _, s := range p.all() {
		if ch := s.endRun(which, cause); ch != nil {
			ended = append(ended, ch)
		}
	}
	return ended
}

// The labels that a worker's goroutine carries while it runs a key. The pages of
// net/http/pprof show them.
const (
	labelController = "tend.controller"
	labelWorker     = "tend.worker" // a number, unique in the process
)

// worker takes keys from the queue, runs them and settles them.
type worker[K comparable] struct {
	p    *pool[K]
	slot *slot[K]

	items    []queue.Item[K] // of the present run
	rest     []queue.Item[K] // taken with them, for the next run
	outcomes []Outcome       // of the present run; used again
	runs     []run[K]        // memory for the next runs, used once
}

func (w *worker[K]) loop() {
	pprof.SetGoroutineLabels(w.slot.labels) // it has those of what started it, which may be a run
	// Why it ends; nil: runtime.Goexit in a reconciler took the goroutine.
	var why error
	// On its own, so that it happens even if a hook that goexit calls ends the
	// goroutine a second time.
	defer func() { w.p.leave(w.slot, why) }()
	defer func() {
		if why == nil {
			w.goexit()
		}
	}()
	why = w.work()
}

// goexit settles what a reconciler left behind that ended its goroutine, and
// starts another worker.
func (w *worker[K]) goexit() {
	defer w.p.replace(w.slot)
	defer func() {
		for _, item := range w.rest {
			w.p.settler.stillFailing(item, 0) // taken together with these, and not begun
		}
	}()
	if x := w.slot.present(); x != nil {
		w.fail(contain.ErrGoexit)
		w.p.settler.conclude(w.slot, x, w.items, w.outcomes)
	}
}

// work runs what the queue gives, and returns what ended that.
func (w *worker[K]) work() error {
	buf := make([]queue.Item[K], max(w.p.k.o.Batch, 1))
	for {
		n, err := w.p.k.q.GetBatch(w.slot.ctx, buf)
		if err != nil {
			return err
		}
		for w.rest = buf[:n]; len(w.rest) > 0; {
			w.runNext()
		}
	}
}

// distrustDelay is how long a key waits whose lease may be gone. Either it is,
// and the key is forgotten with the hold, or a late renewal saves it.
const distrustDelay = time.Second

// runNext takes from the rest the items that begin it and are of one shard. It runs
// those of them that may run, under the shard's hold, and settles all.
func (w *worker[K]) runNext() {
	h, n := w.p.k.holdOf(w.rest[0].Key), 1
	for n < len(w.rest) && w.p.k.holdOf(w.rest[n].Key) == h {
		n++
	}
	items := w.rest[:n]
	w.rest = w.rest[n:]
	switch {
	case h == nil:
		w.doneAll(items) // another server's
		return
	case h == unknownHold:
		for _, item := range items {
			w.p.settler.refuse(item, errHash)
		}
		return
	case !h.trusted():
		for _, item := range items {
			w.p.settler.stillFailing(item, distrustDelay)
		}
		return
	}
	if len(w.runs) == 0 {
		w.runs = make([]run[K], runsAtOnce)
	}
	x := &w.runs[0]
	w.runs = w.runs[1:]
	x.k, x.hold, x.keys = w.p.k, h, x.one[:0]
	for i := 0; i < len(items); {
		item := &items[i]
		stale, ok := w.p.settler.writes.mayRun(item.Key)
		if !ok {
			w.p.settler.guarded(item, func() { item.After(0) }) // it is held
			items = slices.Delete(items, i, i+1)
			continue
		}
		w.p.k.beganRun(item.Key)
		x.stale = x.stale || stale
		x.keys = append(x.keys, item.Key)
		x.attempt = max(x.attempt, int32(item.Attempt))
		i++
	}
	if w.items = items; len(items) == 0 {
		return
	}
	if !w.slot.begin(x) {
		w.doneAll(w.items)
		return
	}
	pprof.SetGoroutineLabels(w.slot.labels) // each time: a run may have replaced them
	// Asked once more as the last thing: the process may have been suspended since.
	if !h.trusted() {
		w.p.settler.answer(w.slot.finish(x, nil, false, 0), nil)
		for _, item := range w.items {
			w.p.settler.stillFailing(item, distrustDelay)
		}
		return
	}
	w.call(x)
	w.p.settler.conclude(w.slot, x, w.items, w.outcomes)
}

func (w *worker[K]) doneAll(items []queue.Item[K]) {
	for _, item := range items {
		w.p.settler.guarded(&item, item.Done)
	}
}

// call calls the reconciler, and makes an error of its panic.
func (w *worker[K]) call(x *run[K]) {
	if err := protect(func() error { w.reconcile(x); return nil }); err != nil {
		w.fail(err)
	}
}

func (w *worker[K]) reconcile(x *run[K]) {
	if w.p.k.batch == nil {
		r, err := w.p.k.rec.Reconcile(x, x.keys[0])
		w.outcomes = append(w.outcomes[:0], Outcome{r, contain.Check(err)})
		return
	}
	w.outcomes = append(w.outcomes[:0], w.p.k.batch.ReconcileBatch(x, slices.Clone(x.keys))...) // a copy: the slice is the caller's
	if len(w.outcomes) != len(x.keys) {
		w.fail(fmt.Errorf("ReconcileBatch returned %d outcomes for %d keys", len(w.outcomes), len(x.keys)))
	}
	for i, o := range w.outcomes { // each for itself: the other keys have nothing to do with its error
		w.outcomes[i].Err = protect(func() error { return o.Err })
	}
}

// fail gives every item of the present run the same error.
func (w *worker[K]) fail(err error) {
	w.outcomes = slices.Repeat([]Outcome{{Err: err}}, len(w.items))
}
