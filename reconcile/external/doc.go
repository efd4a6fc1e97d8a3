// Package external keeps resources in an external system (buckets, databases,
// DNS records, machines) as objects in a store declare them.
//
// The user writes a [Client]: Observe, Create, Update and Delete for one
// resource. [New] makes a reconciler of it, which a controller runs for each
// object. What to do is decided by one pure function from what was declared,
// what was observed, and what is on record; everything around it is done here:
// the finalizer before the first side effect, a crash-safe create, policies,
// the creation grace, late initialisation, conditions, deadlines, polls,
// events and a log of changes.
//
// The names of Crossplane's managed reconciler and of provider-runtime are
// explained in docs/coming-from/crossplane.md.
//
// # Promises
//
// E1, no double create: that a create is about to happen is stored before it is
// called, and its outcome afterwards, on a context that survives the run's
// cancellation. If a crash or a lost answer comes in between, the resource is
// found again by a name that we chose ([ByUs]), or by our ownership mark
// ([ByMark]), or else the object stops and says so ([ErrCreateIncomplete]). An edit by
// which looks would go to another account, region or name stops the object too, where
// [Options.Location] says how to tell ([ErrLocationChanged]).
//
// E2, deletes happen only for what we own: a resource whose [Mark] names
// another owner is never touched; one without a mark only where the policy says
// [Adopt]. [Inventory.Prune], which deletes what is no longer declared,
// needs both sides complete, and keeps to a [Cap].
//
// E3, outputs: what a Create or an Update learns and no look can show is stored with the outcome and handed on
// ([Options.Publisher]), or the object is not Ready and says that it is lost.
//
// # What it does not promise
//
// A process that was frozen past its lease, and thaws inside Create, cannot be
// stopped from calling the cloud: its writes to the store are refused, its
// request is not. A name of our own or a client token makes that harmless; where
// the cloud chooses names and takes no token, a second resource is possible in
// that window. So tag at creation, or choose [ByCloud] and let a human decide.
//
// A store restored from a backup is noticed by an [Inventory] that goes on, by its revision, and by
// [Inventory.Prune] by what it left in
// the cloud: marks that say when their objects were declared. Not noticed is a
// restore whose lost objects carry no such time in their marks; one after which other
// processes wrote to the store for a while, and none of them asked for a Prune, before
// the inventory was made; one that more was written after than was lost, before the inventory
// listed again; and one whose declarations, or the newest entries before the
// backup, were written by a clock more than a minute off. The cap is what stands before
// those.
//
// A client that reports no ownership ([Unreported]) owns whatever it finds under
// its external name; E2 then is as good as the names are.
package external

// Outputs.
//
// A client sets o.Intent.Outputs. Each step of these lines but the calls is one write of the run, to the
// object's record ([store.Intent]):
//
//	Pending, OutputsDue ─ Create ─ Succeeded, Outputs ─ Publish ─ no Outputs
//	         OutputsDue ─ Update ─ Outputs            ─ Publish ─ no Outputs    where its look said Rotates
//	  it is still due   ─ Rotate ─ Outputs            ─ Publish ─ no Outputs    after a loss
//
// Outputs on record are not published yet; the write that sets them clears OutputsDue. OutputsDue with a create
// that succeeded is a loss: the process died between the answer and the record, the store refused
// the outputs, or the outcome of a create that returned none was found out later, by a look, a second create or a
// person. No write says so, and none can be missed. The object is OutputsLost until a [Rotator] or an Update
// sets outputs, the resource was removed and is created again, or a person says that it replaced them
// ([objects.OutputsRestored]). Before the first step of a line the stored object is made not Ready. A deletion withdraws what was published
// after the resource is gone and before the finalizer goes.
//
// A server without outputs keeps both fields when it writes. What it creates is as if there had been no
// [Publisher], and what it deletes stays published. A server of before
// a create of unknown outcome kept outputs publishes them at once.
//
// Design notes.
//
// The intent is a field of the object's meta and not an annotation, so that no
// user write and no client can lose it, and the external name is part of it, so
// that the name and the fact of the creation are stored in one write.
//
// The creation grace counts by the monotonic clock of the process that waits, from
// when it learned of the create, and never from the time on record: that is the clock
// of another server, or of this one before it was set. After a restart a missing
// resource is therefore created a grace later than it might be.
//
// Times of an intent have nanoseconds and always grow from attempt to attempt,
// by force if need be: with seconds, a create that failed and was tried again
// within one hid the crash of the second.
//
// A restore is told by the times of declarations and not by revisions: a restored
// store has soon as many revisions again as it lost, by the very runs that come to
// terms with the restore, while a new write never has an old time. Rejected: a
// heartbeat in the store, by which a gap would show (a write now and then from
// everybody, for ever, to tell of something that happens once in years).
//
// An object that is taken over, created or updated is looked at twice: once to
// decide, and once because the run's own writes, finalizer and status, come back by
// the watch. The second look could be saved only by not listening to one's own
// writes, and then nothing would tell an echo from a webhook that came meanwhile. It
// finds out whether the change took effect, costs a call per change and none per
// interval, and by an [Inventory] none at all where nothing was written outside or the
// write's answer is known ([Inventory.Wrote]).
//
// Update and Delete cannot edit the object. Their edits would be stored or lost
// depending on what failed after them; what a run finds out is found out by
// Observe, which comes around again.
//
// Rejected: a retry of Create inside the run (the next run looks first, which is
// what makes it safe); a policy as a string that is compared at each use (an
// unknown one fell through to leaving resources behind); a hook for adding
// finalizers (package lifecycle is the one place that touches them); closing
// clients by the connector (it could not tell which one); an own rate limiter
// (package quota's are shared by all controllers and know Retry-After: a run that
// is to change something asks there first, before it stores anything).
