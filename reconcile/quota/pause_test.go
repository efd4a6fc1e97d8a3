package quota_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

func runSet(t *testing.T, b store.Backend) (q *quota.Quota, stop func()) {
	t.Helper()
	set := must(quota.NewSet(&quota.Options{Limits: limits(quota.Rate{PerSecond: 100}, quota.Rate{PerSecond: 10}), Backend: b}))
	q = must(set.Get(quota.Name{Account: "acme", API: "dns"}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }() // ends at cancel
	synctest.Wait()
	return q, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// The cloud asks one server to wait for 30 s: the others wait as long, and one that
// starts meanwhile. The budget of another op is not paused, and afterwards nothing is left.
//
// Negative control: mutant "a pause holds for one server".
func TestPauseHoldsForAllServers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := must(memory.New(nil))
		defer b.Close()
		first, stop := runSet(t, b)
		defer stop()
		second, stop := runSet(t, b)
		defer stop()
		begun := time.Now()
		err := first.Do(t.Context(), quota.Read, func(context.Context) error { return &busy{30 * time.Second} })
		if !ratelimit.IsThrottled(err) {
			t.Fatalf("%v, want it throttled", err)
		}
		synctest.Wait()
		call := func(q *quota.Quota, op quota.Op) time.Duration {
			t.Helper()
			if err := q.Do(t.Context(), op, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			return time.Since(begun)
		}
		if at := call(second, quota.Write); at != 0 {
			t.Errorf("a write waited for %v, and only reads are paused", at)
		}
		time.Sleep(20 * time.Second)
		third, stop := runSet(t, b)
		defer stop()
		for name, q := range map[string]*quota.Quota{"second": second, "third": third} {
			if at := call(q, quota.Read); at < 30*time.Second || at > 32*time.Second {
				t.Errorf("the %s server made a call %v after the pause of 30 s began", name, at)
			}
		}
		if page := must(b.List(t.Context(), quota.PauseKind, store.ListOptions{})); len(page.Records) != 0 {
			t.Errorf("%d records of pauses are left", len(page.Records))
		}
	})
}

// One server is asked to wait for a minute, another then for 10 s: all wait for the minute.
//
// promise Q6
func TestShorterPauseOfOneServerEndsNoLongerOneOfAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := must(memory.New(nil))
		defer b.Close()
		first, stop := runSet(t, b)
		defer stop()
		second, stop := runSet(t, b)
		defer stop()
		begun := time.Now()
		answer := make(chan struct{})
		done := make(chan error)
		go func() { // sent before the first server was refused, and answered after
			done <- second.Do(t.Context(), quota.Read, func(context.Context) error {
				<-answer
				return &busy{10 * time.Second}
			})
		}()
		synctest.Wait()
		if err := first.Do(t.Context(), quota.Read, func(context.Context) error { return &busy{time.Minute} }); !ratelimit.IsThrottled(err) {
			t.Fatalf("%v, want it throttled", err)
		}
		synctest.Wait()
		close(answer)
		if err := <-done; !ratelimit.IsThrottled(err) {
			t.Fatalf("%v, want it throttled", err)
		}
		synctest.Wait()
		third, stop := runSet(t, b)
		defer stop()
		for name, q := range map[string]*quota.Quota{"second": second, "third": third} {
			if err := q.Do(t.Context(), quota.Read, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if at := time.Since(begun); at < time.Minute || at > 62*time.Second {
				t.Errorf("the %s server made a call %v after the pause of 1 min began", name, at)
			}
		}
	})
}

// The cloud asks the same server for another time, before the first is over: the others wait for that.
//
// promise Q6
func TestLaterPauseOfTheSameServerIsHeard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := must(memory.New(nil))
		defer b.Close()
		first, stop := runSet(t, b)
		defer stop()
		second, stop := runSet(t, b)
		defer stop()
		begun := time.Now()
		var calls sync.WaitGroup
		for _, after := range []time.Duration{5 * time.Second, 0} {
			synctest.Wait() // both are sent before the first answer
			calls.Go(func() {
				_ = first.Do(t.Context(), quota.Read, func(context.Context) error {
					time.Sleep(after)
					return &busy{10*time.Second + 5*after}
				})
			})
		}
		calls.Wait()
		synctest.Wait()
		if err := second.Do(t.Context(), quota.Read, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if at := time.Since(begun); at < 40*time.Second || at > 42*time.Second {
			t.Errorf("the second server made a call after %v, want 40s", at)
		}
	})
}

