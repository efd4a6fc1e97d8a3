//go:build linux

package postgres_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// dieEnv is set in the process that TestServerEndsWithTheTests kills.
const dieEnv = "TEND_POSTGRES_DIE"

// A process of tests that is killed leaves no server behind.
//
// Seen to fail without Pdeathsig.
func TestServerEndsWithTheTests(t *testing.T) {
	t.Parallel()
	if os.Getenv(dieEnv) != "" {
		fmt.Printf("server %d %s\n", shared.cmd.Process.Pid, shared.dir)
		select {} // until it is killed
	}
	child := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithTheTests$")
	child.Env = append(os.Environ(), dieEnv+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid, dir := 0, ""
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "server %d %s", &pid, &dir)
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait()
	if pid == 0 || !strings.Contains(dir, "tend-pg-") {
		t.Fatal("the process started no server")
	}
	defer os.RemoveAll(dir)
	defer func() { _ = syscall.Kill(-pid, syscall.SIGKILL) }() // if it is still there
	waitFor(t, func() bool { return syscall.Kill(pid, 0) != nil })
}
