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

// ErrReplaced is returned by every operation once the file at the backend's path was
// removed, replaced or written over. What is at the path then is not touched.
var ErrReplaced = errors.New("file: the file was removed or replaced while it was open")

// openAndRemember is how bbolt opens the file.
func (b *Backend) openAndRemember(path string, flag int, mode os.FileMode) (*os.File, error) {
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

// inPlace returns ErrReplaced if another file is at the path, or none, or if the last
// transaction in it is not the last one made here. Of an error of the system that says neither,
// such as one of permissions, nothing follows.
func (b *Backend) inPlace() error {
	info, err := os.Stat(b.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: %s is not there", ErrReplaced, b.path)
	case err == nil && !os.SameFile(info, b.identity):
		return fmt.Errorf("%w: %s is another file", ErrReplaced, b.path)
	}
	// Read, and not by bbolt: a fault, where the file was cut short, would leave it locked.
	txid := b.txid.Load()
	meta, err := (&pageCheck{file: b.reader}).readMeta(txid % 2 * b.pageSize)
	if errors.As(err, new(*os.PathError)) { // the disk fails; the end of a file that was cut short is none
		return nil
	}
	if err != nil || order.Uint64(meta[48:]) != uint64(txid) {
		return fmt.Errorf("%w: %s was written over", ErrReplaced, b.path)
	}
	return nil
}

// look is called by its timer. Close waits for it.
func (b *Backend) look() {
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

// refusal is that the disk took none of the last commits.
type refusal struct {
	err         error // why it did not take the last one; nil: it did
	since, last time.Time
}

// refusalCounts is how long a refusal is news when nothing was written since. What could not
// be written is mostly tried again within 5 minutes, the longest backoff by default.
const refusalCounts = 10 * time.Minute

// noteRefusal notes whether the disk took a commit.
func (b *Backend) noteRefusal(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		b.refused = refusal{}
		return
	case b.refused.err == nil:
		b.refused.since = now
	}
	b.refused.err, b.refused.last = err, now
}

// Health implements store.HealthChecker: it returns a *store.UnavailableError once the
// file was replaced or the disk has failed in the middle of a commit, and while commits fail,
// on a full disk for example, until one succeeds or none has been tried for 10 minutes.
func (b *Backend) Health() error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	switch {
	case b.broken != nil:
		return &store.UnavailableError{Since: b.brokenSince, Err: b.broken}
	case b.refused.err != nil && time.Since(b.refused.last) < refusalCounts:
		return &store.UnavailableError{Since: b.refused.since, Err: b.refused.err}
	}
	return nil
}