// A store that fails is asked for its watch ever more seldom, down to once in 5 s.
func TestWatchThatFailsIsBegunSeldom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &stuck{FullBackend: must(memory.New(nil))}
		defer b.Close()
		watches := 0
		b.watch = func(yield func(store.Batch, error) bool) {
			watches++
			yield(store.Batch{}, errDown)
		}
		_, stop := runSet(t, b)
		time.Sleep(10 * time.Minute)
		stop()
		if watches < 100 || watches > 130 {
			t.Errorf("%d watches were begun in ten minutes, want some 120", watches)
		}
	})
}

// brittle is a backend whose watches can be ended.
type brittle struct {
	store.FullBackend
	end func() context.Context // ends the next watch
}

func (b *brittle) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		over := b.end()
		defer context.AfterFunc(over, cancel)()
		if over.Err() != nil {
			yield(store.Batch{}, errDown)
			return
		}
		for batch, err := range b.FullBackend.Watch(ctx, kind, after) {
			if !yield(batch, err) {
				return
			}
		}
		yield(store.Batch{}, errDown)
	}
}

// The watch begins again and shows the same record: that is no new pause. Then the store
// is gone, and nothing says that the record is.
//
// promise Q6
func TestWatchThatBeginsAgainLengthensNoPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := must(memory.New(nil))
		defer b.Close()
		begun := time.Now()
		first, stop := runSet(t, b)
		defer stop()
		second, stop := runSet(t, &brittle{b, func() context.Context {
			ends := 20 * time.Second
			if time.Since(begun) >= ends {
				ends = 25 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), ends-time.Since(begun))
			t.Cleanup(cancel)
			return ctx
		}})
		defer stop()
		if err := first.Do(t.Context(), quota.Read, func(context.Context) error { return &busy{30 * time.Second} }); !ratelimit.IsThrottled(err) {
			t.Fatalf("%v, want it throttled", err)
		}
		synctest.Wait()
		if err := second.Do(t.Context(), quota.Read, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if at := time.Since(begun); at < 30*time.Second || at > 32*time.Second {
			t.Errorf("the second server made a call %v after the pause of 30 s began", at)
		}
	})
}

// A server that starts during a pause cannot tell when it began, and waits until its record
// is gone: also when that goes while the server's watch is down.
//
// promise Q6. Negative control: mutant "a pause that ended unseen goes on".
func TestPauseThatEndedUnseenIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := must(memory.New(nil))
		defer b.Close()
		begun := time.Now()
		first, stop := runSet(t, b)
		defer stop()
		if err := first.Do(t.Context(), quota.Read, func(context.Context) error { return &busy{30 * time.Second} }); !ratelimit.IsThrottled(err) {
			t.Fatalf("%v, want it throttled", err)
		}
		time.Sleep(20 * time.Second)
		late, stop := runSet(t, &brittle{b, func() context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			switch passed := time.Since(begun); {
			case passed < 25*time.Second:
				time.AfterFunc(25*time.Second-passed, cancel)
			case passed < 35*time.Second:
				cancel()
			}
			return ctx
		}})
		defer stop()
		if err := late.Do(t.Context(), quota.Read, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if at := time.Since(begun); at < 30*time.Second || at > 45*time.Second {
			t.Errorf("the server that started at 20 s made a call %v after the pause of 30 s began", at)
		}
	})
}

