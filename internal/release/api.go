package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// firstBase is what changes of the API are counted from until there is a release.
const firstBase = "5976009"

// compareAPI prints what has changed in the API of the released modules since the
// last release, and returns an error unless the CHANGELOG's section of what is
// unreleased names every change that breaks a user's program; before the first release
// there is no such program. apidiff is the path of golang.org/x/exp/cmd/apidiff.
func compareAPI(folder, apidiff string) error {
	root, base, err := repository(folder)
	if err != nil {
		return err
	}
	released := base != ""
	if !released {
		base = firstBase
	}
	if err := command(root, nil, "git", "cat-file", "-e", base+"^{commit}"); err != nil {
		fmt.Printf("no release, and no commit %s, in this repository: nothing to compare with\n", base)
		return nil
	}
	if apidiff, err = filepath.Abs(apidiff); err != nil {
		return err
	}
	clone, remove, err := cloneAt(root, base)
	if err != nil {
		return err
	}
	defer remove()
	modules, err := findModules(root)
	if err != nil {
		return err
	}
	before, err := findModules(clone)
	if err != nil {
		return err
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	var missing []string
	for _, m := range modules {
		if !m.hasAPI() {
			continue
		}
		if !slices.ContainsFunc(before, func(b goModule) bool { return b.Path == m.Path && b.Folder == m.Folder }) {
			fmt.Printf("%s: new since %s\n", m.Path, base)
			continue
		}
		var env []string
		if len(m.Requires) == 0 {
			env = []string{"GOWORK=off"} // in a workspace, the packages below the root's path are those of all modules
		}
		old := filepath.Join(clone, "api")
		if err := command(filepath.Join(clone, m.Folder), env, apidiff, "-m", "-w", old, m.Path); err != nil {
			return err
		}
		changes, err := output(filepath.Join(root, m.Folder), env, apidiff, "-m", old, m.Path)
		if err != nil {
			return err
		}
		if changes == "" {
			changes = "no changes"
		}
		fmt.Printf("%s since %s:\n%s\n", m.Path, base, changes)
		missing = append(missing, unnamedChanges(changes, string(changelog))...)
	}
	if missing != nil && released {
		return errors.New("these changes break programs, and CHANGELOG.md does not name them under Unreleased:\n" + strings.Join(missing, "\n"))
	}
	return nil
}

// hasAPI tells whether users import the module: the examples are there to be read.
func (m goModule) hasAPI() bool { return m.released() && m.Folder != "examples" }

var (
	incompatible = regexp.MustCompile(`(?s)Incompatible changes:\n(.*?)(?:Compatible changes:|$)`)
	word         = regexp.MustCompile(`\w+`)
)

// unnamedChanges returns those of apidiff's incompatible changes whose name the
// changelog does not have in its section of what is unreleased.
func unnamedChanges(changes, changelog string) (missing []string) {
	_, rest, _ := strings.Cut(changelog, unreleased)
	section, _ := cutSection(rest)
	named := word.FindAllString(section, -1)
	found := incompatible.FindStringSubmatch(changes)
	if found == nil {
		return nil
	}
	for line := range strings.Lines(found[1]) {
		line = strings.TrimSpace(line)
		if line != "" && !slices.Contains(named, changedName(line)) && !slices.Contains(missing, line) {
			missing = append(missing, line)
		}
	}
	return missing
}

// changedName returns the last part of the name that a line of apidiff is about:
// Add of "- ./queue.(*Queue[K]).Add, method set of *Queue: removed".
func changedName(line string) string {
	name, _, _ := strings.Cut(line, ": ")
	name, _, _ = strings.Cut(name, ", method set of ")
	parts := word.FindAllString(name, -1)
	if parts == nil {
		return line
	}
	return parts[len(parts)-1]
}
