//go:build unix

package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
)

// A process that reads some slots of a kind reads the log at most once each Gather for the
// commits of others, and sees what they change in its slots all the same: the watch would never
// end if notifications were lost, or were read one each Gather. Each commit here is one of its
// own, so that a process that read the log for each would read it as often.
//
// Negative control: the mutant "a server of some shards reads the log for each commit of others".
func TestAServerOfSomeSlotsGathersTheCommitsOfOthers(t *testing.T) {
	watcher := open(t, postgres.Options{Poll: time.Hour})
	writer := open(t, postgres.Options{Schema: watcher.Schema()})
	ctx := longEnough(t)
	mine := store.SlotsOf(0, 8)
	const commits = 400
	var before int
	var began time.Time
	var last store.Revision
	written := make(chan error, 1)
	seen, own := 0, 0
	for batch, err := range watcher.WatchSlots(ctx, "thing", mine, 0) {
		if err != nil {
			t.Fatal(err)
		}
		seen += len(batch.Changes)
		if batch.Kind == store.BatchSnapshotEnd {
			began, before = time.Now(), watcher.Reads()
			for i := range commits {
				if mine.HasKey(key(fmt.Sprint(i))) {
					own++
				}
			}
			go func() { // ends with its commits; written is waited for below
				var err error
				for i := 0; i < commits && err == nil; i++ {
					last, err = writer.Commit(ctx, store.Txn{Ops: []store.Op{put(key(fmt.Sprint(i)), "")}})
				}
				written <- err
			}()
		}
		if seen > 0 && seen == own {
			break
		}
	}
	reads, took := watcher.Reads()-before, time.Since(began)
	if err := <-written; err != nil || last == 0 {
		t.Fatal(err)
	}
	// One for each pause, and those before the first one and at the end of the last.
	most := int(took/postgres.Gather) + 4
	t.Logf("%d reads for %d commits in %v, at most %d", reads, commits, took, most)
	if seen != own || reads > most {
		t.Errorf("saw %d of %d changes of its slots, and read the log %d times in %v; want all, and at most %d times", seen, own, reads, took, most)
	}
}
