package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "the version to release, such as v0.1.0; without it a release is rehearsed")
	checks := flag.String("checks", ".ci/run", "the `program` that must succeed before a release; a rehearsal does not run it")
	apidiff := flag.String("api", "", "only compare the API with the last release's, by this apidiff `program`")
	side := flag.Bool("beside", false, "only run servers of the last release and of this version side by side")
	old := flag.String("old", "", "with -beside: the `commit` of the older servers; empty: the last release")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	var err error
	switch {
	case *apidiff != "":
		err = compareAPI(".", *apidiff)
	case *side:
		err = beside(".", *old)
	case *version == "":
		err = rehearse(".")
	default:
		err = publish(".", *version, *checks)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// rehearse releases the next minor version and throws the result away. What is not
// committed yet takes part, except for untracked files.
func rehearse(folder string) error {
	root, last, err := repository(folder)
	if err != nil {
		return err
	}
	for _, role := range []string{"AUTHOR", "COMMITTER"} { // CI's git knows no name
		os.Setenv("GIT_"+role+"_NAME", "rehearsal")
		os.Setenv("GIT_"+role+"_EMAIL", "rehearsal@example.com")
	}
	commit, err := output(root, nil, "git", "stash", "create") // a commit of no branch, "" without changes
	if err != nil {
		return err
	}
	clone, remove, err := cloneAt(root, cmp.Or(commit, "HEAD"))
	if err != nil {
		return err
	}
	defer remove()
	_, err = release(root, clone, nextMinor(last), true)
	return err
}

// publish releases a version and takes the commits and tags over into the
// repository once everything has succeeded. It pushes nothing.
func publish(folder, version, checks string) error {
	root, last, err := repository(folder)
	if err != nil {
		return err
	}
	if err := checkVersion(version, last); err != nil {
		return err
	}
	dirty, err := output(root, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if dirty != "" {
		return errors.New("these are not committed:\n" + dirty)
	}
	os.Setenv("TEND_MUTANTS", "1/1") // .ci/run alone has time for the controls of one package
	os.Setenv("TEND_MUTANTS_FOR", "24h")
	run := exec.Command(checks) // its output is of interest while it runs
	run.Dir, run.Stdout, run.Stderr = root, os.Stdout, os.Stderr
	if err := run.Run(); err != nil {
		return fmt.Errorf("%s: %w", checks, err)
	}
	clone, remove, err := cloneAt(root, "HEAD")
	if err != nil {
		return err
	}
	defer remove()
	tags, err := release(root, clone, version, false)
	if err != nil {
		return err
	}
	if err := inTurn(root, nil, "git", []string{"fetch", "--quiet", clone, "HEAD", "refs/tags/*:refs/tags/*"},
		[]string{"merge", "--quiet", "--ff-only", "FETCH_HEAD"}); err != nil {
		return err
	}
	fmt.Printf("%s is released here; to publish it:\n\n\tgit push --atomic origin HEAD %s\n", version, strings.Join(tags, " "))
	return nil
}

// release makes the two commits and the tags of a release in a clone, and tries
// them as a new user would. It returns the tags.
func release(root, clone, version string, rehearsal bool) (tags []string, err error) {
	modules, err := findModules(clone)
	if err != nil {
		return nil, err
	}
	user, err := newUser(root, clone)
	if err != nil {
		return nil, err
	}
	changelog := filepath.Join(clone, "CHANGELOG.md")
	text, err := os.ReadFile(changelog)
	if err != nil {
		return nil, err
	}
	changed, err := releaseSection(string(text), version, time.Now())
	if err != nil {
		return nil, err
	}
	released := slices.DeleteFunc(slices.Clone(modules), func(m goModule) bool { return !m.released() })
	for _, m := range released {
		tags = append(tags, m.tag(version))
	}
	if err := errors.Join(
		os.WriteFile(changelog, []byte(changed), 0o644),
		setVersions(clone, modules, version, true),
		command(clone, nil, "git", "commit", "--quiet", "--all", "--message", "release "+version),
	); err != nil {
		return nil, err
	}
	if err := addSums(clone, released, tags, user); err != nil {
		return nil, err
	}
	if err := user.tryAll(clone, released, version, rehearsal); err != nil {
		return nil, err
	}
	// The next commit is as before the release, with the new versions.
	return tags, errors.Join(
		command(clone, nil, "git", "checkout", "--quiet", "HEAD~1", "--", ":(glob)**/go.mod", ":(glob)**/go.sum"),
		setVersions(clone, modules, version, false),
		command(clone, nil, "git", "commit", "--quiet", "--all", "--message", "after "+version+": modules replace each other again"))
}

// repository returns the root of the repository that folder lies in, and its last version.
func repository(folder string) (root, last string, err error) {
	root, err = output(folder, nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", "", err
	}
	tags, err := output(root, nil, "git", "tag", "--list", "v*")
	return root, lastVersion(strings.Fields(tags)), err
}

// cloneAt returns a clone of the repository with a commit checked out, and a function that removes it.
func cloneAt(root, commit string) (clone string, remove func(), err error) {
	temp, err := os.MkdirTemp("", "tend-release-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(temp) }
	clone = filepath.Join(temp, "tend")
	err = errors.Join(
		command(root, nil, "git", "clone", "--quiet", "--shared", "--no-checkout", root, clone),
		command(clone, nil, "git", "checkout", "--quiet", "--detach", commit))
	if err != nil {
		remove()
	}
	return clone, remove, err
}
