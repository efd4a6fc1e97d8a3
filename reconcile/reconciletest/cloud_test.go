package reconciletest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/wall"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

func newCloud(t *testing.T, o reconciletest.CloudOptions) *reconciletest.Cloud {
	t.Helper()
	c, err := reconciletest.NewCloud(&o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A test that asks for the calls of "create" would otherwise find 0 whatever was called.
func TestCallsOfNoOperationPanics(t *testing.T) {
	c := newCloud(t, reconciletest.CloudOptions{})
	for _, op := range []string{"Create", "Get", "Update", "Delete", "List", "refused"} {
		if n := c.Calls(op); n != 0 {
			t.Errorf("%d calls of %s, want 0", n, op)
		}
	}
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, `"create"`) || !strings.Contains(said, "Create") {
			t.Errorf("the panic says %q, want the operation that was asked for, and those there are", said)
		}
	}()
	c.Calls("create")
	t.Error("the calls of an operation that does not exist were counted")
}

func TestPerfectCloudKeepsWhatItIsGiven(t *testing.T) {
	c := newCloud(t, reconciletest.CloudOptions{})
	ctx := t.Context()
	a, err := c.Create(ctx, reconciletest.Resource{Name: "x", Props: map[string]string{"p": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := c.Create(ctx, reconciletest.Resource{Name: "x"})
	if a.ID == b.ID || a.ID == "" {
		t.Errorf("ids %q and %q, want two", a.ID, b.ID)
	}
	a.Props["p"] = "2"
	if got, _ := c.Get(ctx, a.ID); got.Props["p"] != "1" {
		t.Error("the caller's edit reached the cloud")
	}
	if err := c.Update(ctx, a); err != nil {
		t.Fatal(err)
	}
	if got, _ := c.Get(ctx, a.ID); got.Props["p"] != "2" {
		t.Errorf("after Update: %+v", got)
	}
	if err := c.Delete(ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{c.Delete(ctx, b.ID), c.Update(ctx, b)} {
		if !errors.Is(err, reconciletest.ErrNotFound) {
			t.Errorf("of what is gone: %v, want ErrNotFound", err)
		}
	}
	if n := len(c.Truth()); n != 1 || c.Calls("Create") != 2 || c.Writes() != 6 || c.TotalCalls() != 8 {
		t.Errorf("%d resources, %d creates, %d writes, %d calls", n, c.Calls("Create"), c.Writes(), c.TotalCalls())
	}
}

func TestUniqueNamesAreTakenOnce(t *testing.T) {
	c := newCloud(t, reconciletest.CloudOptions{UniqueNames: true})
	if r, err := c.Create(t.Context(), reconciletest.Resource{Name: "x"}); err != nil || r.ID != "x" {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := c.Create(t.Context(), reconciletest.Resource{Name: "x"}); !errors.Is(err, reconciletest.ErrExists) {
		t.Errorf("second of the name: %v, want ErrExists", err)
	}
}

func TestLagHidesWritesForAWhileAndNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lag = 10 * time.Second
		hidden := 0
		for seed := range uint64(50) {
			c := newCloud(t, reconciletest.CloudOptions{Seed: seed, UniqueNames: true, Lag: lag})
			r, _ := c.Create(t.Context(), reconciletest.Resource{Name: "x", Props: map[string]string{"v": "0"}})
			if _, err := c.Get(t.Context(), "x"); err != nil {
				hidden++
			}
			last := ""
			for v := range 30 {
				if v < 10 {
					r.Props = map[string]string{"v": fmt.Sprintf("%02d", v)}
					if err := c.Update(t.Context(), r); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				got, err := c.Get(t.Context(), "x")
				if err == nil && got.Props["v"] < last || err != nil && last != "" {
					t.Fatalf("seed %d: went back from %q to %+v, %v", seed, last, got, err)
				}
				if err == nil {
					last = got.Props["v"]
				}
			}
			if last != "09" {
				t.Errorf("seed %d: shows %q after the lag, want the last write", seed, last)
			}
		}
		if hidden < 25 {
			t.Errorf("only %d of 50 creates were hidden at first", hidden)
		}
	})
}

func TestQuotaRefusesWithTheTimeToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, reconciletest.CloudOptions{Rate: 10})
		refused := 0
		var q *reconciletest.QuotaError
		for range 15 {
			if _, err := c.Get(t.Context(), "x"); errors.As(err, &q) {
				refused++
			}
		}
		if refused != 5 || c.Calls("refused") != 5 {
			t.Fatalf("%d refused, want 5 of 15 with a burst of 10", refused)
		}
		time.Sleep(q.RetryAfter)
		if _, err := c.Get(t.Context(), "x"); errors.As(err, &q) {
			t.Errorf("refused after waiting as told: %v", err)
		}
	})
}

func TestFaultsAreThoseAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, reconciletest.CloudOptions{Lost: 1})
		_, err := c.Create(t.Context(), reconciletest.Resource{Name: "x"})
		var timeout interface{ Timeout() bool }
		if !errors.As(err, &timeout) || !timeout.Timeout() || len(c.Truth()) != 1 {
			t.Errorf("lost answer: %v with %d resources, want a timeout and one", err, len(c.Truth()))
		}
		c.Heal()
		if _, err := c.Create(t.Context(), reconciletest.Resource{Name: "y"}); err != nil {
			t.Errorf("after Heal: %v", err)
		}

		c = newCloud(t, reconciletest.CloudOptions{Errors: 1})
		if _, err := c.Create(t.Context(), reconciletest.Resource{}); !errors.Is(err, reconciletest.ErrServer) || len(c.Truth()) != 0 {
			t.Errorf("failing: %v with %d resources", err, len(c.Truth()))
		}

		c = newCloud(t, reconciletest.CloudOptions{Seed: 4, PageSize: 10, BrokenPages: 0.3})
		for range 95 {
			c.Put(reconciletest.Resource{})
		}
		partial := 0
		for range 20 {
			n := 0
			var last error
			for _, err := range c.List(t.Context()) {
				if last = err; err == nil {
					n++
				}
			}
			if last != nil && n > 0 {
				partial++
			}
			if last == nil && n != 95 {
				t.Errorf("a list without an error has %d of 95", n)
			}
		}
		if partial == 0 {
			t.Error("no list broke in the middle")
		}

		c = newCloud(t, reconciletest.CloudOptions{DeleteTakes: time.Minute, Latency: time.Second})
		r, _ := c.Create(t.Context(), reconciletest.Resource{})
		c.Delete(t.Context(), r.ID)
		if got, err := c.Get(t.Context(), r.ID); err != nil || !got.Deleting {
			t.Errorf("during a slow delete: %+v, %v", got, err)
		}
		time.Sleep(time.Minute)
		if _, err := c.Get(t.Context(), r.ID); !errors.Is(err, reconciletest.ErrNotFound) {
			t.Errorf("after a slow delete: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Get(ctx, "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// The same seed and the same calls meet the same faults.
func TestSameSeedSameCloud(t *testing.T) {
	story := func(seed uint64) (lines []string) {
		synctest.Test(t, func(t *testing.T) {
			c := newCloud(t, reconciletest.CloudOptions{Seed: seed, Errors: 0.2, Lost: 0.2, Lag: time.Minute, Latency: time.Second})
			for i := range 200 {
				r, err := c.Create(t.Context(), reconciletest.Resource{Name: fmt.Sprint(i)})
				lines = append(lines, fmt.Sprint(r.ID, err, time.Now()))
				if i%10 == 0 {
					lines = append(lines, c.Drift(1)...)
				}
			}
		})
		return lines
	}
	if !reflect.DeepEqual(story(7), story(7)) {
		t.Error("seed 7 told two stories")
	}
	if reflect.DeepEqual(story(7), story(8)) {
		t.Error("seeds 7 and 8 told one story")
	}
}

func TestKilledProcessHasNoEffectAnyMore(t *testing.T) {
	ctx := t.Context()
	b, err := memory.New(&memory.Options{Encode: true})
	if err != nil {
		t.Fatal(err)
	}
	txn := func(name string) store.Txn {
		return store.Txn{Ops: []store.Op{{Kind: "k", Key: store.Key{Name: name}, Put: store.Bytes("v")}}}
	}
	for kill, want := range map[int]int{1: 0, 2: 1, 3: 1, 4: 2} {
		c := newCloud(t, reconciletest.CloudOptions{})
		s := &reconciletest.Steps{Kill: kill}
		c.Through(s)
		stepped := s.Backend(b)
		_, err1 := stepped.Commit(ctx, txn(fmt.Sprint("a", kill)))
		_, err2 := c.Create(ctx, reconciletest.Resource{})
		done := len(c.Truth())
		if _, err := b.Get(ctx, "k", store.Key{Name: fmt.Sprint("a", kill)}); err == nil {
			done++
		}
		if done != want || !errors.Is(errors.Join(err1, err2), reconciletest.ErrKilled) || !s.Dead() {
			t.Errorf("killed at %d: %d effects (%v, %v), want %d:\n%s", kill, done, err1, err2, want, strings.Join(s.Trail(), "\n"))
		}
		if _, err := stepped.Get(ctx, "k", store.Key{Name: "a"}); !errors.Is(err, reconciletest.ErrKilled) {
			t.Errorf("killed at %d: a later call: %v", kill, err)
		}
	}
}

func TestRunUntilIdleRunsAsAControllerWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []reconcile.Outcome{
			{Err: errors.New("no")},
			{Result: reconcile.Result{Requeue: true}},
			{Result: reconcile.Result{RequeueAfter: 5 * time.Second}},
			{Err: errors.New("no")},
			{Result: reconcile.Result{RequeueAfter: time.Minute}},
		}
		r := reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
			a := answers[0]
			answers = answers[1:]
			return a.Result, a.Err
		})
		start := time.Now()
		last, runs := reconciletest.RunUntilIdle(t.Context(), r, "x", time.Minute)
		if runs != 5 || last.Result.RequeueAfter != time.Minute || time.Since(start) != (1+2+5+1)*time.Second {
			t.Errorf("%d runs in %v, last %+v", runs, time.Since(start), last)
		}
		stuck := reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
			return reconcile.Result{}, reconcile.Terminal(errors.New("no"))
		})
		if last, runs := reconciletest.RunUntilIdle(t.Context(), stuck, "x", time.Minute); runs != 1 || last.Err == nil {
			t.Errorf("terminal: %d runs, %v", runs, last.Err)
		}
	})
}

