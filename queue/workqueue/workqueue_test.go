package workqueue_test

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/workqueue"
)

func newQueue[K comparable](t *testing.T, o *workqueue.Options[K]) *workqueue.Queue[K] {
	t.Helper()
	q, err := workqueue.New(o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return q
}

// get wants a key to be ready.
func get[K comparable](t *testing.T, q *workqueue.Queue[K]) K {
	t.Helper()
	if q.Len() == 0 {
		t.Fatal("no key is ready, want one")
	}
	key, shutdown := q.Get()
	if shutdown {
		t.Fatal("Get reports a shutdown, want a key")
	}
	return key
}

func wantLen[K comparable](t *testing.T, q *workqueue.Queue[K], want int) {
	t.Helper()
	synctest.Wait()
	if got := q.Len(); got != want {
		t.Errorf("Len is %d, want %d", got, want)
	}
}

func TestKeysAddedTwiceRunOnce(t *testing.T) {
	q := newQueue[string](t, nil)
	for range 1000 {
		q.Add("a")
	}
	if got := q.Len(); got != 1 {
		t.Errorf("Len is %d after 1000 adds of one key, want 1", got)
	}
	get(t, q)
	if got := q.Len(); got != 0 {
		t.Errorf("Len is %d while the key runs, want 0", got)
	}
	q.Done("a")
	if got := q.Len(); got != 0 {
		t.Errorf("Len is %d when the key is done, want 0", got)
	}
}

func TestKeyAddedWhileRunningRunsOnceMoreAfterDone(t *testing.T) {
	q := newQueue[string](t, nil)
	q.Add("a")
	get(t, q)
	for range 1000 {
		q.Add("a")
	}
	if got := q.Len(); got != 0 {
		t.Errorf("Len is %d while the key runs, want 0: it must not run twice at once", got)
	}
	q.Done("a")
	if got := q.Len(); got != 1 {
		t.Fatalf("Len is %d after Done, want 1", got)
	}
	get(t, q)
	q.Done("a")
	if got := q.Len(); got != 0 {
		t.Errorf("Len is %d after the second run, want 0", got)
	}
}

func TestManyProducersAndWorkersLoseNoKeyAndOverlapNone(t *testing.T) {
	const producers, workers, keys, adds = 20, 10, 50, 200
	q := newQueue[int](t, nil)
	var running, added, seen [keys]atomic.Int64
	var made, used sync.WaitGroup
	for range workers {
		used.Go(func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				if running[key].Add(1) != 1 {
					t.Errorf("key %d runs twice at once", key)
				}
				seen[key].Store(added[key].Load())
				runtime.Gosched()
				running[key].Add(-1)
				q.Done(key)
			}
		})
	}
	for p := range producers {
		made.Go(func() {
			for i := range adds {
				key := (p + i) % keys
				added[key].Add(1)
				q.Add(key)
			}
		})
	}
	made.Wait()
	q.ShutDownWithDrain()
	used.Wait()
	for key := range keys {
		if seen[key].Load() != added[key].Load() {
			t.Errorf("key %d: the last run began after %d adds of %d", key, seen[key].Load(), added[key].Load())
		}
	}
}

func TestDoneOfAKeyThatDoesNotRunDoesNothing(t *testing.T) {
	q := newQueue[string](t, nil)
	q.Done("never added")
	q.Add("a")
	q.Done("a")
	if got := q.Len(); got != 1 {
		t.Errorf("Len is %d after Done of a key that only waits, want 1", got)
	}
	get(t, q)
	q.Done("a")
	q.Done("a")
	q.Add("a")
	get(t, q)
}

func TestShutDownHandsOutWhatIsReadyAndIgnoresAdds(t *testing.T) {
	q := newQueue[string](t, nil)
	q.Add("a")
	q.Add("b")
	q.ShutDown()
	q.ShutDown() // is idempotent
	q.Add("c")
	q.AddAfter("c", time.Nanosecond)
	q.AddRateLimited("c")
	if !q.ShuttingDown() {
		t.Error("ShuttingDown is false after ShutDown")
	}
	if got := q.NumRequeues("c"); got != 0 {
		t.Errorf("an add after ShutDown counted %d failures, want 0", got)
	}
	got := map[string]bool{get(t, q): true, get(t, q): true}
	if !got["a"] || !got["b"] {
		t.Errorf("got %v, want a and b", got)
	}
	if key, shutdown := q.Get(); !shutdown || key != "" {
		t.Errorf("Get = %q, %v on an empty queue, want the zero key and true", key, shutdown)
	}
}

