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
	// Owner says whose the resource is, for clients that look.
	Owner Ownership `json:"owner,omitempty"`
	// Diff is for reading: how the resource differs from the declaration. It is
	// logged at debug level, and shown in plans and in the change log.
	Diff string `json:"diff,omitempty"`
}
