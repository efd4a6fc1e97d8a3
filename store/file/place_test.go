//go:build unix

package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/store"
)

// replacements are ways to take the file away under a backend.
var replacements = map[string]func(t *testing.T, path string){
	"removed": func(t *testing.T, path string) { try(t, os.Remove(path)) },
	"renamed": func(t *testing.T, path string) { try(t, os.Rename(path, path+".old")) },
	"replaced by a copy": func(t *testing.T, path string) {
		data, err := os.ReadFile(path)
		try(t, err)
		try(t, os.WriteFile(path+".copy", data, 0o600))
		try(t, os.Rename(path+".copy", path))
	},
	"overwritten by another": func(t *testing.T, path string) { // as cp does
		try(t, createMissing(path+".other"))
		data, err := os.ReadFile(path + ".other")
		try(t, err)
		try(t, os.WriteFile(path, data, 0o600))
	},
	"cut short":                  func(t *testing.T, path string) { try(t, os.Truncate(path, 0)) },
	"removed with its directory": func(t *testing.T, path string) { try(t, os.RemoveAll(filepath.Dir(path))) },
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// On the old code each commit after it was acknowledged, into a file that no path led
// to, and health was fine.
func TestReplacedFileIsNoticedWithinASecondAndRefused(t *testing.T) {
	for name, replace := range replacements {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := newPath(t)
				b := open(t, path, nil)
				commit(t, b, put("a", "1"))
				time.Sleep(time.Hour) // nothing is noticed where nothing happened
				if err := b.Health(); err != nil {
					t.Fatalf("before: %v", err)
				}
				watch := make(chan error, 1)
				go func() { // it ends with its watch
					for _, err := range b.Watch(t.Context(), "k", 0) {
						if err != nil {
							watch <- err
						}
					}
				}()
				synctest.Wait()
				replace(t, path)
				began := time.Now()
				if err := <-watch; !errors.Is(err, errReplaced) {
					t.Errorf("the watch ended with %v, want %v", err, errReplaced)
				}
				if d := time.Since(began); d > time.Second {
					t.Errorf("it was noticed after %v, want at most a second", d)
				}
				wantReplaced(t, b)
				var u *store.UnavailableError
				if err := b.Health(); !errors.As(err, &u) || !errors.Is(err, errReplaced) || u.Since.Before(began) {
					t.Errorf("Health is %v, want an UnavailableError of %v", err, errReplaced)
				}
			})
		})
	}
}

// A commit is refused at once, before the file is looked at for its own sake.
func TestCommitIntoAReplacedFileIsRefused(t *testing.T) {
	for name, replace := range replacements {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := newPath(t)
				b := open(t, path, nil)
				commit(t, b, put("a", "1"))
				replace(t, path)
				_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put("a", "2")}})
				if !errors.Is(err, errReplaced) || errors.Is(err, store.ErrUnknownOutcome) {
					t.Errorf("Commit: got error %v, want %v", err, errReplaced)
				}
				wantReplaced(t, b)
			})
		})
	}
}

// A backup that is copied over the file of a running process has the same inode. On the old
// code the commits after it were acknowledged, most of the time, and left neither themselves
// nor the backup: a damaged file.
func TestBackupCopiedOverTheFileIsNoticedAndLeftAsItIs(t *testing.T) {
	for since := 1; since <= 4; since++ {
		path := newPath(t)
		b := open(t, path, &options{historyRevisions: 10})
		for i := range 100 {
			commit(t, b, put(fmt.Sprint(i%40), "1"))
		}
		backup, err := os.ReadFile(path)
		try(t, err)
		for range since {
			commit(t, b, put("a", "2"))
		}
		try(t, os.WriteFile(path, backup, 0o600))
		for range 20 {
			if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put("a", "3")}}); !errors.Is(err, errReplaced) {
				t.Errorf("a commit after a backup of %d commits before was copied over the file: error %v, want %v", since, err, errReplaced)
				break
			}
		}
		closeNow(t, b)
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, backup) {
			t.Errorf("the backup of %d commits before was changed (%v)", since, err)
		}
	}
}

// A file that was away for a moment is looked at as before. On the old code the look that found
// it away was the last one, if it was back when the committer looked again.
func TestFileThatWasAwayForAMomentIsStillLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newPath(t)
		hold := make(chan struct{})
		b := open(t, path, &options{beforePublish: func() { <-hold }})
		done := make(chan struct{})
		go func() { // ends with hold
			defer close(done)
			commit(t, b, put("a", "1"))
		}()
		synctest.Wait()
		try(t, os.Rename(path, path+".old"))
		time.Sleep(2 * lookEvery) // a look has found nothing there, and waits for the committer
		try(t, os.Rename(path+".old", path))
		close(hold)
		<-done
		time.Sleep(2 * lookEvery)
		if err := b.Health(); err != nil {
			t.Fatalf("the file is in its place: %v", err)
		}
		try(t, os.Remove(path))
		time.Sleep(2 * lookEvery)
		wantReplaced(t, b)
	})
}

func wantReplaced(t *testing.T, b *backend) {
	t.Helper()
	ctx := context.Background()
	_, get := b.Get(ctx, "k", store.Key{Name: "a"})
	_, list := b.List(ctx, "k", store.ListOptions{})
	_, write := b.Commit(ctx, store.Txn{Ops: []store.Op{put("b", "2")}})
	_, grant := b.Grant(ctx, time.Minute)
	for what, err := range map[string]error{"Get": get, "List": list, "Commit": write, "Grant": grant} {
		if !errors.Is(err, errReplaced) {
			t.Errorf("%s: got error %v, want %v", what, err, errReplaced)
		}
	}
}

// A path is of the directory in which Open was called.
func TestPathStaysWhereItWasWhenTheProcessChangesItsDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	b := open(t, "tend.db", nil)
	t.Chdir(t.TempDir())
	commit(t, b, put("a", "1"))
}

// A disk that fails to read what is looked at says nothing of where the file is.
//
// Negative control: mutant "a disk that fails to read says that the file was written over".
func TestReadThatFailsDoesNotMeanThatTheFileWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, newPath(t), nil)
		commit(t, b, put("a", "1"))
		folder, err := os.Open(t.TempDir()) // which no read succeeds of
		try(t, err)
		try(t, b.reader.Close())
		b.reader = folder
		commit(t, b, put("a", "2"))
		if err := b.Health(); err != nil {
			t.Errorf("Health: %v", err)
		}
	})
}
