package guide

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the programs print to their output.txt")

// arguments of the programs that take some. DIR is a directory of the test's.
var arguments = map[string][]string{
	"06-production": {"-db", "DIR/sites.db", "-listen", "127.0.0.1:0", "-check"},
}

// Each program ends by itself, without an error, and prints what the guide says. (That
// the guide shows output.txt is checked in the root module, beside the pages.)
func TestProgramsPrintWhatTheGuideSays(t *testing.T) {
	programs, err := filepath.Glob("*/main.go")
	if err != nil || len(programs) != 8 {
		t.Fatalf("found the programs %v, %v; want 8", programs, err)
	}
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin+string(filepath.Separator), "./...").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, program := range programs {
		name := filepath.Dir(program)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := slices.Clone(arguments[name])
			for i, a := range args {
				args[i] = strings.Replace(a, "DIR", t.TempDir(), 1)
			}
			binary, err := filepath.Glob(filepath.Join(bin, name+"*"))
			if err != nil || len(binary) != 1 {
				t.Fatalf("the program was built as %v, %v", binary, err)
			}
			var out, errs bytes.Buffer
			command := exec.CommandContext(t.Context(), binary[0], args...)
			command.Stdout, command.Stderr = &out, &errs
			if err := command.Run(); err != nil {
				t.Fatalf("%v\n%s%s", err, out.Bytes(), errs.Bytes())
			}
			file := filepath.Join(name, "output.txt")
			if *update {
				if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("it printed\n%s\nwant\n%s", out.Bytes(), want)
			}
		})
	}
}
