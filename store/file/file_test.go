package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"

	"github.com/tendhq/tend/store"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

func newPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "tend.db")
}

func open(t testing.TB, path string, o *options) *backend {
	t.Helper()
	b, err := openWith(path, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b.(*backend)
}

func closeNow(t testing.TB, b *backend) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

func put(name, value string) store.Op {
	return store.Op{Kind: "k", Key: store.Key{Name: name}, Put: store.Bytes(value)}
}

func del(name string) store.Op { return store.Op{Kind: "k", Key: store.Key{Name: name}} }

func commit(t testing.TB, b *backend, ops ...store.Op) store.Revision {
	t.Helper()
	r, err := b.Commit(t.Context(), store.Txn{Ops: ops})
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	return r
}

// contentsOf lists a backend's records of kind k as name=value@revision.
func contentsOf(t testing.TB, b *backend, o store.ListOptions) string {
	t.Helper()
	var got []string
	for {
		p, err := b.List(context.Background(), "k", o)
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		for _, r := range p.Records {
			got = append(got, fmt.Sprintf("%s=%s@%d", r.Key.Name, r.Bytes, r.Revision))
		}
		if o.Cursor = p.Cursor; o.Cursor == "" {
			return strings.Join(got, " ")
		}
	}
}

// follow reads a watch until it has delivered revision until.
func follow(t testing.TB, b *backend, after, until store.Revision) ([]string, error) {
	t.Helper()
	var got []string
	for batch, err := range b.Watch(t.Context(), "k", after) {
		if err != nil {
			return got, err
		}
		for _, ch := range batch.Changes {
			sign := "+"
			if ch.Deleted {
				sign = "-"
			}
			got = append(got, fmt.Sprintf("%s%s=%s@%d", sign, ch.Key.Name, ch.Bytes, ch.Revision))
		}
		if batch.Revision >= until {
			return got, nil
		}
	}
	return got, nil
}

func expect(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// promise S1
// promise S2
func TestRevisionsRecordsAndHistorySurviveARestart(t *testing.T) {
	path := newPath(t)
	b := open(t, path, nil)
	commit(t, b, put("a", "1"))
	commit(t, b, put("b", "1"), put("c", "1"))
	commit(t, b, put("a", "2"))
	commit(t, b, del("b"))
	closeNow(t, b)

	b = open(t, path, nil)
	expect(t, "records", contentsOf(t, b, store.ListOptions{}), "a=2@3 c=1@2")
	got, err := follow(t, b, 1, 4)
	expect(t, "a watch resumed after 1", got, []string{"+b=1@2", "+c=1@2", "+a=2@3", "-b=1@4"})
	if err != nil {
		t.Error(err)
	}
	if r := commit(t, b, put("d", "1")); r != 5 {
		t.Errorf("the first commit after the restart has revision %d, want 5", r)
	}
	if _, err := b.Commit(t.Context(), store.Txn{
		If:  []store.Compare{{Kind: "k", Key: store.Key{Name: "a"}, Revision: 1}},
		Ops: []store.Op{put("a", "3")},
	}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a write made for revision 1 returned %v, want ErrConflict", err)
	}
}

func TestRestartsAndCheckpointsChangeNothing(t *testing.T) {
	path := newPath(t)
	want := map[string]string{}
	for round := range 3 {
		b := open(t, path, nil)
		for i := range checkpointRows/64 + 5 {
			var ops []store.Op
			for j := range 32 {
				name, value := fmt.Sprintf("%d", (i*32+j)%1500), fmt.Sprintf("%d-%d", round, i)
				if (i+j)%7 == 0 {
					ops = append(ops, del(name))
					delete(want, name)
				} else {
					ops = append(ops, put(name, value))
					want[name] = value
				}
			}
			commit(t, b, ops...)
		}
		if round == 1 {
			for range checkpointBytes/store.MaxValue + 1 { // due by size
				commit(t, b, put("big", strings.Repeat("x", store.MaxValue)))
			}
			commit(t, b, del("big"))
		}
		closeNow(t, b)
	}
	if _, err := check(path); err != nil {
		t.Fatalf("Check: %v", err)
	}
	b := open(t, path, nil)
	got := map[string]string{}
	for f := range strings.FieldsSeq(contentsOf(t, b, store.ListOptions{Limit: 97})) {
		name, rest, _ := strings.Cut(f, "=")
		got[name], _, _ = strings.Cut(rest, "@")
	}
	expect(t, "records", got, want)
}

// The negative control took overlay's look back out: the second page then
// showed the new m and z, and missed the deleted y.
func TestPinnedListShowsItsRevisionAcrossCheckpoints(t *testing.T) {
	b := open(t, newPath(t), nil)
	commit(t, b, put("a", "1"), put("m", "1"), put("y", "1"))
	p, err := b.List(t.Context(), "k", store.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, b, put("m", "2"), del("y"), put("z", "1"))
	for i := range checkpointRows/32 + 1 {
		var ops []store.Op
		for j := range 32 {
			ops = append(ops, put(fmt.Sprintf("n-%d", i*32+j), "1"))
		}
		commit(t, b, ops...)
	}
	commit(t, b, put("m", "3"))
	if b.state.checkpoint <= p.Revision {
		t.Fatalf("no checkpoint came, the test proves nothing")
	}
	expect(t, "the pages that follow", contentsOf(t, b, store.ListOptions{Limit: 1, Cursor: p.Cursor}), "m=1@1 y=1@1")
}

// Of what was written before the file was opened it is not known what it replaced: a list
// of a revision before that, or the next page of one, is refused.
//
// promise S2. Negative control: mutant "a list goes back to before the file was opened".
func TestListOfARevisionBeforeAReopenIsRefused(t *testing.T) {
	path := newPath(t)
	b := open(t, path, nil)
	commit(t, b, put("a", "1"), put("b", "1"))
	p, err := b.List(t.Context(), "k", store.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, b, put("a", "2"))
	closeNow(t, b)
	b = open(t, path, nil)
	for range 2 { // the second time with a commit since
		for what, o := range map[string]store.ListOptions{"a list": {At: 1}, "a page": {Cursor: p.Cursor}} {
			if _, err := b.List(t.Context(), "k", o); !errors.Is(err, store.ErrCompacted) {
				t.Errorf("%s at revision 1 returned %v, want ErrCompacted", what, err)
			}
		}
		expect(t, "a list at the revision of the reopen", contentsOf(t, b, store.ListOptions{At: 2}), "a=2@2 b=1@1")
		commit(t, b, put("b", "3"))
	}
}

func TestHistoryIsBounded(t *testing.T) {
	const commitBytes = 5 << 10 // one of the commits below takes less
	for name, bound := range map[string]struct {
		options
		least int // revisions that are kept
	}{
		"by count": {options{historyRevisions: 10}, 10},
		"by bytes": {options{historyBytes: 6 * commitBytes}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			path, o := newPath(t), &bound.options
			b := open(t, path, o)
			page, err := b.List(t.Context(), "k", store.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			slow := watchSlowly(t, b)
			for i := range 2*checkpointRows/32 + 1 { // two checkpoints are due
				var ops []store.Op
				for j := range 32 {
					ops = append(ops, put(fmt.Sprintf("%d-%d", i, j), strings.Repeat("x", 100)))
				}
				commit(t, b, ops...)
			}
			if err := slow(); !errors.Is(err, store.ErrCompacted) {
				t.Errorf("a watcher that stood still ended with %v, want ErrCompacted", err)
			}
			if _, err := follow(t, b, 1, 2); !errors.Is(err, store.ErrCompacted) {
				t.Errorf("a watch after revision 1 ended with %v, want ErrCompacted", err)
			}
			if _, err := b.List(t.Context(), "k", store.ListOptions{At: page.Revision + 1}); !errors.Is(err, store.ErrCompacted) {
				t.Errorf("a list at revision 1 returned %v, want ErrCompacted", err)
			}
			head := b.history.head()
			closeNow(t, b)
			r, err := check(path)
			if err != nil {
				t.Fatal(err)
			}
			if r.History == 0 || r.Revision != head || r.History+store.Revision(bound.least) > head {
				t.Errorf("the file says %v, want a history that was cut, of %d revisions at least, and revision %d", r, bound.least, head)
			}
			b = open(t, path, o)
			floor := b.history.floor
			if last := head - store.Revision(bound.least); floor < r.History || floor > last {
				t.Errorf("after a restart the history begins at %d, want some of %d to %d", floor, r.History, last)
			}
			if _, err := follow(t, b, floor, head); err != nil {
				t.Errorf("a watch after %d, where the history begins, ended with %v", floor, err)
			}
		})
	}
}

// What a checkpoint forgets is gone from the file too, up to the same revision, where each commit is a chunk.
func TestFileForgetsWhatTheHistoryForgets(t *testing.T) {
	path := newPath(t)
	b := open(t, path, &options{historyRevisions: 10})
	for i := 0; b.history.floor == 0; i++ {
		commit(t, b, put("a", fmt.Sprint(i)))
	}
	floor := b.history.floor
	if kept := b.history.head() - floor; kept != 11 {
		t.Errorf("a history that was cut has %d revisions, want 10 and the one with the checkpoint", kept)
	}
	closeNow(t, b)
	if r, err := check(path); err != nil || r.History != floor {
		t.Errorf("the file says %v, %v; want a history after %d", r, err, floor)
	}
}

// A file whose objects are up to date is opened without a write.
func TestOpenOfAnUpToDateFileWritesNothing(t *testing.T) {
	path := newPath(t)
	b := open(t, path, nil)
	commit(t, b, put("a", "1"))
	closeNow(t, b)
	var was []byte
	for range 3 {
		closeNow(t, open(t, path, nil)) // the first brings the objects up to date
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if was != nil && !bytes.Equal(was, now) {
			t.Fatal("a file that was up to date was written to")
		}
		was = now
	}
}

// The negative control let history.after ask for the floor alone: the watcher of
// the quiet kind was cut off by another kind's writes.
func TestQuietKindIsResumedHoweverBusyTheOthersAre(t *testing.T) {
	b := open(t, newPath(t), &options{historyRevisions: 4})
	quiet := store.Op{Kind: "quiet", Key: store.Key{Name: "q"}, Put: store.Bytes("1")}
	r := commit(t, b, quiet)
	for i := range 200 {
		commit(t, b, put("busy", fmt.Sprint(i)))
	}
	if b.history.floor <= r {
		t.Fatal("nothing was forgotten, the test proves nothing")
	}
	for batch, err := range b.Watch(t.Context(), "quiet", r) {
		if err != nil || batch.Kind != store.BatchProgress {
			t.Errorf("the watch of the quiet kind began with %v, %v; want progress", batch, err)
		}
		break
	}
}

// watchSlowly starts a watch that takes one batch and stands still; the
// function returned lets it go on and reports how it ended.
func watchSlowly(t *testing.T, b *backend) func() error {
	t.Helper()
	commit(t, b, put("first", "1"))
	var ended error
	first, again, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		n := 0
		for _, err := range b.Watch(t.Context(), "k", 0) {
			if ended = err; err != nil {
				return
			}
			if n++; n == 2 { // the snapshot and its end
				close(first)
				<-again
			}
		}
	}()
	<-first
	return func() error { close(again); <-done; return ended }
}

func TestFutureRevisionsAreRefused(t *testing.T) {
	b := open(t, newPath(t), nil)
	commit(t, b, put("a", "1"))
	if _, err := follow(t, b, 2, 3); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("a watch after a revision of a lost history ended with %v, want ErrCompacted", err)
	}
	if _, err := b.List(t.Context(), "k", store.ListOptions{At: 2}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a list at a revision to come returned %v, want ErrInvalid", err)
	}
}

