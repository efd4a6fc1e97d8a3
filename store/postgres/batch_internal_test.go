package postgres

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
)

// The next transaction waits for the callers that were just answered, if they come soon: all of
// them are in it. The bounds are those of no machine, so that it does not depend on how fast this
// one is.
//
// Negative control: the mutant "a transaction leaves without the callers just answered".
func TestNextTransactionWaitsForTheCallersJustAnswered(t *testing.T) {
	const callers = 32
	q := &batcher{yields: math.MaxInt, longest: time.Minute}
	answered := make(chan struct{})
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			<-answered
			for range 100 { // what a caller does between two Commits
				runtime.Gosched()
			}
			q.mu.Lock()
			defer q.mu.Unlock()
			q.queue = append(q.queue, new(member))
		})
	}
	close(answered)
	q.settle(callers)
	if n := q.queued(); n != callers {
		t.Errorf("the next transaction leaves with %d callers, want %d", n, callers)
	}
	all.Wait()
}

// Callers that do not come back hold nothing up, and one that was alone waits for no other.
func TestNextTransactionDoesNotWaitForCallersThatAreGone(t *testing.T) {
	yields := &batcher{yields: maxYields, longest: math.MaxInt64}
	yields.settle(64)
	long := &batcher{yields: math.MaxInt, longest: time.Nanosecond}
	long.settle(64)
	alone := &batcher{yields: math.MaxInt, longest: math.MaxInt64}
	alone.settle(1)
}

// Members of one transaction are judged by the state before it: those share one that only read what both of them touch.
// One of which a record is written that it reads, a guard for instance, would go behind the write and count all the same.
func TestCommitsShareATransactionThatWriteNothingTheOtherTouches(t *testing.T) {
	at := func(kind, space, name string) store.Compare {
		return store.Compare{Kind: kind, Key: store.Key{Namespace: space, Name: name}}
	}
	a, otherKind, otherSpace := at("thing", "", "a"), at("other", "", "a"), at("thing", "space", "a")
	own := func(name string, t store.Txn) store.Txn {
		t.Ops = append(t.Ops, store.Op{Kind: "thing", Key: store.Key{Name: name}})
		return t
	}
	read, guard := store.Txn{If: []store.Compare{a}}, store.Txn{Guards: []store.Compare{a}}
	write := store.Txn{Ops: []store.Op{{Kind: a.Kind, Key: a.Key}}}
	for _, c := range []struct {
		name          string
		first, second store.Txn
		share         bool
	}{
		{"both read it", own("1", read), own("2", guard), true},
		{"the second reads what the first writes", write, own("2", read), false},
		{"the second is guarded by what the first writes", write, own("2", guard), false},
		{"the first reads what the second writes", own("1", read), write, false},
		{"the first is guarded by what the second writes", own("1", guard), write, false},
		{"both write it", write, write, false},
		{"of another kind", write, own("2", store.Txn{If: []store.Compare{otherKind}}), true},
		{"in another namespace", write, own("2", store.Txn{If: []store.Compare{otherSpace}}), true},
	} {
		b := &batcher{most: 10, bytes: 1000, touched: make(map[address]bool)}
		b.queue = []*member{{txn: c.first}, {txn: c.second}}
		if n := len(b.takeLocked()); (n == 2) != c.share || n+len(b.queue) != 2 {
			t.Errorf("%s: %d leave together and %d wait, want that they share: %v", c.name, n, len(b.queue), c.share)
		}
	}
}

// What waits leaves in its order, and as much of it together as the bounds allow: at least one.
func TestQueueLeavesInItsOrderAndWithinTheBounds(t *testing.T) {
	b := &batcher{most: 3, bytes: 100, touched: make(map[address]bool)}
	for i, size := range []int{10, 10, 10, 10, 90, 1, 500, 60, 40, 1} {
		b.queue = append(b.queue, &member{
			txn: store.Txn{Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: string(rune('a' + i))}}}}, size: size,
		})
	}
	var got []string
	for len(b.queue) > 0 {
		names := ""
		for _, m := range b.takeLocked() {
			names += m.txn.Ops[0].Key.Name
		}
		got = append(got, names)
	}
	if want := []string{"abc", "de", "f", "g", "hi", "j"}; !slices.Equal(got, want) {
		t.Errorf("together leave %q, want %q", got, want)
	}
}

// Of a Commit whose caller gives up the outcome is what its answer says, if it has one by then, and unknown if it
// was sent; what waits was not made, and neither was what waits when the backend is closed.
func TestCommitThatIsGivenUpOrClosedSaysWhatIsKnown(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	sent, waits := &member{done: make(chan struct{})}, &member{done: make(chan struct{})}
	answered, refused := &member{done: make(chan struct{}), revision: 7}, &member{done: make(chan struct{}), err: store.ErrConflict}
	close(answered.done)
	close(refused.done)
	q := &batcher{queue: []*member{waits}}
	for name, c := range map[string]struct {
		m        *member
		revision store.Revision
		want     error
		unknown  bool
	}{
		"answered": {answered, 7, nil, false},
		"refused":  {refused, 0, store.ErrConflict, false},
		"sent":     {sent, 0, context.Canceled, true},
		"waiting":  {waits, 0, context.Canceled, false},
	} {
		if r, err := q.withdraw(gone, c.m); r != c.revision || !errors.Is(err, c.want) || errors.Is(err, store.ErrUnknownOutcome) != c.unknown {
			t.Errorf("%s: %d, %v; want %d and %v, of unknown outcome %v", name, r, err, c.revision, c.want, c.unknown)
		}
	}
	if len(q.queue) != 0 {
		t.Error("what was given up before it was sent still waits")
	}
	waits = &member{done: make(chan struct{})}
	q.queue = []*member{waits}
	q.close()
	<-waits.done
	if !errors.Is(waits.err, store.ErrClosed) || errors.Is(waits.err, store.ErrUnknownOutcome) {
		t.Errorf("what waited when the backend was closed says %v, want ErrClosed", waits.err)
	}
	if _, err := q.commit(t.Context(), new(member)); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a Commit after that says %v, want ErrClosed", err)
	}
}
