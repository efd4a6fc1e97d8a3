package file

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/storetest"
)

var commits = flag.Int("commits", 150, "how many commits TestReadsAreOfOneMoment makes with the default history; with short ones a third")

// promise S1
// promise S2
// bbolt shows a transaction to readers before its commit returns. A read that put the
// rows of such a checkpoint together with what was in memory before it was of two
// moments: with default options 390 of 33,949 lists had records that were newer than
// the list.
func TestReadsAreOfOneMoment(t *testing.T) {
	for _, c := range []struct {
		history, groups, commits int
	}{{0, 150, *commits}, {1, 40, *commits / 3}, {64, 100, *commits / 3}} {
		t.Run(fmt.Sprint("history ", c.history), func(t *testing.T) {
			b := open(t, newPath(t), &options{historyRevisions: c.history})
			storetest.ReadWhileWriting(t, b, c.commits, c.groups)
		})
	}
}

// promise S1
// promise S2
// At each moment between bbolt's commit and publish, which is where a power cut may
// still take the commit back, everything reads as before it: gets, lists, pinned lists
// at each revision held, snapshots.
func TestReadsBeforeACommitIsOnDiskShowWhatWasBefore(t *testing.T) {
	var looks, checkpoints int
	var look func()
	b := open(t, newPath(t), &options{historyRevisions: 4, beforePublish: func() {
		if look != nil {
			look()
		}
	}})
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	states := map[store.Revision]string{0: ""} // what a list showed once its commit was acknowledged
	gets := func() (all string) {
		for _, name := range names {
			r, err := b.Get(context.Background(), "k", store.Key{Name: name})
			all += fmt.Sprintf("%s %s@%d %v\n", name, r.Bytes, r.Revision, err)
		}
		return all
	}
	for n := range 200 {
		head, before := b.history.head(), gets()
		checkpoint := b.state.checkpoint
		look = func() {
			looks++
			expect(t, fmt.Sprintf("gets while commit %d is made", n), gets(), before)
			expect(t, fmt.Sprintf("list while commit %d is made", n), contentsOf(t, b, store.ListOptions{}), states[head])
			for at := b.pinFloor; at <= head; at++ {
				if want, held := states[at]; held && at > 0 {
					expect(t, fmt.Sprintf("list at %d while commit %d is made", at, n), contentsOf(t, b, store.ListOptions{At: at}), want)
				}
			}
			var snapshot store.Revision
			for batch, err := range b.Watch(context.Background(), "k", 0) {
				if err != nil || batch.Kind == store.BatchSnapshotEnd {
					snapshot = batch.Revision
					break
				}
			}
			expect(t, fmt.Sprintf("revision of a snapshot while commit %d is made", n), snapshot, head)
		}
		ops := []store.Op{put("a", fmt.Sprint(n)), put(names[1+n%6], fmt.Sprint(n))}
		if n%5 == 4 {
			ops[1] = del(names[1+n%6])
		}
		r := commit(t, b, ops...)
		states[r] = contentsOf(t, b, store.ListOptions{})
		if b.state.checkpoint != checkpoint {
			checkpoints++
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if looks != 200 || checkpoints < 5 {
		t.Errorf("looked %d times at %d checkpoints, want 200 and at least 5", looks, checkpoints)
	}
}