// A quota that is asked for first during a pause is paused too, and a second pause is told
// as the first was.
//
// promise Q6. Negative controls: mutants "a quota that is made during a pause is not
// paused" and "a second pause is not told".
func TestEachPauseHoldsForQuotasThatAreMadeLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := must(memory.New(nil))
		defer b.Close()
		first, stop := runSet(t, b)
		defer stop()
		second := must(quota.NewSet(&quota.Options{Limits: limits(quota.Rate{PerSecond: 100}, quota.Rate{PerSecond: 10}), Backend: b}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- second.Run(ctx) }() // ends at cancel
		synctest.Wait()
		var q *quota.Quota
		for _, pause := range []time.Duration{10 * time.Second, 30 * time.Second} {
			begun := time.Now()
			if err := first.Do(t.Context(), quota.Read, func(context.Context) error { return &busy{pause} }); !ratelimit.IsThrottled(err) {
				t.Fatalf("%v, want it throttled", err)
			}
			synctest.Wait()
			q = must(second.Get(quota.Name{Account: "acme", API: "dns"}))
			if err := q.Do(t.Context(), quota.Read, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if at := time.Since(begun); at < pause || at > pause+2*time.Second {
				t.Errorf("the second server made a call %v after a pause of %v began", at, pause)
			}
			time.Sleep(time.Minute)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Nothing is kept of a pause that was told and is over: accounts come and go.
//
// promise Q7. Negative control: mutant "a pause that was told is remembered for ever".
func TestPauseThatWasToldIsForgottenWhenItIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := must(memory.New(nil))
		defer b.Close()
		set := must(quota.NewSet(&quota.Options{Limits: limits(quota.Rate{PerSecond: 100}, quota.Rate{}), Backend: b}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- set.Run(ctx) }() // ends at cancel
		pause := func(account string) {
			q := must(set.Get(quota.Name{Account: account}))
			_ = q.Do(ctx, quota.Read, func(context.Context) error { return &busy{2 * time.Second} })
			synctest.Wait()
		}
		for i := range 100 {
			pause(fmt.Sprint(i))
		}
		if n := set.Told(); n != 100 {
			t.Errorf("%d pauses are remembered while 100 last", n)
		}
		time.Sleep(2 * time.Second)
		pause("another")
		if n := set.Told(); n != 1 {
			t.Errorf("%d pauses are remembered while one lasts", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// stuck is a backend that does not answer the first grant of a lease, and whose watches are
// those of watch, if that is given.
type stuck struct {
	store.FullBackend
	grants atomic.Int32
	watch  iter.Seq2[store.Batch, error]
}

func (s *stuck) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	if s.grants.Add(1) == 1 {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return s.FullBackend.Grant(ctx, ttl)
}

func (s *stuck) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	if s.watch != nil {
		return s.watch
	}
	return s.FullBackend.Watch(ctx, kind, after)
}

// While the store does not answer about the pause of one account, others are told of the
// pauses of the rest. A pause that is longer is told after what is on its way.
//
// Seen to fail: the others heard nothing for as long as the first pause. Negative control:
// mutant "pauses are told one after the other".
//
// promise Q6
func TestGrantThatHangsHoldsUpNoOtherNews(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &stuck{FullBackend: must(memory.New(nil))}
		defer b.Close()
		set := must(quota.NewSet(&quota.Options{Limits: limits(quota.Rate{PerSecond: 100}, quota.Rate{}), Backend: b}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- set.Run(ctx) }() // ends at cancel
		pause := func(account string, d time.Duration) {
			q := must(set.Get(quota.Name{Account: account}))
			go func() { // ends with the pause, or at cancel
				_ = q.Do(ctx, quota.Read, func(context.Context) error { return &busy{d} })
			}()
			synctest.Wait()
		}
		records := func() (names []string) {
			for _, r := range must(b.List(t.Context(), quota.PauseKind, store.ListOptions{})).Records {
				names = append(names, r.Key.Name)
			}
			slices.Sort(names)
			return names
		}
		pause("a", 10*time.Second)
		pause("b", time.Minute)
		if got := records(); !slices.Equal(got, []string{"b/read"}) {
			t.Errorf("while the grant for a hangs, told are %v, want the pause of b", got)
		}
		time.Sleep(10 * time.Second)
		pause("a", time.Minute)
		if got := records(); !slices.Equal(got, []string{"a/read", "b/read"}) {
			t.Errorf("after the grant for a has failed, told are %v, want the pauses of a and b", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A watch may begin again with a snapshot in the middle, as after a compaction. A pause whose
// record is not in that has ended.
//
// Seen to fail: what the first snapshot had shown counted as shown, and all that was ever shown
// was kept. Negative control: mutant "what was listed once is listed for ever".
//
// promise Q6
func TestPauseThatALaterSnapshotDoesNotShowEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		again := make(chan struct{})
		b := &stuck{FullBackend: must(memory.New(nil))}
		defer b.Close()
		b.watch = func(yield func(store.Batch, error) bool) {
			record := store.Record{Kind: quota.PauseKind, Key: store.Key{Namespace: "other", Name: "acme/dns/read"}, Revision: 1, Value: store.Bytes("60000")}
			_ = yield(store.Batch{Kind: store.BatchSnapshot, Revision: 1, Changes: []store.Change{{Record: record}}}, nil) &&
				yield(store.Batch{Kind: store.BatchSnapshotEnd, Revision: 1}, nil)
			<-again
			_ = yield(store.Batch{Kind: store.BatchSnapshot, Revision: 9}, nil) && yield(store.Batch{Kind: store.BatchSnapshotEnd, Revision: 9}, nil)
			<-ctx.Done()
		}
		set := must(quota.NewSet(&quota.Options{Limits: limits(quota.Rate{PerSecond: 100}, quota.Rate{}), Backend: b}))
		q := must(set.Get(quota.Name{Account: "acme", API: "dns"}))
		done := make(chan error, 1)
		go func() { done <- set.Run(ctx) }() // ends at cancel
		synctest.Wait()
		if q.Until(quota.Read).IsZero() {
			t.Fatal("the record pauses nothing")
		}
		close(again)
		synctest.Wait()
		if until := q.Until(quota.Read); !until.IsZero() {
			t.Errorf("the record is gone, and the pause lasts for %v more", time.Until(until))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A store that fails costs the news and no call.
func TestPauseIsKeptWithoutTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := must(memory.New(nil))
		q, stop := runSet(t, b)
		defer stop()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for range 3 {
			err := q.Do(t.Context(), quota.Read, func(context.Context) error { return &busy{10 * time.Second} })
			if !ratelimit.IsThrottled(err) {
				t.Fatal(err)
			}
		}
		if d := time.Since(begun); d < 20*time.Second || d > 21*time.Second {
			t.Errorf("three calls that were refused for 10 s each took %v", d)
		}
	})
	if _, err := quota.NewSet(&quota.Options{Limits: limits(quota.Rate{PerSecond: 1}, quota.Rate{}), Backend: struct{ store.Backend }{}}); err == nil || errors.Is(err, quota.ErrNoBudget) {
		t.Errorf("%v: a store without leases was accepted", err)
	}
}

// A call whose pause ends after its deadline is refused at once, not at the deadline, and
// costs no token.
//
// promise Q6
func TestPauseBeyondTheDeadlineRefusesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := must(newSet(quota.Rate{PerSecond: 100}, quota.Rate{PerSecond: 10}).Get(quota.Name{Account: "acme", API: "dns"}))
		if err := q.Do(t.Context(), quota.Read, func(context.Context) error { return &busy{30 * time.Second} }); !ratelimit.IsThrottled(err) {
			t.Fatalf("%v, want it throttled", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begun := time.Now()
		err := q.Do(ctx, quota.Read, func(context.Context) error { t.Error("a call was made in the pause"); return nil })
		if !errors.Is(err, quota.ErrNoBudget) || time.Since(begun) != 0 {
			t.Errorf("Do = %v after %v, want ErrNoBudget at once", err, time.Since(begun))
		}
	})
}

// Whatever Limits.Judge says, no pause is longer than 15 min.
//
// Negative control: mutant "a judge may pause for hours".
func TestPauseHasABound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := must(newSet(quota.Rate{PerSecond: 100}, quota.Rate{}).Get(quota.Name{API: "dns"}))
		begun := time.Now()
		err := q.Do(t.Context(), quota.Read, func(context.Context) error { return &busy{5 * time.Hour} })
		if until, ok := ratelimit.ThrottledUntil(err); !ok || until.Sub(begun) != 15*time.Minute {
			t.Errorf("throttled for %v, want 15 min", until.Sub(begun))
		}
		if err := q.Do(t.Context(), quota.Read, func(context.Context) error { return nil }); err != nil || time.Since(begun) != 15*time.Minute {
			t.Errorf("%v: a call was made after %v, want 15 min", err, time.Since(begun))
		}
	})
}

// However long another server says that its pause is, it lasts for 15 min at most.
func TestPauseOfAnotherServerHasABound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := must(memory.New(nil))
		defer b.Close()
		q, stop := runSet(t, b)
		defer stop()
		must(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{
			Kind: quota.PauseKind, Key: store.Key{Namespace: "other", Name: q.String() + "/read"}, Put: store.Bytes("36000000"),
		}}}))
		synctest.Wait()
		if left := time.Until(q.Until(quota.Read)); left != 15*time.Minute {
			t.Errorf("a pause of 10 h of another server lasts for %v, want 15m", left)
		}
	})
}