func TestFileIsTheOwnersAlone(t *testing.T) {
	path := newPath(t)
	open(t, path, nil)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode is %o, want 600", got)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v; want the one file", entries, err)
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newPath(t)
		b := open(t, path, nil)
		commit(t, b, put("a", "1"))
		began := time.Now()
		if _, err := Open(path); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
			t.Errorf("Open returned %v, want ErrLocked and the path", err)
		} else if !strings.Contains(err.Error(), "open already, in this or another process") {
			t.Errorf("Open returned %q, want it to say that this process may have the file open", err)
		}
		if d := time.Since(began); d < time.Second/2 || d > time.Second {
			t.Errorf("Open waited for %v, want about a second", d)
		}
		if _, err := check(path); !errors.Is(err, ErrLocked) {
			t.Errorf("Check returned %v, want ErrLocked", err)
		}
		closeNow(t, b)
		open(t, path, nil)
	})
}

// Of a file that can be read "permission denied" does not tell what to change.
func TestFileThatCanOnlyBeReadIsSaidToBeReadOnly(t *testing.T) {
	path := newPath(t)
	if err := open(t, path, nil).Close(); err != nil {
		t.Fatal(err)
	}
	_, err := openWith(path, &options{openFile: func(string, int, os.FileMode) (*os.File, error) {
		return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrPermission} // tests may run as root
	}})
	if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "is read-only") {
		t.Errorf("Open of a file that cannot be written: %v", err)
	}
}

