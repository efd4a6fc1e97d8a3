package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// Ten thousand objects with 30,000 references come up and go down again in order: no call
// is refused, and there are no more of them than it takes.
func TestTenThousandObjectsComeAndGoInOrder(t *testing.T) {
	size := 10_000
	if testing.Short() || raceEnabled {
		size = 1000
	}
	b, err := memory.New(nil)
	check(t, err)
	c := newCloud()
	var out strings.Builder
	check(t, liveOn(t.Context(), options{Size: size}, b, c, &out))
	t.Log(out.String())
	if !strings.Contains(out.String(), fmt.Sprintf("declared %d objects with %d references", size, 3*size)) {
		t.Errorf("there are not three references for each object")
	}
	if len(c.refused) > 0 {
		t.Errorf("refused for order: %d, such as %s", len(c.refused), c.refused[0])
	}
	if len(c.resources) > 0 || c.calls["put"] != size || c.calls["delete"] != size {
		t.Errorf("left: %d, puts: %d, deletes: %d, want 0 and %d each", len(c.resources), c.calls["put"], c.calls["delete"], size)
	}
	if c.calls["get"] > 6*size {
		t.Errorf("%d gets for %d objects", c.calls["get"], size)
	}
}

func TestPlanIsInOrder(t *testing.T) {
	var out strings.Builder
	check(t, run(t.Context(), options{Size: 12, Plan: true, Store: "memory"}, &out))
	_, steps, _ := strings.Cut(out.String(), "\n")
	if want := "create vpc vpc0\ncreate subnet subnet0\ncreate machine machine0\n"; !strings.HasPrefix(steps, want) {
		t.Errorf("the plan is\n%s", steps)
	}
}

// What is declared in a file survives the program: a second one tears down what is left.
func TestStateInAFile(t *testing.T) {
	var out strings.Builder
	url := "file:" + filepath.Join(t.TempDir(), "network.db")
	for range 2 {
		check(t, run(t.Context(), options{Size: 20, Store: url}, &out))
	}
	if n := strings.Count(out.String(), "0 refused for order"); n != 4 {
		t.Errorf("%s", &out)
	}
}

func TestSizeIsChecked(t *testing.T) {
	if err := run(t.Context(), options{Size: 9}, nil); err == nil {
		t.Error("a size of 9 is taken")
	}
}

// killer kills a process at one of its calls to the store and the cloud: from then on
// nothing that it does has any effect.
type killer struct {
	at int

	mu sync.Mutex
	n  int
}

var errKilled = errors.New("the process is dead")

func (k *killer) step(string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead() {
		return errKilled
	}
	k.n++
	if k.dead() {
		return errKilled
	}
	return nil
}

func (k *killer) dead() bool { return k.at > 0 && k.n >= k.at }

func (k *killer) isDead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead()
}

// mortal is a backend as a process that may be killed reaches it.
type mortal struct {
	store.Backend
	k *killer
}

func (b *mortal) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	if err := b.k.step("get"); err != nil {
		return store.Record{}, err
	}
	return b.Backend.Get(ctx, kind, key)
}

func (b *mortal) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	if err := b.k.step("list"); err != nil {
		return store.Page{}, err
	}
	return b.Backend.List(ctx, kind, o)
}

func (b *mortal) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if err := b.k.step("before a commit"); err != nil {
		return 0, err
	}
	rev, err := b.Backend.Commit(ctx, t)
	return rev, errors.Join(b.k.step("after a commit"), err)
}

// life declares a network of ten, tears it down when it stands, and is killed at a step;
// another process goes on.
func life(t *testing.T, kill int) (steps int) {
	b, err := memory.New(nil)
	check(t, err)
	c := newCloud()
	user := newNetwork(b, newCloud())
	k := &killer{at: kill}
	stop := process(t, &mortal{b, k}, c, k)
	goOn := func() {
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if k.isDead() {
			stop()
			k = &killer{}
			stop = process(t, b, c, k)
			time.Sleep(time.Hour)
			synctest.Wait()
		}
	}
	_, err = user.declare(t.Context(), 10)
	check(t, err)
	goOn()
	if len(c.resources) != 10 {
		t.Errorf("%d resources are there, want 10", len(c.resources))
	}
	check(t, user.removeAll(t.Context()))
	goOn()
	if len(c.resources) > 0 {
		t.Errorf("%d resources are left", len(c.resources))
	}
	for _, kind := range []string{"vpc", "subnet", "machine"} {
		if p, err := b.List(t.Context(), kind, store.ListOptions{}); err != nil || len(p.Records) > 0 {
			t.Errorf("%d objects of the kind %s are left, %v", len(p.Records), kind, err)
		}
	}
	if len(c.refused) > 0 {
		t.Errorf("refused for order: %v", c.refused)
	}
	stop()
	return k.n
}

