// Package ofobjects makes controllers of objects for packages that are generic in their types. A generic function is
// compiled in each package of a program that uses it, with all that it calls: a controller is half a second of that. What
// is called through this package is compiled once.
package ofobjects

import "github.com/tendhq/tend/reconcile"

// Controller is [reconcile.New].
//
//go:noinline
func Controller(name string, r reconcile.Reconciler[reconcile.Request], o *reconcile.Options[reconcile.Request]) (*reconcile.Controller[reconcile.Request], error) {
	return reconcile.New(name, r, o)
}

// Batches is [reconcile.NewBatch].
//
//go:noinline
func Batches(name string, r reconcile.BatchReconciler[reconcile.Request], o *reconcile.Options[reconcile.Request]) (*reconcile.Controller[reconcile.Request], error) {
	return reconcile.NewBatch(name, r, o)
}
