//go:build !peers

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Kubernetes' API, which some benchmarks compare with, takes as long to compile as a third of all else that
// go test work does. TestMain compiles the package with it where benchmarks are asked for, and runs them.
func TestMain(*testing.M) {
	if !slices.ContainsFunc(os.Args, func(arg string) bool {
		of, ok := strings.CutPrefix(arg, "-test.bench=")
		return ok && of != ""
	}) {
		fmt.Println("go test -tags peers runs the tests of this package; -bench needs no tag")
		return
	}
	// Without a bound of go's own: -test.timeout is among the arguments.
	cmd := exec.Command("go", slices.Concat([]string{"test", "-vet=off", "-tags", "peers", "-timeout", "0", "-args"}, os.Args[1:])...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