func TestKeyDirtyAtShutDownRunsAgain(t *testing.T) {
	q := newQueue[string](t, nil)
	q.Add("a")
	get(t, q)
	q.Add("a")
	q.ShutDown()
	q.Done("a")
	get(t, q)
	q.Done("a")
	if _, shutdown := q.Get(); !shutdown {
		t.Error("Get reports no shutdown though nothing is left")
	}
}

func TestShutDownWakesEveryWaitingGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string](t, nil)
		var gone sync.WaitGroup
		for range 100 {
			gone.Go(func() {
				if _, shutdown := q.Get(); !shutdown {
					t.Error("Get got a key from an empty queue")
				}
			})
		}
		synctest.Wait()
		q.ShutDown()
		gone.Wait()
	})
}

func TestShutDownWithDrainWaitsForRunningAndDirtyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string](t, nil)
		q.Add("a")
		q.Add("b")
		first, second := get(t, q), get(t, q)
		q.Add(first)
		drained := make(chan struct{})
		go func() { q.ShutDownWithDrain(); close(drained) }()
		want := func(over bool, when string) {
			t.Helper()
			synctest.Wait()
			select {
			case <-drained:
				if !over {
					t.Fatalf("the drain ended %s", when)
				}
			default:
				if over {
					t.Fatalf("the drain goes on %s", when)
				}
			}
		}
		want(false, "while two keys run")
		if !q.ShuttingDown() {
			t.Error("ShuttingDown is false during ShutDownWithDrain")
		}
		q.Done(second)
		want(false, "while one key runs")
		q.Done(first)
		want(false, "while the dirty key is ready")
		get(t, q)
		want(false, "while the dirty key runs")
		q.Done(first)
		want(true, "when all is done")
	})
}

func TestShutDownEndsADrainThatWouldWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string](t, nil)
		q.Add("a")
		get(t, q)
		var drains sync.WaitGroup
		for range 2 {
			drains.Go(q.ShutDownWithDrain)
		}
		synctest.Wait()
		q.ShutDown()
		drains.Wait()
		// A drain after ShutDown waits again.
		drains.Go(q.ShutDownWithDrain)
		synctest.Wait()
		q.Done("a")
		drains.Wait()
	})
}

func TestDelayedKeysDoNotHoldADrainAndAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string](t, nil)
		q.AddAfter("a", time.Hour)
		q.ShutDownWithDrain()
		time.Sleep(2 * time.Hour)
		if _, shutdown := q.Get(); !shutdown {
			t.Error("a delayed key came out after the shutdown")
		}
	})
}

func TestDelayedKeyIsReadyAtItsTimeAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string](t, nil)
		q.AddAfter("a", 50*time.Millisecond)
		time.Sleep(50*time.Millisecond - 1)
		wantLen(t, q, 0)
		time.Sleep(2 * time.Millisecond)
		wantLen(t, q, 1)
		get(t, q)
		q.Done("a")
		time.Sleep(10 * time.Second)
		wantLen(t, q, 0)
		q.AddAfter("a", 0)
		wantLen(t, q, 1)
		q.AddAfter("b", -time.Second)
		wantLen(t, q, 2)
		q.ShutDown()
	})
}

func TestOfTwoDelaysTheEarlierWinsWhicheverCameFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string](t, nil)
		q.AddAfter("a", 50*time.Millisecond)
		q.AddAfter("a", 70*time.Millisecond)
		q.AddAfter("b", 70*time.Millisecond)
		q.AddAfter("b", 50*time.Millisecond)
		time.Sleep(52 * time.Millisecond)
		wantLen(t, q, 2)
		q.Done(get(t, q))
		q.Done(get(t, q))
		time.Sleep(time.Second)
		wantLen(t, q, 0)
		q.ShutDown()
	})
}

func TestDelayedKeysComeOutInTheOrderOfTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string](t, nil)
		q.AddAfter("third", 30*time.Millisecond)
		q.AddAfter("first", 10*time.Millisecond)
		q.AddAfter("second", 20*time.Millisecond)
		for _, want := range []string{"first", "second", "third"} {
			if key, _ := q.Get(); key != want {
				t.Errorf("got %s, want %s", key, want)
			}
		}
		q.ShutDown()
	})
}

