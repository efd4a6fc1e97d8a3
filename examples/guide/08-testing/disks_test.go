package disks

import (
	"flag"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// guide: one

// One key, run as a controller would run it, until there is nothing more to do.
func TestDiskIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // waits of the reconciler take no time
		cloud, disks := newCloud(t, nil), newDisks(t, newBackend(t))
		disk := declare(t, disks, "data", "10GB")
		reconciler := newReconciler(t, disks, reconciletest.HTTPClient(cloud, nil))
		last, _ := reconciletest.RunUntilIdle(t.Context(), reconciler, disk.Key(), time.Minute)
		if last.Err != nil {
			t.Fatal(last.Err)
		}
		disk, err := disks.Get(t.Context(), disk.Key())
		if err != nil || !disk.Ready() {
			t.Errorf("got %v, %v; want the object ready", disk.Conditions, err)
		}
		if got := cloud.Peek(disk.Intent.ExternalName).Props["size"]; got != "10GB" {
			t.Errorf("the disk has size %q, want 10GB", got)
		}
	})
}

// guide: end

// guide: kill

// The process is killed at each step of its life: before and after each call to the store
// and to the provider. Another process goes on, and there is one disk.
func TestDiskIsMadeOnceWhereverTheProcessDies(t *testing.T) {
	reconciletest.KillAtEachStep(t, func(t *testing.T, steps *reconciletest.Steps) {
		cloud, backend := newCloud(t, nil), newBackend(t)
		disks := newDisks(t, backend)
		key := declare(t, disks, "data", "10GB").Key()

		doomed := newReconciler(t, newDisks(t, steps.Backend(backend)), reconciletest.HTTPClient(cloud, steps))
		reconciletest.RunUntilIdle(t.Context(), doomed, key, time.Minute)
		next := newReconciler(t, disks, reconciletest.HTTPClient(cloud, nil))
		reconciletest.RunUntilIdle(t.Context(), next, key, time.Minute)

		if n := len(cloud.Truth()); n != 1 {
			t.Errorf("there are %d disks, want 1", n)
		}
		if disk, err := disks.Get(t.Context(), key); err != nil || !disk.Ready() {
			t.Errorf("got %v, %v; want the object ready", disk, err)
		}
	})
}

// guide: end

// guide: storm

// A whole controller, against a cloud that is slow, fails, and loses answers: within an
// hour all is as declared, and stays so. The hour passes in milliseconds.
func TestDisksConvergeInABadCloud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, &reconciletest.CloudOptions{Seed: 1, Latency: time.Second, Errors: 0.2, Lost: 0.2})
		disks := newDisks(t, newBackend(t))
		var last *Disk
		for i := range 20 {
			last = declare(t, disks, fmt.Sprintf("disk-%d", i), "10GB")
		}
		objects, err := cache.New(disks, nil)
		if err != nil {
			t.Fatal(err)
		}
		controller, err := newReconciler(t, disks, reconciletest.HTTPClient(cloud, nil)).Controller("", objects, nil)
		if err != nil {
			t.Fatal(err)
		}
		reconciletest.Start(t, controller) // until the test ends
		reconciletest.Shown(t, last.Revision, objects)

		asDeclared := func() error {
			got := 0
			for _, r := range cloud.Truth() {
				if r.Props["size"] == "10GB" {
					got++
				}
			}
			if got != 20 || len(cloud.Truth()) != 20 {
				return fmt.Errorf("%d of %d disks are as declared, want 20", got, len(cloud.Truth()))
			}
			return nil
		}
		if err := reconciletest.Converge(t.Context(), time.Hour, 0, asDeclared); err != nil {
			t.Error(err)
		}
		cloud.Drift(5) // five disks are altered or removed behind the controller's back
		if err := reconciletest.Converge(t.Context(), time.Hour, time.Hour, asDeclared); err != nil {
			t.Error(err)
		}
	})
}

// guide: end

// guide: bench

var tune = reconciletest.NewBenchmark(flag.CommandLine)

// The same client, as many runs as the machine makes. A real provider does not answer at
// once: -work 50ms stands for its time.
func BenchmarkDisks(b *testing.B) {
	tune(b, func(b testing.TB, timed func(store.Backend) store.Backend) (reconcile.Reconciler[reconcile.Request], []reconcile.Request) {
		disks := newDisks(b, timed(newBackend(b)))
		var keys []reconcile.Request
		for i := range 100 {
			keys = append(keys, declare(b, disks, fmt.Sprintf("disk-%d", i), "10GB").Key())
		}
		return newReconciler(b, disks, reconciletest.HTTPClient(newCloud(b, nil), nil)), keys
	})
}

// guide: end

func newReconciler(tb testing.TB, disks *Disks, client *http.Client) *external.Reconciler[Spec, struct{}] {
	tb.Helper()
	reconciler, err := NewReconciler(disks, client)
	if err != nil {
		tb.Fatal(err)
	}
	return reconciler
}

func newCloud(tb testing.TB, o *reconciletest.CloudOptions) *reconciletest.Cloud {
	tb.Helper()
	cloud, err := reconciletest.NewCloud(o)
	if err != nil {
		tb.Fatal(err)
	}
	return cloud
}

func newBackend(tb testing.TB) store.Backend {
	tb.Helper()
	backend, err := memory.New(&memory.Options{Encode: true}) // what production keeps
	if err != nil {
		tb.Fatal(err)
	}
	return backend
}

func newDisks(tb testing.TB, backend store.Backend) *Disks {
	tb.Helper()
	disks, err := store.New[Spec, struct{}](backend, "disk", nil)
	if err != nil {
		tb.Fatal(err)
	}
	return disks
}

func declare(tb testing.TB, disks *Disks, name, size string) *Disk {
	tb.Helper()
	disk, err := disks.Create(tb.Context(), &Disk{Meta: store.Meta{Name: name}, Spec: Spec{Size: size}})
	if err != nil {
		tb.Fatal(err)
	}
	return disk
}
