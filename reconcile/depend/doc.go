// Package depend says what must be there before what, and gone before what: a database
// needs its role, a machine its subnet.
//
//	subnets, err := depend.New(subnetCache, depend.On(vpcCache,
//		func(s *Subnet) []store.Key { return []store.Key{{Name: s.Spec.VPC}} }, nil), nil)
//
// An object whose needs are not met waits, with a condition that says for what, without
// runs and without failures. It is handed to the queue when the last of them is there.
// Deletion goes the other way: what an object uses is not deleted before the object has
// gone, or uses it no more. Of secrets and the like, which are only watched ([Watching]),
// a change ends the backoff and the park of what refers to them.
//
// Package lifecycle and package external take a [Tracker] and do the rest; other
// reconcilers are wrapped ([Tracker.Wrap]). docs/DEPENDENCIES.md is the guide.
//
// # Promises
//
//   - No run with an object begins before everything that the object needs exists, is
//     ready, and is not in deletion.
//   - An object that waits is handed to the queue within a second after its needs are met,
//     and not before: up to 1,000 at once, further ones at 1,000 a second. It is
//     handed over at most once per change of what it needs, until it has run.
//   - A needed object with a finalizer of [Finalizer] stays, over crashes, restarts and
//     several servers and stores, until no object of that kind holds it.
//   - A change of what an object needs ends its backoff and its park. Its attempts start
//     from 0 only if its last run saw something else, and at most once a minute.
//
// # What it does not promise
//
// A needed object that becomes unready while it is used stops nothing: its users are not
// run again for that, and one that runs by itself waits. An operator can remove a
// finalizer by hand; then a needed object goes under its users. A restore of a
// store to a time before a hold loses it until the users have run, which takes seconds.
// Cycles over servers without a common [Graph] show as objects that wait for each other.
//
// # How a use is recorded
//
// The object has the annotation [HoldsAnnotation]: what it may use. The needed object has
// the finalizer. A first use is four steps:
//
//	object: "?" hold ─ needed: read, finalizer ─ object: "=" hold ─ the run
//	                     └ in deletion or not ready: object: no hold, and it waits
//
// and a release two: the needed object is in deletion, then no object of the kind's whole
// list holds it. Both sides write before they read the other, so one of them sees the
// other, in any two stores with linearizable reads. A crash leaves a "?" hold, which the
// object's next run drops if the needed object is in deletion: it was never used.
package depend

// Design notes.
//
// What an object needs is a function of the object, and not a list in its metadata: the
// spec has the reference already, and two records of one thing differ some day.
//
// The question is asked with the very object that the run acts on. A middleware that looks
// the key up in a cache can find an older spec than the run then reads.
//
// One finalizer for each kind of users, not for each user: ten thousand objects may use
// one. Each user has the record of what it holds, and the record goes with the user.
