package main

import (
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// The whole of it on a small repository: a root module, one that requires it, one
// of programs that requires both, and one that is not released.
func TestReleaseIsOneCommitOfAllModules(t *testing.T) {
	root := smallRepository(t)
	before := git(t, root, "rev-parse", "HEAD")
	if err := publish(root, "v0.1.0", "true"); err != nil {
		t.Fatal(err)
	}
	if got, want := git(t, root, "tag"), "examples/v0.1.0\nstore/deep/v0.1.0\nv0.1.0"; got != want {
		t.Errorf("tags are\n%s\nwant\n%s", got, want)
	}
	for _, tag := range []string{"v0.1.0", "store/deep/v0.1.0", "examples/v0.1.0"} {
		if got, want := git(t, root, "rev-parse", tag), git(t, root, "rev-parse", "HEAD~1"); got != want {
			t.Errorf("%s is at %s, want the last commit but one, %s", tag, got, want)
		}
	}
	if got := git(t, root, "rev-parse", "HEAD~2"); got != before {
		t.Errorf("the release was made from %s, want %s", got, before)
	}
	for _, file := range []string{"store/deep/go.mod", "examples/go.mod"} {
		released, after := git(t, root, "show", "HEAD~1:"+file), git(t, root, "show", "HEAD:"+file)
		if strings.Contains(released, "replace") || strings.Contains(released, "v0.0.0") {
			t.Errorf("%s is released as\n%s", file, released)
		}
		if !strings.Contains(after, "replace") || strings.Contains(after, "v0.0.0") {
			t.Errorf("%s after the release is\n%s", file, after)
		}
	}
	if bench := git(t, root, "show", "HEAD~1:bench/go.mod"); !strings.Contains(bench, "replace") {
		t.Errorf("bench is not released, and its go.mod is\n%s", bench)
	}
	if sums := git(t, root, "show", "HEAD~1:examples/go.sum"); strings.Count(sums, " v0.1.0 h1:") != 2 {
		t.Errorf("examples is released with the checksums\n%s\nwant those of both others", sums)
	}
	if changes := git(t, root, "show", "HEAD~1:CHANGELOG.md"); !strings.Contains(changes, "## Unreleased\n\n## v0.1.0 (") {
		t.Errorf("the released CHANGELOG is\n%s", changes)
	}
	if dirty := git(t, root, "status", "--porcelain"); dirty != "" {
		t.Errorf("the release leaves behind\n%s", dirty)
	}
	if err := publish(root, "v0.1.0", "true"); err == nil {
		t.Error("one version is released twice")
	}
}

// What a user cannot get is not released, and nothing is left of the attempt.
func TestReleaseThatCannotBeFetchedIsNone(t *testing.T) {
	root := smallRepository(t)
	// The workspace and the replace directives hide that bench is not released.
	write(t, root, "examples/fleet/fleet.go", "package fleet\n\nimport _ \"github.com/tendhq/tend/bench\"\n")
	write(t, root, "examples/go.mod", strings.ReplaceAll(read(t, root, "examples/go.mod"), "v0.0.0\n)", "v0.0.0\n\tgithub.com/tendhq/tend/bench v0.0.0\n)")+
		"replace github.com/tendhq/tend/bench => ../bench\n")
	commit(t, root)
	before := git(t, root, "rev-parse", "HEAD")
	if err := publish(root, "v0.1.0", "true"); err == nil {
		t.Error("a module that requires one that is not released is released")
	}
	if head, tags := git(t, root, "rev-parse", "HEAD"), git(t, root, "tag"); head != before || tags != "" {
		t.Errorf("a failed release leaves commit %s, want %s, and tags %q", head, before, tags)
	}
}

// A tag on the go.mod files as they are between releases cannot be fetched.
func TestUserCannotGetModulesThatReplaceEachOther(t *testing.T) {
	root := smallRepository(t)
	clone, remove, err := cloneAt(root, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	for _, tag := range []string{"v0.1.0", "store/deep/v0.1.0", "examples/v0.1.0"} {
		git(t, clone, "tag", tag)
	}
	modules, err := findModules(clone)
	if err != nil {
		t.Fatal(err)
	}
	u, err := newUser(root, clone)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		err := u.tryAll(clone, []goModule{m}, "v0.1.0", false)
		if m.released() && err == nil {
			t.Errorf("%s is fetched although a replace directive hides what it requires", m.Path)
		}
	}
}

func TestChecksComeBeforeARelease(t *testing.T) {
	root := smallRepository(t)
	if err := publish(root, "v0.1.0", "false"); err == nil {
		t.Error("released although the checks failed")
	}
	write(t, root, "doc.go", "package tend // changed\n")
	if err := publish(root, "v0.1.0", "true"); err == nil || !strings.Contains(err.Error(), "doc.go") {
		t.Errorf("released with a change that is not committed: %v", err)
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		version, last string
		ok            bool
	}{
		{"v0.1.0", "", true},
		{"v0.10.0", "v0.9.1", true},
		{"v0.9.1", "v0.9.1", false},
		{"v0.9.0", "v0.10.0", false},
		{"0.1.0", "", false},
		{"v0.1", "", false},
		{"v2.0.0", "v1.0.0", false},
		{"v0.1.0; rm", "", false},
	} {
		if err := checkVersion(c.version, c.last); (err == nil) != c.ok {
			t.Errorf("checkVersion(%q, %q) = %v, want ok %v", c.version, c.last, err, c.ok)
		}
	}
	if got := lastVersion([]string{"v0.2.0", "v0.10.0", "v0.9.0", "vision"}); got != "v0.10.0" {
		t.Errorf("the last version is %q, want v0.10.0", got)
	}
	if got := nextMinor("v0.10.3"); got != "v0.11.0" {
		t.Errorf("after v0.10.3 comes %q, want v0.11.0", got)
	}
}

func TestChangelogSection(t *testing.T) {
	day := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	const head = "# Changelog\n\nText.\n\n## Unreleased\n"
	for _, c := range []struct{ name, text, want string }{
		{"the first", head + "\n- one\n\n### Fixed\n\n- two\n", head + "\n## v0.2.0 (2026-11-22)\n\n- one\n\n### Fixed\n\n- two\n"},
		{
			"over an older one", head + "\n- one\n\n## v0.1.0 (2026-10-01)\n\n- old\n",
			head + "\n## v0.2.0 (2026-11-22)\n\n- one\n\n## v0.1.0 (2026-10-01)\n\n- old\n",
		},
		{"none", "# Changelog\n", ""},
		{"nothing", head + "\n## v0.1.0 (2026-10-01)\n\n- old\n", ""},
	} {
		got, err := releaseSection(c.text, "v0.2.0", day)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: got %v and\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
}

func TestBreakingChangesAreNamedInTheChangelog(t *testing.T) {
	const changes = `Incompatible changes:
- ./queue.(*Queue[K]).Add, method set of *Queue: removed
- ./queue.(*Queue[K]).Add: changed from func(K) to func(K, int)
- ./store.Options.Limit: removed
- package github.com/tendhq/tend/gone: removed
Compatible changes:
- ./store.More: added
`
	for _, c := range []struct {
		name, section string
		missing       int
	}{
		{"none", "", 4},
		{"all", "- `queue.Add` takes a priority.\n- `Options.Limit` is gone, and so is package gone.\n", 0},
		{"but one", "- `queue.Add` takes a priority. `Limit` went.\n", 1},
		{"in parts of words", "- `AddAll`, `Limits`, begone\n", 4},
		{"in an older section", "## v0.1.0\n\n- Add, Limit, gone\n", 4},
	} {
		missing := unnamedChanges(changes, "# Changelog\n\n## Unreleased\n\n"+c.section)
		if len(missing) != c.missing {
			t.Errorf("%s: %d are not named, want %d: %q", c.name, len(missing), c.missing, missing)
		}
	}
	if missing := unnamedChanges("Compatible changes:\n- ./store.More: added\n", ""); missing != nil {
		t.Errorf("compatible changes are asked for: %q", missing)
	}
}

func TestModulesComeAfterWhatTheyRequire(t *testing.T) {
	sorted, err := inOrder([]goModule{
		{Path: "examples", Requires: []string{"root", "store"}}, {Path: "store", Requires: []string{"root"}}, {Path: "root"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"root", "store", "examples"} {
		if sorted[i].Path != want {
			t.Errorf("module %d is %s, want %s", i, sorted[i].Path, want)
		}
	}
	if _, err := inOrder([]goModule{{Path: "a", Requires: []string{"b"}}, {Path: "b", Requires: []string{"a"}}}); err == nil {
		t.Error("a circle of requirements is put in order")
	}
}

// Released modules have versions of their own: with a newer root, an older nested
// module must still build, so it may use what is exported and documented only.
func TestNoReleasedModuleImportsAnotherOnesInternals(t *testing.T) {
	root, err := output(".", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := findModules(root)
	if err != nil {
		t.Fatal(err)
	}
	released := 0
	for _, m := range modules {
		if !m.released() {
			continue
		}
		released++
		for _, found := range foreignInternals(t, filepath.Join(root, m.Folder), m.Path) {
			t.Errorf("module %s: %s", m.Path, found)
		}
	}
	if released < 4 {
		t.Errorf("%d released modules, want the root, store/etcd, tracing and examples at least", released)
	}

	// The negative control: a module that does.
	folder := t.TempDir()
	write(t, folder, "go.mod", "module "+modulePath+"/store/deep\n")
	write(t, folder, "deep.go", "package deep\n\nimport _ \""+modulePath+"/internal/sleep\"\n")
	if found := foreignInternals(t, folder, modulePath+"/store/deep"); len(found) != 1 {
		t.Errorf("an import of the root's internal/sleep is found as %q", found)
	}
}

// The program of a module that was moved would never be run again, as that of tracing was not.
func TestEachProgramIsOfAModule(t *testing.T) {
	modules, err := findModules("../..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(testdata, "testdata/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if !slices.ContainsFunc(modules, func(m goModule) bool { return m.released() && m.program() == file }) {
			t.Errorf("%s is run for no module", file)
		}
	}
}

// foreignInternals returns the imports of internal packages of another module.
func foreignInternals(t *testing.T, folder, module string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if dir != folder {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return fs.SkipDir
			}
		}
		p, _ := build.ImportDir(dir, 0) // without Go files it has no imports
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if strings.HasPrefix(imp, modulePath+"/") && strings.Contains(imp+"/", "/internal/") && !strings.HasPrefix(imp, module+"/") {
				found = append(found, path.Base(dir)+" imports "+imp)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// smallRepository returns a repository of four small modules.
func smallRepository(t *testing.T) string {
	t.Helper()
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "Test")
		t.Setenv("GIT_"+who+"_EMAIL", "test@example.com")
	}
	programs = fstest.MapFS{} // those of testdata need more than there is here
	t.Cleanup(func() { programs = testdata })
	root := t.TempDir()
	git(t, root, "init", "--quiet")
	write(t, root, ".gitignore", "/.cache/\n")
	write(t, root, "go.work", "go 1.26.0\n\nuse (\n\t.\n\t./bench\n\t./examples\n\t./store/deep\n)\n")
	write(t, root, "CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- all\n")
	write(t, root, "go.mod", "module "+modulePath+"\n\ngo 1.26.0\n")
	write(t, root, "doc.go", "package tend\n")
	write(t, root, "store/store.go", "package store\n\nconst Text = \"stored\"\n")
	write(t, root, "store/deep/deep.go", "package deep\n\nimport \""+modulePath+"/store\"\n\nconst Text = store.Text\n")
	write(t, root, "store/deep/go.mod", requiring("store/deep", "../..", ""))
	write(t, root, "examples/quickstart/main.go", "package main\n\nimport (\n\t\""+modulePath+"/store\"\n\t\""+modulePath+"/store/deep\"\n)\n\nfunc main() { println(store.Text + deep.Text) }\n")
	write(t, root, "examples/go.mod", requiring("examples", "..", "store/deep"))
	write(t, root, "bench/bench.go", "package bench\n\nimport _ \""+modulePath+"/store\"\n")
	write(t, root, "bench/go.mod", requiring("bench", "..", ""))
	for _, m := range []string{"store/deep", "examples", "bench"} {
		write(t, root, m+"/go.sum", "")
	}
	commit(t, root)
	return root
}

// requiring returns the go.mod file of a module that requires the root, and one
// more, as between releases: by no version, and replaced by a folder.
func requiring(name, toRoot, more string) string {
	text := "module " + modulePath + "/" + name + "\n\ngo 1.26.0\n\nrequire (\n\t" + modulePath + " v0.0.0\n)\nreplace " + modulePath + " => " + toRoot + "\n"
	if more != "" {
		text = strings.Replace(text, "v0.0.0\n", "v0.0.0\n\t"+modulePath+"/"+more+" v0.0.0\n", 1) +
			"replace " + modulePath + "/" + more + " => " + toRoot + "/" + more + "\n"
	}
	return text
}

func commit(t *testing.T, root string) {
	t.Helper()
	git(t, root, "add", "--all")
	git(t, root, "commit", "--quiet", "--message", "a change")
}

func git(t *testing.T, folder string, args ...string) string {
	t.Helper()
	text, err := output(folder, nil, "git", args...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	name = filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
