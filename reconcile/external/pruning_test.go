package external_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// Pruning prunes at once and in each interval. A refusal is in Health and in the log, and is not
// asked for again before the interval; a list that fails is made again after a minute.
func TestPruningSaysWhatItRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := memory.New(nil)
		ok(t, err)
		disks, err := store.New[struct{}, struct{}](b, "disk", nil)
		ok(t, err)
		_, err = disks.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "declared"}})
		ok(t, err)
		var mu sync.Mutex // guards what follows
		there, lists := map[string]bool{"declared": true}, 0
		var broken error
		with := func(f func()) {
			mu.Lock()
			defer mu.Unlock()
			f()
		}
		left := func() (n int) { with(func() { n = len(there) }); return n }
		v, err := external.NewInventory(&external.InventoryOptions[struct{}, struct{}, string]{
			Store: disks, Installation: "here",
			List: func(context.Context) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					var ids []string
					var err error
					with(func() { lists++; ids, err = slices.Collect(maps.Keys(there)), broken })
					if err != nil {
						yield("", err)
						return
					}
					for _, id := range ids {
						if !yield(id, nil) {
							return
						}
					}
				}
			},
			Get: func(_ context.Context, id string) (string, bool, error) {
				mu.Lock()
				defer mu.Unlock()
				return id, there[id], nil
			},
			ID:   func(r string) string { return r },
			IDOf: func(o *store.Object[struct{}, struct{}]) string { return o.Name },
			Owner: func(r string) (external.Mark, bool) {
				return external.Mark{Installation: "here", Kind: "disk", Key: store.Key{Name: r}}, true
			},
			Compare: func(*store.Object[struct{}, struct{}], string) external.Observation {
				return external.Observation{UpToDate: true}
			},
			Delete: func(_ context.Context, r string) error { with(func() { delete(there, r) }); return nil },
		})
		ok(t, err)
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		c, err := v.Pruning(time.Hour, &reconcile.Options[reconcile.Request]{Logger: logger})
		ok(t, err)
		manager := reconcile.Manager{Logger: logger}
		ok(t, manager.Register(c))
		with(func() { there["orphan"] = true })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- manager.Run(ctx) }() // ended by cancel, waited for below
		after := func(d time.Duration) string {
			time.Sleep(d)
			synctest.Wait()
			for _, check := range manager.Health() {
				if check.Name == "prune disk" {
					return check.Reason
				}
			}
			return "it has no check"
		}
		if reason := after(time.Second); reason != "" || left() != 1 {
			t.Errorf("after the first prune: %q, %d there", reason, left())
		}
		for i := range 15 { // more than the cap
			with(func() { there[fmt.Sprint("orphan", i)] = true })
		}
		if reason := after(time.Hour); !strings.Contains(reason, "prune refused") || left() != 16 {
			t.Errorf("a refusal is not in Health: %q, %d there", reason, left())
		}
		made := func() (n int) { with(func() { n = lists }); return n }
		if was := made(); after(58*time.Minute) == "" || made() != was {
			t.Errorf("a refusal was tried again %d times before the interval", made()-was)
		}
		for i := range 14 {
			with(func() { delete(there, fmt.Sprint("orphan", i)) })
		}
		if reason := after(2 * time.Minute); reason != "" || left() != 1 {
			t.Errorf("after the operator looked: %q, %d there", reason, left())
		}
		with(func() { broken = errors.New("the cloud is down") })
		if reason := after(time.Hour); !strings.Contains(reason, "the cloud is down") {
			t.Errorf("a list that fails: %q", reason)
		}
		with(func() { broken = nil })
		if reason := after(2 * time.Minute); reason != "" {
			t.Errorf("two minutes after the cloud is back: %q", reason)
		}
		bucket, err := ratelimit.NewBucket("cloud", 1, 1)
		ok(t, err)
		with(func() {
			broken = ratelimit.Throttled(bucket, time.Now().Add(90*time.Minute), errors.New("the quota is used up"))
		})
		if reason := after(time.Hour); reason != "" {
			t.Errorf("a quota that is used up is a failure: %q", reason)
		}
		with(func() { broken, there["orphan"] = nil, true })
		if was := made(); after(28*time.Minute) != "" || made() != was || left() != 2 {
			t.Errorf("there were %d lists while the quota was used up", made()-was)
		}
		if reason := after(3 * time.Minute); reason != "" || left() != 1 {
			t.Errorf("when there is budget again: %q, %d there", reason, left())
		}
		cancel()
		ok(t, <-ended)
		for _, want := range []string{"pruned", "key=orphan", "prune refused", "at most 1 may be deleted"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log has no %q:\n%s", want, log.String())
			}
		}
	})
}

// sharedStore is one that other processes can open.
type sharedStore struct{ store.FullBackend }

func (sharedStore) Shared() bool { return true }

// listed is an inventory of a cloud with nothing in it, and how often it was listed.
func listed(t *testing.T, b store.Backend) (*external.Inventory[struct{}, struct{}, string], *atomic.Int64) {
	t.Helper()
	return listFailing(t, b, func(context.Context) error { return nil })
}

