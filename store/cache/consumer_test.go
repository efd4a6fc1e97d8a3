package cache_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

func TestConsumerSeesInitialObjectsThenTheMarkerThenChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		early := record(t, c, nil)
		f.send(snapshot(2, put(at(1, "a")), put(at(2, "b"))))
		expectSteps(t, early)
		f.send(end(2))
		expectSteps(t, early, "initial a@1", "initial b@2", "synced@2")
		f.send(changes(4, put(at(3, "c")), del(at(1, "a"), 4)))
		expectSteps(t, early, "c ->3@3", "a 1>-@4")
		late := record(t, c, nil)
		got := late.take()
		if len(got) != 3 || got[2] != "synced@4" {
			t.Errorf("a late consumer saw %q, want b and c as initial, then synced@4", got)
		}
	})
}

// burst is a store whose watch says all that it has to say at once.
type burst struct {
	store.Backend
	batches []store.Batch
}

func (b *burst) Watch(ctx context.Context, _ string, _ store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for _, batch := range b.batches {
			if !yield(batch, nil) {
				return
			}
		}
		<-ctx.Done()
		yield(store.Batch{}, context.Cause(ctx))
	}
}

// What changed while the first snapshot was on its way is a change to the consumers that wait for
// it, and not one of the objects that were there: sources hand on changes first. Each consumer
// took what the cache held when its goroutine went on, so that at a start with a million objects
// a change waited behind all of them.
//
// Negative control: the mutant "consumers begin when they go on".
func TestChangeDuringTheFirstSnapshotIsNewsToThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			c := newCache(t, &burst{batches: []store.Batch{
				snapshot(2, put(at(1, "a")), put(at(2, "b"))), end(2), changes(3, put(at(3, "a"))), changes(4, del(at(2, "b"), 4)),
			}}, nil)
			var waiting []*tape
			for range 10 {
				waiting = append(waiting, record(t, c, nil))
			}
			synctest.Wait()
			run(t, c)
			synctest.Wait()
			for _, consumer := range waiting {
				expectSteps(t, consumer, "initial a@1", "initial b@2", "synced@2", "a 1>3@3", "b 2>-@4")
			}
		}
	})
}

// A consumer that leaves before the first snapshot has ended leaves nothing behind.
func TestConsumerThatLeavesEarlyIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			for _, err := range c.Changes(ctx, nil) {
				left <- err
			}
		}()
		synctest.Wait()
		cancel()
		if err := <-left; err == nil {
			t.Error("the sequence went on")
		}
		f.send(snapshot(1, put(at(1, "a"))), end(1))
		if n := len(c.Snapshot().Consumers); n != 0 {
			t.Errorf("there are %d consumers, want none", n)
		}
	})
}

// case 101
// The negative control let add wait for room instead of folding: the cache stood
// still with its slow consumer, and the test never ended.
func TestSlowConsumerFallsBehindAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, &cache.Options[spec, status]{Backlog: 4})
		f.send(snapshot(2, put(at(1, "a")), put(at(2, "b"))), end(2))
		gate := make(chan struct{}, 100)
		slow, fast := record(t, c, gate), record(t, c, nil)
		fast.take()
		for range 3 {
			gate <- struct{}{} // two objects and the marker
		}
		slow.take()

		var want []string
		for r := store.Revision(3); r < 103; r++ {
			name, old := "a", r-2
			if r%2 == 0 {
				name = "b"
			}
			f.send(changes(r, put(at(r, name))))
			want = append(want, fmt.Sprintf("%s %d>%d@%d", name, old, r, r))
		}
		expectSteps(t, fast, want...)
		if got := slow.take(); len(got) != 1 || got[0] != "a 1>3@3" {
			t.Fatalf("the slow consumer saw %q, want its first change only", got)
		}
		var pending, folds int
		for _, s := range c.Snapshot().Consumers {
			pending, folds = pending+s.Pending, folds+int(s.Folds)
		}
		if pending != 2 || folds != 1 {
			t.Errorf("%d changes wait after %d folds, want 2 (one per key) after 1", pending, folds)
		}
		// It goes on: what it had taken, then the difference to the present, the newest last.
		for range 10 {
			gate <- struct{}{}
		}
		expectSteps(t, slow, "a 3>101@101", "b 2>102@102")
		f.send(changes(103, put(at(103, "a"))))
		expectSteps(t, slow, "a 101>103@103")
		expectSteps(t, fast, "a 101>103@103")
	})
}

