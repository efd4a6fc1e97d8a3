package main

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgramIsShort(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(program, []byte("\n")); n >= 60 {
		t.Errorf("the quickstart has %d lines, want fewer than 60", n)
	}
}

// It never waits longer than a second for anything, and says what it waits for: in
// fake time it takes no more seconds than it prints lines.
//
// With progress reported by Requeue, which climbs the ladder of failures, it stood
// still for minutes.
func TestNothingIsWaitedForLongerThanASecond(t *testing.T) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt) // starts what os/signal runs for ever outside of the bubble
	defer signal.Stop(interrupts)
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	for range 50 {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout = out
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			main()
			text, err := os.ReadFile(out.Name())
			if err != nil {
				t.Fatal(err)
			}
			if lines := bytes.Count(text, []byte("\n")); time.Since(began) > time.Duration(lines)*time.Second {
				t.Errorf("it took %v and printed\n%s", time.Since(began), text)
			}
		})
		_ = out.Close()
	}
}

// It says what it does, gets there in spite of a failure, and ends by itself.
func TestProgramConvergesAndEnds(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "quickstart.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), binary).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range []string{"shop runs 1 of 3\n", "shop runs 2 of 3\n", "shop runs 3 of 3\n", "shop is as declared\n"} {
		if strings.Count(string(out), line) != 1 {
			t.Errorf("it printed\n%s\nwant %q once", out, line)
		}
	}
}
