// Package tend is the root of a reconciliation kernel for Go services that do
// not run on Kubernetes. It holds no code: import the packages below it.
//
// Read in this order:
//
//   - README.md, docs/PROMISES.md and docs/COMPARISON.md, for what tend is, what it promises and where others
//     are the better choice;
//   - [github.com/tendhq/tend/reconcile], for controllers and the manager;
//   - examples/quickstart, for the smallest whole program;
//   - [github.com/tendhq/tend/queue], for the work queue under it all.
//
// # Layers
//
// Imports point down only, never sideways; TestImportsPointDown keeps it so.
//
//	L6  examples/* (own module)                    bench (own module)
//	L5  metrics               reconcile/debug      reconcile/reconciletest              tracing (own module)
//	L4  reconcile/external
//	L3  reconcile/lifecycle   reconcile/quota
//	L2  reconcile
//	L1  reconcile/lease       queue/workqueue      store/{memory,file,cache,storetest}   store/etcd (own module)
//	L0  queue                 store
//	    ratelimit, below queue
//
// Beside them stand internal/campaign, comingfrom, fileorder and mutants, for tests,
// and below all of them internal/sleep and spin.
//
// Nothing flows back up except through the store's watch and the settlement of
// a queue item.
package tend
