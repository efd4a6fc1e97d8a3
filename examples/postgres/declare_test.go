package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An empty file, as a template or an editor that failed leaves it, does not say that every
// database should be dropped, and neither does one of which a part would not be read.
func TestBrokenFileIsRefusedWhole(t *testing.T) {
	for text, want := range map[string]string{
		"roles: {a: {logn: true}}": "logn",
		"roles: [a]":               "line 1: cannot construct",
		"roles: {'': {}}":          `role "": the name has 0 bytes`,
		"databases: {a: {}}":       `database "a": owner is missing`,
		"roles: {" + strings.Repeat("a", 64) + ": {}}":        "64 bytes; expected 1 to 63",
		"roles: {a: {connections: -1}}":                       "connections is -1",
		"databases: {a: {owner: a, connections: 1073741824}}": "expected 0 to 1073741823",
		"":                                      "neither roles nor databases",
		"# all of it comes later\n":             "neither roles nor databases",
		"roles:\ndatabases:\n":                  "neither roles nor databases",
		"roles: {a: {}}\n---\nroles: {b: {}}\n": "more than one document",
		"roles: {a: {}}\n---\n[\n":              "more than one document",
	} {
		file := filepath.Join(t.TempDir(), "declared.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readDeclared(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := parseDeclared([]byte("roles: {}\n")); err != nil {
		t.Errorf("a file that says that there are none is refused: %v", err)
	}
	if _, err := readDeclared(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestFlagsThatCannotWorkAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"now":                "unexpected argument",
		"-poll 0":            "above zero",
		"-timeout -1s -once": "above zero",
		"-store file:x":      "needs -dsn",
	} {
		if _, err := parseOptions(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// What is wrong with a DSN is said without the password in it.
func TestPasswordOfABadDSNIsNotRepeated(t *testing.T) {
	for _, dsn := range []string{
		"postgres://me:canary-password@host:notaport/db",
		"postgres://me:canary-password@[/db",
		"host=h user=me password=canary-password port=z",
		"host=h user=me password='canary-password' sslmode=what",
	} {
		if _, err := newSession(dsn, "demo", nil); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