func TestIllegalOptionsAndPathsAreRefused(t *testing.T) {
	for _, o := range []*options{{lockWait: -1}, {historyBytes: -1}, {historyRevisions: -1}} {
		if b, err := openWith(newPath(t), o); err == nil {
			t.Errorf("Open with %+v returned %v, want an error", *o, b)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "missing", "tend.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open in a directory that does not exist returned %v, want ErrNotExist", err)
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrForeign) {
		t.Errorf("Open of a directory returned %v, want ErrForeign", err)
	}
	_, opened := Open("")
	_, checked := check("")
	for name, err := range map[string]error{"Open": opened, "Check": checked} {
		if err == nil || errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "path is empty") {
			t.Errorf("%s of no path returned %v, want an error that says so", name, err)
		}
	}
	if _, err := check(newPath(t)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Check of nothing returned %v, want ErrNotExist", err)
	}
}

// written returns the bytes of a file with checkpointed and logged records.
func written(t testing.TB) []byte {
	t.Helper()
	path := newPath(t)
	b := open(t, path, nil)
	for i := range 200 {
		commit(t, b, put(fmt.Sprintf("%03d", i), strings.Repeat("v", 100)))
	}
	closeNow(t, b)
	b = open(t, path, nil) // brings the objects up to date
	for i := range 40 {
		commit(t, b, put(fmt.Sprintf("%03d", i*3), "new"), del(fmt.Sprintf("%03d", i*3+1)))
	}
	closeNow(t, b)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// openCopy opens a file of these bytes and checks that a refusal left it alone.
func openCopy(t testing.TB, data []byte) (*backend, error) {
	t.Helper()
	path := newPath(t)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := Open(path)
	if err != nil {
		if after, _ := os.ReadFile(path); !bytes.Equal(after, data) {
			t.Error("the refused file was changed")
		}
		return nil, err
	}
	return b.(*backend), nil
}

func TestForeignFileIsRefusedAndLeftAlone(t *testing.T) {
	other := newPath(t)
	db, err := bolt.Open(other, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("mine")); return err }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	theirs, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"text":            bytes.Repeat([]byte("hello\n"), 10000),
		"short text":      []byte("hello\n"),
		"another's bbolt": theirs,
	} {
		if _, err := openCopy(t, data); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: Open returned %v, want ErrForeign", name, err)
		}
	}
	if _, err := openCopy(t, nil); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "empty") {
		t.Errorf("Open of an empty file returned %v, want ErrCorrupt that says so", err)
	}
}

