package external

import "github.com/tendhq/tend/store"

// The reasons of events. Those of failures are also the reasons of the Synced
// condition.
const (
	reasonCreated  = "Created"
	reasonUpdated  = "Updated"
	reasonDeleted  = "Deleted" // deletion was asked for
	reasonAdopted  = "Adopted"
	reasonRotated  = "Rotated"  // outputs that were lost
	reasonReleased = "Released" // the object went and left its resource behind

	reasonPaused           = "ReconcilePaused"
	reasonPanicked         = "Panicked"
	reasonPolicy           = "UnknownPolicy"
	reasonConnectFailed    = "CannotConnect"
	reasonObserveFailed    = "CannotObserve"
	reasonCreateFailed     = "CannotCreate"
	reasonCreateIncomplete = "CreateIncomplete"
	reasonUpdateFailed     = "CannotUpdate"
	reasonDeleteFailed     = "CannotDelete"
	reasonStoreFailed      = "CannotStore" // the object could not be written
	reasonCloseFailed      = "CannotClose"
	reasonLocationChanged  = "LocationChanged" // in the spec; see [ErrLocationChanged]
	reasonCannotAdopt      = "CannotAdopt"     // what its annotation names
	reasonMissing          = "Missing"         // and the policy forbids to create it
	reasonNotOurs          = "NotOurs"         // another's mark, or none
	reasonLetterCase       = "LetterCase"      // the cloud spells its id or mark otherwise; see [Letters]
	reasonDeletesHeld      = "DeletesHeld"     // by [Options.DeleteLimit]
	reasonDiffers          = "Differs"         // and the policy forbids to update it
	reasonRotateFailed     = "CannotRotate"
	reasonOutputsLost      = "OutputsLost"         // see [Options.Publisher]
	reasonNotPublished     = "OutputsNotPublished" // they are stored
	reasonWithdrawFailed   = "CannotWithdraw"      // what was published
	reasonAwaiting         = "Awaiting"            // others have to finish first
)

// NotOurs reports an object whose resource carries another's mark or none, with the
// condition's message: it is left alone until a person acts. It is for
// [github.com/tendhq/tend/reconcile/program.KindOptions].Stuck.
func NotOurs[S, T any](o *store.Object[S, T]) (why string, stuck bool) {
	c, _ := o.Condition(store.ConditionSynced)
	return c.Message, c.Status == store.False && c.Reason == reasonNotOurs
}
