package guide

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What the Containerfile's image gives to the program, without a container engine: a root
// with nothing in it but the program and an empty volume, a user without rights and no
// environment. (The images themselves are not fetched.)
func TestProductionProgramRunsInAnEmptyImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may change the root directory")
	}
	file, err := os.ReadFile("06-production/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	const build, entry = "CGO_ENABLED=0 go build -trimpath -o /sites .", `"/sites", "-db", "/data/sites.db", "-listen", "0.0.0.0:8080"`
	if !strings.Contains(string(file), build) || !strings.Contains(string(file), entry) {
		t.Fatalf("the Containerfile does not build or start what this test does:\n%s", file)
	}
	const nonroot = 65532 // of the image
	root := t.TempDir()
	for at := root; at != filepath.Clean(os.TempDir()); at = filepath.Dir(at) { // the user must reach it
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	compile := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", filepath.Join(root, "sites"), "./06-production")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	data := filepath.Join(root, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, nonroot, nonroot); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "/sites", "-db", "/data/sites.db", "-listen", "127.0.0.1:0", "-check")
	run.Env = []string{}
	run.Dir = "/"
	run.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nonroot, Gid: nonroot}}
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(data, "sites.db")); err != nil {
		t.Errorf("nothing was kept on the volume: %v", err)
	}
}
