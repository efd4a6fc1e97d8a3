// Package program puts a whole program together and runs it: until its context ends or until
// everything is as declared, with progress on the way, and at the end what is left and why.
//
//	p := program.Open(ctx, "file:sites.db")                // the store, by its URL
//	sites := program.AddKind[Spec, Status](p, "site", nil) // a kind: store, cache, progress
//	sites.Reconcile(reconcile, nil)                        // its controller; or ReconcileBy
//	p.Use(inventory.Pruning(time.Hour, nil))               // what else runs or is shown
//	p.Use(web.Listen(address, nil, &web.Options{Program: p}))
//	err := p.Run(ctx, nil)                                 // all errors so far, or the program's
//
// # States and owners
//
// While a [Program] is built, one goroutine calls it; each call keeps its error and returns what
// can be used. Run looks for kinds that nothing reconciles, registers controllers, caches and
// runners with the Manager, has package web look at the parts, and runs the Manager; then it
// closes the store, if Open opened it. The parts are those of store.New, cache.New,
// reconcile.ForCache, [Of], Manager.Register and web.New: each can be reached, or be built by hand,
// run by [Run], or given to Use.
//
// # When an object is as declared
//
// A [Kind] reads the objects of a cache. An object counts as declared and done when
//
//   - it is not being deleted, Ready in its present generation, and not Synced=False, unless
//     it is paused. Metrics and pages count by the same. An object without a
//     Ready condition, as of a reconciler that writes no conditions, counts by its runs
//     alone; see [KindOptions.Done].
//   - with [Kind.Track], a run in this process ended without an error, and that run began
//     when its controller's cache had the object's present generation. A stored "ready" proves nothing
//     about the world after a restart; a run does.
//
// Without Track the stored conditions decide, whichever process wrote them. That is the
// choice for several servers that share the keys, for a follower, and for a program that
// only watches. With Track, each server counts its own runs only: a server without the
// lease does not get done.
//
// An object that is being deleted is left until it is gone; one that cannot be decoded, or that a
// newer version stored, until a person mends it. A new object is left from the moment at which the
// cache has it.
//
// # What is not
//
// Done is about the last run: what changes in the world behind the program's back is
// found by the next poll or resync. Objects that a cache's Selector leaves out do not
// count. Runs of a BatchReconciler are not tracked: a controller of one runs no
// middleware.
//
// # Design notes
//
// Progress is counted again from the cache when something has changed, at most for a
// tenth of one processor's time, instead of being kept up to date with each change.
// Counts of changes and counts of runs come from different goroutines, and a total that
// is added up from both is wrong for a moment, in which a program would end.
package program
