//go:build unix && !linux

package postgres_test

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
