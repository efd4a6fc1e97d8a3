package etcd_test

import "syscall"

// dieWithParent kills a child whose parent died: it would hold its port for ever.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
