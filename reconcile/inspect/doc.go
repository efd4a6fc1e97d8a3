// Package inspect tells whether all is well with what a Manager runs, and if not, what is broken,
// why, since when, and what to do. It is the one model of trouble: the debug page, its JSON and
// the command tend show what it finds.
//
//	l, err := inspect.New(&manager, &inspect.Options{Objects: kinds})
//	…
//	v, err := l.Look(ctx) // v.Level, v.Says, v.States, v.Causes, v.Under
//
// It works over snapshots and changes nothing:
//
//   - The state of an object joins the object and its key in the queue of its controllers: one
//     whose key failed last is failing, whatever is stored. See [States].
//   - A cause is all failures of one controller whose errors differ in numbers, ids and keys only.
//     It has how many there are, since when, an example, what waits for them, and the commands
//     that apply. What needs a person comes first. Where a provider answers all calls alike, or none, it is
//     one cause of all controllers and lists that meet it.
//   - Beneath all are the store, leases, caches, quotas, workers and sources. While a store does
//     not answer, what follows from that is not told again: keys that fail for it are counted at
//     its cause. Once it answers, what failed before is no cause: it waits for its next try.
//
// # What it promises
//
//   - A verdict costs a look at the keys that are not idle and at the objects: of 100,000 keys of
//     a controller at most. It keeps at most 50 causes. One that took long is shown again for ten
//     times as long, and says how old it is.
//   - Errors are shown as the queue has them, and reasons of conditions without secrets.
//
// # What it does not
//
// It tells of one server. Of a sharded controller that is its share, and the verdict says so.
package inspect