// promise S1
// Every page of a good file is emptied, or a byte in it flipped, in turn: either
// Open refuses, or the page was free and everything is there. The negative
// control left out readPages: with a damaged meta page, the last commit was
// missing.
func TestDamagedFileIsRefusedOrWhole(t *testing.T) {
	whole := written(t)
	b, err := openCopy(t, whole)
	if err != nil {
		t.Fatal(err)
	}
	want := contentsOf(t, b, store.ListOptions{})
	closeNow(t, b)
	page := os.Getpagesize()
	refused := 0
	for at := 0; at+page <= len(bytes.TrimRight(whole, "\x00"))+page; at += page {
		for how, f := range map[string]func([]byte){
			"emptied": func(p []byte) { clear(p) },
			"cut":     func(p []byte) { clear(p[len(p)/2:]) },
			"flipped": func(p []byte) { p[[]int{0, 8, 10, 17, 24, 2000}[at/page%6]] ^= 0x40 },
		} {
			data := bytes.Clone(whole)
			f(data[at : at+page])
			if bytes.Equal(data, whole) {
				continue
			}
			b, err := openCopy(t, data)
			if err == nil {
				expect(t, fmt.Sprintf("records with page %d %s", at/page, how), contentsOf(t, b, store.ListOptions{}), want)
				closeNow(t, b)
				continue
			}
			if refused++; !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForeign) {
				t.Errorf("page %d %s: Open returned %v, want ErrCorrupt", at/page, how, err)
			}
		}
	}
	if refused < 10 {
		t.Errorf("only %d damaged files were refused: the test proves nothing", refused)
	}
}

// A backup made while the process was writing holds pages of different times,
// each of them sound. The negative control dropped the comparison of count and
// sum from readObjects: old versions of records went by.
func TestFileOfTwoTimesIsRefusedOrWhole(t *testing.T) {
	path := newPath(t)
	var times [8][]byte
	for i := range times {
		b := open(t, path, nil) // brings the objects up to date
		var ops []store.Op
		for j := range 32 {
			ops = append(ops, put(fmt.Sprintf("%03d", j*(i%2+1)), fmt.Sprint(i)+strings.Repeat("v", 100)))
		}
		commit(t, b, ops...)
		closeNow(t, b)
		var err error
		if times[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	now := times[len(times)-1]
	b, err := openCopy(t, now)
	if err != nil {
		t.Fatal(err)
	}
	want := contentsOf(t, b, store.ListOptions{})
	closeNow(t, b)
	page, refused := os.Getpagesize(), 0
	for _, then := range times[:len(times)-1] {
		for at := 2 * page; at+page <= len(then); at += page {
			data := bytes.Clone(now)
			if copy(data[at:at+page], then[at:at+page]); bytes.Equal(data, now) {
				continue
			}
			b, err := openCopy(t, data)
			if err == nil {
				expect(t, fmt.Sprintf("records with an old page %d", at/page), contentsOf(t, b, store.ListOptions{}), want)
				closeNow(t, b)
			} else if refused++; !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForeign) {
				t.Errorf("page %d: Open returned %v, want ErrCorrupt", at/page, err)
			}
		}
	}
	if refused < 5 {
		t.Errorf("only %d mixed files were refused: the test proves nothing", refused)
	}
}

// The negative control left out the comparison of the commit's number: the file
// was opened as it was one commit ago.
func TestOldRootIsRefused(t *testing.T) {
	path := newPath(t)
	b := open(t, path, nil)
	state := func() (data []byte, root uint64) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c := &pageCheck{file: bytes.NewReader(data), size: int64(len(data))}
		if err := c.readMetas(); err != nil {
			t.Fatal(err)
		}
		return data, order.Uint64(c.meta[16:])
	}
	commit(t, b, put("a", "1"))
	then, oldRoot := state()
	commit(t, b, put("a", "2"))
	now, newRoot := state()
	closeNow(t, b)
	page := uint64(os.Getpagesize())
	copy(now[newRoot*page:(newRoot+1)*page], then[oldRoot*page:(oldRoot+1)*page])
	order.PutUint64(now[newRoot*page:], newRoot) // the page says where it is
	if _, err := openCopy(t, now); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Open returned %v, want ErrCorrupt", err)
	}
}

// The keys of a branch are what bbolt goes by: one that is above or below what is under it
// hides records, though each page is whole.
//
// promise S1. Negative controls: mutants "keys below those of their branch go by", "keys above
// those of their branch go by" and "of a bucket only the root is looked at".
func TestBranchThatHidesItsLeavesIsRefused(t *testing.T) {
	whole := written(t)
	page, branches := os.Getpagesize(), 0
	for _, id := range pagesInUse(t, whole) {
		at := int(id) * page
		if order.Uint16(whole[at+8:]) != flagBranch {
			continue
		}
		keys, err := elements(id, whole[at:at+page], 0)
		if err != nil {
			t.Fatal(err)
		}
		under := func(n int) []element { // what is under a key
			child := int(order.Uint64(whole[at+pageHeader+n*elementSize+8:])) * page
			found, err := elements(0, whole[child:child+page], 4)
			if err != nil || order.Uint16(whole[child+8:]) != flagLeaf {
				t.Fatalf("under key %d of page %d: %v", n, id, err)
			}
			return found
		}
		for n := 1; n < len(keys); n++ {
			last, first := under(n-1), under(n)
			above := bytes.Clone(first[0].key)
			above[len(above)-1]++
			for how, key := range map[string][]byte{"below": last[len(last)-1].key, "above": above} {
				data := bytes.Clone(whole)
				changed, err := elements(id, data[at:at+page], 0)
				if err != nil {
					t.Fatal(err)
				}
				branches++
				copy(changed[n].key, key)
				if err := checkPages(bytes.NewReader(data), int64(len(data))); !errors.Is(err, ErrCorrupt) {
					t.Errorf("page %d with key %d %s what is there: %v, want ErrCorrupt", id, n, how, err)
				}
			}
		}
	}
	if branches == 0 {
		t.Error("there is no branch with two keys: this shows nothing")
	}
}

