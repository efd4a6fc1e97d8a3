package guide

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What the Containerfile's image gives to the program, without a container engine: a root
// with nothing in it but what the file copies, a new volume, the image's user without rights
// and no environment. (The images themselves are not fetched.) Nothing else may make the
// volume the user's: with "VOLUME /data" alone, as the file was, the engine makes the folder,
// for root, and the program could not make its file.
func TestProductionProgramRunsInAnEmptyImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may change the root directory")
	}
	root := t.TempDir()
	for at := root; at != filepath.Clean(os.TempDir()); at = filepath.Dir(at) { // the user must reach it
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	entry := layOut(t, "06-production", root)
	const nonroot = 65532 // of the base image
	entry = append(entry, "-listen", "127.0.0.1:0", "-check")
	run := exec.CommandContext(t.Context(), entry[0], entry[1:]...)
	run.Env = []string{}
	run.Dir = "/"
	run.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nonroot, Gid: nonroot}}
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(root, "data/sites.db")); err != nil {
		t.Errorf("nothing was kept on the volume: %v", err)
	}
}

// layOut does what a Containerfile of two stages says, in place of an engine, and returns the
// entry point. What it does not know fails the test.
func layOut(t *testing.T, program, root string) (entry []string) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(program, "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	build := t.TempDir() // the first stage's root
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		arg := strings.Fields(rest)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == "FROM docker.io/library/golang:1.26 AS build", line == "WORKDIR /src", line == "COPY . .":
		case line == "FROM gcr.io/distroless/static-debian12:nonroot", word == "EXPOSE", line == "STOPSIGNAL SIGTERM":
		case line == "RUN CGO_ENABLED=0 go build -trimpath -o /sites .":
			// Without -trimpath, which changes no behaviour and has all packages compiled once more.
			compile := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(build, "sites"), "./"+program)
			compile.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := compile.CombinedOutput(); err != nil {
				t.Fatalf("go build: %v\n%s", err, out)
			}
		case strings.HasPrefix(line, "RUN mkdir ") && len(arg) == 2:
			check(os.Mkdir(filepath.Join(build, arg[1]), 0o755))
		case strings.HasPrefix(line, "COPY --from=build "):
			uid := 0
			if arg[1] == "--chown=65532:65532" {
				uid, arg = 65532, arg[1:]
			}
			to := filepath.Join(root, arg[2])
			check(os.Rename(filepath.Join(build, arg[1]), to)) // a file, or an empty folder
			check(os.Chown(to, uid, uid))
		case word == "VOLUME": // a new one takes content, owner and mode of the image's folder
			check(os.MkdirAll(filepath.Join(root, rest), 0o755))
		case word == "ENTRYPOINT":
			check(json.Unmarshal([]byte(rest), &entry))
		default:
			t.Fatalf("the test does not know %q", line)
		}
	}
	return entry
}
