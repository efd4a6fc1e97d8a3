package reconcile

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/queue"
)

// pool is a controller's workers. They run while it is open, and as many as was
// asked for; a worker that is told to go finishes its run first.
type pool[K comparable] struct {
	c *Controller[K]

	mu    sync.Mutex // guards what follows; taken before a slot's
	open  bool
	over  bool // no worker is started any more
	want  int
	slots slotList[K]   // of workers that were not told to go
	old   slotList[K]   // of workers that were, while they still run something
	gone  Counts        // of workers that ended
	empty chan struct{} // closed when the last worker has left; nil: nobody waits
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
	s := &slot[K]{c: p.c, cancel: cancel}
	s.labels, s.worker = goroutineLabels(p.c.name)
	w := &worker[K]{c: p.c, slot: s, ctx: ctx}
	go w.loop() // ended by cancel, or by the queue's stop; waited for by wait
	return s
}

// leave is a worker's last act.
func (p *pool[K]) leave(s *slot[K]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.cancel()
	p.gone.merge(s.count())
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

func (p *pool[K]) size() (want, running int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.want, len(p.slots) + len(p.old)
}

// cancelRuns ends the contexts of the runs that which picks; with a nil err it
// leaves them alone. It gives a channel for each that is closed when it returns.
func (p *pool[K]) cancelRuns(which func(*slot[K]) bool, err, cause error) (ended []<-chan struct{}) {
	for _, s := range p.all() {
		if ch := s.endRun(which, err, cause); ch != nil {
			ended = append(ended, ch)
		}
	}
	return ended
}

// endRuns is cancelRuns, and waits until the runs have returned.
func (p *pool[K]) endRuns(which func(*slot[K]) bool, err, cause error) {
	for _, ch := range p.cancelRuns(which, err, cause) {
		<-ch
	}
}

// worker takes keys from the queue, runs them and settles them.
type worker[K comparable] struct {
	c    *Controller[K]
	slot *slot[K]
	ctx  context.Context // ends the worker between two runs

	items []queue.Item[K] // of the present run
	keys  []K
	rest  []queue.Item[K] // taken with them, for the next run
}

func (w *worker[K]) loop() {
	// On its own, so that it happens even if a hook that goexit calls ends the
	// goroutine a second time.
	defer w.c.pool.leave(w.slot)
	normal := false
	defer func() {
		if !normal { // runtime.Goexit in a reconciler took the goroutine
			w.c.goexit(w)
		}
	}()
	work := w.runSingly
	if w.c.batch != nil {
		work = w.runBatches
	}
	w.c.noteStopped(work())
	normal = true
}

// runSingly runs key after key, and gives what ended that.
func (w *worker[K]) runSingly() error {
	w.items, w.keys = make([]queue.Item[K], 1), make([]K, 1)
	item, err := w.get()
	for err == nil || errors.Is(err, errBuckets) {
		if err != nil {
			item, err = w.get()
			continue
		}
		w.items[0] = item
		if w.run(item) {
			item.Done()
		}
		if w.ctx.Err() != nil { // asked here, because Get gives what is ready all the same
			return w.ctx.Err()
		}
		item, err = w.get()
	}
	return err
}

// get and getBatch are those of the queue; what errBuckets says may be tried again.
func (w *worker[K]) get() (item queue.Item[K], err error) {
	defer containBuckets(&err)
	return w.c.q.Get(w.ctx)
}

func (w *worker[K]) getBatch(dst []queue.Item[K]) (n int, err error) {
	defer containBuckets(&err)
	return w.c.q.GetBatch(w.ctx, dst)
}

// distrustDelay is how long a key waits whose lease may be gone. Either it is,
// and the key is forgotten with the hold, or a late renewal saves it.
const distrustDelay = time.Second

// run reports whether the item is still to be settled, by Done.
func (w *worker[K]) run(item queue.Item[K]) (done bool) {
	c := w.c
	h := c.holdOf(item.Key)
	if h == nil {
		return true // another server's
	}
	if !h.trusted() {
		item.After(distrustDelay)
		return false
	}
	stale, ok := c.mayRun(item.Key)
	if !ok {
		item.After(0) // it is held
		return false
	}
	w.keys[0] = item.Key
	x, ok := w.slot.begin(h, w.keys, item.Attempt)
	if !ok {
		return true
	}
	x.stale = stale
	pprof.SetGoroutineLabels(w.slot.labels) // each time: a run may have replaced them
	res, err := c.call(x, item.Key)
	if stale && err == nil {
		c.after.sure(item.Key)
	}
	// A success after failures may be worth a line in the log.
	if err == nil && res == (Result{}) && c.plain && c.ill.Load() == 0 && c.succeed(w.slot, x, item.Key) {
		return true
	}
	c.conclude(w.slot, x, item, Outcome{res, err})
	return false
}

// call runs the reconciler and makes an error of its panic.
func (c *Controller[K]) call(x *runCtx[K], key K) (res Result, err error) {
	if !c.o.CrashOnPanic {
		defer func() {
			if v := recover(); v != nil {
				res, err = Result{}, newPanic(v)
			}
		}()
	}
	res, err = c.rec.Reconcile(x, key)
	return res, checkError(err)
}

// goexit settles what a reconciler left behind that ended its goroutine, and
// starts another worker.
func (c *Controller[K]) goexit(w *worker[K]) {
	defer c.pool.replace(w.slot)
	defer func() {
		for _, item := range w.rest {
			item.After(0) // taken together with these, and not begun
		}
	}()
	if w.slot.phase.Load()&phases != idle {
		c.concludeAll(w.slot, w.slot.ctx, w.items, func(int) Outcome { return Outcome{Err: errGoexit} })
	}
}

func (w *worker[K]) runBatches() error {
	buf := make([]queue.Item[K], w.c.o.Batch)
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
		h := w.c.holdOf(items[0].Key)
		n := 1
		for n < len(items) && w.c.holdOf(items[n].Key) == h {
			n++
		}
		w.rest = items[n:]
		w.runPart(h, items[:n])
		items = w.rest
	}
}

