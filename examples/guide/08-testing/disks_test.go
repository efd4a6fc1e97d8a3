package disks

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// guide: one

// One key, run as a controller would run it, until there is nothing more to do.
func TestDiskIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // waits of the reconciler take no time
		cloud, disks := newCloud(t, nil), newDisks(t, nil)
		key := declare(t, disks, "data", "10GB")
		last, _ := reconciletest.RunUntilIdle(t.Context(), Reconciler{disks, cloud}, key, time.Minute)
		if last.Err != nil {
			t.Fatal(last.Err)
		}
		if got := cloud.Peek("data").Props["size"]; got != "10GB" {
			t.Errorf("the disk has size %q, want 10GB", got)
		}
		if disk, err := disks.Get(t.Context(), key); err != nil {
			t.Error(err)
		} else if !disk.Ready() {
			t.Errorf("the object is not ready: %v", disk.Conditions)
		}
	})
}

// guide: end

// guide: kill

// The process is killed at each step at which it can be, before and after each call to
// the store and to the cloud. Another process goes on, and there is one disk.
func TestDiskIsMadeOnceWhereverTheProcessDies(t *testing.T) {
	for kill := 1; ; kill++ {
		died := false
		synctest.Test(t, func(t *testing.T) {
			cloud, steps := newCloud(t, nil), &reconciletest.Steps{Kill: kill}
			backend := newBackend(t)
			disks := newDisks(t, backend)
			key := declare(t, disks, "data", "10GB")

			cloud.Through(steps)
			doomed := Reconciler{newDisks(t, steps.Backend(backend)), cloud}
			reconciletest.RunOne(t.Context(), doomed, key)
			died = steps.Dead() // whatever the reconciler made of the error
			cloud.Through(nil)

			reconciletest.RunUntilIdle(t.Context(), Reconciler{disks, cloud}, key, time.Minute)
			if n := len(cloud.Truth()); n != 1 {
				t.Errorf("killed at step %v: %d disks, want 1", steps.Trail(), n)
			}
		})
		if died {
			continue
		}
		if kill == 1 {
			t.Error("no step was taken: neither the store nor the cloud was called through steps")
		}
		return // the run ended before it came to that step: all were tried
	}
}

// guide: end

// guide: storm

// A whole controller, against a cloud that is slow, fails, and loses answers: within an
// hour all is as declared, and stays so. The hour passes in milliseconds.
func TestDisksConvergeInABadCloud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, &reconciletest.CloudOptions{
			Seed: 1, UniqueNames: true, Latency: time.Second, Errors: 0.2, Lost: 0.2,
		})
		disks := newDisks(t, nil)
		for i := range 50 {
			declare(t, disks, fmt.Sprintf("disk-%d", i), "10GB")
		}
		objects, err := cache.New(disks, nil)
		if err != nil {
			t.Fatal(err)
		}
		controller, err := reconcile.New("disks", Reconciler{disks, cloud}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := controller.Watch(reconcile.From(objects)); err != nil {
			t.Fatal(err)
		}
		var manager reconcile.Manager
		if err := manager.Register(controller); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- manager.Run(ctx) }()

		asDeclared := func() error {
			for i := range 50 {
				if size := cloud.Peek(fmt.Sprintf("disk-%d", i)).Props["size"]; size != "10GB" {
					return fmt.Errorf("disk %d has size %q", i, size)
				}
			}
			return nil
		}
		if err := reconciletest.Converge(t.Context(), time.Hour, 0, asDeclared); err != nil {
			t.Error(err)
		}
		cloud.Drift(10) // ten disks are altered or removed behind the controller's back
		if err := reconciletest.Converge(t.Context(), time.Hour, time.Hour, asDeclared); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// guide: end

func newCloud(t *testing.T, o *reconciletest.CloudOptions) *reconciletest.Cloud {
	t.Helper()
	if o == nil {
		o = &reconciletest.CloudOptions{UniqueNames: true}
	}
	cloud, err := reconciletest.NewCloud(o)
	if err != nil {
		t.Fatal(err)
	}
	return cloud
}

func newBackend(t *testing.T) store.Backend {
	t.Helper()
	backend, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return backend
}

// newDisks is a store on the backend; nil: on one of its own.
func newDisks(t *testing.T, backend store.Backend) *Disks {
	t.Helper()
	if backend == nil {
		backend = newBackend(t)
	}
	disks, err := store.New[Spec, Status](backend, "disk", nil)
	if err != nil {
		t.Fatal(err)
	}
	return disks
}

func declare(t *testing.T, disks *Disks, name, size string) store.Key {
	t.Helper()
	disk, err := disks.Create(t.Context(), &Disk{Meta: store.Meta{Name: name}, Spec: Spec{Size: size}})
	if err != nil {
		t.Fatal(err)
	}
	return disk.Key()
}
