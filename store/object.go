package store

// Object is a thing declared: what is wanted (Spec), what was found (Status),
// and what the store knows of it (Meta). Users name their kinds with an alias:
//
//	type Bucket = store.Object[BucketSpec, BucketStatus]
//
// Spec and Status must be made of types that can be copied and compared without
// surprise; [New] refuses others and names the field.
type Object[Spec, Status any] struct {
	Meta   `json:"meta"`
	Spec   Spec   `json:"spec"`
	Status Status `json:"status"`

	// Conditions, Phase and ObservedGeneration belong to the status: they are
	// written by UpdateStatus and kept by Update.
	Conditions []Condition `json:"conditions,omitempty"`
	Phase      Phase       `json:"phase,omitempty"`
	// ObservedGeneration is the generation that Phase is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
