package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
)

// A disk that is full refuses commits and loses none: where the tables lie, the server says
// so, and the commit is known not to have been made; where its write-ahead log lies, the
// server crashes. When there is space again, the backend goes on, and every commit that was
// acknowledged is there, and in the watch.
//
// promise S1
func TestFullDiskRefusesCommitsAndLosesNone(t *testing.T) {
	for _, part := range []string{"data", "wal"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			fullDisk(t, part)
		})
	}
}

func fullDisk(t *testing.T, part string) {
	dir, err := newDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	small := smallDisk(t, filepath.Join(dir, part), 100<<20)
	// A checkpoint would make room among the segments, and a quick one keep the disk from filling up.
	s := &server{dir: dir, options: []string{
		"-c", "fsync=off", "-c", "autovacuum=off", "-c", "min_wal_size=2MB", "-c", "max_wal_size=1GB",
	}}
	t.Cleanup(func() {
		if s.cmd != nil {
			s.stop(syscall.SIGQUIT)
		}
	})
	if err := errors.Join(s.initdb("-X", filepath.Join(dir, "wal"), "--wal-segsize=1"), s.start()); err != nil {
		t.Fatal(err)
	}
	b := openAt(t, s.socket(), postgres.Options{Timeout: 5 * time.Second})
	first, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("first"), "1")}})
	if err != nil {
		t.Fatal(err)
	}
	free := fill(t, small, 4<<20)

	made := make(map[store.Revision]store.Key)
	value := make([]byte, 100<<10)
	random := rand.NewChaCha8([32]byte{1})
	var refused store.Key
	for i := 0; err == nil; i++ {
		if i == 1000 {
			t.Fatal("the disk takes 100 MiB more than it has")
		}
		_, _ = random.Read(value) // so that nothing can be compressed
		k := key(fmt.Sprint("k", i))
		var at store.Revision
		at, err = b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: k, Put: store.Bytes(value)}}})
		if err == nil {
			made[at] = k
		} else {
			refused = k
		}
	}
	t.Logf("after %d commits: %v", len(made), err)
	if part == "data" {
		if errors.Is(err, store.ErrUnknownOutcome) || !strings.Contains(err.Error(), "No space left") {
			t.Errorf("a commit on a full disk: %v, want that it was refused and why", err)
		}
		if _, err := b.Get(t.Context(), "thing", refused); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("what was refused: %v, want ErrNotFound", err)
		}
	}

	free()
	var last store.Revision
	waitFor(t, func() bool {
		select {
		case <-s.gone: // it could not recover while the disk was full
			s.cmd = nil
			s.mustStart(t)
		default:
		}
		last, err = b.Commit(t.Context(), store.Txn{Ops: []store.Op{put(key("last"), "1")}})
		return err == nil
	})
	waitFor(t, func() bool { return b.Health() == nil })
	for at, k := range made {
		if rec, err := b.Get(t.Context(), "thing", k); err != nil || rec.Revision != at {
			t.Errorf("%s was acknowledged at %d and is at %d, error %v", k, at, rec.Revision, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for batch, err := range b.Watch(ctx, "thing", first) {
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range batch.Changes {
			if k, ok := made[c.Revision]; ok && k == c.Key {
				delete(made, c.Revision)
			}
		}
		if batch.Revision >= last {
			break
		}
	}
	if len(made) > 0 {
		t.Errorf("the watch lacks %d acknowledged commits", len(made))
	}
}

// smallDisk mounts a file system of that size. That takes root, as tests in CI run.
func smallDisk(t *testing.T, path string, size int) string {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size))
	if errors.Is(err, syscall.EPERM) {
		t.Skip("mounting a small file system is not permitted")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := own(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// fill leaves so many bytes free, until free is called.
func fill(t *testing.T, dir string, leave int64) (free func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zeros := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(zeros)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		err = f.Truncate(end - leave)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Error(err)
		}
	}
}
