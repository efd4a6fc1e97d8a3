package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// command runs a program in a folder, with env beside the environment of this
// process. What it prints is in the error if it fails.
func command(folder string, env []string, name string, args ...string) error {
	_, err := output(folder, env, name, args...)
	return err
}

// inTurn runs a program with one list of arguments after the other, until one fails.
func inTurn(folder string, env []string, name string, steps ...[]string) error {
	for _, args := range steps {
		if err := command(folder, env, name, args...); err != nil {
			return err
		}
	}
	return nil
}

// output is command, and returns what the program prints to its standard output,
// without the space around it.
func output(folder string, env []string, name string, args ...string) (string, error) {
	return outputWithin(context.Background(), folder, env, name, args...)
}

// outputWithin is output of a program that is killed when ctx ends.
func outputWithin(ctx context.Context, folder string, env []string, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("in %s: %s: %w\n%s%s", folder, strings.Join(cmd.Args, " "), err, &stdout, &stderr)
	}
	return strings.TrimSpace(stdout.String()), nil
}
