//go:build unix

package pgserver

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// lowerPrivileges puts the command in a process group of its own, so that Ctrl-C reaches
// this process and not the server; and since PostgreSQL refuses to be root, root runs it as
// another user, which then owns dir.
func lowerPrivileges(cmd *exec.Cmd, dir string) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() != 0 {
		return nil
	}
	users := []string{"postgres", "nobody"}
	for _, name := range users {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return err
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return os.Chown(dir, int(uid), int(gid))
	}
	return fmt.Errorf("PostgreSQL does not run as root, and there is none of the users %q to run it as", users)
}
