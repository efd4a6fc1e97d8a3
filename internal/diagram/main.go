// Command diagram draws the guide's pictures from text: for each docs/guide/NAME.diagram
// it writes docs/guide/NAME.svg, which is readable on a light and on a dark page. A test
// checks that the pictures are those of the text.
//
//	go run ./internal/diagram
//
// A picture is a graph, a sequence or a chart, as its first line says. Lines of a graph:
//
//	node ID COLUMN ROW LABEL
//	edge FROM TO [bend N] [at T] LABEL     N pixels to the right of the straight line; the label at T of its length
//
// Lines of a sequence, from top to bottom:
//
//	actors ID ID …                         from left to right; an underscore stands for a blank
//	FROM -> TO: TEXT
//	ID: TEXT                               what ID does by itself
//	phase TEXT
//
// Lines of a chart:
//
//	axes X Y NAME                          the greatest values, and what x is
//	line NAME: Y Y …                       the values of x = 0, 1, 2 and so on
//	bound NAME: Y Y …                      the same, dashed
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := drawAll("docs/guide"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func drawAll(folder string) error {
	return each(folder, func(name, svg string) error { return os.WriteFile(name, []byte(svg), 0o644) })
}

// each calls f with the picture of every text in the folder, and the picture's file.
func each(folder string, f func(name, svg string) error) error {
	texts, err := filepath.Glob(filepath.Join(folder, "*.diagram"))
	if err != nil || len(texts) == 0 {
		return fmt.Errorf("%s has the texts %v: %w", folder, texts, err)
	}
	for _, text := range texts {
		data, err := os.ReadFile(text)
		if err != nil {
			return err
		}
		svg, err := draw(string(data))
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		if err := f(strings.TrimSuffix(text, ".diagram")+".svg", svg); err != nil {
			return err
		}
	}
	return nil
}

// draw makes an SVG of a text.
func draw(text string) (string, error) {
	var c canvas
	first, rest, _ := strings.Cut(text, "\n")
	kind, title, _ := strings.Cut(first, " ")
	line := map[string]func(string) error{"graph": c.graphLine, "sequence": c.sequenceLine, "chart": c.chartLine}[kind]
	if line == nil || title == "" {
		return "", fmt.Errorf("the first line is %q, want graph, sequence or chart, and a title", first)
	}
	c.title = title
	for i, s := range strings.Split(rest, "\n") {
		if s = strings.TrimSpace(s); s == "" || strings.HasPrefix(s, "#") {
			continue
		}
		if err := line(s); err != nil {
			return "", fmt.Errorf("line %d: %w", i+2, err)
		}
	}
	return c.svg(), nil
}
