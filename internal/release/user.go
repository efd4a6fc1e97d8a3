package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

const (
	origin     = "https://github.com/tendhq/tend" // where the go command looks for the modules
	modulePath = "github.com/tendhq/tend"
)

// A user gets modules from the tags of a clone, with none of tend's modules in its
// module cache: the go command makes them from the git repository, as it does from
// the public one.
type user struct {
	home  string   // a folder in which it works, outside of any module
	cache string   // its module cache
	env   []string // of the go command
}

// newUser returns the user of a clone. Other modules than tend's come from this
// machine's module cache where they are there; the user's own cache is kept in
// .cache, so that the next time they need not be unpacked.
func newUser(root, clone string) (user, error) {
	shared, err := output(clone, nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return user{}, err
	}
	modcache, proxies, _ := strings.Cut(shared, "\n")
	u := user{home: filepath.Dir(clone), cache: filepath.Join(root, ".cache", "release")}
	u.env = []string{
		"GOWORK=off",
		"GOFLAGS=-modcacherw -trimpath", // what is compiled is the same in any folder
		"GOMODCACHE=" + u.cache,
		"GODEBUG=goindex=0", // the go command's index of the cache believes that a version never changes
		"GOPROXY=file://" + filepath.ToSlash(modcache) + "/cache/download," + proxies,
		"GONOPROXY=" + modulePath,
		"GONOSUMDB=" + modulePath,
		"GOBIN=" + filepath.Join(u.home, "bin"),
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url." + clone + ".insteadOf",
		"GIT_CONFIG_VALUE_0=" + origin,
	}
	return u, u.forget()
}

// forget removes what the module cache has of tend.
func (u user) forget() error {
	return errors.Join(
		os.RemoveAll(filepath.Join(u.cache, "github.com/tendhq")),
		os.RemoveAll(filepath.Join(u.cache, "cache/download/github.com/tendhq")),
		os.RemoveAll(filepath.Join(u.cache, "cache/vcs")),
	)
}

// tryAll gets and runs each released module, and the README's first program. In a rehearsal it installs one of
// a module's programs: to compile all takes minutes, and finds only what a build without the workspace does.
func (u user) tryAll(clone string, modules []goModule, version string, rehearsal bool) error {
	for _, m := range modules {
		if !m.released() {
			continue
		}
		began := time.Now()
		folder := filepath.Join(clone, m.Folder)
		libraries, commands, err := u.packages(folder)
		if err != nil {
			return err
		}
		// What the tests import must have its sums too. What packages and tests do was tried
		// before, with the workspace and replace directives.
		if _, err := output(folder, u.env, "go", "list", "-deps", "-test", "./..."); err != nil {
			return err
		}
		if rehearsal && len(commands) > 1 {
			commands = commands[:1]
		}
		if len(libraries) > 0 {
			if err := u.runProgram(m, version, libraries); err != nil {
				return err
			}
		}
		install := []string{"install"} // all at once: the go command finds their dependencies once
		for _, p := range commands {
			install = append(install, p+"@"+version)
		}
		if len(commands) > 0 {
			if err := command(u.home, u.env, "go", install...); err != nil {
				return err
			}
		}
		fmt.Printf("%s@%s: %d packages imported, %d commands installed (%v)\n",
			m.Path, version, len(libraries), len(commands), time.Since(began).Round(time.Second))
	}
	return command(u.home, u.env, "go", "run", modulePath+"/examples/quickstart@"+version)
}

// packages returns the import paths of a module's packages that others may import,
// and of its programs.
func (u user) packages(folder string) (libraries, commands []string, err error) {
	text, err := output(folder, u.env, "go", "list", "-f", "{{.Name}} {{.ImportPath}}", "./...")
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(text) {
		name, importPath, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.Contains(importPath+"/", "/internal/"):
		case name == "main":
			commands = append(commands, importPath)
		default:
			libraries = append(libraries, importPath)
		}
	}
	return libraries, commands, nil
}

//go:embed testdata
var testdata embed.FS

// programs has a program to run on a module, by the module's name.
var programs fs.FS = testdata

// runProgram gets a module into an empty one, and runs a program there that imports
// all of the module's packages and does what programs has for it.
func (u user) runProgram(m goModule, version string, libraries []string) error {
	name := strings.ReplaceAll(strings.TrimPrefix(m.Path, path.Dir(modulePath)+"/"), "/", "-") // tend-store-etcd
	program, err := fs.ReadFile(programs, "testdata/"+name+".go")
	if errors.Is(err, fs.ErrNotExist) {
		program = []byte("package main\n\nfunc main() {}\n")
	} else if err != nil {
		return err
	}
	var imports strings.Builder
	imports.WriteString("package main\n\n")
	for _, l := range libraries {
		fmt.Fprintf(&imports, "import _ %q\n", l)
	}
	folder := filepath.Join(u.home, "use-"+name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(folder, "main.go"), program, 0o644),
		os.WriteFile(filepath.Join(folder, "imports.go"), []byte(imports.String()), 0o644),
	); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/user"},
		{"get", m.Path + "@" + version},
		{"mod", "tidy"},
		{"run", "."},
	} {
		if err := command(folder, u.env, "go", args...); err != nil {
			return err
		}
	}
	return nil
}