// The difference to client-go of which programs notice most: its timer would run the key
// a second time.
func TestOfAnAddAndAnAddAfterTheEarlierCountsWhicheverCameFirst(t *testing.T) {
	for _, runs := range []bool{false, true} {
		for _, addFirst := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue[string](t, nil)
				if runs {
					q.Add("a")
					get(t, q)
				}
				if addFirst {
					q.Add("a")
				}
				q.AddAfter("a", 200*time.Millisecond)
				if !addFirst {
					q.Add("a")
				}
				if runs {
					q.Done("a")
				}
				wantLen(t, q, 1)
				q.Done(get(t, q))
				time.Sleep(time.Second)
				wantLen(t, q, 0)
				q.ShutDown()
			})
		}
	}
}

func TestAddDuringBackoffRunsAtOnceAndKeepsTheCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, &workqueue.Options[string]{Limiter: workqueue.NewLimiter[string](queue.Backoff{
			Base: time.Minute, Max: time.Hour, NoJitter: true,
		})})
		q.Add("a")
		q.AddRateLimited(get(t, q))
		q.Done("a")
		wantLen(t, q, 0)
		q.Add("a")
		wantLen(t, q, 1)
		q.Done(get(t, q))
		if got := q.NumRequeues("a"); got != 1 {
			t.Errorf("NumRequeues is %d after Done without Forget, want 1", got)
		}
		q.ShutDown()
	})
}

func TestRateLimitedAddsGrowUntilForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, &workqueue.Options[string]{Limiter: workqueue.NewLimiter[string](queue.Backoff{
			Base: time.Second, Max: 4 * time.Second, NoJitter: true,
		})})
		for n, want := range []time.Duration{1, 2, 4, 4} {
			from := time.Now()
			q.AddRateLimited("a")
			key, _ := q.Get()
			q.Done(key)
			if got := time.Since(from); got < want*time.Second || got > want*time.Second+10*time.Millisecond {
				t.Errorf("delay %d is %v, want %v s", n, got, int(want))
			}
			if got := q.NumRequeues("a"); got != n+1 {
				t.Errorf("NumRequeues is %d, want %d", got, n+1)
			}
		}
		if got := q.NumRequeues("b"); got != 0 {
			t.Errorf("another key has %d failures, want 0", got)
		}
		q.Forget("a")
		if got := q.NumRequeues("a"); got != 0 {
			t.Errorf("NumRequeues is %d after Forget, want 0", got)
		}
		q.ShutDown()
	})
}

// Without a limiter of its own a queue waits 5 ms, twice as long each time, and 1000 s at most, all with jitter.
func TestDefaultLimiterIsThatOfItsComment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string](t, nil)
		longest := make([]time.Duration, 30)
		for key := range 200 {
			for n := range longest {
				q.AddRateLimited(fmt.Sprint(key))
				e, _ := q.Queue().Lookup(fmt.Sprint(key))
				longest[n] = max(longest[n], time.Until(e.Next))
				q.Queue().Remove(fmt.Sprint(key))
			}
		}
		for n, got := range longest {
			if most := min(5*time.Millisecond<<n, 1000*time.Second); got > most || got < most*3/4 {
				t.Errorf("the longest of 200 delays after %d failures is %v, want just below %v", n, got, most)
			}
		}
		q.ShutDown()
	})
}

func TestCallersLimiterIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fixed{}
		q := newQueue(t, &workqueue.Options[string]{Limiter: l})
		q.AddRateLimited("a")
		time.Sleep(time.Second - 1)
		wantLen(t, q, 0)
		time.Sleep(2 * time.Millisecond)
		wantLen(t, q, 1)
		if got := q.NumRequeues("a"); got != 7 {
			t.Errorf("NumRequeues is %d, want the limiter's 7", got)
		}
		q.Forget("a")
		if !l.forgotten {
			t.Error("the limiter was not told to forget")
		}
		q.ShutDown()
	})
}

type fixed struct{ forgotten bool }

func (*fixed) When(string) time.Duration { return time.Second }
func (f *fixed) Forget(string)           { f.forgotten = true }
func (*fixed) NumRequeues(string) int    { return 7 }

