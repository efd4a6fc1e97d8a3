package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