// A reconciler that fails for good fails its test, which would otherwise go on until the
// test binary is killed.
func TestRunUntilIdleGivesUpOnAKeyThatNeverSucceeds(t *testing.T) {
	for name, o := range map[string]reconcile.Outcome{
		"an error":  {Err: errors.New("the size is refused")},
		"a requeue": {Result: reconcile.Result{Requeue: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 7*24*time.Hour)
				defer cancel()
				r := reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) { return o.Result, o.Err })
				last, runs := reconciletest.RunUntilIdle(ctx, r, "x", time.Minute)
				if ctx.Err() != nil || last.Err == nil || runs < 100 || !errors.Is(last.Err, o.Err) && o.Err != nil {
					t.Errorf("%d runs, last %+v, context %v", runs, last, ctx.Err())
				}
			})
		})
	}
}

// Negative control: with zero alone taken for no delay, and the delay of an error for
// none, it ran until the context ended.
func TestRunUntilIdleEndsWhereAControllerWouldRest(t *testing.T) {
	for name, o := range map[string]reconcile.Outcome{
		"a delay below zero":       {Result: reconcile.Result{RequeueAfter: -time.Second}},
		"no failure, and a delay":  {Err: reconcile.RetryAfter(nil, time.Hour)},
		"a failure with its delay": {Err: reconcile.RetryAfter(errors.New("no"), time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				r := reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
					if ctx.Err() != nil {
						t.Fatal("it goes on for ever")
					}
					time.Sleep(time.Second)
					return o.Result, o.Err
				})
				if _, runs := reconciletest.RunUntilIdle(ctx, r, "x", time.Minute); runs != 1 {
					t.Errorf("%d runs, want 1", runs)
				}
			})
		})
	}
}

