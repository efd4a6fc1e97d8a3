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

const modulePath = "github.com/tendhq/tend" // by https it is where the go command looks for the modules

// A user gets modules from the tags of a clone, with none of tend's modules in its
// module cache: the go command makes them from the git repository, as it does from
// the public one.
type user struct {
	home string   // a folder in which it works, outside of any module
	env  []string // of the go command
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
	home, cache := filepath.Dir(clone), filepath.Join(root, ".cache", "release")
	u := user{home, []string{
		"GOWORK=off",
		"GOFLAGS=-modcacherw -trimpath", // what is compiled is the same in any folder
		"GOMODCACHE=" + cache,
		"GODEBUG=goindex=0", // the go command's index of the cache believes that a version never changes
		"GOPROXY=file://" + filepath.ToSlash(modcache) + "/cache/download," + proxies,
		"GONOPROXY=" + modulePath,
		"GONOSUMDB=" + modulePath,
		"GOBIN=" + filepath.Join(home, "bin"),
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url." + clone + ".insteadOf",
		"GIT_CONFIG_VALUE_0=https://" + modulePath,
	}}
	return u, errors.Join( // what the cache has of tend
		os.RemoveAll(filepath.Join(cache, "github.com/tendhq")),
		os.RemoveAll(filepath.Join(cache, "cache/download/github.com/tendhq")),
		os.RemoveAll(filepath.Join(cache, "cache/vcs")),
	)
}

// tryAll gets and runs each released module, and the README's first program. In a rehearsal it installs one of
// a module's programs: to compile all takes minutes, and finds only what a build without the workspace does.
func (u user) tryAll(clone string, released []goModule, version string, rehearsal bool) error {
	for _, m := range released {
		began, folder := time.Now(), filepath.Join(clone, m.Folder)
		packages, err := output(folder, u.env, "go", "list", "-f", "{{.Name}} {{.ImportPath}}", "./...")
		if err != nil {
			return err
		}
		// What the tests import must have its sums too. What packages and tests do was tried
		// before, with the workspace and replace directives.
		if err := command(folder, u.env, "go", "list", "-deps", "-test", "./..."); err != nil {
			return err
		}
		libraries := []string{"package main\n"}
		install := []string{"install"} // all at once: the go command finds their dependencies once
		for line := range strings.Lines(packages) {
			switch name, importPath, _ := strings.Cut(strings.TrimSpace(line), " "); {
			case strings.Contains(importPath+"/", "/internal/"):
			case name != "main":
				libraries = append(libraries, fmt.Sprintf("import _ %q", importPath))
			case len(install) == 1 || !rehearsal:
				install = append(install, importPath+"@"+version)
			}
		}
		if len(libraries) > 1 {
			if err := u.runProgram(m, version, strings.Join(libraries, "\n")); err != nil {
				return err
			}
		}
		if len(install) > 1 {
			if err := command(u.home, u.env, "go", install...); err != nil {
				return err
			}
		}
		fmt.Printf("%s@%s: %d packages imported, %d commands installed (%v)\n",
			m.Path, version, len(libraries)-1, len(install)-1, time.Since(began).Round(time.Second))
	}
	return command(u.home, u.env, "go", "run", modulePath+"/examples/quickstart@"+version)
}

//go:embed testdata
var testdata embed.FS

// programs has programs to run on modules.
var programs fs.FS = testdata

// program is the name of a module's program: testdata/tend-store-etcd.go.
func (m goModule) program() string {
	return "testdata/" + strings.ReplaceAll(strings.TrimPrefix(m.Path, path.Dir(modulePath)+"/"), "/", "-") + ".go"
}

// runProgram gets a module into an empty one, and runs a program there that imports
// all of the module's packages and does what programs has for it.
func (u user) runProgram(m goModule, version, imports string) error {
	program, err := fs.ReadFile(programs, m.program())
	if errors.Is(err, fs.ErrNotExist) {
		program, err = []byte("package main\n\nfunc main() {}\n"), nil
	}
	folder := filepath.Join(u.home, "use", m.tag(version))
	if err := errors.Join(err,
		os.MkdirAll(folder, 0o755),
		os.WriteFile(filepath.Join(folder, "main.go"), program, 0o644),
		os.WriteFile(filepath.Join(folder, "imports.go"), []byte(imports), 0o644),
	); err != nil {
		return err
	}
	return inTurn(folder, u.env, "go",
		[]string{"mod", "init", "example.com/user"}, []string{"get", m.Path + "@" + version}, []string{"mod", "tidy"}, []string{"run", "."})
}
