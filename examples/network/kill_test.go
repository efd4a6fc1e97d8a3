//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/memory"
)

var (
	kills    = flag.Int("kills", 6, "how many processes are killed on the way up, and as many on the way down")
	killSize = flag.Int("killsize", 20, "how many objects the network of the killed processes has")
	killSeed = flag.Uint64("killseed", 0, "what decides where they are killed; 0: another one each time")
)

// killAt in the environment makes the test binary a program of its own, which kills itself at
// the step of that number; 0: at none.
const killAt = "TEND_NETWORK_KILL_AT"

// slowest is how long a process may take with so many objects.
func slowest(size int) time.Duration { return time.Minute + time.Duration(size)*50*time.Millisecond }

func TestMain(m *testing.M) {
	if os.Getenv(killAt) == "" {
		goleak.VerifyTestMain(m) // exits
	}
	if err := asProgram(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// asProgram brings the network up ("up") or tears it down ("down"), on a store and a cloud
// that are kept in a folder, and ends.
func asProgram(folder, size, way string) error {
	at, err := strconv.ParseInt(os.Getenv(killAt), 10, 64)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	var steps atomic.Int64
	step := func() {
		if steps.Add(1) == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	c, j, err := openCloud(folder)
	if err != nil {
		return err
	}
	c.step = func(what string, ref depend.Ref) error {
		step()
		call, after := strings.CutPrefix(what, "after ")
		if !after {
			return nil
		}
		err := j.add(c, call, ref)
		step()
		return err
	}
	b, err := file.Open(filepath.Join(folder, "network.db"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), slowest(n))
	defer cancel()
	err = errors.Join(goOneWay(ctx, &steppedBackend{b, step}, c, n, way), b.Close())
	fmt.Println(steps.Load())
	return err
}

func goOneWay(ctx context.Context, b store.Backend, c *cloud, size int, way string) error {
	n := newNetwork(b, c)
	var err error
	if way == "up" {
		_, err = n.declare(ctx, size)
	} else {
		err = n.removeAll(ctx)
	}
	if err != nil {
		return err
	}
	return n.program.Run(ctx, &program.Options{Once: true}) // down: until nothing is being deleted
}

// steppedBackend has a step before and after each write.
type steppedBackend struct {
	store.Backend
	step func()
}

func (b *steppedBackend) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	b.step()
	defer b.step()
	return b.Backend.Commit(ctx, t)
}

// journal keeps a cloud in a file, which has a line for each call. The line is written before
// the call returns, so that all that a call has returned outlives the process.
type journal struct {
	mu      sync.Mutex
	file    *os.File
	refused int // so many refusals are in the file
}

// entry is one line: a call, and its resource as it is after that, nil if it does not exist.
type entry struct {
	Call    string
	Ref     depend.Ref
	Is      *savedResource `json:",omitempty"`
	Refused []string       `json:",omitempty"` // for the order
}

type savedResource struct {
	Spec  string
	Needs []depend.Ref
}

func (j *journal) add(c *cloud, call string, ref depend.Ref) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := entry{Call: call, Ref: ref}
	c.mu.Lock()
	if r, exists := c.resources[ref]; exists {
		e.Is = &savedResource{r.spec, r.needs}
	}
	e.Refused = slices.Clone(c.refused[j.refused:])
	j.refused = len(c.refused)
	c.mu.Unlock()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	return err
}

// openCloud reads the cloud of a folder. A last line that is not whole is that of a call that
// has not returned: it is cut off, and the call was not made.
func openCloud(folder string) (*cloud, *journal, error) {
	f, err := os.OpenFile(filepath.Join(folder, "cloud.json"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	c, lines := newCloud(), json.NewDecoder(f)
	for {
		whole := lines.InputOffset()
		var e entry
		if err := lines.Decode(&e); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			_, err := f.Seek(whole, io.SeekStart)
			return c, &journal{file: f, refused: len(c.refused)}, errors.Join(err, f.Truncate(whole))
		} else if err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
		c.replay(e)
	}
}

func (c *cloud) replay(e entry) {
	for _, n := range c.resources[e.Ref].needs {
		c.users[n]--
	}
	delete(c.resources, e.Ref)
	if e.Is != nil {
		c.resources[e.Ref] = resource{e.Is.Spec, e.Is.Needs}
		for _, n := range e.Is.Needs {
			c.users[n]++
		}
	}
	c.calls[e.Call]++
	c.refused = append(c.refused, e.Refused...)
}

// process runs the program as a process of its own, and reports whether it was killed and
// how many steps it took if not.
func runProcess(t *testing.T, folder, way string, kill int) (killed bool, steps int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), slowest(*killSize)+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], folder, fmt.Sprint(*killSize), way)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", killAt, kill), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && kill > 0 && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL && ctx.Err() == nil {
		return true, 0
	}
	if err != nil {
		t.Fatalf("a process on the way %s, to be killed at step %d: %v\n%s", way, kill, err, out)
	}
	if _, err := fmt.Sscan(string(out), &steps); err != nil {
		t.Fatalf("the process said %q: %v", out, err)
	}
	return false, steps
}

