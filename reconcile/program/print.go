package program

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/ascii"
)

// progressEvery is how often the progress line is printed where it cannot be redrawn in
// place.
const progressEvery = time.Second

// A Printer prints lines, and under them one progress line that is redrawn on a
// terminal, and printed at most once a second elsewhere. Of characters in them that do not
// show, but for ends of lines and tabs, U+FFFD takes the place. It is safe for concurrent use.
type Printer struct {
	terminal bool
	began    time.Time

	mu       sync.Mutex // guards what follows, and keeps lines whole
	out      io.Writer
	progress string    // as it stands; empty: none
	printed  time.Time // when it was last printed off a terminal
}

// NewPrinter makes a Printer. Its lines count the time from now.
func NewPrinter(out io.Writer) *Printer {
	p := &Printer{out: out, began: time.Now()}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return p
}

// Line prints one line with the seconds since NewPrinter.
func (p *Printer) Line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eraseLocked()
	fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.began).Seconds(), ascii.Text(fmt.Sprintf(format, args...)))
	p.drawLocked()
}

// Text prints lines as they are.
func (p *Printer) Text(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eraseLocked()
	fmt.Fprintln(p.out, s)
	p.drawLocked()
}

// Progress replaces the progress line; an empty one takes it away.
func (p *Printer) Progress(line string) {
	line = ascii.Text(line)
	p.mu.Lock()
	defer p.mu.Unlock()
	if line == p.progress {
		return
	}
	p.eraseLocked()
	p.progress = line
	p.drawLocked()
	if !p.terminal && line != "" && time.Since(p.printed) >= progressEvery {
		p.printed = time.Now()
		fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.began).Seconds(), line)
	}
}

func (p *Printer) eraseLocked() {
	if p.terminal && p.progress != "" {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

func (p *Printer) drawLocked() {
	if p.terminal {
		fmt.Fprint(p.out, p.progress)
	}
}