func process(t *testing.T, b store.Backend, c *cloud, k *killer) (stop func()) {
	c.step = func(string, depend.Ref) error { return k.step("") }
	n := newNetwork(b, c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.program.Run(ctx, nil) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the process ended with %v", err)
		}
	})
}

// The process is killed at a step of its life, and another one goes on: the network ends
// as declared, is torn down in order, and nothing was refused for the order.
func TestKilledAtAnyStepTheNetworkEndsAsDeclared(t *testing.T) {
	steps := 0
	synctest.Test(t, func(t *testing.T) { steps = life(t, 0) })
	if steps < 150 {
		t.Fatalf("a life of %d steps", steps)
	}
	stride := 1
	if raceEnabled {
		stride = 7
	}
	for kill := 1; kill <= steps; kill += stride {
		synctest.Test(t, func(t *testing.T) {
			life(t, kill)
			if t.Failed() {
				t.Fatalf("killed at step %d of %d", kill, steps)
			}
		})
	}
}

// The cloud refuses what it should, so that the tests above mean something.
func TestCloudRefusesTheWrongOrder(t *testing.T) {
	b, err := memory.New(nil)
	check(t, err)
	c := newCloud()
	n := newNetwork(b, c)
	m := &Machine{Meta: store.Meta{Name: "m"}, Spec: MachineSpec{Subnets: []string{"s"}}}
	s := &Subnet{Meta: store.Meta{Name: "s"}, Spec: SubnetSpec{VPC: "v"}}
	v := &VPC{Meta: store.Meta{Name: "v"}}
	machine, subnet, vpc := client[MachineSpec]{n.machines}, client[SubnetSpec]{n.subnets}, client[VPCSpec]{n.vpcs}
	if machine.Create(t.Context(), m) == nil || subnet.Create(t.Context(), s) == nil {
		t.Error("what comes too early is not refused")
	}
	for _, err := range []error{vpc.Create(t.Context(), v), subnet.Create(t.Context(), s), machine.Create(t.Context(), m)} {
		check(t, err)
	}
	if vpc.Delete(t.Context(), v) == nil || subnet.Delete(t.Context(), s) == nil {
		t.Error("what goes too early is not refused")
	}
	if want := []string{
		"machine m needs subnet s, which does not exist", "subnet s needs vpc v, which does not exist",
		"vpc v is used by 1 others", "subnet s is used by 1 others",
	}; !slices.Equal(c.refused, want) {
		t.Errorf("refused: %q", c.refused)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A program that comes no further says what fails and why, also without -listen.
//
// Negative control: without a printer it was silent, and went on.
func TestWhatFailsIsSaid(t *testing.T) {
	b, err := memory.New(nil)
	check(t, err)
	c := newCloud()
	var granted atomic.Bool
	c.step = func(what string, ref depend.Ref) error {
		if what == "before put" && ref.Kind == "vpc" && !granted.Load() {
			return errors.New("the account may not have so many")
		}
		return nil
	}
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { // ends when the network has come and gone, or with the test
		err := liveOn(t.Context(), options{Size: 10}, b, c, out)
		ended <- errors.Join(err, out.Close())
	}()
	said := false
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if strings.Contains(lines.Text(), "x vpc vpc0") && strings.Contains(lines.Text(), "the account may not have so many") {
			said = true
			granted.Store(true)
		}
	}
	if err := <-ended; err != nil || !said {
		t.Errorf("it ended with %v, and what fails was said: %v", err, said)
	}
}

// With -listen the network stays up, and its page shows the objects and what needs what.
func TestNetworkIsServed(t *testing.T) {
	b, err := memory.New(nil)
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { // ended by cancel, waited for below
		err := liveOn(ctx, options{Size: 20, Listen: "localhost:0"}, b, newCloud(), out)
		ended <- errors.Join(err, out.Close())
	}()
	lines := bufio.NewScanner(in)
	page := ""
	for page == "" && lines.Scan() {
		page, _ = strings.CutPrefix(lines.Text(), "serving ")
		if !strings.HasPrefix(page, "http://") {
			page = ""
		}
	}
	rest := make(chan struct{})
	go func() { // ends with the writer
		defer close(rest)
		_, _ = io.Copy(io.Discard, in)
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(page + "?format=text")
	check(t, err)
	text, err := io.ReadAll(res.Body)
	check(t, errors.Join(err, res.Body.Close()))
	for _, want := range []string{"vpc", "subnet", "machine"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %s:\n%s", want, text)
		}
	}
	cancel()
	check(t, <-ended)
	<-rest
}
