//go:build unix && !linux

package postgres_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

func dieWithParent(*syscall.SysProcAttr) {}

// children are the processes that pid started.
func children(pid int) (all []int) {
	text, _ := exec.Command("pgrep", "-P", fmt.Sprint(pid)).Output()
	for _, word := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(word); err == nil {
			all = append(all, child)
		}
	}
	return all
}

// gone reports whether a process has ended.
func gone(pid int) bool { return syscall.Kill(pid, 0) != nil }
