//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
)

// A process that reads an eighth of the slots of a kind reads the log at most once each 4 Gather for
// the commits of others, and sees what they change in its slots all the same: the watch would never
// end if notifications were lost, or were read one each Gather. Each commit here is one of its
// own, so that a process that read the log for each would read it as often.
//
// Negative control: the mutant "a server of some shards reads the log for each commit of others".
func TestAServerOfSomeSlotsGathersTheCommitsOfOthers(t *testing.T) {
	watcher := open(t, *(&postgres.Options{}).SetPoll(time.Hour))
	writer := open(t, postgres.Options{Schema: watcher.Schema()})
	mine := store.SlotsOf(0, 8)
	const commits = 400
	own := 0
	for i := range commits {
		if mine.HasKey(key(fmt.Sprint(i))) {
			own++
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	watching := make(chan struct{})
	ended := make(chan int, 1) // how many of its slots' changes the watch has seen
	go func() {                // ends with ctx, or when all are seen
		seen := 0
		for batch, err := range watcher.WatchSlots(ctx, "thing", mine, 0) {
			if err != nil {
				break
			}
			if batch.Kind == store.BatchSnapshotEnd {
				close(watching)
			}
			if seen += len(batch.Changes); seen == own {
				break
			}
		}
		ended <- seen
	}()
	select {
	case <-watching:
	case <-ended:
		t.Fatal("the watch ended before its snapshot")
	}
	began, before := time.Now(), watcher.Reads()
	for i := range commits {
		if _, err := writer.Commit(ctx, store.Txn{Ops: []store.Op{put(key(fmt.Sprint(i)), "")}}); err != nil {
			t.Fatal(err)
		}
	}
	stop := context.AfterFunc(longEnough(t), cancel)
	seen := <-ended
	stop()
	cancel()
	reads, took := watcher.Reads()-before, time.Since(began)
	// One for each pause, those before the first one and those at the end of the last; and a few for the
	// snapshot and for the connection that listens.
	most := int(took/(postgres.GatherMost*postgres.Gather)) + postgres.GatherBurst + 12
	t.Logf("%d reads for %d commits in %v, at most %d", reads, commits, took, most)
	if seen != own || reads > most {
		t.Errorf("saw %d of %d changes of its slots, and read the log %d times in %v; want all, and at most %d times", seen, own, reads, took, most)
	}
}

// What a caller has written or read may be what it waits for in its cache: the log is read for it
// at once, also while the commits of others are left unread, here without end.
//
// promise S4. Negative control: the mutant "what was read waits for the commits of others".
func TestNoCallerWaitsForTheCommitsOfOthersToBeGathered(t *testing.T) {
	watcher := open(t, *(&postgres.Options{}).SetPoll(time.Hour))
	watcher.SetGather(time.Hour)
	writer := open(t, postgres.Options{Schema: watcher.Schema()})
	ctx := longEnough(t)
	own, other := key("own"), key("other")
	mine := store.SlotsOf(store.ShardOf(own, 8), 8)
	if mine.HasKey(other) {
		t.Fatal("both keys have one slot")
	}
	next, stop := iter.Pull2(watcher.WatchSlots(ctx, "thing", mine, 0))
	defer stop()
	reach := func(after string, r store.Revision, changes int) {
		t.Helper()
		for at := store.Revision(0); at < r || changes > 0; {
			batch, err, _ := next()
			if err != nil {
				t.Fatalf("%s: the watch is at %d and not at %d: %v", after, at, r, err)
			}
			at, changes = batch.Revision, changes-len(batch.Changes)
		}
	}
	write := func(b *postgres.Backend, k store.Key) store.Revision {
		t.Helper()
		r, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put(k, "")}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	reach("the snapshot", 1, 0)
	for range postgres.GatherBurst + 1 { // each is told at once; after the last there is a pause
		reach("a commit of another", write(writer, other), 0)
	}
	reach("a commit of its own", write(watcher, own), 1)
	write(writer, own)
	rec, err := watcher.Get(ctx, "thing", own)
	if err != nil {
		t.Fatal(err)
	}
	reach("a get", rec.Revision, 1)
	write(writer, own)
	page, err := watcher.List(ctx, "thing", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reach("a list", page.Revision, 1)
	r := write(writer, own)
	stale := []store.Compare{{Kind: "thing", Key: own, Revision: 1}}
	if _, err := watcher.Commit(ctx, store.Txn{If: stale, Ops: []store.Op{put(own, "")}}); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("a write of a record that was changed: %v", err)
	}
	reach("a conflict", r, 1)
}

// A watch of slots that are not read yet begins while the log is read without them. What that read shows of them is
// read again.
//
// promise S2. Seen to fail with the read taken as it was: the change was never told.
func TestWatchThatBeginsWhileTheLogIsReadMissesNothing(t *testing.T) {
	const shards = 8
	own, other := keyOf(t, store.SlotsOf(0, shards), true), keyOf(t, store.SlotsOf(0, shards), false)
	var g gate
	b, _ := openPool(t, *(&postgres.Options{Timeout: patience}).SetPoll(time.Hour), func(c *pgxpool.Config) { c.ConnConfig.Tracer = &g })
	writer := open(t, postgres.Options{Schema: b.Schema()})
	ctx := longEnough(t)
	watch := func(k store.Key) (next func() (store.Batch, error, bool), stop func()) {
		next, stop = iter.Pull2(b.WatchSlots(ctx, "thing", store.SlotsOf(store.ShardOf(k, shards), shards), 0))
		for {
			if batch, err, _ := next(); err != nil {
				t.Fatal(err)
			} else if batch.Kind == store.BatchSnapshotEnd {
				return next, stop
			}
		}
	}
	write := func(k store.Key) {
		t.Helper()
		if _, err := writer.Commit(ctx, store.Txn{Ops: []store.Op{put(k, "v")}}); err != nil {
			t.Fatal(err)
		}
	}
	_, stop := watch(own)
	defer stop()
	g.close()
	write(own)
	waitFor(t, g.held)
	next, stop := watch(other)
	defer stop()
	write(other)
	g.letThrough()
	for seen := 0; seen == 0; {
		batch, err, _ := next()
		if err != nil {
			t.Fatal(err)
		}
		seen = len(batch.Changes)
	}
}

// A server that gives shards away opens its watch again with fewer slots. From then on its process
// reads no changes of the others, as if it had never held them: it would read the whole log for as
// long as it lives, and at each commit, if the slots of the watch before were read on.
//
// Negative control: the mutant "what a server once held is read for ever".
func TestAWatchOfFewerSlotsReadsNoOthers(t *testing.T) {
	mine := store.SlotsOf(0, 8)
	own, other := keyOf(t, mine, true), keyOf(t, mine, false)
	for _, c := range []struct {
		name          string
		before, after store.SlotSet
	}{
		{"of all slots before", store.AllSlots(), mine},
		{"of other slots before", store.SlotsOf(store.ShardOf(other, 8), 8), mine},
	} {
		t.Run(c.name, func(t *testing.T) {
			watcher := open(t, postgres.Options{})
			ctx := longEnough(t)
			write := func(k store.Key) store.Revision {
				t.Helper()
				r, err := watcher.Commit(ctx, store.Txn{Ops: []store.Op{put(k, "")}})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			at := write(own)
			for batch, err := range watcher.WatchSlots(ctx, "thing", c.before, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if batch.Kind == store.BatchSnapshotEnd {
					break
				}
			}
			next, stop := iter.Pull2(watcher.WatchSlots(ctx, "thing", c.after, at))
			defer stop()
			skipped := func(upTo store.Revision) (n int) {
				t.Helper()
				for at < upTo {
					batch, err, _ := next()
					if err != nil {
						t.Fatal(err)
					}
					at, n = batch.Revision, n+batch.Skipped
				}
				return n
			}
			// The watch reads the first change from the log itself. The second comes from a look of
			// the backend: one that began before the watch, and reads more, has ended with it.
			for range 2 {
				skipped(write(own))
			}
			for range 3 {
				write(other)
			}
			if n := skipped(write(own)); n != 0 {
				t.Errorf("%d changes of other slots were read, want none", n)
			}
		})
	}
}

// keyOf is a key whose slot is, or is not, one of these.
func keyOf(t *testing.T, slots store.SlotSet, in bool) store.Key {
	t.Helper()
	for i := range 10_000 {
		if k := key(fmt.Sprint(i)); slots.HasKey(k) == in {
			return k
		}
	}
	t.Fatal("no such key")
	return store.Key{}
}
