//go:build linux

package file

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/storetest"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// The test binary runs itself again as the process that is killed, refused, or
// out of disk.
const childEnv = "TEND_FILE_TEST_CHILD"

var kills = flag.Int("kills", 6, "how often TestKilledProcessLosesNothingAcknowledged kills its child")

// childConfig is what a child reads from its environment, as JSON.
type childConfig struct{ Do, Path string }

func child() int {
	var cfg childConfig
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	path := cfg.Path
	switch cfg.Do {
	case "write":
		return childWrites(path)
	case "open":
		if _, err := Open(path); err != nil {
			fmt.Println(err)
			return 3
		}
		return 0
	case "full":
		if err := childFillsDisk(path); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
	return 2
}

func childCommand(t *testing.T, mode, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cfg, err := json.Marshal(childConfig{mode, path})
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), childEnv+"="+string(cfg))
	cmd.Stderr = os.Stderr
	return cmd
}

// childWrites counts up four records and says each number that was acknowledged.
func childWrites(path string) int {
	b, err := openWith(path, &options{historyRevisions: 500})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() { countUp(b.(*backend), fmt.Sprint(w)) })
	}
	wg.Wait()
	return 1 // it is killed before
}

func countUp(b *backend, name string) {
	r, err := b.Get(context.Background(), "k", store.Key{Name: name})
	n, _ := strconv.Atoi(string(r.Bytes))
	for err == nil || errors.Is(err, store.ErrNotFound) {
		n++
		var rev store.Revision
		// Half of the commits also touch many other records, so that
		// checkpoints happen while the process is killed.
		ops := []store.Op{put(name, strconv.Itoa(n))}
		for i := range n % 2 * 31 {
			ops = append(ops, put(fmt.Sprintf("other-%s-%d", name, n*31+i), "x"))
		}
		if rev, err = b.Commit(context.Background(), store.Txn{Ops: ops}); err == nil {
			fmt.Println(name, n, rev)
		}
	}
	fmt.Fprintln(os.Stderr, err)
}

// promise S1
// The negative control told the members before tx.Commit had returned: after the
// first or second kill an acknowledged number was missing.
func TestKilledProcessLosesNothingAcknowledged(t *testing.T) {
	path := newPath(t)
	acked, lastRevision := map[string]int{}, store.Revision(0)
	for i := range *kills {
		lines := 1 + rand.N(400)
		t.Logf("kill %d after %d acknowledged writes", i, lines)
		lastRevision = max(lastRevision, runAndKill(t, path, lines, acked))
		b := open(t, path, nil)
		for name, n := range acked {
			r, err := b.Get(t.Context(), "k", store.Key{Name: name})
			if err != nil {
				t.Fatalf("record %s, acknowledged as %d: %v", name, n, err)
			}
			if got, _ := strconv.Atoi(string(r.Bytes)); got < n {
				t.Fatalf("record %s is %d, but %d was acknowledged", name, got, n)
			}
		}
		if head := b.history.head(); head < lastRevision {
			t.Fatalf("revision went back to %d, but %d was acknowledged", head, lastRevision)
		}
		closeNow(t, b)
		if _, err := check(path); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("campaign: %d kills, %d acknowledged writes", *kills, lastRevision)
}

// runAndKill lets a child write until it has acknowledged so many writes, and
// kills it in whatever it is doing then.
func runAndKill(t *testing.T, path string, lines int, acked map[string]int) (last store.Revision) {
	t.Helper()
	said, full := 0, make(chan struct{})
	w := campaign.NewWorker(t, "writer", childEnv, childConfig{"write", path}, nil, func(_ *campaign.Worker, line string) {
		var name string
		var value int
		var rev store.Revision
		if _, err := fmt.Sscan(line, &name, &value, (*uint64)(&rev)); err != nil {
			return // the kill cut the line: it was not said
		}
		acked[name], last = max(acked[name], value), max(last, rev)
		if said++; said == lines {
			close(full)
		}
	})
	select {
	case <-full:
	case <-w.Ended():
		t.Fatal("the child ended before it was killed")
	}
	w.Kill()
	return last
}

func TestSecondProcessSaysSoAndExits(t *testing.T) {
	path := newPath(t)
	open(t, path, nil)
	out, err := childCommand(t, "open", path).Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Fatalf("the second process ended with %v, want exit status 3", err)
	}
	if got := string(out); !strings.Contains(got, ErrLocked.Error()) || !strings.Contains(got, path) {
		t.Errorf("it said %q, want that %s is open already", got, path)
	}
}

