package main

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// The README begins with it: 30 lines of code at most, two checks of errors at most, no helper.
func TestProgramIsShort(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range bytes.Lines(program) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			lines++
		}
	}
	if checks := bytes.Count(program, []byte("err != nil")); lines > 30 || checks > 2 || bytes.Count(program, []byte("func ")) > 2 {
		t.Errorf("the quickstart has %d lines of code and %d checks of errors, want at most 30 and 2, and no function but main", lines, checks)
	}
}

// It waits for nothing longer than a second: in fake time the whole of it takes less.
//
// With progress reported by Requeue, which waits as failures do, it stood still for
// minutes.
func TestNothingIsWaitedForLongerThanASecond(t *testing.T) {
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
			if took := time.Since(began); took > time.Second {
				text, err := os.ReadFile(out.Name())
				t.Errorf("it took %v and printed\n%s%v", took, text, err)
			}
		})
		_ = out.Close()
	}
}

// It gets there, prints what the README says, and ends by itself.
func TestProgramConvergesAndEnds(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "quickstart.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), binary).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, err := os.ReadFile("output.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out, want) {
		t.Errorf("it printed\n%s\nwant\n%s", out, want)
	}
}
