package postgres_test

import "syscall"

// dieWithParent ends a server when the process of the tests dies, also by kill -9 or by the
// timeout of go test: SIGQUIT stops the server and its children at once.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