// The negative control swallowed the error of tx.Commit: the child never noticed
// that its disk was full.
func TestFullDiskIsAClearErrorAndLosesNothing(t *testing.T) {
	if out, err := childCommand(t, "full", newPath(t)).Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// childFillsDisk lives with a limit on file size, which the kernel enforces as
// it does a full disk, writes until it is hit, has it lifted, and goes on.
func childFillsDisk(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	b, err := Open(path)
	if err != nil {
		return err
	}
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = 1 << 20
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	n, err := fill(b.(*backend))
	switch {
	case !strings.Contains(err.Error(), syscall.EFBIG.Error()): // bbolt wraps some of them as text
		return fmt.Errorf("after %d records, want what the system said: %w", n, err)
	case errors.Is(err, store.ErrUnknownOutcome):
		return fmt.Errorf("%w, but nothing was written", err)
	}
	if err := verifyFilled(b.(*backend), n); err != nil {
		return fmt.Errorf("while full: %w", err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if _, err := b.Commit(context.Background(), store.Txn{Ops: []store.Op{filler(n)}}); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	if err := b.Close(); err != nil {
		return err
	}
	if b, err = Open(path); err != nil {
		return err
	}
	return verifyFilled(b.(*backend), n+1)
}

func filler(n int) store.Op { return put(fmt.Sprintf("%06d", n), strings.Repeat("x", 20000)) }

// fill writes until the disk refuses and returns how much was acknowledged.
func fill(b *backend) (n int, err error) {
	for n = 0; n < 10000; n++ {
		if _, err := b.Commit(context.Background(), store.Txn{Ops: []store.Op{filler(n)}}); err != nil {
			return n, err
		}
	}
	return n, errors.New("the disk never filled")
}

func verifyFilled(b *backend, n int) error {
	for i := range n {
		if _, err := b.Get(context.Background(), "k", filler(i).Key); err != nil {
			return fmt.Errorf("record %d of %d: %w", i, n, err)
		}
	}
	if r := b.history.head(); r != store.Revision(n) {
		return fmt.Errorf("revision is %d after %d acknowledged commits", r, n)
	}
	return nil
}

// A device stands in for the file while a test wants the disk to fail: a write
// to /dev/full is refused, one to /dev/null goes nowhere and cannot be synced.
// The negative control swallowed the error of tx.Commit: writes that were never
// made were acknowledged and served, and the file ended up damaged.
func TestFailingDiskIsAClearErrorAndLosesNothing(t *testing.T) {
	for device, want := range map[string]error{
		"/dev/full": syscall.ENOSPC,
		"/dev/null": syscall.EINVAL,
	} {
		t.Run(device, func(t *testing.T) {
			var f *os.File
			path := newPath(t)
			b := open(t, path, &options{openFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
				var err error
				f, err = os.OpenFile(name, flag, mode)
				return f, err
			}})
			commit(t, b, put("a", "1"))
			mend := replaceDescriptor(t, f, device)
			_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put("a", "2")}})
			if !errors.Is(err, want) || errors.Is(err, store.ErrUnknownOutcome) || !strings.Contains(err.Error(), "nothing was written") {
				t.Errorf("Commit returned %v, want %v and that nothing was written", err, want)
			}
			if _, err := b.Grant(t.Context(), time.Minute); !errors.Is(err, want) {
				t.Errorf("Grant returned %v, want %v", err, want)
			}
			if err := b.Health(); !errors.Is(err, want) {
				t.Errorf("Health returned %v while nothing can be written, want %v", err, want)
			}
			_, _ = b.Commit(t.Context(), store.Txn{Ops: []store.Op{put("a", "2")}})
			expect(t, "while it fails", contentsOf(t, b, store.ListOptions{}), "a=1@1")
			mend()
			if r := commit(t, b, put("b", "1")); r != 2 {
				t.Errorf("the first commit afterwards has revision %d, want 2", r)
			}
			if err := b.Health(); err != nil {
				t.Errorf("Health returned %v after a commit succeeded", err)
			}
			closeNow(t, b)
			if _, err := check(path); err != nil {
				t.Error(err)
			}
			expect(t, "after reopening", contentsOf(t, open(t, path, nil), store.ListOptions{}), "a=1@1 b=1@2")
		})
	}
}

