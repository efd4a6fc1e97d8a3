package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"time"
)

// racy is how young a modification time may be before it is not trusted: a
// second write within the file system's clock tick leaves time and size as they
// were.
const racy = 2 * time.Second

// A fileWatch tells when a file's content has changed. It polls: that works on
// every file system and through every editor's way of saving (write in place,
// write and rename), where notifications do not.
type fileWatch struct {
	path  string
	every time.Duration

	seen    fingerprint // of the last stat
	current [32]byte    // hash of what was handed on last
	pending [32]byte    // hash of a change that has been seen once
	waiting bool        // pending is set
	failed  string      // the last error, so that it is told once
}

type fingerprint struct {
	modified time.Time
	size     int64
}

// newFileWatch reads the file and starts from what it holds now.
func newFileWatch(path string, every time.Duration) (*fileWatch, []byte, error) {
	w := &fileWatch{path: path, every: every}
	data, err := w.read()
	if err != nil {
		return nil, nil, err
	}
	w.current = sha256.Sum256(data)
	return w, data, nil
}

// Run calls changed with each new content of the file, and failed once with each
// new reason why it cannot be read. It returns when ctx ends.
func (w *fileWatch) Run(ctx context.Context, changed func([]byte), failed func(error)) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		data, err := w.poll()
		switch {
		case err == nil:
			w.failed = ""
		case err.Error() != w.failed:
			w.failed = err.Error()
			failed(err)
		}
		if data != nil {
			changed(data)
		}
	}
}

// poll returns the file's content if it is new and has stayed the same for one
// interval. Without that wait a file that is just being written would be read
// half, and the missing half taken for buckets to delete.
//
// The file's time is of the clock of whatever wrote it. If that is behind ours, a second
// edit within the resolution of the file's times that keeps its size is seen with the next
// edit; if it is ahead, the file is read at every poll.
func (w *fileWatch) poll() ([]byte, error) {
	info, err := os.Stat(w.path)
	if err != nil {
		return nil, err
	}
	now := fingerprint{info.ModTime(), info.Size()}
	if now == w.seen && !w.waiting && time.Since(now.modified) > racy {
		return nil, nil
	}
	data, err := w.read()
	if err != nil {
		return nil, err
	}
	w.seen = now
	sum := sha256.Sum256(data)
	settled := w.waiting && sum == w.pending
	w.pending, w.waiting = sum, sum != w.current && !settled
	if sum == w.current || !settled {
		return nil, nil
	}
	w.current = sum
	return data, nil
}

// read returns the content, never nil without an error. A file beyond the limit
// is cut one byte past it, for parseInventory to refuse.
func (w *fileWatch) read() ([]byte, error) {
	info, err := os.Stat(w.path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %s; expected a file", w.path, info.Mode().Type())
	}
	f, err := os.Open(w.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxInventoryBytes+1))
}