// A record of a pause that is damaged, or of no time, pauses nothing.
func TestDamagedPauseIsNone(t *testing.T) {
	for _, text := range []string{"", "soon", "0", "-60000", "99999999999999999999", "-99999999999999999999", "60000 ms"} {
		bubble(t, func(t *testing.T) {
			b := must(memory.New(nil))
			defer b.Close()
			q, stop := runSet(t, b)
			defer stop()
			must(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{
				Kind: quota.PauseKind, Key: store.Key{Namespace: "other", Name: q.String() + "/read"}, Put: store.Bytes(text),
			}}}))
			synctest.Wait()
			begun := time.Now()
			if err := q.Do(t.Context(), quota.Read, func(context.Context) error { return nil }); err != nil || time.Since(begun) > 0 {
				t.Errorf("%q: a call took %v, error %v", text, time.Since(begun), err)
			}
		})
	}
}

// Names of which one text is made are told apart: each has its own pauses, here and on other
// servers. What an older server writes, under the text, pauses all of them as it did.
//
// Seen to fail: a pause of one held for the others on other servers. Negative control: mutant
// "names of one text have one key".
//
// promise Q6
func TestNamesOfOneTextShareNoPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := must(memory.New(nil))
		defer b.Close()
		names := []quota.Name{{Account: "a", Region: "b"}, {Account: "a", API: "b"}, {Account: "a/b"}, {Account: "b"}}
		servers := [2]*quota.Set{}
		for i := range servers {
			set := must(quota.NewSet(&quota.Options{Limits: limits(quota.Rate{PerSecond: 100}, quota.Rate{PerSecond: 10}), Backend: b}))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- set.Run(ctx) }() // ends at cancel
			defer func() { cancel(); <-done }()
			for _, name := range names {
				must(set.Get(name))
			}
			servers[i] = set
		}
		synctest.Wait()
		paused := func(i int) (all []int) {
			for j, name := range names {
				if until := must(servers[i].Get(name)).Until(quota.Read); !until.IsZero() {
					all = append(all, j)
				}
			}
			return all
		}
		for j, name := range names {
			err := must(servers[0].Get(name)).Do(t.Context(), quota.Read, func(context.Context) error { return &busy{30 * time.Second} })
			if !ratelimit.IsThrottled(err) {
				t.Fatalf("%v, want it throttled", err)
			}
			synctest.Wait()
			for i := range servers {
				if got := paused(i); len(got) != 1 || got[0] != j {
					t.Errorf("server %d pauses %v, want %d, %+v, alone", i, got, j, name)
				}
			}
			page := must(b.List(t.Context(), quota.PauseKind, store.ListOptions{}))
			if want := []string{"/a/b//read", "/a//b/read", "/a%2Fb///read", "b/read"}[j]; len(page.Records) != 1 || page.Records[0].Key.Name != want {
				t.Errorf("the records are %v, want one of %s", page.Records, want)
			}
			time.Sleep(time.Minute)
		}
		lease := must(b.Grant(t.Context(), 30*time.Second))
		must(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: quota.PauseKind, Key: store.Key{Namespace: "older", Name: "a/b/read"}, Put: store.Bytes("30000"), Lease: lease}}}))
		synctest.Wait()
		if got := paused(1); len(got) != 3 {
			t.Errorf("the record of an older server pauses %v, want the first three", got)
		}
	})
}
