package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/store"
)

// pool is a controller's workers. They run while it is open, and as many as was
// asked for; a worker that is told to go finishes its run first.
type pool[K comparable] struct {
	settler[K]
	alarm *alarm
	late  error // the cause of a run past its deadline

	// What follows is guarded by kernel.mu.
	open  bool
	over  bool // no worker is started any more
	want  int
	slots slotList[K]   // of workers that were not told to go
	old   slotList[K]   // of workers that were, while they still run something
	gone  Counts        // of workers that ended
	took  time.Duration // all their runs together
	stops bool          // a worker left because the program stopped the queue
	looks int           // at the runs, by watch

	raised, lowered uint64        // how often adaptTo did that to want
	empty           chan struct{} // closed when the last worker has left; nil: nothing waits
}

// slotList is some slots in no order, each of which knows its place in it: workers
// leave one by one, and looking for each would cost the square of their number.
type slotList[K comparable] []*slot[K]

func (l *slotList[K]) add(s *slot[K]) {
	s.place = len(*l)
	*l = append(*l, s)
}

// remove takes s out, and reports whether it was there.
func (l *slotList[K]) remove(s *slot[K]) bool {
	list := *l
	if s.place >= len(list) || list[s.place] != s {
		return false
	}
	last := len(list) - 1
	list[s.place] = list[last]
	list[s.place].place = s.place
	list[last] = nil
	*l = list[:last]
	return true
}

// resize sets how many workers there are to be.
func (p *pool[K]) resize(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.want = n
	p.adjustLocked()
}

// adaptTo is resize, and counts.
func (p *pool[K]) adaptTo(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case n > p.want:
		p.raised++
	case n < p.want:
		p.lowered++
	}
	p.want = n
	p.adjustLocked()
}

// adapted is how often adaptTo has raised and lowered the number.
func (p *pool[K]) adapted() (raised, lowered uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.raised, p.lowered
}

// setOpen starts all workers, or tells all of them to go.
func (p *pool[K]) setOpen(open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = open
	p.adjustLocked()
}

// shut tells all workers to go, for good.
func (p *pool[K]) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.adjustLocked()
}

// replace starts another worker in place of one that is stuck or whose goroutine
// was ended under it. The stuck one goes when its run has returned after all.
func (p *pool[K]) replace(s *slot[K]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots.remove(s) {
		s.cancel()
		p.old.add(s)
		p.adjustLocked()
	}
}

func (p *pool[K]) adjustLocked() {
	n := p.want
	if !p.open || p.over {
		n = 0
	}
	for len(p.slots) < n {
		p.slots.add(p.startLocked())
	}
	for len(p.slots) > n {
		s := p.slots[len(p.slots)-1]
		p.slots.remove(s)
		s.cancel()
		p.old.add(s)
	}
}

func (p *pool[K]) startLocked() *slot[K] {
	ctx, cancel := context.WithCancel(context.Background())
	s := &slot[K]{k: p.kernel, alarm: p.alarm, cancel: cancel}
	s.labels, s.worker = goroutineLabels(p.name)
	w := &worker[K]{p: p, slot: s, ctx: ctx}
	go w.loop() // ended by cancel, or by the queue's stop; waited for by wait
	return s
}

// leave is a worker's last act.
func (p *pool[K]) leave(s *slot[K]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.cancel()
	n, took := s.count()
	p.gone.merge(n)
	p.took += took
	_ = p.slots.remove(s) || p.old.remove(s)
	if p.empty != nil && len(p.slots)+len(p.old) == 0 {
		close(p.empty)
		p.empty = nil
	}
}

// wait waits until no worker is left, or reports false when ctx ends. No worker
// may be started meanwhile.
func (p *pool[K]) wait(ctx context.Context) bool {
	p.mu.Lock()
	if len(p.slots)+len(p.old) == 0 {
		p.mu.Unlock()
		return true
	}
	if p.empty == nil {
		p.empty = make(chan struct{})
	}
	empty := p.empty
	p.mu.Unlock()
	select {
	case <-empty:
		return true
	case <-ctx.Done():
		return false
	}
}

// all gives every slot that may be running something.
func (p *pool[K]) all() []*slot[K] {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Concat(p.slots, p.old)
}

// askRunning leaves the question whose a change is with the key's run, if there is
// one. A run that is about to begin has written nothing yet; one that is about to be
// settled has noted what it wrote.
func (p *pool[K]) askRunning(at seen[K]) bool {
	if _, running := p.q.Running(at.key); !running {
		return false
	}
	return slices.ContainsFunc(p.all(), func(s *slot[K]) bool { return s.ask(at) })
}

