package main

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A goModule is one go.mod file of the repository.
type goModule struct {
	Folder   string // within the repository, with slashes; "." for the root
	Path     string
	Requires []string // the paths of the repository's modules that it requires
}

// released tells whether the module is part of a release: a new one need not be added to a list.
func (m goModule) released() bool {
	top, _, _ := strings.Cut(m.Folder, "/")
	return top != "bench" && top != "internal"
}

// tag is the name by which the go command looks for a version of the module.
func (m goModule) tag(version string) string { return path.Join(m.Folder, version) }

// findModules returns the modules of the go.mod files that git tracks, each after
// those that it requires.
func findModules(root string) ([]goModule, error) {
	files, err := output(root, nil, "git", "ls-files", ":(glob)**/go.mod")
	if err != nil {
		return nil, err
	}
	var found []goModule
	for file := range strings.FieldsSeq(files) {
		m, err := readModule(root, path.Dir(file))
		if err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	return inOrder(found)
}

func readModule(root, folder string) (goModule, error) {
	text, err := output(filepath.Join(root, folder), nil, "go", "mod", "edit", "-json")
	if err != nil {
		return goModule{}, err
	}
	var file struct {
		Module  struct{ Path string }
		Require []struct{ Path string }
	}
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		return goModule{}, fmt.Errorf("%s/go.mod: %w", folder, err)
	}
	m := goModule{Folder: folder, Path: file.Module.Path}
	for _, r := range file.Require {
		if strings.HasPrefix(r.Path+"/", modulePath+"/") {
			m.Requires = append(m.Requires, r.Path)
		}
	}
	return m, nil
}

// inOrder sorts modules so that each stands after those that it requires.
func inOrder(modules []goModule) (sorted []goModule, err error) {
	done := map[string]bool{}
	for len(sorted) < len(modules) {
		before := len(sorted)
		for _, m := range modules {
			if !done[m.Path] && !slices.ContainsFunc(m.Requires, func(p string) bool { return !done[p] }) {
				done[m.Path] = true
				sorted = append(sorted, m)
			}
		}
		if len(sorted) == before {
			return nil, fmt.Errorf("modules require each other in a circle; only %d of %d do not", before, len(modules))
		}
	}
	return sorted, nil
}

// setVersions makes every module require the others by version. If tagged, the
// released modules lose their replace directives: the go command ignores those of
// a dependency, and does not run a program by version whose module has one.
func setVersions(clone string, modules []goModule, version string, tagged bool) error {
	for _, m := range modules {
		edit := []string{"mod", "edit"}
		for _, p := range m.Requires {
			edit = append(edit, "-require="+p+"@"+version)
			if tagged && m.released() {
				edit = append(edit, "-dropreplace="+p)
			}
		}
		if len(m.Requires) > 0 {
			if err := command(filepath.Join(clone, m.Folder), nil, "go", edit...); err != nil {
				return err
			}
		}
	}
	return nil
}

// addSums puts the checksums of the released modules into the go.sum files of
// those that require them, so that the release commit builds without a workspace,
// and tags the commit. A module's checksum covers its own go.sum: the modules come in the
// order of their requirements, and for each the commit and its tags are made again.
func addSums(clone string, released []goModule, tags []string, user user) error {
	for _, m := range released {
		if len(m.Requires) > 0 {
			if err := command(filepath.Join(clone, m.Folder), user.env, "go", "mod", "tidy"); err != nil {
				return err
			}
		}
		steps := [][]string{{"commit", "--quiet", "--all", "--amend", "--no-edit"}}
		for _, t := range tags {
			steps = append(steps, []string{"update-ref", "refs/tags/" + t, "HEAD"})
		}
		if err := inTurn(clone, nil, "git", steps...); err != nil {
			return err
		}
	}
	return nil
}
