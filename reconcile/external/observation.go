package external

// Observation is what a look at the resource found. The zero value says that
// there is no resource.
type Observation struct {
	// Exists decides between create and everything else.
	Exists bool `json:"exists"`
	// UpToDate says that Update would change nothing.
	UpToDate bool `json:"upToDate"`
	// LateInitialized says that Observe filled unset fields of the spec with
	// what the cloud chose, to be stored. Nothing is written if the spec did
	// not change by it.
	LateInitialized bool `json:"lateInitialized,omitempty"`
	// Rotates says that the Update which follows changes a password or another output, and sets
	// o.Intent.Outputs: a crash on the way to the store loses them then, as it does those of a Create.
	// Of an Update that changes them without this word, nothing would tell that readers have the old ones.
	Rotates bool `json:"rotates,omitempty"`
	// Owner says whose the resource is, for clients that look.
	Owner Ownership `json:"owner,omitempty"`
	// Diff is for reading: how the resource differs from the declaration. It is
	// logged at debug level, and shown in plans and in the change log.
	Diff string `json:"diff,omitempty"`
}