func TestFoldedBacklogKeepsDeletionsAndForgetsTheUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, &cache.Options[spec, status]{Backlog: 2})
		f.send(snapshot(3, put(at(1, "a")), put(at(2, "b")), put(at(3, "c"))), end(3))
		gate := make(chan struct{}, 100)
		p := record(t, c, gate)
		for range 3 {
			gate <- struct{}{}
		}
		p.take() // it stands at the marker
		f.send(
			changes(4, put(at(4, "a"))),
			changes(5, put(at(5, "new"))),
			changes(6, del(at(5, "new"), 6)),
			changes(7, del(at(4, "a"), 7)),
			changes(8, del(at(2, "b"), 8)),
			changes(9, put(at(9, "b", uid("another")))),
			changes(10, put(at(10, "c"))),
		)
		for range 5 {
			gate <- struct{}{}
		}
		// new came and went unseen; b is another object of the same name.
		expectSteps(t, p, "a 1>-@7", "b 2>-@9", "b ->9@9", "c 3>10@10")
	})
}

func TestRecreatedObjectIsTwoChangesAlsoAfterARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(1, put(at(1, "a"))), end(1))
		p := record(t, c, nil)
		p.take()
		f.send(store.ErrCompacted, snapshot(7, put(at(6, "a", uid("another")))), end(7))
		expectSteps(t, p, "a 1>-@7", "a ->6@7")
	})
}

func TestConsumerThatLeavesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(2, put(at(1, "a")), put(at(2, "b"))), end(2))
		for ch, err := range c.Changes(t.Context(), nil) {
			if err != nil || !ch.Initial {
				t.Errorf("got %v, %v; want an initial object", ch, err)
			}
			if n := len(c.Snapshot().Consumers); n != 1 {
				t.Errorf("%d consumers inside the loop, want 1", n)
			}
			break
		}
		if n := len(c.Snapshot().Consumers); n != 0 {
			t.Errorf("%d consumers are still there, want none", n)
		}
	})
}

// promise S4
// The negative control let reach be called before apply: the waiter was called
// while the cache still held a@1.
func TestOnRevisionCallsWhenTheCacheHasSeenTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		var got []string
		wait := func(r store.Revision) func() bool {
			return c.OnRevision(r, func() { got = append(got, fmt.Sprintf("%d with %s", r, names(c.All()))) })
		}
		wait(0) // not synced yet: even this has to wait
		if len(got) != 0 {
			t.Fatalf("%q was called before the cache synced", got)
		}
		f.send(snapshot(1, put(at(1, "a"))), end(1))
		if diff := cmp.Diff([]string{"0 with a@1"}, got); diff != "" {
			t.Errorf("after the snapshot (-want +got):\n%s", diff)
		}
		got = nil
		wait(4)
		stop := wait(3)
		wait(9)
		wait(2)
		if !stop() || stop() {
			t.Error("stop must report true once")
		}
		f.send(changes(4, put(at(2, "a")), put(at(4, "b"))))
		if diff := cmp.Diff([]string{"2 with a@2 b@4", "4 with a@2 b@4"}, got); diff != "" {
			t.Errorf("after revision 4 (-want +got):\n%s", diff)
		}
		if wait(4)() {
			t.Error("stop reported true for a revision that was reached at once")
		}
		f.send(progress(9))
		if len(got) != 4 || c.Snapshot().Waiters != 0 {
			t.Errorf("%q, %d waiters; want progress to call the last one too", got, c.Snapshot().Waiters)
		}
	})
}

// Waiters that are taken back from the middle leave the others in order: each is called
// with the revision that it waits for, and none before.
//
// promise S4. Negative control: with what fills a gap only sunk and never raised, some
// were called late.
func TestWaitersAreCalledInTimeWhateverIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(end(1))
		random := rand.New(rand.NewPCG(1, 2))
		at := store.Revision(1)
		for range 200 {
			waits := map[store.Revision]int{}
			var stops []func() bool
			for range 20 {
				r := at + store.Revision(1+random.IntN(40))
				waits[r]++
				stop := c.OnRevision(r, func() { waits[r]-- })
				stops = append(stops, func() bool { waits[r]--; return stop() })
			}
			for _, i := range random.Perm(len(stops))[:8] {
				if !stops[i]() {
					t.Fatal("a waiter was called before its time")
				}
			}
			for range 40 {
				at++
				f.send(progress(at))
				synctest.Wait()
				for r, n := range waits {
					if r <= at && n != 0 {
						t.Fatalf("at revision %d %d calls are missing for revision %d", at, n, r)
					}
				}
			}
		}
	})
}

// A consumer whose context ends hears nothing more but that, however much waits for it.
//
// Negative control: mutant "a consumer hears what waited after its context has ended".
func TestConsumerWhoseContextEndsHearsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := start(t, nil)
		f.send(snapshot(1), end(1))
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		gone, changed := errors.New("gone"), 0
		for ch, err := range c.Changes(ctx, nil) {
			switch {
			case err != nil:
				if !errors.Is(err, gone) || changed != 1 {
					t.Errorf("%v after %d changes, want the cause after the first", err, changed)
				}
			case ch.Synced:
				for r := range store.Revision(10) {
					f.send(changes(r+2, put(at(r+2, fmt.Sprint("o", r)))))
				}
				synctest.Wait()
			default:
				changed++
				cancel(gone)
			}
		}
	})
}
