// Package disks has a reconciler, and tests that show how to test one.
package disks

import (
	"context"
	"errors"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

type (
	// Spec is what is wanted of a disk.
	Spec struct{ Size string }
	// Status is what was found: what the cloud calls the disk.
	Status struct{ ID string }
	// Disk is a declared disk.
	Disk = store.Object[Spec, Status]
	// Disks is the store of the declared disks.
	Disks = store.Store[Spec, Status]
)

// Cloud is what the reconciler calls. A test gives it a reconciletest.Cloud.
type Cloud interface {
	Get(ctx context.Context, id string) (reconciletest.Resource, error)
	Create(ctx context.Context, r reconciletest.Resource) (reconciletest.Resource, error)
	Update(ctx context.Context, r reconciletest.Resource) error
}

// guide: reconcile

// Reconciler makes a disk for each object. A disk has the name of its object, and the
// cloud refuses a second disk of a name: so a create whose answer was lost is found
// again. It takes each disk of such a name for its own, and leaves that of a deleted
// object in the cloud: external.New takes care of both.
type Reconciler struct {
	Disks *Disks
	Cloud Cloud
}

// Reconcile implements reconcile.Reconciler.
func (r Reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	disk, err := r.Disks.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	want := reconciletest.Resource{ID: disk.Name, Name: disk.Name, Props: map[string]string{"size": disk.Spec.Size}}
	found, err := r.Cloud.Get(ctx, disk.Name)
	switch {
	case errors.Is(err, reconciletest.ErrNotFound):
		_, err = r.Cloud.Create(ctx, want)
	case err == nil && found.Props["size"] != disk.Spec.Size:
		err = r.Cloud.Update(ctx, want)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	disk.Status.ID = disk.Name
	disk.SetReady()
	if _, err := r.Disks.UpdateStatus(ctx, disk); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: 10 * time.Minute}, nil // look for drift
}

// guide: end
