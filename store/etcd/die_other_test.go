//go:build unix && !linux

package etcd_test

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
