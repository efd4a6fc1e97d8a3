package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const guide = "../../docs/guide"

// The pictures in the guide are those of the texts beside them, and a page shows each.
func TestPicturesAreThoseOfTheTexts(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(guide, "0*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	if err := each(guide, func(name, svg string) error {
		have, err := os.ReadFile(name)
		if err != nil || string(have) != svg {
			t.Errorf("%s is not the picture of its text (%v): go run ./internal/diagram", name, err)
		}
		if !strings.Contains(all.String(), "]("+filepath.Base(name)+")") {
			t.Errorf("no page shows %s", name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestDrawAllWritesThePictures(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.diagram"), []byte("graph A\nnode x 0 0 <x>\nnode y 1 0 y\nedge x y bend 9 at 0.2 to & fro\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := drawAll(dir); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "a.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("it is no XML: %v\n%s", err, svg)
		}
	}
	for _, want := range []string{"&lt;x&gt;", "to &amp; fro", "prefers-color-scheme:dark"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the picture lacks %s:\n%s", want, svg)
		}
	}
}

func TestWhatCannotBeDrawnIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"picture A\n":                        "want graph, sequence or chart",
		"graph\n":                            "want graph, sequence or chart",
		"chart A\nline a: 1\n":               "is not axes",
		"chart A\naxes 3 0 x\n":              "want the greatest x",
		"chart A\naxes 3 9 x\nline a: 1 b\n": `value 1 is "b"`,
		"chart A\naxes 3 9 x\nline a: 10\n":  "within the axes",
		"chart A\naxes 3 9 x\nbound a:\n":    "has no values",
		"graph A\nbox x\n":                   "line 2",
		"graph A\nnode x 0 y\n":              "want an id, a column",
		"graph A\nnode x 0 0 x\nedge x y\n":  "want the ids of two nodes",
		"graph A\nnode x 0 0 x\nnode y 0 1 y\nedge x y bend far away now\n": "line 4",
		"sequence A\na -> b: hello\n":                                       "before the actors",
		"sequence A\nactors a b\na -> c: hello\n":                           "want actors",
		"sequence A\nactors a b\nhello\n":                                   "no message",
	} {
		if _, err := draw(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