func (w *worker[K]) runPart(h *hold, items []queue.Item[K]) {
	c := w.c
	stale := false
	if h != nil && h.trusted() {
		items = slices.DeleteFunc(items, func(item queue.Item[K]) bool {
			s, ok := c.mayRun(item.Key)
			if !ok {
				item.After(0) // it is held
			}
			stale = stale || s
			return !ok
		})
	}
	if len(items) == 0 {
		return
	}
	w.items, w.keys = items, make([]K, len(items))
	attempt := 0
	for i, item := range items {
		w.keys[i] = item.Key
		attempt = max(attempt, item.Attempt)
	}
	if h != nil && !h.trusted() {
		for _, item := range items {
			item.After(distrustDelay)
		}
		return
	}
	x, ok := (*runCtx[K])(nil), false
	if h != nil {
		x, ok = w.slot.begin(h, w.keys, attempt)
	}
	if !ok {
		for _, item := range items {
			item.Done()
		}
		return
	}
	x.stale = stale
	pprof.SetGoroutineLabels(w.slot.labels)
	out, err := c.callBatch(x, w.keys)
	for i := range items {
		if stale && err == nil && out[i].Err == nil {
			c.after.sure(items[i].Key)
		}
	}
	c.concludeAll(w.slot, x, items, func(i int) Outcome {
		if err != nil {
			return Outcome{Err: err}
		}
		return out[i]
	})
}

func (c *Controller[K]) callBatch(x *runCtx[K], keys []K) (out []Outcome, err error) {
	if !c.o.CrashOnPanic {
		defer func() {
			if v := recover(); v != nil {
				err = newPanic(v)
			}
		}()
	}
	out = c.batch.ReconcileBatch(x, slices.Clone(keys))
	if len(out) != len(keys) {
		return nil, fmt.Errorf("ReconcileBatch returned %d outcomes for %d keys", len(out), len(keys))
	}
	for i := range out {
		if c.o.CrashOnPanic {
			out[i].Err = checkError(out[i].Err)
		} else { // of one key: the others have nothing to do with it
			out[i].Err = protect(func() error { return out[i].Err })
		}
	}
	return out, nil
}
