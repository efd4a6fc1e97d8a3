package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/queue/ratelimit"
)

// stamps proves, under concurrency, that no key runs twice at once and that a
// run which begins after an add has seen it: each add takes a new stamp first,
// each run reads the stamp when it begins.
type stamps struct {
	added, seen atomic.Int64
	running     atomic.Int32
	tenant      *atomic.Int32 // runs of its tenant

	mu   sync.Mutex
	news chan struct{} // closed when a run ends
}

func newStamps() *stamps { return &stamps{tenant: new(atomic.Int32), news: make(chan struct{})} }

// begin notes the begin of a run; its error says that there are too many.
func (s *stamps) begin() (end func(), err error) {
	if n := s.running.Add(1); n != 1 {
		err = fmt.Errorf("%d runs at once", n)
	}
	if n := s.tenant.Add(1); n > stampsPerTenant {
		err = fmt.Errorf("%d runs of its tenant at once, want %d at most", n, stampsPerTenant)
	}
	s.seen.Store(s.added.Load())
	return func() {
		s.tenant.Add(-1)
		s.running.Add(-1)
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.news)
		s.news = make(chan struct{})
	}, err
}

// await waits until a run has seen stamp n.
func (s *stamps) await(ctx context.Context, n int64) error {
	for {
		s.mu.Lock()
		news := s.news
		s.mu.Unlock()
		if s.seen.Load() >= n {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("add number %d, and the last run saw %d: %w", n, s.seen.Load(), context.Cause(ctx))
		}
	}
}

const (
	stampedKeys     = 50
	stampsPerTenant = 3
)

// promise Q1, Q2
// Negative control: TestStampsCatchALostAddAndASecondRun.
// Weak point 003 (b).
func TestEveryAddIsSeenAndNoKeyRunsTwiceAtOnce(t *testing.T) {
	all := kinds()
	adds := 1000
	if long := campaign.Length(); long > 0 {
		adds = int(long / (250 * time.Microsecond) / time.Duration(len(all))) // what it takes with the race detector
	}
	for _, k := range all {
		t.Run(k.String(), func(t *testing.T) {
			w := newStampedWork(t, k)
			w.run(adds)
		})
		if t.Failed() {
			return
		}
	}
}

// stampedWork is a queue with everything that uses it at once.
type stampedWork struct {
	t       *testing.T
	q       *Queue[string]
	kind    kind
	buckets []*ratelimit.Bucket
	names   []string
	all     map[string]*stamps
	adds    atomic.Uint64 // that were taken
	runs    atomic.Uint64
}

func newStampedWork(t *testing.T, k kind) *stampedWork {
	w := &stampedWork{t: t, kind: k, all: map[string]*stamps{}}
	o := &Options[string]{Shards: k.shards, Policy: func(int, error) time.Duration { return 50 * time.Microsecond }}
	if k.maxKeys > 0 {
		o.MaxKeys = stampedKeys / 2
	}
	tenants := map[string]*atomic.Int32{}
	for n := range stampedKeys {
		name := fmt.Sprintf("%c%02d", 'a'+n%letters, n)
		w.names = append(w.names, name)
		w.all[name] = newStamps()
		if k.tenants {
			if tenants[tenantOf(name)] == nil {
				tenants[tenantOf(name)] = new(atomic.Int32)
			}
			w.all[name].tenant = tenants[tenantOf(name)]
		}
	}
	if k.tenants {
		o.Tenant, o.TenantRunning = tenantOf, stampsPerTenant
	}
	if k.buckets {
		for n := range 2 {
			b, err := ratelimit.NewBucket(fmt.Sprint("bucket ", n), 20_000, 20)
			if err != nil {
				t.Fatal(err)
			}
			w.buckets = append(w.buckets, b)
		}
		o.Buckets = func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
			for _, b := range bucketsOf(key) {
				dst = append(dst, w.buckets[b])
			}
			return dst
		}
	}
	w.q = newQueue(t, o)
	return w
}

