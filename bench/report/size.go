package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// sizes builds the two services of bench/size and writes what they weigh, in the
// form of benchmark output: the binary without symbols, the modules linked into
// it, and the modules in the graph of a program that requires the library.
func sizes(dir, tmp string, out io.Writer) error {
	for _, s := range []struct{ name, service, module string }{
		{"tend", "./size/tend", "github.com/tendhq/tend"},
		{"controller-runtime", "./size/controllerruntime", "sigs.k8s.io/controller-runtime"},
	} {
		bin := filepath.Join(tmp, s.name)
		build := exec.Command("go", "build", "-tags", "peers", "-ldflags", "-s -w", "-o", bin, s.service)
		build.Dir, build.Stderr = dir, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("report: build %s: %w", s.service, err)
		}
		info, err := os.Stat(bin)
		if err != nil {
			return err
		}
		deps, err := buildinfo.ReadFile(bin)
		if err != nil {
			return err
		}
		n, err := graph(dir, tmp, s.module)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "BenchmarkSize/impl=%s-1 1 %.1f MB %d linked %d modules 0 foreign-%%\n", s.name, float64(info.Size())/1e6, len(deps.Deps), n)
	}
	return nil
}

// graph counts the modules that a program has in its graph whose go.mod requires
// nothing but the module, the program itself not counted.
func graph(dir, tmp, module string) (int, error) {
	where := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{with .Replace}}{{.Dir}}{{end}}", module)
	where.Dir, where.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := where.Output()
	if err != nil {
		return 0, fmt.Errorf("report: %v: %w", where, err)
	}
	version, path, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	mod := fmt.Sprintf("module consumer\n\ngo %s\n\nrequire %s %s\n", strings.TrimPrefix(runtime.Version(), "go"), module, version)
	if path != "" {
		mod += fmt.Sprintf("replace %s => %s\n", module, path)
	}
	consumer, err := os.MkdirTemp(tmp, "consumer")
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(consumer, "go.mod"), []byte(mod), 0o600); err != nil {
		return 0, err
	}
	list := exec.Command("go", "list", "-m", "all")
	list.Dir, list.Env = consumer, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	all, err := list.Output()
	if err != nil {
		return 0, fmt.Errorf("report: %v for %s: %w", list, module, err)
	}
	return strings.Count(string(all), "\n") - 1, nil
}
