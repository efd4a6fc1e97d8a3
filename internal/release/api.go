package main

import (
	"cmp"
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
	base = cmp.Or(base, firstBase)
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
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	var missing []string
	for _, m := range modules {
		if !m.released() || m.Folder == "examples" { // these are there to be read
			continue
		}
		if b, err := readModule(clone, m.Folder); err != nil || b.Path != m.Path {
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
		fmt.Printf("%s since %s:\n%s\n", m.Path, base, cmp.Or(changes, "no changes"))
		missing = append(missing, unnamedChanges(changes, string(changelog))...)
	}
	if missing != nil && released {
		return errors.New("these changes break programs, and CHANGELOG.md does not name them under Unreleased:\n" + strings.Join(missing, "\n"))
	}
	return nil
}

var (
	word = regexp.MustCompile(`\w+`)
	// changed finds the last part of the name that a line of apidiff is about:
	// Add of "- ./queue.(*Queue[K]).Add, method set of *Queue: removed".
	changed = regexp.MustCompile(`^- .*?(\w+)(?:\[[^]]*\])?(?:, method set of [^:]*)?: `)
)

// unnamedChanges returns those of apidiff's incompatible changes whose name the
// changelog does not have in its section of what is unreleased.
func unnamedChanges(changes, changelog string) (missing []string) {
	named := word.FindAllString(unreleasedOf(changelog), -1)
	_, lines, _ := strings.Cut(changes, "Incompatible changes:\n")
	lines, _, _ = strings.Cut(lines, "Compatible changes:")
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		name := changed.FindStringSubmatch(line)
		if line != "" && (name == nil || !slices.Contains(named, name[1])) && !slices.Contains(missing, line) {
			missing = append(missing, line)
		}
	}
	return missing
}