// A checkpoint that a full disk refuses leaves nothing: what is written next, without a
// checkpoint, is read as it is.
//
// promise S1. Negative control: mutant "a checkpoint that was not written is taken back for ever".
func TestCheckpointThatTheDiskRefusesLeavesNothing(t *testing.T) {
	var f *os.File
	path := newPath(t)
	b := open(t, path, &options{openFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
		var err error
		f, err = os.OpenFile(name, flag, mode)
		return f, err
	}})
	commit(t, b, put("a", "1"), put("b", "1"))
	b.mu.Lock()
	b.dirtyBytes = checkpointBytes - 1000 // a large commit makes a checkpoint, and a small one does not
	b.mu.Unlock()
	large := strings.Repeat("x", 1000)
	before, head := contentsOf(t, b, store.ListOptions{}), b.history.head()
	mend := replaceDescriptor(t, f, "/dev/full")
	if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{put("a", "2"), put("large", large)}}); err == nil || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("Commit returned %v, want that nothing was written", err)
	}
	expect(t, "while the disk is full", contentsOf(t, b, store.ListOptions{}), before)
	mend()
	checkpoint := b.state.checkpoint
	commit(t, b, put("a", "3"))
	if b.state.checkpoint != checkpoint {
		t.Fatal("a small commit made a checkpoint: this shows nothing")
	}
	after := fmt.Sprintf("a=3@%d b=1@1", head+1)
	expect(t, "afterwards", contentsOf(t, b, store.ListOptions{}), after)
	if r, err := b.Get(t.Context(), "k", store.Key{Name: "a"}); err != nil || string(r.Bytes) != "3" {
		t.Errorf("a is %q, %v; want 3", r.Bytes, err)
	}
	closeNow(t, b)
	expect(t, "after reopening", contentsOf(t, open(t, path, nil), store.ListOptions{}), after)
}

// The end of a lease that a full disk refuses is tried again, each second: without
// it the records of a dead holder would stay.
//
// promise L1. Negative control: mutant "the end of a lease is tried once".
func TestEndOfALeaseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *os.File
		b := open(t, newPath(t), &options{openFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			var err error
			f, err = os.OpenFile(name, flag, mode)
			return f, err
		}})
		id, err := b.Grant(t.Context(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		bound := put("bound", "1")
		bound.Lease = id
		commit(t, b, bound)
		mend := replaceDescriptor(t, f, "/dev/full")
		time.Sleep(15500 * time.Millisecond)
		expect(t, "while the disk is full", contentsOf(t, b, store.ListOptions{}), "bound=1@1")
		if err := b.Renew(t.Context(), id); !errors.Is(err, store.ErrLeaseGone) {
			t.Errorf("Renew of an expired lease while the disk is full returned %v, want ErrLeaseGone", err)
		}
		if _, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{bound}}); !errors.Is(err, store.ErrLeaseGone) {
			t.Errorf("Commit under an expired lease while the disk is full returned %v, want ErrLeaseGone", err)
		}
		mend()
		time.Sleep(time.Second)
		synctest.Wait()
		expect(t, "afterwards", contentsOf(t, b, store.ListOptions{}), "")
		if err := b.Renew(t.Context(), id); !errors.Is(err, store.ErrLeaseGone) {
			t.Errorf("Renew returned %v, want ErrLeaseGone", err)
		}
	})
}

// replaceDescriptor puts a device under the number of an open file.
func replaceDescriptor(t *testing.T, f *os.File, device string) (mend func()) {
	t.Helper()
	fd := int(f.Fd())
	saved, err := syscall.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	dup := func(from int) {
		if err := syscall.Dup3(from, fd, syscall.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
	dup(int(dev.Fd()))
	return func() {
		dup(saved)
		if err := errors.Join(syscall.Close(saved), dev.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A full disk shows until it is not full any more, although no caller writes.
//
// promise S7
func TestHealthGoesByWrites(t *testing.T) {
	var f *os.File
	b := open(t, newPath(t), &options{openFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
		var err error
		f, err = os.OpenFile(name, flag, mode)
		return f, err
	}})
	mend := func() {}
	storetest.Health(t, b, func(full bool) {
		if full {
			mend = replaceDescriptor(t, f, "/dev/full")
		} else {
			mend()
		}
	})
}
