// Package reconciletest helps to test reconcilers: one run ([RunOne]), all runs of
// a key until it is idle ([RunUntilIdle]), a system that comes to be as declared
// ([Converge]); a pretend cloud with
// the faults of real ones ([Cloud]), also over HTTP ([HTTPClient]), a way to kill a process at
// each moment at which it can die ([KillAtEachStep]), caches that have synced ([Start]), and hours
// of bad times ([Simulation]).
// docs/TESTING-A-RECONCILER.md says when to use which; storetest.Faulty makes a store that fails.
//
// Everything lives in the caller's time and is made for testing/synctest: in a
// bubble a day of polling passes at once. Only Start starts goroutines, and
// waits for them.
//
// # What it does not promise
//
// The cloud is deterministic for one worker: the same seed and the same calls
// in the same order meet the same faults. With several workers the order of
// goroutines is not fixed; check invariants there, not call lists.
//
// # Design notes
//
// A process is killed by making everything it does from some moment on have no
// effect, rather than by ending it: its goroutines run on for a while, as they
// do inside a real kernel, but neither the store nor the cloud hears of it.
// That needs no second process, so every moment can be tried, in fake time.
//
// The cloud is no S3 and no EC2: a resource has an id, a name, tags and
// properties. What differs between clouds is how they fail, and that is what
// there are options for.
package reconciletest