// supersede tells the run of a key, if there is one, that its object has changed.
func (p *pool[K]) supersede(at seen[K]) {
	if !p.o.EndSuperseded || at.in(p.lookup(at.key).writes) {
		return
	}
	if _, running := p.q.Running(at.key); running {
		for _, s := range p.all() {
			s.supersede(at)
		}
	}
}

// totals are how all runs ended, and how long they took together where that is
// measured.
func (p *pool[K]) totals() (n Counts, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, took = p.gone, p.took
	for _, s := range slices.Concat(p.slots, p.old) {
		m, d := s.count()
		n.merge(m)
		took += d
	}
	return n, took
}

// hasStopped reports whether a worker found the queue stopped.
func (p *pool[K]) hasStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stops
}

func (p *pool[K]) noteStopped(err error) {
	if errors.Is(err, queue.ErrStopped) {
		p.mu.Lock()
		p.stops = true
		p.mu.Unlock()
	}
}

// watch looks at the runs whenever one is due, until ctx ends.
func (p *pool[K]) watch(ctx context.Context) {
	for p.alarm.wait(ctx, p.epoch) {
		p.mu.Lock()
		p.looks++
		p.mu.Unlock()
		now := p.since()
		for _, s := range p.all() {
			r := s.look(now, p.late)
			if r == nil {
				continue
			}
			// The log and the hook are the user's code, which may hang: no other
			// run's deadline waits for them.
			p.parts.start("hook OnStuck", func() { p.reportStuck(*r) })
			if p.o.ReplaceStuck {
				p.replace(s)
			}
		}
	}
}

// reportStuck says that a run goes on after the end of its context.
func (p *pool[K]) reportStuck(r stuckRun[K]) {
	_ = protect(func() error { // a log handler that panics ends neither the process nor the report
		for _, key := range r.keys {
			attrs := append([]slog.Attr{
				slog.String("controller", p.name), slog.Any("key", key), slog.Duration("running", r.since), slog.Any("cause", store.Brief(r.cause)),
			}, r.added...)
			p.log().LogAttrs(context.Background(), slog.LevelError, "reconcile: run is stuck: "+r.what, attrs...)
		}
		return nil
	})
	told := p.o.Hooks.OnStuck
	if told == nil {
		return
	}
	for _, key := range r.keys {
		p.contain("OnStuck", func() { told(key, r.since) })
	}
}

func (p *pool[K]) size() (want, running int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.want, len(p.slots) + len(p.old)
}

// cancelRuns ends the contexts of the runs that which picks; with a nil err it
// leaves them alone. It gives a channel for each that is closed when it returns.
func (p *pool[K]) cancelRuns(which func(*run[K]) bool, err, cause error) (ended []<-chan struct{}) {
	for _, s := range p.all() {
		if ch := s.endRun(which, err, cause); ch != nil {
			ended = append(ended, ch)
		}
	}
	return ended
}

// endRuns is cancelRuns, and waits until the runs have returned.
func (p *pool[K]) endRuns(which func(*run[K]) bool, err, cause error) {
	for _, ch := range p.cancelRuns(which, err, cause) {
		<-ch
	}
}

// waiting reports whether more workers would have something to do.
func (p *pool[K]) waiting() bool { return p.q.Len() > 0 }

// The labels that a worker's goroutine carries while it runs a key. The pages of
// net/http/pprof show them.
const (
	labelController = "tend.controller"
	labelWorker     = "tend.worker" // a number, unique in the process
)

// goroutineLabels returns a context with labels that no other worker has, and the
// number that makes them unique.
func goroutineLabels(controller string) (context.Context, string) {
	id := fmt.Sprint(lastID.Add(1))
	return pprof.WithLabels(context.Background(), pprof.Labels(labelController, controller, labelWorker, id)), id
}

// worker takes keys from the queue, runs them and settles them.
type worker[K comparable] struct {
	p    *pool[K]
	slot *slot[K]
	ctx  context.Context // ends the worker between two runs

	items    []queue.Item[K] // of the present run
	outcomes []Outcome
	rest     []queue.Item[K] // taken with them, for the next run
}

func (w *worker[K]) loop() {
	pprof.SetGoroutineLabels(w.slot.labels) // it has those of what started it, which may be a run
	// On its own, so that it happens even if a hook that goexit calls ends the
	// goroutine a second time.
	defer w.p.leave(w.slot)
	normal := false
	defer func() {
		if !normal { // runtime.Goexit in a reconciler took the goroutine
			w.goexit()
		}
	}()
	work := w.runSingly
	if w.p.batch != nil {
		work = w.runBatches
	}
	w.p.noteStopped(work())
	normal = true
}