// pagesInUse are the ids of the pages that the check of a good file has read.
func pagesInUse(t *testing.T, data []byte) (ids []uint64) {
	t.Helper()
	c := &pageCheck{file: bytes.NewReader(data), size: int64(len(data))}
	err := c.readMetas()
	if err == nil {
		err = c.tree(order.Uint64(c.meta[16:]), nil, nil, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	for id, seen := range c.seen {
		if seen {
			ids = append(ids, uint64(id))
		}
	}
	return ids
}

// The end of the log is what was acknowledged last: a file whose log ends before that, or before the
// revision that its objects are of, is not whole, though its root is of the newest commit.
//
// promise S1. Negative controls: mutants "a log that ends too early is whole" and "a log that ends before the
// objects is whole".
func TestLogThatEndsTooEarlyIsRefused(t *testing.T) {
	for what, damage := range map[string]func(tx *bolt.Tx) error{
		"the last chunk is gone": func(tx *bolt.Tx) error { return tx.Bucket(bucketLog).Delete(chunkKey(3)) },
		"the objects are of a later revision": func(tx *bolt.Tx) error {
			return tx.Bucket(bucketMeta).Put(keyState, state{checkpoint: 4}.encode())
		},
	} {
		path := newPath(t)
		b := open(t, path, nil)
		for n := range 3 {
			commit(t, b, put("a", fmt.Sprint(n)))
		}
		closeNow(t, b)
		alter(t, path, damage)
		if b, err := Open(path); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: Open returned %v, want ErrCorrupt", what, err)
			if err == nil {
				closeNow(t, b.(*backend))
			}
		}
	}
}

// What the accounting of a file says has to be true, of the number of its records too, and so has what each of them
// and each lease says.
//
// promise S1
func TestFileWhoseAccountingIsWrongIsRefused(t *testing.T) {
	withState := func(tx *bolt.Tx, change func(st *state) error) error {
		st, err := parseState(tx.Bucket(bucketMeta).Get(keyState))
		return errors.Join(err, change(&st), tx.Bucket(bucketMeta).Put(keyState, st.encode()))
	}
	for what, damage := range map[string]func(tx *bolt.Tx) error{
		"one record more is counted": func(tx *bolt.Tx) error {
			return withState(tx, func(st *state) error { st.count++; return nil })
		},
		"a record is of a later revision than the objects": func(tx *bolt.Tx) error {
			return withState(tx, func(st *state) error {
				return applyRows(tx.Bucket(bucketObjects), map[address]*row{addressOf("k", store.Key{Name: "a"}): {created: 1, revision: 2}}, st)
			})
		},
		"a lease has no time": func(tx *bolt.Tx) error {
			return tx.Bucket(bucketLeases).Put(leaseKey(1), sealed(leaseKey(1), []byte{0}))
		},
		"a lease is damaged": func(tx *bolt.Tx) error { return tx.Bucket(bucketLeases).Put(leaseKey(1), []byte("damaged")) },
		"a lease has a key of another length": func(tx *bolt.Tx) error {
			return tx.Bucket(bucketLeases).Put([]byte("id"), sealed([]byte("id"), []byte{1}))
		},
	} {
		path := newPath(t)
		b := open(t, path, nil)
		commit(t, b, put("a", "1"), put("b", "1"))
		closeNow(t, b)
		closeNow(t, open(t, path, nil)) // brings the objects up to date
		alter(t, path, damage)
		if b, err := Open(path); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: Open returned %v, want ErrCorrupt", what, err)
			if err == nil {
				closeNow(t, b.(*backend))
			}
		}
	}
}

// alter makes a commit of its own in a file that is not open.
func alter(t *testing.T, path string, change func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(func(tx *bolt.Tx) error { return errors.Join(change(tx), putCommit(tx)) }), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestFileCutShortIsRefused(t *testing.T) {
	whole := written(t)
	used := len(bytes.TrimRight(whole, "\x00"))
	for _, n := range []int{1, 4096, 8192, used / 2, used - 4096, used - 1} {
		if _, err := openCopy(t, whole[:n]); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForeign) {
			t.Errorf("Open of the first %d of %d bytes returned %v, want a refusal", n, used, err)
		}
	}
}

