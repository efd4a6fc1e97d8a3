package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for anything at all to happen; it is only
// ever used up by a failure. A run that goes on printing is not cut off: on a
// machine that does much else it needs the longer.
const patience = 3 * time.Minute

// A screen is what a run prints, for tests that wait for a line.
type screen struct {
	mu      sync.Mutex // guards text and changed
	text    string
	changed chan struct{}
}

func newScreen() *screen { return &screen{changed: make(chan struct{})} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += string(p)
	close(s.changed)
	s.changed = make(chan struct{})
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// Count counts a text's occurrences.
func (s *screen) Count(text string) int { return strings.Count(s.String(), text) }

// Await returns once the text has been printed n times.
func (s *screen) Await(t *testing.T, text string, n int) {
	t.Helper()
	s.Until(t, text, func(printed string) bool { return strings.Count(printed, text) >= n })
}

// Until returns once what is printed satisfies ok.
func (s *screen) Until(t *testing.T, what string, ok func(string) bool) {
	t.Helper()
	for {
		text, changed := s.now()
		if ok(text) {
			return
		}
		select {
		case <-changed:
		case <-time.After(patience):
			t.Fatalf("%q was not printed, nor anything in %v; what was:\n%s", what, patience, text)
		}
	}
}

// now is what was printed, and a channel that is closed when there is more.
func (s *screen) now() (text string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text, s.changed
}

// A session is a run in the background.
type session struct {
	*screen
	file  string
	stop  context.CancelFunc
	ended chan error
}

// begin starts a run over a file with this content; poll and file watch are
// quick. It is stopped when the test ends.
func begin(t *testing.T, content string, o options) *session {
	t.Helper()
	s := &session{screen: newScreen(), ended: make(chan error, 1)}
	o = quick(o)
	if o.File == "" {
		o.File = filepath.Join(t.TempDir(), "inventory.yaml")
		writeFile(t, o.File, content)
	}
	s.file = o.File
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	go func() { s.ended <- run(ctx, o, s.screen) }()
	t.Cleanup(func() { s.stop(); s.ended <- <-s.ended })
	return s
}

// quick fills in what a test doesn't say.
func quick(o options) options {
	o.Workers, o.Rate, o.Writes, o.watchEvery = 8, 1e5, 1e5, 5*time.Millisecond
	if o.Store = cmp.Or(o.Store, inMemory); !o.durable() {
		o.Installation = "demo"
	}
	if o.Poll == 0 {
		o.Poll = 20 * time.Millisecond
	}
	if o.Timeout == 0 {
		o.Timeout = time.Hour // patience ends a hang
	}
	return o
}

// End interrupts the run and returns what it came to.
func (s *session) End(t *testing.T) error {
	t.Helper()
	s.stop()
	return s.Result(t)
}

// Result waits for a run that ends by itself.
func (s *session) Result(t *testing.T) error {
	t.Helper()
	for {
		text, changed := s.now()
		select {
		case err := <-s.ended:
			s.ended <- err // for the clean-up
			return err
		case <-changed:
		case <-time.After(patience):
			t.Fatalf("the run has neither ended nor printed anything in %v; it printed:\n%s", patience, text)
		}
	}
}

// edit replaces the file as an editor does: by renaming a new one over it.
func (s *session) edit(t *testing.T, content string) {
	t.Helper()
	writeFile(t, s.file+".new", content)
	if err := os.Rename(s.file+".new", s.file); err != nil {
		t.Fatal(err)
	}
}

// inFile is the URL of a store in a file of its own.
func inFile(t *testing.T) string { return "file:" + filepath.Join(t.TempDir(), "inventory.db") }

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