// goexit settles what a reconciler left behind that ended its goroutine, and
// starts another worker.
func (w *worker[K]) goexit() {
	defer w.p.replace(w.slot)
	defer func() {
		for _, item := range w.rest {
			item.After(0) // taken together with these, and not begun
		}
	}()
	if x := w.slot.present(); x != nil {
		w.p.conclude(w.slot, x, w.items, slices.Repeat([]Outcome{{Err: errGoexit}}, len(w.items)))
	}
}

// runSingly runs key after key, and gives what ended that.
func (w *worker[K]) runSingly() error {
	w.items, w.outcomes = make([]queue.Item[K], 1), make([]Outcome, 1)
	for {
		item, err := w.get()
		if err == nil {
			w.run(item)
			err = w.ctx.Err() // asked here, because Get gives what is ready all the same
		}
		if err != nil && !errors.Is(err, errBuckets) {
			return err
		}
	}
}

// get and getBatch are those of the queue; what errBuckets says may be tried again.
func (w *worker[K]) get() (item queue.Item[K], err error) {
	defer containBuckets(&err)
	return w.p.q.Get(w.ctx)
}

func (w *worker[K]) getBatch(dst []queue.Item[K]) (n int, err error) {
	defer containBuckets(&err)
	return w.p.q.GetBatch(w.ctx, dst)
}

// distrustDelay is how long a key waits whose lease may be gone. Either it is,
// and the key is forgotten with the hold, or a late renewal saves it.
const distrustDelay = time.Second

// run runs one key, if it may run, and settles it.
func (w *worker[K]) run(item queue.Item[K]) {
	h := w.p.holdOf(item.Key)
	switch {
	case h == nil:
		item.Done() // another server's
		return
	case h == unknownHold:
		w.p.refuse(item, errHash)
		return
	case !h.trusted():
		item.After(distrustDelay)
		return
	}
	stale, ok := w.p.mayRun(item.Key)
	if !ok {
		item.After(0) // it is held
		return
	}
	x := &run[K]{k: w.p.kernel, hold: h, attempt: item.Attempt, stale: stale}
	x.one[0] = item.Key
	x.keys = x.one[:]
	if !w.slot.begin(x) {
		item.Done()
		return
	}
	w.items[0] = item
	pprof.SetGoroutineLabels(w.slot.labels) // each time: a run may have replaced them
	w.outcomes[0] = w.p.call(x, item.Key)
	w.p.conclude(w.slot, x, w.items, w.outcomes)
}

func (w *worker[K]) runBatches() error {
	buf := make([]queue.Item[K], w.p.o.Batch)
	for {
		n, err := w.getBatch(buf)
		if n > 0 {
			w.runBatch(buf[:n])
		}
		if err == nil || errors.Is(err, errBuckets) {
			err = w.ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// runBatch runs items together, those of each shard under its own hold.
func (w *worker[K]) runBatch(items []queue.Item[K]) {
	for len(items) > 0 {
		h := w.p.holdOf(items[0].Key)
		n := 1
		for n < len(items) && w.p.holdOf(items[n].Key) == h {
			n++
		}
		w.rest = items[n:]
		w.runPart(h, items[:n])
		items = w.rest
	}
}

// runPart runs those items of a shard that may run, and settles all of them.
func (w *worker[K]) runPart(h *hold, items []queue.Item[K]) {
	switch {
	case h == nil:
		doneAll(items) // another server's
		return
	case h == unknownHold:
		for _, item := range items {
			w.p.refuse(item, errHash)
		}
		return
	case !h.trusted():
		for _, item := range items {
			item.After(distrustDelay)
		}
		return
	}
	x := &run[K]{k: w.p.kernel, hold: h}
	w.items = slices.DeleteFunc(items, func(item queue.Item[K]) bool {
		stale, ok := w.p.mayRun(item.Key)
		if !ok {
			item.After(0) // it is held
			return true
		}
		x.stale = x.stale || stale
		x.keys = append(x.keys, item.Key)
		x.attempt = max(x.attempt, item.Attempt)
		return false
	})
	if len(w.items) == 0 {
		return
	}
	if !w.slot.begin(x) {
		doneAll(w.items)
		return
	}
	pprof.SetGoroutineLabels(w.slot.labels)
	out, err := w.p.callBatch(x, x.keys)
	if err != nil {
		out = slices.Repeat([]Outcome{{Err: err}}, len(w.items))
	}
	w.p.conclude(w.slot, x, w.items, out)
}

func doneAll[K comparable](items []queue.Item[K]) {
	for _, item := range items {
		item.Done()
	}
}
