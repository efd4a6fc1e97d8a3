package lifecycle

// The reasons that a Lifecycle gives in the conditions.
const (
	reasonRequeued          = "Requeued"          // not over yet
	reasonFailed            = "Failed"            // the message is the error
	reasonConfigMissing     = "ConfigMissing"     // there is none; it goes on when there is
	reasonConfigUnavailable = "ConfigUnavailable" // it could not be read, and never has been
	reasonAccessPending     = "AccessPending"
	reasonAccessFailed      = "AccessFailed"
	reasonDeleting          = "Deleting"
	reasonDeleteFailed      = "DeleteFailed"
	reasonReleasePending    = "ReleasePending"
	reasonReleaseFailed     = "ReleaseFailed"
)

// releasingPrefix and a provider's finalizer make the annotation that says that
// the provider's Delete has succeeded, and the access is being given back.
const releasingPrefix = "tend.releasing."
