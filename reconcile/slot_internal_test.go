package reconcile

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tendhq/tend/internal/introspect"
)

func slotForTest(t *testing.T) *slot[int] {
	c, err := New("test", Func[int](func(context.Context, int) (Result, error) { return Result{}, nil }), nil)
	if err != nil {
		t.Fatal(err)
	}
	inside(c).k.view.Load().holds[0].Store(&hold{base: t.Context()})
	return &slot[int]{k: inside(c).k, alarm: inside(c).pool.alarm}
}

func runForTest(s *slot[int], h *hold) *run[int] {
	return &run[int]{k: s.k, hold: h, keys: []int{7}}
}

// A run whose hold was taken away before it could be seen does not begin.
//
// promise L1
func TestRunDoesNotBeginUnderAHoldThatIsLost(t *testing.T) {
	for name, now := range map[string]*hold{"lost": nil, "lost and won again": {base: t.Context()}} {
		s := slotForTest(t)
		h := s.k.view.Load().holds[0].Load()
		s.k.view.Load().holds[0].Store(now)
		if s.begin(runForTest(s, h)) || s.present() != nil {
			t.Errorf("a run begins under a hold that is %s", name)
		}
	}
}

// A run that others look at while it ends is counted once, what waits for its end is
// told, and no question about it is lost.
//
// Negative control: mutant "a run that ends tells nothing that waits for it".
func TestRunThatIsLookedAtEndsOnceAndAnswers(t *testing.T) {
	s := slotForTest(t)
	h := s.k.view.Load().holds[0].Load()
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
	look(func() { s.condition() })
	look(func() {
		n, _ := s.count()
		if n := n.Runs(); n > begun.Load() {
			t.Errorf("%d runs of %d were counted", n, begun.Load())
		}
	})
	look(func() {
		if s.ask(seen[int]{key: 7}) {
			asked.Add(1)
		}
	})
	look(func() {
		if ended := s.endRun(func(x *run[int]) bool { return slices.Equal(x.keys, []int{7}) }, nil); ended != nil {
			select {
			case <-ended:
			case <-over: // then all runs have ended
				select {
				case <-ended:
				default:
					t.Error("a run ended, and what waited for it was not told")
				}
			}
			waited.Add(1)
		}
	})
	for begun.Load() < 20_000 || asked.Load() < 10 || waited.Load() < 10 {
		begun.Add(1)
		x := runForTest(s, h)
		if !s.begin(x) {
			t.Fatal("a run could not begin")
		}
		runtime.Gosched()
		answered.Add(int64(len(s.finish(x, []decision{{}}, false, 0))))
	}
	close(over)
	lookers.Wait()
	if n, _ := s.count(); n != (introspect.Counts{Success: begun.Load()}) {
		t.Errorf("counted %+v, want %d successes", n, begun.Load())
	}
	if asked.Load() != answered.Load() {
		t.Errorf("%d questions, %d answers", asked.Load(), answered.Load())
	}
}

// A hold is taken away, and then the runs that are seen are waited for: that is all of
// them.
//
// promise L1. Negative control: with begin looking at the hold before it shows its
// run, one began unseen.
func TestNoRunBeginsUnseenWhenItsHoldIsTaken(t *testing.T) {
	s := slotForTest(t)
	h := s.k.view.Load().holds[0].Load()
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
			if x := runForTest(s, h); s.begin(x) {
				inside.Store(true)
				began.Add(1)
				inside.Store(false)
				s.finish(x, []decision{{}}, false, 0)
			}
			if n%64 == 0 {
				runtime.Gosched() // on one core nothing else would get to look
			}
		}
	})
	every := func(*run[int]) bool { return true }
	for n := 0; n < 50_000 || began.Load() < 1000; n++ {
		s.k.view.Load().holds[0].Store(nil)
		if ended := s.endRun(every, nil); ended != nil {
			<-ended
		}
		before := began.Load()
		if inside.Load() || began.Load() != before {
			t.Error("a run goes on without its hold")
			break
		}
		s.k.view.Load().holds[0].Store(h)
		runtime.Gosched()
	}
	close(over)
	worker.Wait()
}
