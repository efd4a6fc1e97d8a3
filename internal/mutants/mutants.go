package mutants

import (
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// A Mutant is one way in which the code is broken on purpose.
type Mutant struct {
	// Name says what is wrong. TEND_BROKEN=Name turns it on.
	Name string
	// File, from the repository's root, in which Old, which occurs once, is
	// replaced by New. In New the word BROKEN is true while the mutant is on.
	File, Old, New string
	// Package, from the root, has the Test that must fail then and hold
	// otherwise.
	Package, Test string
	// Args are for the test binary; often none.
	Args []string
}

// Env is the variable that turns a mutant on, by its name.
const Env = "TEND_BROKEN"

// switchFile is added to each package that is edited.
const switchFile = "zz_broken.go"

// Overlay writes into the folder dir what go build -overlay needs to build the
// repository at root with all mutants in it, and gives the name of that file. It
// fails on a mutant that does not fit the code any more.
func Overlay(root, dir string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	edited, err := Apply(root)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	n := 0
	write := func(target, text string) error {
		n++
		name := filepath.Join(dir, fmt.Sprintf("%d.go", n))
		replace[filepath.Join(root, target)] = name
		return os.WriteFile(name, []byte(text), 0o644)
	}
	for file, text := range edited {
		if err := write(file, text); err != nil {
			return "", err
		}
		folder := filepath.Dir(file)
		text = fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar brokenBy = os.Getenv(%q)\n", filepath.Base(folder), Env)
		if err := write(filepath.Join(folder, switchFile), text); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, text, 0o644)
}

// Apply edits the files that mutants change and gives them by name. It writes
// nothing.
func Apply(root string) (map[string]string, error) {
	edited := make(map[string]string)
	for _, m := range All {
		text, ok := edited[m.File]
		if !ok {
			data, err := os.ReadFile(filepath.Join(root, m.File))
			if err != nil {
				return nil, fmt.Errorf("mutant %q: %w", m.Name, err)
			}
			text = string(data)
		}
		if n := strings.Count(text, m.Old); n != 1 {
			return nil, fmt.Errorf("mutant %q: what it replaces is %d times in %s, want once:\n%s", m.Name, n, m.File, m.Old)
		}
		on := fmt.Sprintf("(brokenBy == %q)", m.Name)
		edited[m.File] = strings.Replace(text, m.Old, strings.ReplaceAll(m.New, "BROKEN", on), 1)
	}
	for file, text := range edited {
		if _, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution); err != nil {
			return nil, fmt.Errorf("with its mutants: %w", err)
		}
	}
	return edited, nil
}
