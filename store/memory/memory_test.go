package memory_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/storetest"
)

func open(t testing.TB, o *memory.Options) *memory.Backend {
	t.Helper()
	b, err := memory.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b.(*memory.Backend)
}

func TestKeepsTheContract(t *testing.T) {
	for name, o := range map[string]*memory.Options{
		"values":  {History: 300},
		"encoded": {History: 300, Encode: true},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t testing.TB) store.Backend { return open(t, o) }, &storetest.Options{Bubble: true})
		})
	}
}

func commit(t testing.TB, b *memory.Backend, kind, name string) store.Revision {
	t.Helper()
	r, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: kind, Key: store.Key{Name: name}, Put: store.Bytes("x")}}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNewRefusesANegativeHistory(t *testing.T) {
	if _, err := memory.New(&memory.Options{History: -1}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got error %v, want %v", err, store.ErrInvalid)
	}
}

// The history is at least what was asked for and not much more, for every
// length: memory is bounded, and so is what a watcher may be behind.
func TestHistoryIsBounded(t *testing.T) {
	for _, history := range []int{1, 2, 3, 10, 255, 256, 257, 1000} {
		b := open(t, &memory.Options{History: history})
		last := commit(t, b, "K", "a")
		for range 3000 {
			last = commit(t, b, "K", "a")
		}
		held := func(back int) bool {
			for _, err := range b.Watch(t.Context(), "K", last-store.Revision(back)) {
				return err == nil
			}
			return false
		}
		if !held(history) {
			t.Errorf("history of %d: a watch from %d changes ago is refused", history, history)
		}
		if held(history + 2*256) {
			t.Errorf("history of %d: a watch from %d changes ago is accepted", history, history+2*256)
		}
	}
}

// promise S2
//
// A watcher that stops reading is cut off when the history has passed it by;
// until then writers and other watchers go on as if it were not there. Broken
// on purpose: with changelog.after ignoring its floor, the slow watcher missed
// changes unnoticed and this test failed.
func TestSlowWatcherIsCutOffAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, &memory.Options{History: 100})
		start := commit(t, b, "K", "a")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		block, result := make(chan struct{}), make(chan error)
		go func() {
			for batch, err := range b.Watch(ctx, "K", start) {
				if err != nil {
					result <- err
					return
				}
				if batch.Revision > start {
					<-block // reads one batch and no more
				}
			}
		}()
		quick := make(chan store.Revision)
		go func() {
			defer close(quick)
			for batch, err := range b.Watch(ctx, "K", start) {
				if err != nil {
					return
				}
				for _, c := range batch.Changes {
					quick <- c.Revision
				}
			}
		}()
		for range 1000 {
			r := commit(t, b, "K", "a")
			if got := <-quick; got != r {
				t.Fatalf("the quick watcher got %d, want %d", got, r)
			}
		}
		close(block)
		if err := <-result; !errors.Is(err, store.ErrCompacted) {
			t.Errorf("the slow watcher got error %v, want %v", err, store.ErrCompacted)
		}
		cancel()
		for range quick {
		}
	})
}

// Thousands of watchers, each behind by another amount, see every change.
func TestThousandsOfWatchers(t *testing.T) {
	const watchers, changes = 3000, 200
	b := open(t, nil)
	start := commit(t, b, "K", "a")
	var wg sync.WaitGroup
	for range watchers {
		wg.Go(func() {
			at := start
			for batch, err := range b.Watch(t.Context(), "K", start) {
				if err != nil {
					t.Errorf("watch: %v", err)
					return
				}
				for _, c := range batch.Changes {
					if c.Revision != at+1 {
						t.Errorf("change %d after %d", c.Revision, at)
						return
					}
					at++
				}
				if at == start+changes {
					return
				}
			}
		})
	}
	for range changes {
		commit(t, b, "K", "a")
	}
	wg.Wait()
}

func TestWatcherOfAQuietKindHearsHowFarTheStoreIs(t *testing.T) {
	b := open(t, &memory.Options{History: 10})
	start := commit(t, b, "Quiet", "a")
	next, stop := iter.Pull2(b.Watch(t.Context(), "Quiet", start))
	defer stop()
	var last store.Revision
	for range 3000 {
		last = commit(t, b, "Busy", "a")
	}
	batch, err, _ := next()
	if err != nil || batch.Kind != store.BatchProgress || batch.Revision != last || len(batch.Changes) != 0 {
		t.Errorf("got %v at %d, error %v, want progress at %d", batch.Kind, batch.Revision, err, last)
	}
	r := commit(t, b, "Quiet", "a")
	if batch, err, _ = next(); err != nil || batch.Revision != r || len(batch.Changes) != 1 {
		t.Errorf("got %v at %d, error %v, want the change at %d", batch.Kind, batch.Revision, err, r)
	}
}

func TestAWaitingWatcherIsWokenByProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, nil)
		start := commit(t, b, "Quiet", "a")
		got := make(chan store.Batch, 1)
		go func() {
			for batch := range b.Watch(t.Context(), "Quiet", start) {
				got <- batch
				return
			}
		}()
		synctest.Wait() // it waits
		for range 3000 {
			commit(t, b, "Busy", "a")
		}
		if batch := <-got; batch.Kind != store.BatchProgress {
			t.Errorf("got %v, want progress", batch.Kind)
		}
	})
}

