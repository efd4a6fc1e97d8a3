package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progressEvery is how often the progress line is renewed where it cannot be
// redrawn in place.
const progressEvery = time.Second

// A report is what the user sees: lines, and under them one progress line that
// is redrawn on a terminal, and printed now and then elsewhere.
type report struct {
	terminal bool
	began    time.Time

	mu       sync.Mutex // guards everything below, and keeps lines whole
	out      io.Writer
	progress string    // as it stands; empty: none
	printed  time.Time // when it was last printed off a terminal
}

func newReport(out io.Writer) *report {
	r := &report{out: out, began: time.Now()}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		r.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return r
}

// Line prints one line with the time since the start.
func (r *report) Line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.eraseLocked()
	fmt.Fprintf(r.out, "%6.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
	r.drawLocked()
}

// Text prints lines as they are.
func (r *report) Text(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.eraseLocked()
	fmt.Fprintln(r.out, s)
	r.drawLocked()
}

// Progress replaces the progress line; the empty one takes it away.
func (r *report) Progress(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if line == r.progress {
		return
	}
	r.eraseLocked()
	r.progress = line
	r.drawLocked()
	if !r.terminal && line != "" && time.Since(r.printed) >= progressEvery {
		r.printed = time.Now()
		fmt.Fprintf(r.out, "%6.1fs  %s\n", time.Since(r.began).Seconds(), line)
	}
}

func (r *report) eraseLocked() {
	if r.terminal && r.progress != "" {
		fmt.Fprint(r.out, "\r\x1b[K")
	}
}

func (r *report) drawLocked() {
	if r.terminal {
		fmt.Fprint(r.out, r.progress)
	}
}
