package postgres_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithParent ends a server when the process of the tests dies, also by kill -9 or by the
// timeout of go test: SIGQUIT stops the server and its children at once.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }

// children are the processes that pid started and that have not ended.
func children(pid int) (all []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if state, parent := stat(child); parent == pid && state != 'Z' {
			all = append(all, child)
		}
	}
	return all
}

// gone reports whether a process has ended. Its parent may not have asked for how.
func gone(pid int) bool {
	state, _ := stat(pid)
	return state == 0 || state == 'Z'
}

// stat is the state of a process, and its parent. 0: there is no such process.
func stat(pid int) (state byte, parent int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(text[bytes.LastIndexByte(text, ')')+1:], []byte(" ")) // after the name
	_, _ = fmt.Sscanf(string(rest), "%c %d", &state, &parent)
	return state, parent
}
