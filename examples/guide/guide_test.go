package guide

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
)

var update = flag.Bool("update", false, "write what the programs print to their output.txt")

// arguments of the programs that take some. DIR is a directory of the program's.
var arguments = map[string][]string{
	"06-production": {"-db", "file:DIR/sites.db", "-traces", "DIR/traces.json", "-listen", "127.0.0.1:0", "-check"},
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
			args, dir := slices.Clone(arguments[name]), t.TempDir()
			for i, a := range args {
				args[i] = strings.Replace(a, "DIR", dir, 1)
			}
			if name == "06-production" {
				declareSite(t, filepath.Join(dir, "sites.db"))
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
			if name == "06-production" {
				spansAreWritten(t, filepath.Join(dir, "traces.json"))
			}
		})
	}
}

// declareSite gives the service something to run.
func declareSite(t *testing.T, db string) {
	t.Helper()
	b, err := file.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	type spec struct{ Servers int }
	sites, err := store.New[spec, struct{}](b, "site", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sites.Create(t.Context(), &store.Object[spec, struct{}]{Meta: store.Meta{Name: "shop"}, Spec: spec{Servers: 3}}); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// spansAreWritten looks for the site's run and, in its trace, the write of its status.
func spansAreWritten(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := map[string][]string{} // trace → names of its spans
	for spans := json.NewDecoder(f); ; {
		var span struct {
			Name        string
			SpanContext struct{ TraceID string }
		}
		if err := spans.Decode(&span); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		names[span.SpanContext.TraceID] = append(names[span.SpanContext.TraceID], span.Name)
	}
	for _, trace := range names {
		if slices.Contains(trace, "reconcile site") && slices.Contains(trace, "store commit") {
			return
		}
	}
	t.Errorf("no trace has a run and its write: %v", names)
}
