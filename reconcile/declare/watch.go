package declare

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/tendhq/tend/queue"
)

// urgent: an operator changed what is declared, so a backoff or a park ends.
var urgent = queue.AddOptions{Urgent: true}

// settleAge is how old a modification time must be to be trusted: a second write within
// the file system's clock tick leaves time and size as they were, and a file that is being
// written has a young one.
const settleAge = 2 * time.Second

// A watch finds out when a file's content has changed. It polls: that works on every file
// system and with every way of saving, where notifications do not. It is for one
// goroutine.
//
//	state      content seen  next look                          then
//	taken      –             same file, time and size, old       taken
//	taken      –             other                               pending, or taken if its time is old and it is the first
//	pending    h             h again                             taken, and handed out
//	pending    h             other                               pending with that
type watch struct {
	path string
	max  int64

	info    os.FileInfo // of the last read; nil: none
	current *content    // what was handed out last; nil: nothing
	pending *[32]byte   // the sum of a change that was seen once; nil: there is none
}

// forget makes the next look hand out the content whether it changed or not.
func (w *watch) forget() { w.info, w.current, w.pending = nil, nil, nil }

// look returns the content if it is another one than was handed out last, and has settled.
//
// The file's time is of the clock of the machine that wrote it. If that is ahead of ours,
// the file is read at every look; if it is behind, a content that was written less than
// settleAge before the first look may be taken at once.
func (w *watch) look() (*content, error) {
	info, err := os.Stat(w.path)
	if err != nil {
		w.info, w.pending = nil, nil
		return nil, err
	}
	old := time.Since(info.ModTime()) > settleAge
	if w.pending == nil && old && w.info != nil && sameFile(w.info, info) {
		return nil, nil
	}
	data, info, err := w.read()
	if err != nil {
		w.info, w.pending = nil, nil
		return nil, err
	}
	w.info = info
	sum := sha256.Sum256(data)
	if w.current != nil && sum == w.current.sum {
		w.pending = nil
		return nil, nil
	}
	settled := w.pending != nil && *w.pending == sum || w.current == nil && old
	if !settled {
		w.pending = &sum
		return nil, nil
	}
	w.pending = nil
	w.current = &content{data, sum}
	return w.current, nil
}

// sameFile also compares which file it is: the targets of a link that is swapped may have
// one time and one size.
func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// read returns the content, and what the file was while it was read.
func (w *watch) read() ([]byte, os.FileInfo, error) {
	info, err := os.Stat(w.path) // before it is opened: opening a pipe blocks
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is no regular file (%s)", w.path, info.Mode().Type())
	}
	f, err := os.Open(w.path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, min(w.max, math.MaxInt64-1)+1))
	if err == nil && int64(len(data)) > w.max {
		err = fmt.Errorf("%s is longer than %d bytes", w.path, w.max)
	}
	return data, info, err
}
