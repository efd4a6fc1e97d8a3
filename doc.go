// Package tend is the root of a library that keeps things as they are declared, for
// services that do not run on Kubernetes. It has no code: import the packages below it.
//
// A store holds objects, each with a spec (what is wanted) and a status (what was found).
// A controller calls your function for an object when something about it changed, until the
// world is as the spec says. It never runs twice at once for one object, also on several
// servers, and tries again what fails.
//
//	sites, err := store.New[Spec, Status](backend, "site", nil)
//	controller, err := reconcile.For(sites, reconcileSite, nil)
//	var manager reconcile.Manager
//	err = manager.Register(controller)
//	err = manager.Run(ctx)
//
// The example below is a whole program. The guide is the way on, nine pages with programs:
// https://github.com/tendhq/tend/blob/main/docs/guide/README.md. PROMISES.md, COMPARISON.md
// and STABILITY.md say what is promised, where others are better, and which names may change.
//
// # The packages, in the order in which a program meets them
//
// A first program, and its tests:
//
//   - [github.com/tendhq/tend/reconcile] has controllers and the Manager.
//   - [github.com/tendhq/tend/store] has objects and kinds.
//   - [github.com/tendhq/tend/store/memory] keeps them for one process.
//   - [github.com/tendhq/tend/store/file] does so durably.
//   - [github.com/tendhq/tend/reconcile/program] runs a whole program.
//   - [github.com/tendhq/tend/reconcile/reconciletest] has a pretend cloud.
//
// Objects that belong together, and things outside:
//
//   - [github.com/tendhq/tend/store/cache] has a kind in memory, with indexes.
//   - [github.com/tendhq/tend/reconcile/lifecycle] runs work at a deletion.
//   - [github.com/tendhq/tend/reconcile/children] keeps what one object stands for.
//   - [github.com/tendhq/tend/reconcile/depend] makes objects wait for others.
//   - [github.com/tendhq/tend/reconcile/external] keeps resources in a cloud.
//   - [github.com/tendhq/tend/reconcile/quota] keeps to the cloud's limits.
//
// Several servers:
//
//   - [github.com/tendhq/tend/store/etcd] is a module of its own.
//   - [github.com/tendhq/tend/store/postgres] is one, too.
//   - [github.com/tendhq/tend/reconcile/lease] says which server has which keys.
//
// Operation:
//
//   - [github.com/tendhq/tend/reconcile/web] serves health and the next two.
//   - [github.com/tendhq/tend/metrics] is for Prometheus.
//   - [github.com/tendhq/tend/reconcile/web/debug] shows why a key does not run.
//   - [github.com/tendhq/tend/reconcile/declare] follows a file of declarations.
//   - [github.com/tendhq/tend/reconcile/web/api] takes them over HTTP.
//   - [github.com/tendhq/tend/cmd/tend] is a command that speaks it.
//   - [github.com/tendhq/tend/store/objects] shows objects of any kind.
//   - [github.com/tendhq/tend/metrics/tracing] traces runs; a module of its own.
//
// Underneath are [github.com/tendhq/tend/queue], which works alone too, and
// [github.com/tendhq/tend/queue/ratelimit]. [github.com/tendhq/tend/store/storetest]
// proves a backend of your own.
package tend