// hold keeps the committer from the disk until released, so that a test knows
// what is in one group.
func hold(t *testing.T, b *backend) (release func()) {
	t.Helper()
	tx, err := b.db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

func transactions(b *backend) int {
	id, err := b.txOnDisk()
	if err != nil {
		panic(err)
	}
	return id
}

// eventually yields until cond holds; the test's own deadline ends it otherwise.
func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	for !cond() {
		if t.Context().Err() != nil {
			t.Fatal("the test ended before it came true")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestConcurrentWritersShareADiskWriteAndAreDecidedOneByOne(t *testing.T) {
	b := open(t, newPath(t), nil)
	release := hold(t, b)
	before := transactions(b)
	const n = 50
	var wg sync.WaitGroup
	var mu sync.Mutex
	revisions, conflicts := map[store.Revision]bool{}, 0
	for i := range n {
		wg.Go(func() {
			// Two writers each want to be the first to create a name.
			op := put(fmt.Sprint(i/2), "1")
			r, err := b.Commit(t.Context(), store.Txn{If: []store.Compare{{Kind: "k", Key: op.Key}}, Ops: []store.Op{op}})
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, store.ErrConflict) {
				conflicts++
			} else if err != nil {
				t.Error(err)
			} else {
				revisions[r] = true
			}
		})
	}
	eventually(t, func() bool { return b.waiting() == n })
	release()
	wg.Wait()
	if len(revisions) != n/2 || conflicts != n/2 {
		t.Errorf("%d revisions and %d conflicts, want %d of each", len(revisions), conflicts, n/2)
	}
	if got := transactions(b) - before; got > 2 {
		t.Errorf("%d disk writes for %d commits that waited together, want at most 2", got, n)
	}
}

// waiting counts the commits that are queued or in the group under way.
func (b *backend) waiting() int {
	return int(b.submitted.Load())
}

// promise S1
// The negative control failed a group in which a context had ended: the
// neighbour's write came back cancelled.
func TestCancelledWriterDoesNotCancelItsGroup(t *testing.T) {
	b := open(t, newPath(t), nil)
	release := hold(t, b)
	results := make(chan error, 3)
	send := func(name string) {
		_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(name, "1")}})
		results <- err
	}
	go send("first") // occupies the committer, so that the next two are one group
	eventually(t, func() bool { return b.waiting() == 1 && b.queued() == 0 })
	ctx, cancel := context.WithCancelCause(t.Context())
	mine := errors.New("I went home")
	cancelled := make(chan error, 1)
	go func() {
		_, err := b.submit(ctx, &pending{work: func(g *group) (store.Revision, error) {
			cancel(mine) // in the middle of the group
			return g.commit(store.Txn{Ops: []store.Op{put("a", "1")}}, [][]byte{[]byte("1")})
		}})
		cancelled <- err
	}()
	eventually(t, func() bool { return b.queued() == 1 })
	go send("b")
	eventually(t, func() bool { return b.queued() == 2 })
	release()
	for range 2 {
		if err := <-results; err != nil {
			t.Errorf("another writer got %v, want success", err)
		}
	}
	if err := <-cancelled; err != nil && (!errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, mine)) {
		t.Errorf("the cancelled writer got %v, want success or an unknown outcome with its cause", err)
	}
	expect(t, "records", contentsOf(t, b, store.ListOptions{}), "a=1@2 b=1@3 first=1@1")
}

func TestWriterThatGivesUpBeforeItsTurnWroteNothing(t *testing.T) {
	b := open(t, newPath(t), nil)
	release := hold(t, b)
	first := make(chan error, 1)
	go func() {
		_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put("a", "1")}})
		first <- err
	}()
	eventually(t, func() bool { return b.waiting() == 1 && b.queued() == 0 })
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put("b", "1")}})
		second <- err
	}()
	eventually(t, func() bool { return b.queued() == 1 })
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("got %v, want the context's error and a known outcome", err)
	}
	release()
	if err := <-first; err != nil {
		t.Error(err)
	}
	expect(t, "records", contentsOf(t, b, store.ListOptions{}), "a=1@1")
}

// promise S1. Negative control: mutant "a write that was given up while it was written is said
// not to be".
func TestWriterThatGivesUpWhileItIsWrittenDoesNotKnow(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone, returned := errors.New("I went home"), make(chan struct{})
	b := open(t, newPath(t), &options{beforePublish: func() {
		cancel(gone)
		<-returned
	}})
	_, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put("a", "1")}})
	close(returned)
	if !errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, gone) {
		t.Errorf("got %v, want an unknown outcome and the context's cause", err)
	}
	commit(t, b, put("b", "1"))
	expect(t, "records", contentsOf(t, b, store.ListOptions{}), "a=1@1 b=1@2")
}

// Negative control: without the look at ctx before the queue, the committer took
// one at once in most runs, and its outcome was said to be unknown.
func TestCommitWhoseContextIsOverIsKnownToHaveWrittenNothing(t *testing.T) {
	b := open(t, newPath(t), nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("too late")
	cancel(cause)
	release := hold(t, b) // what the committer takes now it keeps for a while
	for range 50_000 {
		_, err := b.Commit(ctx, store.Txn{Ops: []store.Op{put("a", "1")}})
		if !errors.Is(err, cause) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("got %v, want the context's cause and a known outcome", err)
			break
		}
	}
	release()
	expect(t, "records", contentsOf(t, b, store.ListOptions{}), "")
}

// The negative control left out fail: the next commit went through, on top of
// one that a crash might have undone.
func TestCommitThatMayBeOnDiskIsUnknownAndStopsTheBackend(t *testing.T) {
	path := newPath(t)
	b := open(t, path, nil)
	commit(t, b, put("a", "1"))
	cause := errors.New("sync failed")
	// What bbolt leaves behind when the sync of its meta page fails: readers
	// see the transaction, its writer got an error.
	if err := b.commitFailed(transactions(b), cause); !errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, cause) {
		t.Errorf("the commit got %v, want an unknown outcome and the cause", err)
	}
	for name, err := range map[string]error{
		"Get":    second(b.Get(t.Context(), "k", store.Key{Name: "a"})),
		"List":   second(b.List(t.Context(), "k", store.ListOptions{})),
		"Commit": second(b.Commit(t.Context(), store.Txn{Ops: []store.Op{put("c", "1")}})),
		"Grant":  second(b.Grant(t.Context(), time.Minute)),
		"Watch":  second(follow(t, b, 1, 2)),
	} {
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "open the file again") {
			t.Errorf("%s returned %v, want the cause and what to do", name, err)
		}
	}
	closeNow(t, b)
	expect(t, "after reopening", contentsOf(t, open(t, path, nil), store.ListOptions{}), "a=1@1")
}

