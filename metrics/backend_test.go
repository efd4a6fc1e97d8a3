package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/storetest"
)

func newBackend(t testing.TB) store.Backend {
	t.Helper()
	b, err := memory.New(&memory.Options{History: 300})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func measure(t testing.TB, b store.Backend) (*metrics.Collector, store.Backend) {
	t.Helper()
	c := metrics.New(nil)
	m, err := c.Measure("main", b)
	if err != nil {
		t.Fatal(err)
	}
	return c, m
}

func TestMeasuredBackendKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB) store.Backend {
		_, b := measure(t, newBackend(t))
		return b
	}, &storetest.Options{Bubble: true})
}

type noLeases struct{ store.Backend }

func TestMeasuredBackendHasLeasesIfTheBackendHas(t *testing.T) {
	for want, b := range map[bool]store.Backend{true: newBackend(t), false: noLeases{newBackend(t)}} {
		_, m := measure(t, b)
		if _, ok := m.(store.Leaser); ok != want {
			t.Errorf("a measured %T has leases: %v, want %v", b, ok, want)
		}
	}
}

func TestCallsAreCountedByOutcome(t *testing.T) {
	ctx := t.Context()
	var fault storetest.Fault
	c, b := measure(t, storetest.Faulty(newBackend(t), func(storetest.Call) storetest.Fault { return fault }))
	put := func(ctx context.Context, name string, at store.Revision) error {
		key := store.Key{Name: name}
		_, err := b.Commit(ctx, store.Txn{
			If:  []store.Compare{{Kind: "Disk", Key: key, Revision: at}},
			Ops: []store.Op{{Kind: "Disk", Key: key, Put: store.Bytes("{}")}},
		})
		return err
	}
	want(t, scrape(t, c), "tend_fenced_writes_total", 0, "backend=main")

	over, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("enough"))
	unfenced := store.WithGuard(ctx, store.Compare{Kind: "Lease", Key: store.Key{Name: "gone"}, Created: 1})
	for _, err := range []error{
		put(ctx, "a", 0), put(ctx, "b", 0), put(ctx, "a", 0), put(unfenced, "a", 0), put(ctx, "", 0), put(over, "c", 0),
	} {
		t.Log(err)
	}
	fault.Break = storetest.ReplyLost
	t.Log(put(ctx, "c", 0))
	fault.Break = storetest.Refused
	t.Log(put(ctx, "d", 0))
	fault = storetest.Fault{}
	for _, name := range []string{"a", "nobody"} {
		_, err := b.Get(ctx, "Disk", store.Key{Name: name})
		t.Log(err)
	}
	if _, err := b.List(ctx, "Disk", store.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	l := b.(store.Leaser)
	id, err := l.Grant(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(l.Renew(ctx, id), l.Revoke(ctx, id), l.Renew(ctx, id))

	f := scrape(t, c)
	for at, n := range map[[2]string]float64{
		{"commit", "ok"}: 2, {"commit", "conflict"}: 1, {"commit", "fenced"}: 1, {"commit", "invalid"}: 1,
		{"commit", "canceled"}: 1, {"commit", "unknown"}: 1, {"commit", "error"}: 1,
		{"get", "ok"}: 1, {"get", "not_found"}: 1, {"list", "ok"}: 1,
		{"grant", "ok"}: 1, {"renew", "ok"}: 1, {"revoke", "ok"}: 1, {"renew", "lease_gone"}: 1,
	} {
		want(t, f, "tend_store_operation_duration_seconds", n, "backend=main", "operation="+at[0], "outcome="+at[1])
	}
	want(t, f, "tend_fenced_writes_total", 1, "backend=main")
}

// slow is a backend that gives up after a time of its own.
type slow struct{ store.Backend }

func (slow) Get(context.Context, string, store.Key) (store.Record, error) {
	return store.Record{}, fmt.Errorf("no answer within the request timeout (%w)", context.DeadlineExceeded)
}

// A call is canceled if its caller gave it up. One that the store did not answer in the time that
// it gives itself failed: counted as canceled, a store that was frozen raised no alert.
//
// Negative control: mutant "a time limit of the store's own is its caller's".
func TestTimeLimitOfTheStoresOwnIsAnError(t *testing.T) {
	c, b := measure(t, slow{newBackend(t)})
	_, _ = b.Get(t.Context(), "Disk", store.Key{Name: "a"})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = b.Get(over, "Disk", store.Key{Name: "a"})
	f := scrape(t, c)
	for _, outcome := range []string{"error", "canceled"} {
		want(t, f, "tend_store_operation_duration_seconds", 1, "backend=main", "operation=get", "outcome="+outcome)
	}
}

func TestMeasureRefusesNilAndTwins(t *testing.T) {
	c := metrics.New(nil)
	if _, err := c.Measure("a", nil); err == nil {
		t.Error("a nil backend was measured")
	}
	b := newBackend(t)
	if _, err := c.Measure("a", b); err != nil {
		t.Error(err)
	}
	if _, err := c.Measure("a", b); err == nil {
		t.Error("a name was measured twice")
	}
}

// What is measured on the hot path allocates nothing.
//
// Negative control: with the histogram looked up by a map of labels for each call it allocates.
func TestMeasuringAllocatesNothing(t *testing.T) {
	ctx, plain := t.Context(), newBackend(t)
	_, measured := measure(t, plain)
	key := store.Key{Name: "a"}
	if _, err := plain.Commit(ctx, store.Txn{Ops: []store.Op{{Kind: "Disk", Key: key, Put: store.Bytes("{}")}}}); err != nil {
		t.Fatal(err)
	}
	allocs := func(b store.Backend) float64 {
		return testing.AllocsPerRun(1000, func() {
			if _, err := b.Get(ctx, "Disk", key); err != nil {
				t.Error(err)
			}
		})
	}
	allocs(measured) // the first of its kind makes the counters
	if with, without := allocs(measured), allocs(plain); with > without {
		t.Errorf("%v allocations for a measured Get, %v for a plain one", with, without)
	}
}
