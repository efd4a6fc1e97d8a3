//go:build !unix

package pgserver

import (
	"errors"
	"os/exec"
)

func lowerPrivileges(*exec.Cmd, string) error {
	return errors.New("a private server is for Unix: name a running one with -dsn")
}