// A process that keeps the network over a file is killed with SIGKILL, at steps of chance
// before and after its writes to the store and its calls to the cloud, and started again each
// time: the network ends as declared, is torn down in order with processes killed on the way,
// and no call was refused for the order, of any of the processes.
//
// promise E1, promise E2
func TestKilledProcessesEndAsDeclaredAndTearDownInOrder(t *testing.T) {
	seed := *killSeed
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("go test ./examples/network -run %s -kills %d -killsize %d -killseed %d", t.Name(), *kills, *killSize, seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	whole := map[string]int{} // steps of a life that is not killed
	rehearsal := t.TempDir()
	for _, way := range []string{"up", "down"} {
		_, whole[way] = runProcess(t, rehearsal, way, 0)
		if whole[way] < 3**killSize {
			t.Fatalf("the whole way %s of %d objects took %d steps", way, *killSize, whole[way])
		}
	}
	m, err := memory.New(nil)
	check(t, err)
	n := newNetwork(m, newCloud())
	references, err := n.declare(t.Context(), *killSize)
	check(t, err)
	folder := t.TempDir()
	for _, way := range []string{"up", "down"} {
		dead := 0
		for range *kills {
			// Each has a part of the whole way, so that most of them die on it.
			if killed, _ := runProcess(t, folder, way, 1+chance.IntN(whole[way]/(*kills))); killed {
				dead++
			}
		}
		if dead <= *kills/2 {
			t.Errorf("%d of %d processes were killed on the way %s, want most", dead, *kills, way)
		}
		runProcess(t, folder, way, 0)
		c, j, err := openCloud(folder)
		check(t, err)
		check(t, j.file.Close())
		want := map[string]int{"up": *killSize, "down": 0}[way]
		if len(c.resources) != want {
			t.Errorf("%d resources are there after the way %s, want %d", len(c.resources), way, want)
		}
		references, declared := 0, map[string]int{"up": references, "down": 0}[way]
		for _, r := range c.resources {
			references += len(r.needs)
		}
		if references != declared {
			t.Errorf("they have %d references after the way %s, want %d", references, way, declared)
		}
		if len(c.refused) > 0 {
			t.Errorf("refused for order on the way %s: %q", way, c.refused)
		}
		t.Logf("%s: %d processes killed; %d references, %s", way, dead, references, c)
	}
	b, err := file.Open(filepath.Join(folder, "network.db"))
	check(t, err)
	for _, kind := range []string{"vpc", "subnet", "machine"} {
		if p, err := b.List(t.Context(), kind, store.ListOptions{}); err != nil || len(p.Records) > 0 {
			t.Errorf("%d objects of the kind %s are left, %v", len(p.Records), kind, err)
		}
	}
	check(t, b.Close())
}
