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

	// FieldOwners has the declarers of the fields of the spec. (store)
	FieldOwners FieldOwners `json:"fieldOwners,omitzero"`
}

// object is an [Object] of any types, and what [core] knows of it.
type object interface {
	meta() *Meta // nil of a nil object
	parts() parts
	fresh() object             // another of the same types
	copied() object            // a plain copy: it shares what the object refers to
	held(e encoder) typedValue // a plain copy, as a backend holds it
}

// parts are pointers to the fields of an [Object]; spec and status are a *S and a *T.
type parts struct {
	*Meta
	spec, status any
	conditions   *[]Condition
	phase        *Phase
	observed     *int64
	owners       *FieldOwners
}

func (o *Object[S, T]) meta() *Meta {
	if o == nil {
		return nil
	}
	return &o.Meta
}

func (o *Object[S, T]) parts() parts {
	return parts{&o.Meta, &o.Spec, &o.Status, &o.Conditions, &o.Phase, &o.ObservedGeneration, &o.FieldOwners}
}

func (o *Object[S, T]) fresh() object { return new(Object[S, T]) }

func (o *Object[S, T]) copied() object {
	c := *o
	return &c
}

func (o *Object[S, T]) held(e encoder) typedValue { return &value[S, T]{*o, e} }

// typed gives what core returned its type. A nil object stays nil.
func typed[S, T any](o object, err error) (*Object[S, T], error) {
	t, _ := o.(*Object[S, T])
	return t, err
}

// untyped are objects without their types.
func untyped[S, T any](objects []*Object[S, T]) []object {
	all := make([]object, len(objects))
	for i, o := range objects {
		all[i] = o
	}
	return all
}