// A panic after the pages were written, as bbolt has on a file that is cut short under it,
// leaves what the disk has and what readers are shown apart: the outcome is unknown, and
// nothing goes on from there.
//
// promise S1. Negative control: with the panic taken for a damaged file alone, the next
// commit was accepted at the revision of the first, which may have been read.
func TestPanicInTheMiddleOfACommitStopsTheBackend(t *testing.T) {
	path, cut := newPath(t), false
	b := open(t, path, &options{beforePublish: func() {
		if cut {
			panic("cut short")
		}
	}})
	commit(t, b, put("a", "1"))
	cut = true
	if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put("b", "1")}}); !errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, ErrCorrupt) {
		t.Errorf("the commit got %v, want an unknown outcome and the cause", err)
	}
	cut = false
	if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put("c", "1")}}); err == nil || !strings.Contains(err.Error(), "open the file again") {
		t.Errorf("the next commit got %v, want it refused", err)
	}
	if b.Health() == nil {
		t.Error("the backend is healthy")
	}
	closeNow(t, b)
	expect(t, "after reopening", contentsOf(t, open(t, path, nil), store.ListOptions{}), "a=1@1 b=1@2")
}

func TestCloseEndsWatchesAndWaitsForCommits(t *testing.T) {
	path := newPath(t)
	b := open(t, path, nil)
	commit(t, b, put("a", "1"))
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		var last error
		for batch, err := range b.Watch(t.Context(), "k", 0) {
			if last = err; batch.Kind == store.BatchSnapshotEnd {
				close(ready)
			}
		}
		ended <- last
	}()
	<-ready
	release := hold(t, b)
	written := make(chan error, 1)
	go func() {
		_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put("b", "1")}})
		written <- err
	}()
	eventually(t, func() bool { return b.waiting() == 1 })
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	release()
	if err := <-written; err != nil {
		t.Errorf("the commit under way got %v, want success", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close returned %v", err)
	}
	if err := <-ended; !errors.Is(err, store.ErrClosed) {
		t.Errorf("the watch ended with %v, want ErrClosed", err)
	}
	for name, err := range map[string]error{
		"Get":    second(b.Get(t.Context(), "k", store.Key{Name: "a"})),
		"List":   second(b.List(t.Context(), "k", store.ListOptions{})),
		"Commit": second(b.Commit(t.Context(), store.Txn{Ops: []store.Op{put("c", "1")}})),
		"Grant":  second(b.Grant(t.Context(), time.Minute)),
		"Renew":  b.Renew(t.Context(), 1),
		"Revoke": b.Revoke(t.Context(), 1),
	} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s after Close returned %v, want ErrClosed", name, err)
		}
	}
	expect(t, "after reopening", contentsOf(t, open(t, path, nil), store.ListOptions{}), "a=1@1 b=1@2")
}

func second[T any](_ T, err error) error { return err }

func TestLeaseSurvivesARestartAndThenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newPath(t)
		b := open(t, path, nil)
		id, err := b.Grant(t.Context(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		bound := put("bound", "1")
		bound.Lease = id
		commit(t, b, bound, put("free", "1"))
		time.Sleep(9 * time.Second)
		closeNow(t, b)

		b = open(t, path, nil)
		time.Sleep(9 * time.Second) // no lease could be renewed while the file was closed
		if err := b.Renew(t.Context(), id); err != nil {
			t.Errorf("Renew after the restart returned %v", err)
		}
		time.Sleep(9 * time.Second)
		expect(t, "while it lives", contentsOf(t, b, store.ListOptions{}), "bound=1@1 free=1@1")
		got, err := follow(t, b, 1, 2)
		expect(t, "the expiry as a watcher sees it", got, []string{"-bound=1@2"})
		if err != nil {
			t.Error(err)
		}
		if err := b.Renew(t.Context(), id); !errors.Is(err, store.ErrLeaseGone) {
			t.Errorf("Renew of an expired lease returned %v, want ErrLeaseGone", err)
		}
		if next, err := b.Grant(t.Context(), time.Minute); err != nil || next == id {
			t.Errorf("Grant returned %d, %v; want an id that was never used", next, err)
		}
	})
}

