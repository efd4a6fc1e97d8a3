package reconciletest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/storetest"
)

func TestConvergeTellsWhatConvergesFromWhatDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		after := func(d time.Duration) func() error {
			return func() error {
				if time.Since(begun) < d {
					return errors.New("not yet")
				}
				return nil
			}
		}
		if err := reconciletest.Converge(t.Context(), time.Hour, time.Minute, after(30*time.Minute)); err != nil {
			t.Error(err)
		}
		err := reconciletest.Converge(t.Context(), time.Hour, 0, after(24*time.Hour))
		if err == nil || !strings.Contains(err.Error(), "not yet") {
			t.Errorf("never: %v, want why not", err)
		}
		good := time.Now()
		err = reconciletest.Converge(t.Context(), time.Hour, time.Minute, func() error {
			if time.Since(good) >= time.Minute {
				return errors.New("it swung back")
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "swung back") {
			t.Errorf("for a moment only: %v", err)
		}
		swung := time.Now()
		err = reconciletest.Converge(t.Context(), time.Hour, time.Hour, func() error {
			if d := time.Since(swung); d >= 10*time.Minute && d < 11*time.Minute {
				return errors.New("it was taken away and came back")
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "came back") || time.Since(swung) != 10*time.Minute {
			t.Errorf("as it should be but for a minute: %v, after %v", err, time.Since(swung))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := reconciletest.Converge(ctx, time.Hour, 0, func() error { return errors.New("never") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cut short: %v", err)
		}
	})
}

type run func(context.Context) error

func (f run) Run(ctx context.Context) error { return f(ctx) }

func TestStartStopTellsGoodSystemsFromBad(t *testing.T) {
	for name, c := range map[string]struct {
		run  run
		want string
	}{
		"good":          {func(ctx context.Context) error { <-ctx.Done(); return nil }, ""},
		"ends early":    {func(context.Context) error { return nil }, "ended by itself"},
		"fails to stop": {func(ctx context.Context) error { <-ctx.Done(); return errors.New("left something") }, "left something"},
		"hangs":         {func(ctx context.Context) error { <-ctx.Done(); time.Sleep(2 * time.Hour); return nil }, "did not stop"},
	} {
		synctest.Test(t, func(t *testing.T) {
			err := reconciletest.StartStop(t.Context(), 1, 50, time.Second, func() (reconcile.Runner, error) { return c.run, nil })
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "seed 1")) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			time.Sleep(3 * time.Hour) // the one that hangs returns at last
		})
	}
	if err := reconciletest.StartStop(t.Context(), 1, 1, 0, nil); err == nil {
		t.Error("no time to live was taken")
	}
}

// A manager over a store with faults and a cloud with faults, stopped at 100 random
// moments, and in the end as declared.
//
// promise Q8
func TestManagerStopsAtAnyMomentAndConvergesInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, err := memory.New(&memory.Options{Encode: true})
		if err != nil {
			t.Fatal(err)
		}
		var calm atomic.Bool
		random := storetest.Random(7, storetest.Rates{Refused: .05, RequestLost: .02, ReplyLost: .02, Delayed: .2})
		faulty := storetest.Faulty(backend, func(c storetest.Call) storetest.Fault {
			if calm.Load() {
				return storetest.Fault{}
			}
			return random(c)
		})
		cloud := newCloud(t, reconciletest.CloudOptions{Seed: 7, UniqueNames: true, Latency: 50 * time.Millisecond, Errors: .05, Lost: .05})
		type object = store.Object[struct{}, struct{}]
		quiet := slog.New(slog.DiscardHandler)
		system := func() (reconcile.Runner, error) {
			disks, err := store.New[struct{}, struct{}](faulty, "disk", nil)
			if err != nil {
				return nil, err
			}
			c, err := reconcile.For(disks, func(ctx context.Context, o *object) (reconcile.Result, error) {
				_, err := cloud.Create(ctx, reconciletest.Resource{Name: o.Name})
				if errors.Is(err, reconciletest.ErrExists) {
					err = nil
				}
				return reconcile.Result{RequeueAfter: time.Minute}, err
			}, &reconcile.ForOptions[struct{}, struct{}]{Options: reconcile.Options[reconcile.Request]{Logger: quiet}})
			if err != nil {
				return nil, err
			}
			m := &reconcile.Manager{Logger: quiet}
			return m, m.Register(c)
		}
		disks, err := store.New[struct{}, struct{}](backend, "disk", nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			if _, err := disks.Create(t.Context(), &object{Meta: store.Meta{Name: fmt.Sprint("disk-", i)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := reconciletest.StartStop(t.Context(), 7, 100, 300*time.Millisecond, system); err != nil {
			t.Fatal(err)
		}
		calm.Store(true)
		cloud.Heal()
		last, err := system()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- last.Run(ctx) }() // ended and waited for below
		err = reconciletest.Converge(t.Context(), 10*time.Minute, time.Minute, func() error {
			if n := len(cloud.Truth()); n != 30 {
				return fmt.Errorf("%d disks, want 30", n)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
