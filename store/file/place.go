package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tendhq/tend/store"
)

// A file that is removed, or replaced by another, while it is open stays writable: each
// commit would be acknowledged and be gone when the process ends. One that is written over,
// as by cp, is the same file with other pages, and a commit would mix the two. So the backend
// looks at its path, and at its last transaction, before each group of commits and twice a second.

// lookEvery is how often the path is looked at while nothing is committed.
const lookEvery = 500 * time.Millisecond

// errReplaced is returned by every operation once the file at the backend's path was
// removed, replaced or written over. What is at the path then is not touched.
var errReplaced = errors.New("file: the file was removed or replaced while it was open")

// openAndRemember is how bbolt opens the file.
func (b *backend) openAndRemember(path string, flag int, mode os.FileMode) (*os.File, error) {
	open := os.OpenFile
	if b.opts.openFile != nil {
		open = b.opts.openFile
	}
	f, err := open(path, flag, mode)
	if err == nil {
		b.identity, err = f.Stat()
	}
	return f, err
}

// inPlace returns errReplaced if another file is at the path, or none, or if the last
// transaction in it is not the last one made here. Of an error of the system that says neither,
// such as one of permissions, nothing follows.
func (b *backend) inPlace() error {
	info, err := os.Stat(b.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: %s is not there", errReplaced, b.path)
	case err == nil && !os.SameFile(info, b.identity):
		return fmt.Errorf("%w: %s is another file", errReplaced, b.path)
	}
	// Read, and not by bbolt: a fault, where the file was cut short, would leave it locked.
	txid := b.txid.Load()
	meta, err := (&pageCheck{file: b.reader}).readMeta(txid % 2 * b.pageSize)
	if errors.As(err, new(*os.PathError)) { // the disk fails; the end of a file that was cut short is none
		return nil
	}
	if err != nil || order.Uint64(meta[48:]) != uint64(txid) {
		return fmt.Errorf("%w: %s was written over", errReplaced, b.path)
	}
	return nil
}

// look is called by its timer. Close waits for it.
func (b *backend) look() {
	if !b.enter() {
		return
	}
	defer b.working.Done()
	if err := b.inPlace(); err != nil {
		// Through the committer, which alone sets broken, and looks again: it may have been at work.
		_, _ = b.submit(context.Background(), &pending{alone: true, work: func(*group) (store.Revision, error) { return 0, err }})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.usableLocked() == nil {
		b.looking = time.AfterFunc(lookEvery, b.look)
	}
}

// Health implements store.HealthChecker: it returns a *store.UnavailableError once the
// file was replaced or the disk has failed in the middle of a commit, and while commits fail,
// on a full disk for example, until one succeeds. While they fail it tries one itself every 5 s.
func (b *backend) Health() error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.broken != nil {
		return &store.UnavailableError{Since: b.brokenSince, Err: b.broken}
	}
	return b.writes.Health()
}

// String names the backend for people.
func (b *backend) String() string { return "file " + b.path }
