package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const watchEvery = time.Second

// watching runs a watch over a file inside a bubble; edit changes the file and
// lets the watch look at it twice.
func watching(t *testing.T, content string, check func(path string, pass func(), contents, failures *lines)) {
	path := filepath.Join(t.TempDir(), "inventory.yaml")
	writeFile(t, path, content)
	synctest.Test(t, func(t *testing.T) {
		w, data, err := newFileWatch(path, watchEvery)
		if err != nil || string(data) != content {
			t.Fatalf("newFileWatch = %q, %v; want %q", data, err, content)
		}
		var contents, failures lines
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Run(ctx, func(data []byte) { contents.say(string(data)) },
				func(err error) { failures.say(err.Error()) })
		}()
		pass := func() {
			time.Sleep(watchEvery + time.Millisecond) // the bubble's clock
			synctest.Wait()
		}
		check(path, pass, &contents, &failures)
		cancel()
		<-ended
	})
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEditIsHandedOnOnceItHasSettled(t *testing.T) {
	watching(t, "one", func(path string, pass func(), contents, _ *lines) {
		pass()
		writeFile(t, path, "two, half")
		pass()
		writeFile(t, path, "two, half written")
		pass()
		if got := contents.get(); len(got) != 0 {
			t.Errorf("handed on %q while the file was being written", got)
		}
		for range 3 {
			pass()
		}
		if got := contents.get(); !slices.Equal(got, []string{"two, half written"}) {
			t.Errorf("handed on %q, want the settled content once", got)
		}
	})
}

// An edit of the same size within one tick of the file system's clock leaves
// both as they were; the content tells.
func TestEditThatKeepsTimeAndSizeIsSeen(t *testing.T) {
	watching(t, "one", func(path string, pass func(), contents, _ *lines) {
		then := time.Now() // the bubble's now, so that the time counts as fresh
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
		pass()
		writeFile(t, path, "two")
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
		pass()
		pass()
		if got := contents.get(); !slices.Equal(got, []string{"two"}) {
			t.Errorf("handed on %q, want the edit", got)
		}
	})
}

func TestUndoneEditAndTouchAreNoNews(t *testing.T) {
	watching(t, "one", func(path string, pass func(), contents, _ *lines) {
		writeFile(t, path, "two")
		pass()
		writeFile(t, path, "one")
		for range 4 {
			pass()
		}
		if got := contents.get(); len(got) != 0 {
			t.Errorf("handed on %q, want nothing: the file is what it was", got)
		}
	})
}

func TestMissingFileIsToldOnceAndItsReturnIsSeen(t *testing.T) {
	watching(t, "one", func(path string, pass func(), contents, failures *lines) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			pass()
		}
		writeFile(t, path, "two")
		for range 3 {
			pass()
		}
		if got := contents.get(); len(failures.get()) != 1 || !slices.Equal(got, []string{"two"}) {
			t.Errorf("failures %q, contents %q; want one failure, then the new content", failures.get(), got)
		}
	})
}

// Negative control: with a watch that forgets the reason only when it reads the
// file, the second loss of one that came back as it was is not told.
func TestFileThatIsLostAgainIsToldAgain(t *testing.T) {
	watching(t, "one", func(path string, pass func(), _, failures *lines) {
		old := time.Now().Add(-time.Hour) // old enough to be known by its time
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		move := func(from, to string) {
			pass()
			pass()
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
		move(path, path+".away")
		move(path+".away", path)
		move(path, path+".away")
		pass()
		if got := failures.get(); len(got) != 2 {
			t.Errorf("told %q, want both losses", got)
		}
	})
}

func TestWatchRefusesWhatIsNoFile(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "absent.yaml")} {
		if _, _, err := newFileWatch(path, watchEvery); err == nil {
			t.Errorf("a watch of %s was made", path)
		}
	}
}