// A list that is not read to its end must not be held for ever, nor cut off one
// that is being read.
func TestListsReadPageByPageAreHeldInTurn(t *testing.T) {
	b := open(t, nil)
	for i := range 10 {
		commit(t, b, "K", fmt.Sprint(i))
	}
	page := func(cursor string) (store.Page, error) {
		return b.List(t.Context(), "K", store.ListOptions{Limit: 1, Cursor: cursor})
	}
	forgotten, err := page("")
	if err != nil {
		t.Fatal(err)
	}
	var reading store.Page
	for i := range 9 {
		if reading, err = page(reading.Cursor); err != nil {
			t.Fatalf("page %d of the list that is read: %v", i, err)
		}
		for range 10 {
			if _, err := page(""); err != nil { // begun and forgotten
				t.Fatal(err)
			}
		}
	}
	if _, err := page(forgotten.Cursor); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("a list forgotten long ago: got error %v, want %v", err, store.ErrCompacted)
	}
}

// A lease's timer and its renewal may meet: then the lease has ended.
//
// Negative control: the mutant "a lease is renewed at its end".
func TestRenewalAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, nil)
		id, err := b.Grant(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "K", Key: store.Key{Name: "a"}, Put: store.Bytes("x"), Lease: id}}}); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(time.Minute - time.Nanosecond)
			if err := b.Renew(t.Context(), id); err != nil {
				t.Fatalf("Renew a nanosecond before the end: %v", err)
			}
		}
		time.Sleep(time.Minute)
		if err := b.Renew(t.Context(), id); !errors.Is(err, store.ErrLeaseGone) {
			t.Errorf("Renew at the end: got error %v, want %v", err, store.ErrLeaseGone)
		}
		synctest.Wait()
		if _, err := b.Get(t.Context(), "K", store.Key{Name: "a"}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get after the end: got error %v, want %v", err, store.ErrNotFound)
		}
		for range 20 { // either the timer or the renewal is first
			if id, err = b.Grant(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if err := b.Renew(t.Context(), id); !errors.Is(err, store.ErrLeaseGone) {
				t.Errorf("Renew at the end: got error %v, want %v", err, store.ErrLeaseGone)
			}
		}
		if _, err := b.Grant(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil { // stops the timer: the bubble would wait for it
			t.Fatal(err)
		}
	})
}

func TestALeaseOfManyKeysEndsInOneCommit(t *testing.T) {
	b := open(t, &memory.Options{History: 10})
	id, err := b.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	const n = 1000 // far more than a transaction takes, and than the history holds
	for i := range n {
		op := store.Op{Kind: "K", Key: store.Key{Name: fmt.Sprint(i)}, Put: store.Bytes("x"), Lease: id}
		if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{op}}); err != nil {
			t.Fatal(err)
		}
	}
	head, err := b.Commit(t.Context(), store.Txn{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for batch, err := range b.Watch(t.Context(), "K", head) {
		if err != nil || len(batch.Changes) != n || batch.Revision != head+1 {
			t.Errorf("got %d changes at %d, error %v, want %d at %d", len(batch.Changes), batch.Revision, err, n, head+1)
		}
		break
	}
}

// promise S2
//
// A burst of new records, however much longer than the history, is no reason to
// cut a watcher off: what it has to read is not more than the records there are.
// Broken on purpose: with drop not asking for the readers of a chunk, the watcher is cut
// off and this test failed.
func TestBurstOfNewRecordsDoesNotOverrunAWatcher(t *testing.T) {
	const records, history = 10_000, 100
	b := open(t, &memory.Options{History: history})
	start := commit(t, b, "K", "first")
	next, stop := iter.Pull2(b.Watch(t.Context(), "K", start))
	defer stop()
	commit(t, b, "K", "second")
	at := start
	read := func() {
		batch, err, _ := next()
		if err != nil {
			t.Fatalf("after %d of %d changes: %v", at-start, records, err)
		}
		for _, c := range batch.Changes {
			if at++; c.Revision != at {
				t.Fatalf("change %d, want %d", c.Revision, at)
			}
		}
	}
	read() // the watcher is under way, and now does nothing for a while
	for i := range records {
		commit(t, b, "K", fmt.Sprint(i))
	}
	for at < start+1+records {
		read()
	}

	// What it does not need any more is let go.
	for range 3 * records {
		commit(t, b, "K", "first")
		read()
	}
	for _, err := range b.Watch(t.Context(), "K", start) {
		if !errors.Is(err, store.ErrCompacted) {
			t.Errorf("a watch from the beginning: got error %v, want %v", err, store.ErrCompacted)
		}
		break
	}
}

// Seen to fail: a negative zero that JSON left out was kept in one form, and of two keys of a map that are secrets either was
// shown.
//
// promise S3
func TestRandomWritesAreAlikeInBothForms(t *testing.T) {
	storetest.WriteAlike(t, func(t testing.TB) store.Backend { return open(t, &memory.Options{Encode: true}) }, campaign.Length())
}