// listFailing is one whose lists end with an error, unless that is nil.
func listFailing(t *testing.T, b store.Backend, list func(context.Context) error) (*external.Inventory[struct{}, struct{}, string], *atomic.Int64) {
	t.Helper()
	disks, err := store.New[struct{}, struct{}](b, "disk", nil)
	ok(t, err)
	var lists atomic.Int64
	v, err := external.NewInventory(&external.InventoryOptions[struct{}, struct{}, string]{
		Store: disks, Installation: "here",
		List: func(ctx context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				lists.Add(1)
				if err := list(ctx); err != nil {
					yield("", err)
				}
			}
		},
		Get:     func(context.Context, string) (string, bool, error) { return "", false, nil },
		ID:      func(r string) string { return r },
		IDOf:    func(o *store.Object[struct{}, struct{}]) string { return o.Name },
		Owner:   func(string) (external.Mark, bool) { return external.Mark{}, false },
		Compare: func(*store.Object[struct{}, struct{}], string) external.Observation { return external.Observation{} },
		Delete:  func(context.Context, string) error { return nil },
	})
	ok(t, err)
	return v, &lists
}

// Where other processes can open the store one server prunes at a time, unless the caller has
// placed it otherwise.
//
// Seen to fail without the lease, and with one that took the place of the caller's.
func TestPruningIsOneServersWork(t *testing.T) {
	for _, everywhere := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b, err := memory.New(nil)
			ok(t, err)
			logger := slog.New(slog.DiscardHandler)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			listing := 0
			var lists [2]*atomic.Int64
			for i := range lists {
				var v *external.Inventory[struct{}, struct{}, string]
				v, lists[i] = listed(t, sharedStore{b})
				o := &reconcile.Options[reconcile.Request]{Logger: logger}
				if everywhere {
					o.Placement = lease.EveryServer()
				}
				c, err := v.Pruning(time.Hour, o)
				ok(t, err)
				manager := reconcile.Manager{Logger: logger}
				ok(t, manager.Register(c))
				running.Go(func() { ok(t, manager.Run(ctx)) })
			}
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			for _, n := range lists {
				if n.Load() > 0 {
					listing++
				}
			}
			if want := map[bool]int{false: 1, true: 2}[everywhere]; listing != want {
				t.Errorf("%d servers prune, want %d", listing, want)
			}
			cancel()
			running.Wait()
		})
	}
}

// A prune that failed is made again after a minute, or after the interval if that is less; one that a
// quota put off is never made at once.
//
// Seen to fail with the minute or the interval alone.
func TestPruningThatFailedIsMadeAgain(t *testing.T) {
	bucket, err := ratelimit.NewBucket("cloud", 1, 1)
	ok(t, err)
	for what, c := range map[string]struct {
		every time.Duration
		err   func() error
		want  int64 // lists within ten minutes
	}{
		"an interval below a minute": {10 * time.Second, func() error { return errors.New("cut off") }, 61},
		"an interval above a minute": {time.Hour, func() error { return errors.New("cut off") }, 11},
		"a quota that was used up":   {time.Hour, func() error { return ratelimit.Throttled(bucket, time.Now(), errors.New("slow down")) }, 601},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := memory.New(nil)
				ok(t, err)
				v, lists := listFailing(t, b, func(context.Context) error { return c.err() })
				end := prune(t, v, c.every, slog.DiscardHandler)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if got := lists.Load(); got != c.want {
					t.Errorf("%d lists, want %d", got, c.want)
				}
				end()
			})
		})
	}
}

// A stop in the middle of a prune is no failure.
//
// Seen to fail where the error of the stop was reported.
func TestPruningThatIsStoppedIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := memory.New(nil)
		ok(t, err)
		v, lists := listFailing(t, b, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		var log bytes.Buffer
		end := prune(t, v, time.Hour, slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		synctest.Wait()
		if lists.Load() != 1 {
			t.Fatalf("%d lists, want one under way", lists.Load())
		}
		end()
		if log.Len() > 0 {
			t.Errorf("the log has\n%s", &log)
		}
	})
}

// prune has v pruned until end is called.
func prune(t *testing.T, v *external.Inventory[struct{}, struct{}, string], every time.Duration, log slog.Handler) (end func()) {
	t.Helper()
	logger := slog.New(log)
	c, err := v.Pruning(every, &reconcile.Options[reconcile.Request]{Logger: logger})
	ok(t, err)
	m := reconcile.Manager{Logger: logger}
	ok(t, m.Register(c))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }() // ended and received by end
	return func() {
		cancel()
		ok(t, <-ended)
	}
}

func TestPruningIsRefusedWithoutAnInterval(t *testing.T) {
	var none *external.Inventory[struct{}, struct{}, string]
	if _, err := none.Pruning(time.Hour, nil); err == nil {
		t.Error("there is no inventory, and no error")
	}
	b, err := memory.New(nil)
	ok(t, err)
	v, _ := listed(t, b)
	for _, every := range []time.Duration{0, -time.Hour} {
		if _, err := v.Pruning(every, nil); err == nil {
			t.Errorf("an interval of %v is taken", every)
		}
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
