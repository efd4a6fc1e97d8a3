// Package children keeps the objects that one object stands for: a site that is a disk, two
// machines and a record. A run of the owner says which children it wants, of any kinds, and one call
// makes the store hold these and no others of this owner:
//
//	kids, err := children.New(sites, nil)          // once, before the caches run
//	disks, err := children.Add(kids, diskCache)
//	machines, err := children.Add(kids, machineCache)
//	controller.Watch(kids.Sources()...)            // a child changed: its owner is run
//
//	set := kids.Of(site)                           // in each run of the site
//	disk := disks.Want(set, &Disk{…})
//	machines.Want(set, &Machine{…}, disk)          // made when the disk is Ready, deleted before it
//	state, err := set.Apply(ctx)
//	state.Report(site)                             // SetReady, or SetProgressing with the reason
//
// # What Apply does, in this order
//
//  1. It looks at the children that are there, in the caches. It asks the store where these may lack what was
//     written ([reconcile.Info].Stale), outside of a run, and before it says that nothing is left of an owner in
//     deletion.
//  2. It refuses ([ErrRefused]), and writes nothing, if more children would go than [Options].MaxDelete, or all
//     of them without [Set.MayBeEmpty].
//  3. It declares each wanted child, in the order of the calls of Want, with [store.Store.ApplyFields] under the name
//     "site shop", that of the owner: what others fill in stays, and a field of another is [store.ErrOwned].
//     A child that is missing is created, but not before those that it needs are Ready.
//  4. It deletes what is no longer wanted and no other child needs. What has finalizers, or is needed, goes in later
//     runs, which the changes of the children cause.
//
// A failure with one child stops no other one; the errors are joined.
//
// # What is promised
//
//   - A child is known by the uid of its owner in Meta.Owners. An object of a wanted name without it is
//     [store.ErrExists], and neither written nor deleted; nor is one that was made again meanwhile. What belongs to
//     other owners too loses this one and stays as it is, and the fields that this one alone declared have no declarer
//     any more.
//   - Before the first create and the first deletion the owner is read from the store. If it has changed, or is
//     gone, nothing of either happens: its change runs it again.
//   - Nothing is remembered. After a crash at any step the next run finds what is there, and ends in the same
//     children. What a child needs is an annotation of it, "tend.after", so that the order of deletions
//     outlives what asked for it. What it needed before stays in there until it is Ready as it is declared now:
//     of a kind that nothing makes Ready it stays for ever, and the State says so.
//   - The name of a child is the caller's. It has to follow from the owner, or each run makes another one.
//
// # Deletion of the owner
//
// Of an owner in deletion Apply deletes all children, whatever is wanted, without a cap. Called from a Delete of
// package lifecycle it does that in order, and the owner goes when State.Surplus is 0. Without a finalizer the owner goes
// first; then lifecycle.NewCascade deletes the children, in no order.
package children
