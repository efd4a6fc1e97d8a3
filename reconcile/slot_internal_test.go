package reconcile

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func slotForTest(t *testing.T) *slot[int] {
	c, err := New("test", Func[int](func(context.Context, int) (Result, error) { return Result{}, nil }), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.holds[0].Store(&hold{base: t.Context()})
	return &slot[int]{c: c}
}

// Whoever looks at a run changes the way in which it ends. It is counted once all the
// same, who waits for its end is told, and no question about it is lost.
//
// Negative controls: with going not marking the run, and mutant "a run that somebody
// looks at ends as if nobody did": questions were lost and endRun's channels stayed open.
func TestRunThatIsLookedAtEndsOnceAndAnswers(t *testing.T) {
	s := slotForTest(t)
	h := s.c.holds[0].Load()
	over := make(chan struct{})
	var asked, answered, waited atomic.Int64
	var begun atomic.Uint64
	var lookers sync.WaitGroup
	look := func(f func()) {
		lookers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					f()
					runtime.Gosched()
				}
			}
		})
	}
	look(func() { s.snapshot() })
	look(func() {
		if n := s.count().Runs(); n > begun.Load() {
			t.Errorf("%d runs of %d were counted", n, begun.Load())
		}
	})
	look(func() {
		if s.ask(seen[int]{key: 7}) {
			asked.Add(1)
		}
	})
	look(func() {
		if ended := s.endRun(func(s *slot[int]) bool { return slices.Equal(s.keys, []int{7}) }, nil, nil); ended != nil {
			select {
			case <-ended:
			case <-over: // then all runs have ended
				select {
				case <-ended:
				default:
					t.Error("a run ended, and who waited for it was not told")
				}
			}
			waited.Add(1)
		}
	})
	for begun.Load() < 20_000 || asked.Load() < 10 || waited.Load() < 10 {
		begun.Add(1)
		if _, ok := s.begin(h, []int{7}, 0); !ok {
			t.Fatal("a run could not begin")
		}
		runtime.Gosched()
		if !s.succeed() {
			answered.Add(int64(len(s.finish([]verdict{{}}, false))))
		}
	}
	close(over)
	lookers.Wait()
	if n := s.count(); n != (Counts{Success: begun.Load()}) {
		t.Errorf("counted %+v, want %d successes", n, begun.Load())
	}
	if asked.Load() != answered.Load() {
		t.Errorf("%d questions, %d answers", asked.Load(), answered.Load())
	}
}

// Who takes a hold away and then waits for the runs that it sees has seen all.
//
// promise L1. Negative control: with begin looking at the hold before it shows its
// run, one began unseen.
func TestNoRunBeginsUnseenWhenItsHoldIsTaken(t *testing.T) {
	s := slotForTest(t)
	h := s.c.holds[0].Load()
	over := make(chan struct{})
	var inside atomic.Bool
	var began atomic.Int64
	var worker sync.WaitGroup
	worker.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			default:
			}
			if _, ok := s.begin(h, []int{7}, 0); ok {
				inside.Store(true)
				began.Add(1)
				inside.Store(false)
				if !s.succeed() {
					s.finish([]verdict{{}}, false)
				}
			}
			if n%64 == 0 {
				runtime.Gosched() // on one core nobody else would get to look
			}
		}
	})
	every := func(*slot[int]) bool { return true }
	for n := 0; n < 50_000 || began.Load() < 1000; n++ {
		s.c.holds[0].Store(nil)
		if ended := s.endRun(every, nil, nil); ended != nil {
			<-ended
		}
		before := began.Load()
		if inside.Load() || began.Load() != before {
			t.Error("a run goes on without its hold")
			break
		}
		s.c.holds[0].Store(h)
		runtime.Gosched()
	}
	close(over)
	worker.Wait()
}

// A run that begins while the clock is not read has its whole time all the same, and
// hardly more.
//
// Negative control: without the two ticks the deadline was early by 4 ms.
func TestDeadlineIsNotEarlyWhenTheClockIsNotRead(t *testing.T) {
	for _, timeout := range []time.Duration{time.Minute, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var left time.Duration
			c, err := New("test", Func[int](func(ctx context.Context, key int) (Result, error) {
				if key < 0 {
					by, _ := ctx.Deadline()
					left = time.Until(by)
					<-ctx.Done()
					left = min(left, timeout-time.Until(by))
				}
				return Result{}, nil
			}), &Options[int]{Timeout: timeout})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- c.Run(ctx) }()
			for key := range 1000 {
				if err := c.Add(key); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(4 * time.Millisecond)
			if _, read := c.clock.Since(); read != c.exact {
				t.Errorf("with a timeout of %v the clock was read: %v", timeout, read)
			}
			began := time.Now()
			if err := c.Add(-1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * timeout)
			if c.Counts().Timeout != 1 {
				t.Errorf("%d timeouts after %v", c.Counts().Timeout, time.Since(began))
			}
			if late := left - timeout; late < 0 || late > 9*time.Millisecond || c.exact && late != 0 {
				t.Errorf("with a timeout of %v a run had %v", timeout, left)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