// keeper is the simplest system there can be: every second it makes the cloud
// have one resource for each name.
func keeper(c *reconciletest.Cloud, want map[string]bool, broken bool) func() (func(), error) {
	return func() (func(), error) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan bool)
		go func() { // ends at cancel
			defer close(done)
			for ctx.Err() == nil {
				for name := range want {
					if _, err := c.Get(ctx, name); broken || errors.Is(err, reconciletest.ErrNotFound) {
						c.Create(ctx, reconciletest.Resource{Name: name})
					}
				}
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
		}()
		return func() { cancel(); <-done }, nil
	}
}

// The simulation passes for a system that works, and fails for one that does
// not converge, does not fall silent, or breaks an invariant.
func TestSimulationTellsGoodSystemsFromBad(t *testing.T) {
	for name, c := range map[string]struct {
		busy      bool
		check     func(*reconciletest.Cloud) error
		invariant func() error
		want      string
	}{
		"good":    {},
		"busy":    {busy: true, want: "not silent"},
		"unequal": {check: func(*reconciletest.Cloud) error { return errors.New("one is missing") }, want: "not as declared"},
		"broken":  {invariant: func() error { return errors.New("two at once") }, want: "two at once"},
	} {
		synctest.Test(t, func(t *testing.T) {
			cloud := newCloud(t, reconciletest.CloudOptions{Seed: 1, UniqueNames: true, Errors: 0.2})
			want := map[string]bool{"a": true, "b": true}
			s := reconciletest.Simulation{
				Seed: 9, Cloud: cloud, Start: keeper(cloud, want, c.busy), Drift: 0.5, Restart: 0.1, Invariant: c.invariant,
				Acts: []func(*rand.Rand) (string, error){func(*rand.Rand) (string, error) { return "nothing", nil }},
				Check: func() error {
					if c.check != nil {
						return c.check(cloud)
					}
					if n := len(cloud.Truth()); n != 2 {
						return fmt.Errorf("%d resources", n)
					}
					return nil
				},
			}
			err := s.Run(t.Context())
			if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), "seed 9") {
				t.Errorf("%s: the error does not say the seed", name)
			}
		})
	}
	if err := (&reconciletest.Simulation{}).Run(t.Context()); err == nil {
		t.Error("an empty simulation ran")
	}
}

// Servers begin with a clock of their own, and it jumps; what is measured stays right, and
// when the simulation is over the clock is right again.
func TestSimulationSetsTheWallClocksOfItsServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud, err := reconciletest.NewCloud(nil)
		if err != nil {
			t.Fatal(err)
		}
		begun, starts := time.Now(), 0
		off := map[time.Duration]bool{}
		look := func() { off[time.Until(wall.Now())] = true }
		s := reconciletest.Simulation{
			Seed: 1, Cloud: cloud, Restart: 0.1, Jump: 0.3,
			Acts:      []func(*rand.Rand) (string, error){func(*rand.Rand) (string, error) { return "nothing", nil }},
			Start:     func() (func(), error) { starts++; look(); return nil, nil },
			Invariant: func() error { look(); return nil },
			Check:     func() error { return nil },
		}
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if starts < 2 || len(off) < starts+2 || off[0] {
			t.Errorf("%d starts and the clocks %v, want each start and jump to have another", starts, off)
		}
		for d := range off {
			if d.Abs() > 12*time.Hour {
				t.Errorf("a clock was %v off, want half a day at most", d)
			}
		}
		if took := time.Since(begun); time.Until(wall.Now()) != 0 || took < 3*time.Hour || took > 4*time.Hour {
			t.Errorf("after %v the clock is %v off, want it right after 3 h and the last pause", took, time.Until(wall.Now()))
		}
	})
}
