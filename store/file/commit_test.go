package file

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/tendhq/tend/store"
)

// A lone writer whose context cannot end commits on its own goroutine; one whose context
// can end does not, or a disk that hangs would hold it beyond its deadline. Writers that
// come meanwhile are committed when it is through, and Close waits for all.
//
// Negative control: without commitAlone the first runs elsewhere; without asking
// ctx.Done the second does not; without starting a committer for the later writers, they
// wait for ever.
func TestLoneWriterCommitsOnItsOwnGoroutine(t *testing.T) {
	b := open(t, newPath(t), nil)
	var first, second string
	if err := loneWriter(t.Context(), b, func() { second = callers() }); err != nil {
		t.Fatal(err)
	}
	for committing := true; committing; runtime.Gosched() {
		b.queueMu.Lock()
		committing = b.committing
		b.queueMu.Unlock()
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	results := make(chan error, 2)
	go func() { // it ends with results
		results <- loneWriter(context.Background(), b, func() { first = callers(); close(begun); <-goOn })
	}()
	<-begun
	go func() { results <- loneWriter(t.Context(), b, func() {}) }()
	for b.waiting() < 2 {
		runtime.Gosched()
	}
	closed := make(chan error)
	go func() { closed <- b.Close() }()
	select {
	case <-closed:
		t.Error("Close did not wait")
	default:
	}
	close(goOn)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if !strings.Contains(first, ").submit\n") {
		t.Errorf("work ran on\n%s\nwant the caller's goroutine", first)
	}
	if strings.Contains(second, ").submit\n") {
		t.Errorf("work of a writer with a deadline ran on\n%s", second)
	}
}

func loneWriter(ctx context.Context, b *backend, do func()) error {
	_, err := b.submit(ctx, &pending{work: func(g *group) (store.Revision, error) { do(); return g.head, nil }})
	return err
}

// callers names the functions of the goroutine that calls.
func callers() string {
	pc := make([]uintptr, 64)
	frames := runtime.CallersFrames(pc[:runtime.Callers(1, pc)])
	var names []string
	for {
		f, more := frames.Next()
		names = append(names, f.Function)
		if !more {
			return strings.Join(names, "\n")
		}
	}
}

// What a commit writes does not grow with the pages that a checkpoint freed.
//
// Negative control: with bbolt's list of free pages in the file, a commit writes 8
// pages.
func TestCommitWritesFewPagesAfterACheckpoint(t *testing.T) {
	const records = checkpointRows + store.MaxTxn
	b := open(t, newPath(t), nil)
	for range 2 { // the second time all pages of the first are replaced
		for i := 0; i < records; i += store.MaxTxn {
			var ops []store.Op
			for j := range store.MaxTxn {
				ops = append(ops, put(fmt.Sprintf("%06d", i+j), strings.Repeat("v", 500)))
			}
			commit(t, b, ops...)
		}
	}
	if n := b.db.Stats().FreePageN; n < 300 {
		t.Fatalf("%d free pages, want many", n)
	}
	const commits = 20
	before := b.db.Stats().TxStats
	for range commits {
		commit(t, b, put("000001", strings.Repeat("w", 500)))
	}
	now := b.db.Stats().TxStats
	if pages := float64(now.GetPageCount()-before.GetPageCount()) / commits; pages > 6 {
		t.Errorf("a commit writes %.1f pages, want at most 6", pages)
	}
}

// A file in which bbolt keeps its list of free pages, as this package's files did
// once, is read and written like any other.
func TestFileWithAListOfFreePagesIsOpened(t *testing.T) {
	path := newPath(t)
	b := open(t, path, nil)
	commit(t, b, put("a", "1"))
	closeNow(t, b)
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(putCommit); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "c"} {
		b := open(t, path, nil)
		commit(t, b, put(name, "1"))
		closeNow(t, b)
	}
	if r, err := check(path); err != nil || r.Records != 3 {
		t.Errorf("Check: %v, %v, want 3 records", r, err)
	}
}