func (w *stampedWork) run(adds int) {
	const adders, workers = 4, 8
	var made, used, disturbed sync.WaitGroup
	for n := range workers {
		used.Go(func() { w.work(n) }) // until the queue stops
	}
	for range adders {
		made.Go(func() { w.add(adds) })
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	disturbed.Go(func() { // until all is added
		for ctx.Err() == nil {
			w.disturb()
		}
	})
	made.Wait()
	cancel()
	disturbed.Wait()
	for _, name := range w.names {
		n, ok := w.addOne(name, AddOptions{Urgent: true})
		for ; !ok; n, ok = w.addOne(name, AddOptions{Urgent: true}) {
			runtime.Gosched() // the queue is full; no key is parked, so there will be room
		}
		if err := w.all[name].await(w.t.Context(), n); err != nil {
			w.t.Error(err)
		}
	}
	if err := w.q.Stop(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	used.Wait()
	verify(w.t, w.q)
	if st := w.q.Stats(); st.Adds != w.adds.Load() || st.Dispatched != w.runs.Load() || st.Of(StateRunning).Keys != 0 {
		w.t.Errorf("%d adds, %d dispatched, %d running; want %d, %d, 0", st.Adds, st.Dispatched, st.Of(StateRunning).Keys, w.adds.Load(), w.runs.Load())
	}
	w.t.Logf("campaign: %d adds, %d runs", w.adds.Load(), w.runs.Load())
}

// add adds random keys. Now and then it waits until the last of them has run: all
// workers sleep then, and the next add must wake one.
func (w *stampedWork) add(adds int) {
	for n := range adds {
		name := w.names[rand.IntN(stampedKeys)]
		o := AddOptions{Priority: At(int8(rand.IntN(3))), Urgent: rand.IntN(10) == 0 || n%20 == 19}
		if rand.IntN(4) == 0 {
			o.After = time.Duration(rand.IntN(300)) * time.Microsecond
		}
		stamp, ok := w.addOne(name, o)
		if ok && n%20 == 19 {
			if err := w.all[name].await(w.t.Context(), stamp); err != nil {
				w.t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// addOne adds a key; not ok: the queue is full.
func (w *stampedWork) addOne(name string, o AddOptions) (stamp int64, ok bool) {
	stamp = w.all[name].added.Add(1)
	err := w.q.AddWith(name, o)
	if err != nil && (!errors.Is(err, ErrFull) || w.kind.maxKeys == 0) {
		w.t.Error(err)
	}
	if err == nil {
		w.adds.Add(1)
	}
	return stamp, err == nil
}

// disturb holds keys, tenants, buckets and the queue for a moment, and looks at it.
func (w *stampedWork) disturb() {
	name := w.names[rand.IntN(stampedKeys)]
	release := holdKey(w.q, name, 0)
	switch rand.IntN(8) {
	case 0:
		pauseQueue(w.q, time.Duration(rand.IntN(100))*time.Microsecond)
		resumeQueue(w.q)
	case 1:
		pauseTenant(w.q, tenantOf(name), time.Duration(rand.IntN(100))*time.Microsecond)
		resumeTenant(w.q, tenantOf(name))
	case 2:
		pauseKey(w.q, name, 0)
		resumeKey(w.q, name)
	case 3:
		for range w.q.Snapshot() {
		}
	case 4:
		if w.kind.buckets {
			b := w.buckets[rand.IntN(2)]
			b.Throttle(time.Now().Add(100 * time.Microsecond))
			b.Charge(2)
			b.ThrottleUntil(time.Time{})
		}
	case 5:
		w.q.Stats()
		w.q.Lookup(name)
	case 6:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(100))*time.Microsecond)
		if it, err := w.q.Get(ctx); err == nil {
			w.settle(it)
		}
		cancel()
	}
	release()
}

// work runs keys until the queue stops, by Get or GetBatch.
func (w *stampedWork) work(n int) {
	ctx := context.Background()
	var batch [4]Item[string]
	for {
		if n%4 == 3 {
			got, err := w.q.GetBatch(ctx, batch[:])
			if err != nil {
				return
			}
			for _, it := range batch[:got] {
				w.settle(it)
			}
			continue
		}
		it, err := w.q.Get(ctx)
		for err == nil {
			if n%4 != 2 {
				w.settle(it)
				break
			}
			w.once(it)
			it.Done()
			it, err = w.q.Get(ctx)
		}
		if err != nil {
			return
		}
	}
}

// once is one run.
func (w *stampedWork) once(it Item[string]) {
	end, err := w.all[it.Key].begin()
	if err != nil {
		w.t.Errorf("%s: %v", it.Key, err)
	}
	w.runs.Add(1)
	end()
}

// settle runs a key and ends its run in one way or another.
func (w *stampedWork) settle(it Item[string]) {
	w.once(it)
	kinds := 16
	if w.kind.maxKeys > 0 {
		kinds = 15 // parked keys would fill the queue
	}
	switch rand.IntN(kinds) {
	case 0, 1:
		it.Retry(errTest, 0)
	case 2:
		it.After(time.Duration(rand.IntN(50)) * time.Microsecond)
	case 3:
		var b *ratelimit.Bucket
		if w.kind.buckets {
			b = w.buckets[0]
		}
		it.Retry(ratelimit.Throttled(b, time.Now().Add(50*time.Microsecond), nil), 0)
	case 4:
		w.q.DoneKey(it.Key)
	case 15:
		it.Park(errTest)
	default:
		it.Done()
	}
}