// Existing users have such keys: case 152 refuses them elsewhere.
func TestKeysMayHoldPointersInterfacesAndFloats(t *testing.T) {
	type key struct {
		any any
		f   float64
		p   *int
	}
	q := newQueue[key](t, nil)
	n := 1
	a, b := key{"x", math.Pi, &n}, key{1, 0, nil}
	q.Add(a)
	q.Add(b)
	q.Add(a)
	if got := q.Len(); got != 2 {
		t.Errorf("Len is %d, want 2", got)
	}
	got := map[key]bool{get(t, q): true, get(t, q): true}
	if !got[a] || !got[b] {
		t.Errorf("got %v, want both keys", got)
	}
}

func TestNothingIsKeptForKeysThatWereForgotten(t *testing.T) {
	q := newQueue[string](t, nil)
	for i := range 1000 {
		key := fmt.Sprint(i)
		q.AddRateLimited(key)
		q.Add(key)
	}
	for range 1000 {
		key := get(t, q)
		q.Forget(key)
		q.Done(key)
	}
	for range q.Queue().Snapshot() {
		t.Fatal("the queue still holds a key")
	}
}

// A key is garbage once it is done: the slab must not hold on to it.
func TestDoneKeysAreCollected(t *testing.T) {
	q := newQueue[*[64]byte](t, nil)
	const n = 10
	var freed sync.WaitGroup
	freed.Add(n)
	func() {
		for range n {
			key := new([64]byte)
			runtime.AddCleanup(key, func(int) { freed.Done() }, 0)
			q.Add(key)
		}
		for range n {
			q.Done(get(t, q))
		}
	}()
	done := make(chan struct{})
	go func() { freed.Wait(); close(done) }()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		runtime.GC()
		select {
		case <-done:
			runtime.KeepAlive(q)
			return
		default:
			if time.Now().After(deadline) {
				t.Fatal("keys that are done are still reachable")
			}
			runtime.Gosched()
		}
	}
}

func TestCycleAllocatesNothing(t *testing.T) {
	q := newQueue[string](t, nil)
	keys := []string{"a", "b", "c"}
	n := 0
	if got := testing.AllocsPerRun(1000, func() {
		q.Add(keys[n%3])
		key, _ := q.Get()
		q.Forget(key)
		q.Done(key)
		n++
	}); got != 0 {
		t.Errorf("a cycle allocates %v times, want 0", got)
	}
}

// Delays that are over together come out in the order of their times, as in
// client-go, unless Options.Shards says otherwise.
func TestOneOrderByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := workqueue.New[string](nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		for n := range want { // the last first
			k := len(want) - 1 - n
			q.AddAfter(want[k], time.Duration(k+1)*time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, key := range want {
			got, _ := q.Get()
			if got != key {
				t.Fatalf("got %s, want %s", got, key)
			}
			q.Done(got)
		}
		q.ShutDown()
		if _, err := workqueue.New((&workqueue.Options[string]{}).SetShards(1000)); err == nil {
			t.Error("1,000 shards were taken")
		}
	})
}

// Adds and depth count as the package's page says, which is not as client-go counts.
func TestAddsAndDepthCountAsThePageSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := workqueue.New[string](nil)
		if err != nil {
			t.Fatal(err)
		}
		want := func(when string, adds uint64, depth int) {
			t.Helper()
			if s := q.Queue().Stats(); s.Adds != adds || s.Of(queue.StateReady).Keys != depth || q.Len() != depth {
				t.Errorf("%s: %d adds, %d ready, Len %d; want %d, %d, %d", when, s.Adds, s.Of(queue.StateReady).Keys, q.Len(), adds, depth, depth)
			}
		}
		q.Add("a")
		q.Add("a")
		want("added twice", 2, 1)
		key, _ := q.Get()
		q.Add(key)
		want("added while it runs", 3, 0)
		q.Done(key)
		want("after its run", 3, 1)
		q.AddAfter("b", time.Minute)
		want("added for later", 4, 1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want("when its time has come", 4, 2)
		q.ShutDown()
	})
}

func TestShardsThatCannotBeAreRefused(t *testing.T) {
	for _, n := range []int{-1, 1 << 20} {
		if _, err := workqueue.New((&workqueue.Options[string]{}).SetShards(n)); err == nil {
			t.Errorf("%d shards are taken", n)
		}
	}
}