// After a restart each lease has a clock, and what is bound to it goes when it ends: what the first restart
// reads from the log, and the second from the objects.
//
// promise L1. Negative controls: mutants "after a restart one lease has a clock" and "what is bound is read from
// the log alone".
func TestAllLeasesExpireAfterARestart(t *testing.T) {
	for restarts := 1; restarts <= 2; restarts++ {
		synctest.Test(t, func(t *testing.T) {
			path := newPath(t)
			b := open(t, path, nil)
			for _, name := range []string{"a", "b", "c"} {
				id, err := b.Grant(t.Context(), 10*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				bound := put(name, "1")
				bound.Lease = id
				commit(t, b, bound)
			}
			for range restarts {
				closeNow(t, b)
				b = open(t, path, nil)
				expect(t, "after a restart", contentsOf(t, b, store.ListOptions{}), "a=1@1 b=1@2 c=1@3")
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			expect(t, fmt.Sprintf("when they have ended after %d restarts", restarts), contentsOf(t, b, store.ListOptions{}), "")
		})
	}
}

// What is committed after the end of a lease is not bound to it, though both wait for the
// disk together: nothing would ever delete it.
//
// promise L1. Negative control: mutant "a change of a lease shares its group with what follows".
func TestCommitThatWaitsBehindTheEndOfItsLeaseIsRefused(t *testing.T) {
	b := open(t, newPath(t), nil)
	id, err := b.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	release := hold(t, b)
	var wg sync.WaitGroup
	queue := func(behind int, what string, want error, f func() error) {
		wg.Go(func() {
			if err := f(); !errors.Is(err, want) {
				t.Errorf("%s returned %v, want %v", what, err, want)
			}
		})
		eventually(t, func() bool { return b.waiting() == behind+1 && b.queued() == behind })
	}
	bound := put("bound", "1")
	bound.Lease = id
	write := func(op store.Op) func() error {
		return func() error { return second(b.Commit(t.Context(), store.Txn{Ops: []store.Op{op}})) }
	}
	queue(0, "the commit that is under way", nil, write(put("free", "1")))
	queue(1, "Revoke", nil, func() error { return b.Revoke(t.Context(), id) })
	queue(2, "Commit", store.ErrLeaseGone, write(bound))
	release()
	wg.Wait()
	expect(t, "in the end", contentsOf(t, b, store.ListOptions{}), "free=1@1")
}

// A lease whose end is being written is not renewed: the record that is bound to it is gone
// a moment later. Here the end is on disk and not published yet.
//
// promise L1. Negative control: mutant "a lease is renewed while its end is written".
func TestLeaseIsNotRenewedWhileItsEndIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		goOn := make(chan struct{})
		b := open(t, newPath(t), &options{beforePublish: func() {
			if slow.Load() {
				<-goOn
			}
		}})
		id, err := b.Grant(t.Context(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		bound := put("bound", "1")
		bound.Lease = id
		commit(t, b, bound)
		slow.Store(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if err := b.Renew(t.Context(), id); !errors.Is(err, store.ErrLeaseGone) {
			t.Errorf("Renew returned %v, want ErrLeaseGone", err)
		}
		slow.Store(false)
		close(goOn)
		synctest.Wait()
		expect(t, "in the end", contentsOf(t, b, store.ListOptions{}), "")
	})
}

// A lease that ended before a restart gives its id to none after it: a holder that was
// frozen meanwhile still knows it.
//
// promise L1. Negative control: with the bucket's sequence not written the id came again.
func TestLeaseIDsAreNotUsedAgainAfterARestart(t *testing.T) {
	path := newPath(t)
	b := open(t, path, nil)
	id, err := b.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	bound := put("a", "1")
	bound.Lease = id
	commit(t, b, bound) // which the log says after the restart, when there is no such lease
	if err := b.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	closeNow(t, b)
	b = open(t, path, nil)
	if next, err := b.Grant(t.Context(), time.Minute); err != nil || next == id {
		t.Errorf("Grant returned %d, %v; want another id than %d", next, err, id)
	}
}

// A lease whose records cannot be read lives on: ended alone it would leave them to stay for ever.
func TestLeaseOfADamagedRecordDoesNotEndAlone(t *testing.T) {
	path := newPath(t)
	b := open(t, path, nil)
	id, err := b.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	bound := put("a", "1")
	bound.Lease = id
	commit(t, b, bound)
	closeNow(t, b)
	b = open(t, path, nil) // brings the objects up to date
	if err := b.db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketObjects).Put([]byte(addressOf("k", store.Key{Name: "a"})), []byte("damaged"))
	}); err != nil {
		t.Fatal(err)
	}
	b.txid.Add(1) // else the file was written over
	if err := b.Revoke(t.Context(), id); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Revoke returned %v, want ErrCorrupt", err)
	}
	if err := b.Renew(t.Context(), id); err != nil {
		t.Errorf("after that Renew returned %v", err)
	}
}

// Timers may fire as the backend closes, and find it closed: those of a lease, of the look at the path, and of
// a probe of a store that refused a write.
func TestTimersOfAClosedBackendDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, newPath(t), nil)
		probes := &probed{backend: b}
		b.writes.Close()
		b.writes = store.NewWriteHealth(probes, b.path, nil)
		id, err := b.Grant(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		b.writes.Committed(t.Context(), store.Txn{Ops: []store.Op{put("a", "1")}}, errors.New("full"))
		closeNow(t, b)
		b.expire(id)
		b.look()
		time.Sleep(time.Minute)
		if n := probes.n.Load(); n != 0 {
			t.Errorf("%d probes were made after the end", n)
		}
	})
}

// probed counts the commits, which are those of a WriteHealth.
type probed struct {
	*backend
	n atomic.Int32
}

func (p *probed) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	p.n.Add(1)
	return p.backend.Commit(ctx, t)
}

// The forms of a URL that open a file, and those that open none.
func TestURLs(t *testing.T) {
	dir := t.TempDir()
	for url, path := range map[string]string{
		"file:" + dir + "/a":   dir + "/a",
		"file://" + dir + "/b": dir + "/b",
		"file:":                "", "file://host/c": "", "file": "", "file://": "", dir + "/d": "",
	} {
		b, err := openURL(t.Context(), url)
		if path == "" {
			if !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%q: error %v, want ErrInvalid", url, err)
			}
			continue
		}
		if err != nil || b.(*backend).path != path {
			t.Errorf("%q: %v, error %v; want the file %s", url, b, err, path)
			continue
		}
		closeNow(t, b.(*backend))
	}
}
