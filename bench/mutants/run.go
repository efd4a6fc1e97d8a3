package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/mutate"
)

// bench has test binaries with mutants in them.
type bench struct {
	dir     string // with a go.work in it: the root of the repository
	tmp     string
	mutants []mutate.Mutant
	built   map[string]error // what go said of each package of tests
}

// newBench compiles the tests of the packages with the mutants of the functions that are wanted.
func newBench(ctx context.Context, broken, tests []string, want func(pkg, fn string) bool) (*bench, error) {
	if _, err := os.Stat("go.work"); err != nil {
		return nil, fmt.Errorf("run it from the root of the repository: %w", err)
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: ".", tmp: tmp, built: map[string]error{}}
	overlay, all, err := mutate.Write(b.dir, tmp, broken, want)
	if err != nil {
		b.close()
		return nil, err
	}
	b.mutants = all
	for _, pkg := range tests { // one by one: what does not build leaves the others
		cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-c", "-overlay", overlay, "-o", b.binary(pkg), "./"+pkg)
		if out, err := cmd.CombinedOutput(); ctx.Err() != nil {
			b.close()
			return nil, ctx.Err()
		} else if err != nil {
			b.built[pkg] = fmt.Errorf("its tests do not build: %w\n%s", err, out)
		}
	}
	return b, nil
}

func (b *bench) close() { os.RemoveAll(b.tmp) }

func (b *bench) binary(pkg string) string {
	return filepath.Join(b.tmp, strings.ReplaceAll(pkg, "/", "_")+".test")
}

// A test is one that may notice a mutant.
type test struct{ pkg, name string }

func (t test) String() string { return t.pkg + " " + t.name }

// mostHealthy is how long a test takes at most when nothing is broken.
const mostHealthy = 3 * time.Minute

// mostBroken is how long a test goes on with a mutant when it has taken so long without.
func mostBroken(healthy time.Duration) time.Duration {
	return min(5*healthy+5*time.Second, mostHealthy)
}

// errHangs: a test did not end. On a busy machine that says nothing of the mutant.
var errHangs = errors.New("the test hangs, twice")

// broken runs a test with a mutant, and says whether it failed. What did not end gets twice the
// time, and if it does not end then either the error is errHangs.
func (b *bench) broken(ctx context.Context, t test, id int, healthy time.Duration) (failed bool, err error) {
	limit := mostBroken(healthy)
	failed, _, err = b.run(ctx, t, id, "", limit)
	if errors.Is(err, errHangs) {
		failed, _, err = b.run(ctx, t, id, "", 2*limit)
	}
	return failed, err
}

// run runs a test, with a mutant if id is not 0, and says whether it failed; the error of one that
// did not end is errHangs. With record it lists in that file what it reaches.
func (b *bench) run(ctx context.Context, t test, id int, record string, limit time.Duration) (failed bool, took time.Duration, err error) {
	if err := b.built[t.pkg]; err != nil {
		return false, 0, err
	}
	args := []string{"-test.run", "^" + t.name + "$", "-test.v", "-test.failfast", "-test.timeout", limit.String()}
	if b.hasRapid(t) {
		args = append(args, "-rapid.shrinktime=0s", "-rapid.nofailfile")
	}
	most, stop := context.WithTimeout(ctx, limit+5*time.Second) // a broken timeout of its own is possible
	defer stop()
	// A loop that does not end any more may ask for memory for ever. Only data counts: an etcd server in
	// a test maps a file of 10 GB, most of which is not there.
	cmd := exec.CommandContext(most, "sh", append([]string{"-c", `ulimit -d 12000000; exec "$0" "$@"`, b.binary(t.pkg)}, args...)...)
	cmd.Dir = t.pkg
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), mutate.Env+"="+strconv.Itoa(id), mutate.EnvRecord+"="+record)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took = time.Since(began)
	exit := new(exec.ExitError)
	switch {
	case ctx.Err() != nil:
		return false, took, ctx.Err()
	case most.Err() != nil || err != nil && bytes.Contains(out, []byte("\npanic: test timed out after ")):
		return false, took, errHangs
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return true, took, nil
	case err != nil:
		return false, took, err
	case !bytes.Contains(out, []byte("--- PASS: "+strings.TrimLeft(t.name, "(")[:4])): // Test or Fuzz
		return false, took, fmt.Errorf("%s was not run, or was skipped", t)
	}
	return false, took, nil
}

// hasRapid: such a package's tests look for the smallest failure, which takes its time.
func (b *bench) hasRapid(t test) bool {
	files, err := filepath.Glob(filepath.Join(t.pkg, "*_test.go"))
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && bytes.Contains(text, []byte(`"pgregory.net/rapid"`)) {
			return true
		}
	}
	return err != nil
}

// reached runs a test without a mutant, and gives the numbers of those that it reaches.
func (b *bench) reached(ctx context.Context, t test) (ids map[int]bool, took time.Duration, err error) {
	record, err := os.CreateTemp(b.tmp, "reached")
	if err != nil {
		return nil, 0, err
	}
	record.Close()
	defer os.Remove(record.Name())
	failed, took, err := b.run(ctx, t, 0, record.Name(), mostHealthy)
	if err != nil {
		return nil, took, err
	}
	if failed {
		return nil, took, fmt.Errorf("%s fails also when nothing is broken", t)
	}
	text, err := os.ReadFile(record.Name())
	if err != nil {
		return nil, took, err
	}
	ids = map[int]bool{}
	for line := range strings.FieldsSeq(string(text)) {
		id, err := strconv.Atoi(line)
		if err != nil {
			return nil, took, err
		}
		ids[id] = true
	}
	return ids, took, nil
}

// atOnce is how many tests run at a time.
var atOnce = runtime.GOMAXPROCS(0)

// each calls f for each number below n, atOnce at a time.
func each(n int, f func(i int)) {
	slots := make(chan struct{}, max(atOnce, 1))
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
}
